"""What a scenario left, and the table in which tprof's figures stand beside the truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import tprof

if TYPE_CHECKING:
    from pathlib import Path

READ = np.dtype(
    [("t_ns", "u8"), ("package", "u2"), ("register", "u2"), ("value", "u4"), ("published_pj", "u8"), ("true_pj", "u8")]
)
"""As `struct logged` in module/registers.c."""


@dataclass(frozen=True)
class Run:
    """A scenario's run: its table, the folder that the guest left, what was recorded (if it was), and the truth."""

    scenario: dict[str, Any]
    folder: Path
    said: dict[str, Any]

    @cached_property
    def trace(self) -> tprof.trace.Trace:
        return tprof.load(self.folder / "recording.tprof")

    @cached_property
    def reads(self) -> np.ndarray:
        return np.fromfile(self.folder / "reads", READ)


class Report:
    """Prints figures beside the truth, and remembers whether all were within their bounds."""

    def __init__(self) -> None:
        self.good = True
        self._statements = 0
        self._nearest = -1.0
        self._figure = ""
        print(f"  {'':50} {'tprof':>11} {'truth':>11} {'difference':>11} {'bound':>8}")

    def line(
        self, what: str, said: float, true: float, bound: float, unit: str = "J", *, in_table: bool = True
    ) -> None:
        """Print one figure; `bound` is the most that it may differ. `in_table`: whether it may be the one of `row`."""
        good = abs(said - true) <= bound
        self.good &= good
        print(
            f"  {what:50} {said:11.4f} {true:11.4f} {said - true:+11.5f} {bound:8.4f} {unit}"
            + ("" if good else "  BEYOND")
        )
        nearest = abs(said - true) / bound if bound else float("inf")
        if in_table and nearest > self._nearest:
            self._nearest = nearest
            named = f"{what.strip()}, {unit}" if unit else what.strip()
            self._figure = f"{named} | {said:.6g} | {true:.6g} | {bound:.2g}"

    def true(self, what: str, *, holds: bool) -> None:
        """Print one statement that must hold."""
        self.good &= holds
        self._statements += 1
        print(f"  {what}: {'yes' if holds else 'NO'}")

    def row(self, name: str, driver: str) -> str:
        """Return a row of a table: the figure that is nearest to its bound, or how many statements there were."""
        figure = self._figure or f"{self._statements} statements | | |"
        return f"| `{name}` | {driver} | {figure} | {'passed' if self.good else '**failed**'} |"
