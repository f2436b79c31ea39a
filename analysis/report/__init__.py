"""The report: one HTML file that shows where the joules went, without a network."""

from .page import render, write_report

__all__ = ["render", "write_report"]
