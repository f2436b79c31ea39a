"""What is known of a program's tasks: the mean energy and time of an instance at each frequency.

A policy decides from it in a measured program, so reading it from a table imports neither pandas nor NumPy.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError

from .table import PARQUET, PROGRAM, read_columns, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    Row = Mapping[str, Any]

POWER_EXPONENTS = 1.0, 3.0
"""Bounds of k, where power goes with f^k: the voltage is constant, or proportional to the frequency."""


@dataclass(frozen=True)
class Point:
    """A task at a frequency: means over its instances."""

    energy_j: float
    time_s: float

    @property
    def power_w(self) -> float:
        """Return its share of the package's watts while it runs."""
        return self.energy_j / self.time_s


Curve = Mapping[int, Point]
"""A task's points by frequency in Hz."""


@dataclass(frozen=True)
class Knowledge:
    """A program on a number of workers.

    Attributes
    ----------
    curves : by task.
    instances : number of each task's instances in the program, or so far.
    outside_w : power of the package while the program runs, beyond its tasks' energies.
    stretch : wall time over the tasks' time divided by workers; above 1 if workers starve.
    quality : of the joules: "measured", "estimated", …
    """

    curves: Mapping[str, Curve]
    instances: Mapping[str, float] = field(default_factory=dict)
    outside_w: float = 0.0
    stretch: float = 1.0
    quality: str = ""

    def weight(self, task: str) -> float:
        """Return the weight of a task in the program's totals."""
        return max(self.instances.get(task, 1.0), 1.0)

    def only(self, takes: Callable[[int], bool]) -> Knowledge:
        """Return the knowledge at some frequencies only."""
        kept = {task: {hz: point for hz, point in curve.items() if takes(hz)} for task, curve in self.curves.items()}
        return replace(self, curves={task: curve for task, curve in kept.items() if curve})

    def totals(self, chosen: Mapping[str, int], workers: int) -> tuple[float, float]:
        """Return the joules and the wall seconds of the program with its tasks at these frequencies."""
        points = [(self.weight(task), self.curves[task][hz]) for task, hz in chosen.items()]
        wall_s = sum(weight * point.time_s for weight, point in points) / workers * self.stretch
        return sum(weight * point.energy_j for weight, point in points) + self.outside_w * wall_s, wall_s


def nearest(curve: Mapping[int, object], hz: int) -> int:
    """Return the frequency of a curve that is nearest, the higher of two."""
    return min(curve, key=lambda known: (abs(known - hz), -known))


def read_knowledge(path: str | Path) -> dict[int, Knowledge]:
    """Return a sweep's results by the number of workers; rows without an energy are ignored.

    Parameters
    ----------
    path
        A sweep's folder or its `sweep.csv`.

    Raises
    ------
    UsageError
        If it cannot be read, something in it is wrong, or it holds no task at any frequency.
    """
    file = table_of(Path(path))
    if file.suffix == PARQUET:
        message = f"a policy reads a sweep's table as CSV, and {file} is parquet: write it as CSV"
        raise UsageError(message)
    try:
        columns = read_columns(file)
    except UsageError:
        raise
    except TprofError as error:
        raise UsageError(str(error)) from error
    by_workers: dict[int, list[Row]] = defaultdict(list)
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        if row["setting_unit"] == "Hz" and not math.isnan(row["energy_j"]):
            by_workers[row["workers"]].append(row)
    known = {workers: _knowledge(rows, workers) for workers, rows in by_workers.items()}
    known = {workers: one for workers, one in known.items() if one.curves}
    if not known:
        message = f"{file} has no task's energy and time at any frequency: make it with `tprof sweep --frequencies all`"
        raise UsageError(message)
    return known


def _knowledge(rows: Iterable[Row], workers: int) -> Knowledge:
    points: dict[str, dict[int, list[Point]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, list[float]] = defaultdict(list)
    qualities = set[str]()
    for row in rows:
        count = 1.0 if math.isnan(row["instances"]) else row["instances"]
        qualities.add(row["quality"])
        points[row["task"]][round(row["setting"])].append(Point(row["energy_j"] / count, row["time_s"] / count))
        counts[row["task"]].append(count)
    whole = {hz: _mean(repeats) for hz, repeats in points.pop(PROGRAM, {}).items()}
    curves = {task: {hz: _mean(repeats) for hz, repeats in curve.items()} for task, curve in points.items()}
    known = Knowledge(curves, {task: mean(counts[task]) for task in curves})
    outside_w, stretch = _beside(known, whole, workers)
    return Knowledge(known.curves, known.instances, outside_w, stretch, ", ".join(sorted(qualities)))


def _beside(known: Knowledge, whole: Mapping[int, Point], workers: int) -> tuple[float, float]:
    """Return the power beyond the tasks', and wall time over the tasks' time, from the rows of the whole program."""
    watts, stretches = [], []
    for hz, program in whole.items():
        if not known.curves or not all(hz in curve for curve in known.curves.values()):
            continue
        energy_j, time_s = known.totals(dict.fromkeys(known.curves, hz), workers)
        watts.append(max(program.energy_j - energy_j, 0.0) / program.time_s)
        stretches.append(program.time_s / time_s)
    return (mean(watts), mean(stretches)) if watts else (0.0, 1.0)


def _mean(points: list[Point]) -> Point:
    return Point(mean(point.energy_j for point in points), mean(point.time_s for point in points))


def for_workers(known: Mapping[int, Knowledge], workers: int) -> dict[int, Knowledge]:
    """Return the knowledge for a runtime of so many workers: larger numbers are left out.

    A sweep up to a smaller number is no reason to leave workers idle, so its largest number stands for the runtime's.
    """
    usable = {count: one for count, one in known.items() if count <= workers}
    if not usable:
        return {workers: known[min(known)]}
    usable[workers] = usable.pop(max(usable))
    return usable
