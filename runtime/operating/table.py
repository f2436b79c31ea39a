"""Reads a sweep's table: the mean instance of each task at each frequency, for each number of workers."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from tprof.runtime.operating.points import Knowledge, Point

from tprof.errors import TprofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Row = Mapping[str, Any]

PROGRAM = ""


def read_table(path: str | Path) -> dict[int, Knowledge]:
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
    from tprof.trace.operating_points import read_columns, table_of  # noqa: PLC0415 - few runtimes have a profile

    file = table_of(Path(path))
    if file.suffix == ".parquet":
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
