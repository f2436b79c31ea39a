"""A sweep's table as knowledge: the mean instance of each task at each frequency, for each number of workers."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from tprof.runtime.operating.points import Knowledge, Point

from tprof.errors import UsageError
from tprof.trace.cells import unquoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Row = Mapping[str, str]

FILE = "sweep.csv"
NEEDED = ("task", "setting", "setting_unit", "time_s")
ABSENT = {"workers": "1", "instances": "1", "energy_j": "", "power_w": "", "quality": "given"}
MAX_ROWS = 1_000_000
PROGRAM = ""


def read_table(path: str | Path) -> dict[int, Knowledge]:
    """Return what a sweep found, by the number of workers.

    Parameters
    ----------
    path
        A sweep's folder or its `sweep.csv`.

    Raises
    ------
    UsageError
        If it cannot be read, or holds no task at any frequency.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    rows = [row for row in _rows(file) if row["setting_unit"] == "Hz" and _number(row["setting"]) > 0]
    by_workers: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_workers[int(_number(row["workers"]))].append(row)
    known = {workers: _knowledge(rows, workers) for workers, rows in by_workers.items() if workers > 0}
    known = {workers: one for workers, one in known.items() if one.curves}
    if not known:
        message = f"{file} has no task's energy and time at any frequency: make it with `tprof sweep --frequencies all`"
        raise UsageError(message)
    return known


def _rows(file: Path) -> list[Row]:
    if file.suffix == ".parquet":
        message = f"a policy reads a sweep's table as CSV, and {file} is parquet: write it as CSV"
        raise UsageError(message)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            there = reader.fieldnames or ()
            missing = [name for name in NEEDED if name not in there]
            if not missing and "energy_j" not in there and "power_w" not in there:
                missing = ["energy_j"]
            if missing:
                message = f"{file} is no sweep's table: it has no column {missing[0]!r}; give a sweep.csv or its folder"
                raise UsageError(message)
            rows = [row for _, row in zip(range(MAX_ROWS), reader, strict=False)]
    except (OSError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {file}: {reason}; give the sweep.csv that `tprof sweep` made, or its folder"
        raise UsageError(message) from error
    columns = {**dict.fromkeys(NEEDED, ""), **ABSENT}
    return [
        {name: row.get(name) or absent for name, absent in columns.items()} | {"task": unquoted(row["task"] or "")}
        for row in rows
    ]


def _knowledge(rows: Iterable[Row], workers: int) -> Knowledge:
    points: dict[str, dict[int, list[Point]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, list[float]] = defaultdict(list)
    qualities = set[str]()
    for row in rows:
        time_s, count = _number(row["time_s"]), _number(row["instances"])
        energy_j = _number(row["energy_j"]) or _number(row["power_w"]) * time_s
        if count > 0 and time_s > 0 and energy_j > 0:
            qualities.add(row["quality"])
            points[row["task"]][round(_number(row["setting"]))].append(Point(energy_j / count, time_s / count))
            counts[row["task"]].append(count)
    whole = {hz: _mean(repeats) for hz, repeats in points.pop(PROGRAM, {}).items()}
    curves = {task: {hz: _mean(repeats) for hz, repeats in curve.items()} for task, curve in points.items()}
    known = Knowledge(curves, {task: mean(counts[task]) for task in curves})
    outside_w, stretch = _beside(known, whole, workers)
    return Knowledge(known.curves, known.instances, outside_w, stretch, ", ".join(sorted(qualities)))


def _beside(known: Knowledge, whole: Mapping[int, Point], workers: int) -> tuple[float, float]:
    """Return watts beyond the tasks', and wall time against the tasks' time, from the rows of the whole program."""
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


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def for_workers(known: Mapping[int, Knowledge], workers: int) -> dict[int, Knowledge]:
    """Return what counts for a runtime of so many workers: nothing of more, and the most for all of its own.

    A sweep that stops short of the runtime's workers says nothing against the rest of them, so its largest number
    stands for them.
    """
    usable = {count: one for count, one in known.items() if count <= workers}
    if not usable:
        return {workers: known[min(known)]}
    usable[workers] = usable.pop(max(usable))
    return usable
