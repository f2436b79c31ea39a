"""Merges warnings of runs that differ only in figures into one sentence with the range of each figure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FIGURE = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?= ?%| (?:±|[WJs]\b))")
"""A number with its unit; numbers in names, statuses and settings distinguish runs and stay."""


def without_figures(text: str) -> str:
    """Return the common form of sentences that differ only in figures."""
    return FIGURE.sub("#", text)


def merged_range(texts: Sequence[str]) -> str:
    """Return the first of sentences that are equal `without_figures`, with the range of each figure over all."""
    ranges = iter([_range(figures) for figures in zip(*map(FIGURE.findall, texts), strict=True)])
    return FIGURE.sub(lambda found: _bracketed(next(ranges), found), texts[0])


def _range(figures: Sequence[str]) -> str:
    low, high = min(figures, key=float), max(figures, key=float)
    return low if float(low) == float(high) else f"{low} … {high}"


def _bracketed(figure: str, found: re.Match[str]) -> str:
    """Return a range in brackets if an error is beside it, which would otherwise seem to belong to its end only."""
    beside = "±" in found.string[max(found.start() - 2, 0) : found.end() + 2]
    return f"({figure})" if beside and "…" in figure else figure
