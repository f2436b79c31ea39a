"""Analytic models of the papers: what time, energy and power should be."""
