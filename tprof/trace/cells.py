"""Names as cells of a table that a spreadsheet may open: what it would run as a formula has a quote before it."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell that a spreadsheet takes for a formula begins with."""


def unquoted(cell: str) -> str:
    """Return the name that a cell stands for."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell
