"""A benchmark's plain values as rows and lines of text; whoever draws them decides on nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .machine import machine_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGITS = 3
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Row:
    """A figure ready to be drawn; texts are plain, without markup.

    Attributes
    ----------
    name : what was measured.
    value, spread : with three digits; spread is "least … most" of the rounds, empty for a single one.
    unit : of value, spread and target.
    target : "≤ 50", or empty where the figure is there to compare with.
    met : None where there is no target, or nothing that it could be held against was measured.
    note : what a reader must know.
    """

    name: str
    value: str
    spread: str
    unit: str
    target: str
    met: bool | None
    note: str


def rows(result: Mapping[str, Any]) -> list[Row]:
    """Turn a benchmark's result into rows, in its order.

    Parameters
    ----------
    result
        What a micro-benchmark returned: its `figures` are plain values as `Figure.as_plain` makes them.
    """
    return [_row(figure) for figure in result["figures"]]


def heading(result: Mapping[str, Any]) -> str:
    """Return the machine in one line, to stand above or below the rows."""
    return machine_sentence(result["machine"])


def _row(figure: Mapping[str, Any]) -> Row:
    several = figure.get("rounds", 1) > 1
    return Row(
        name=figure["name"],
        value=number(figure["value"]),
        spread=f"{number(figure['low'])} … {number(figure['high'])}" if several else "",
        unit=figure["unit"],
        target="" if figure["target"] is None else f"≤ {number(figure['target'])}",
        met=figure["met"],
        note=figure["note"],
    )


def number(value: float | None) -> str:
    """Write a number with three digits, whole ones whole, without an exponent where it can be read."""
    if value is None:
        return NOT_MEASURED
    if float(value).is_integer():
        return f"{int(value):,}"
    digits = f"{value:.{DIGITS}g}"
    return f"{float(digits):,.0f}" if "e+" in digits else digits
