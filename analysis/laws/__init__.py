"""Analytic models of time and energy: what an algorithm must cost on a machine of given constants."""
