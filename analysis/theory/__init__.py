"""Analytic models of time, energy and power from the papers."""
