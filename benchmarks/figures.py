"""A measured figure: its values round by round, their median and spread, and the target it is held to."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


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
