"""A table of text, for a page or a terminal; whoever draws it decides on nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table ready to be drawn: of a row's cells the first `texts` are words, the rest figures."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: int = 1
