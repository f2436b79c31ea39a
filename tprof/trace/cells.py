"""Names as cells of a table for spreadsheets: a quote protects cells that would run as a formula."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that a spreadsheet takes for formulas."""


def unquoted(cell: str) -> str:
    """Return the name in a cell."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell
