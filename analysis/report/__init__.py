"""The report: one self-contained HTML file on the joules of tasks."""

from .profile_page import render, write_report

__all__ = ["render", "write_report"]
