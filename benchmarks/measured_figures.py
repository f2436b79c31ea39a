"""A measured figure (its values round by round, median, spread and target), and figures as rows and lines of text."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .machine_description import describe_machine, machine_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _typeshed import DataclassInstance

DIGITS = 3
NOT_MEASURED = "not measured"
NONE = "–"
"""Stands in a cell without a value."""


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark.

    Attributes
    ----------
    name : what was measured, in words.
    values : one a round, in `unit`; empty where it could not be measured (the note says why).
    unit : such as "ns"; a share of one core is "core", a count "samples".
    target : the most it should be, or None where it is there to compare with.
    note : what a reader must know to read it right.
    comparable : False where something else than the target means was measured (the note says what).
    """

    name: str
    values: tuple[float, ...]
    unit: str
    target: float | None = None
    note: str = ""
    comparable: bool = True

    def as_plain(self) -> dict[str, Any]:
        """Return name, value (the median), low, high, rounds, unit, target, met and note; what is absent is None."""
        value = statistics.median(self.values) if self.values else None
        return {
            "name": self.name,
            "value": value,
            "low": min(self.values, default=None),
            "high": max(self.values, default=None),
            "rounds": len(self.values),
            "unit": self.unit,
            "target": self.target,
            "met": self._is_met(value),
            "note": self.note,
        }

    def _is_met(self, value: float | None) -> bool | None:
        if value is None or self.target is None or not self.comparable:
            return None
        return value <= self.target


@dataclass(frozen=True)
class Row:
    """A figure ready to be drawn; texts are plain, without markup.

    Attributes
    ----------
    name : what was measured.
    value, spread : with three digits; spread is "least … most" of the rounds, empty for a single one.
    unit : of value, spread and target.
    target : "≤ 50", or empty where the figure is there to compare with.
    met : None if there is no target, or nothing comparable with it was measured.
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


def result_of(
    extent: DataclassInstance, figures: Iterable[Figure], machine: Mapping[str, Any] | None = None, **more: object
) -> dict[str, Any]:
    """Return a benchmark's result as plain values: `machine` (as `describe_machine`), `effort`, `figures`."""
    return {
        "machine": describe_machine() if machine is None else machine,
        "effort": asdict(extent),
        **more,
        "figures": [figure.as_plain() for figure in figures],
    }


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
