"""Warnings of runs that differ in their figures only, said as one sentence with the range of each figure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FIGURE = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?= ?%| (?:±|[WJs]\b))")
"""A number with what it counts behind it: numbers in names, statuses and settings tell runs apart and stay."""


def without_figures(text: str) -> str:
    """Return what sentences that differ in figures only have in common."""
    return FIGURE.sub("#", text)


def spanned(texts: Sequence[str]) -> str:
    """Return the first of sentences that are the same `without_figures`, each figure as its range over all of them."""
    ranges = iter([_range(figures) for figures in zip(*map(FIGURE.findall, texts), strict=True)])
    return FIGURE.sub(lambda found: _bracketed(next(ranges), found), texts[0])


def _range(figures: Sequence[str]) -> str:
    low, high = min(figures, key=float), max(figures, key=float)
    return low if float(low) == float(high) else f"{low} … {high}"


def _bracketed(figure: str, found: re.Match[str]) -> str:
    """Return a range in brackets where an error is beside it, which would else seem to be of its end only."""
    beside = "±" in found.string[max(found.start() - 2, 0) : found.end() + 2]
    return f"({figure})" if beside and "…" in figure else figure
