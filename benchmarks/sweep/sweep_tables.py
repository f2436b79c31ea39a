"""The tables of a sweep: rows of a run, and means over the repeats with the 95 % interval that their spread gives.

A run has a row for each task, and one with an empty task for the whole program.
"""

from __future__ import annotations

import csv
import math
from itertools import groupby
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.export import safe_cell
from tprof.analysis.operating_points.scales import student

from tprof.trace.plain_values import shown

from .plan import unwritable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd
    from tprof.analysis import Profile

COLUMNS = (
    "task", "setting", "setting_unit", "workers", "repeat", "energy_j", "energy_low_j", "energy_high_j", "time_s",
    "power_w", "edp_js", "ed2p_js2", "instances", "quality", "stalls_per_cycle", "llc_misses", "watts_factor",
)  # fmt: skip
SETTING = ("setting", "setting_unit", "workers", "repeat")
TEXTS = ("task", "quality")
MOST_FIGURE = 1e60
"""Beyond it means and their intervals exceed the range of a float."""
Row = dict[str, Any]
FIGURES = ("energy_j", "time_s", "power_w", "edp_js", "ed2p_js2")
COUNTED = ("stalls_per_cycle", "llc_misses")
_DOUBT = ("measured", "estimated", "simulated")


def rows_of(profile: Profile) -> list[Row]:
    """Return the rows of a run without its setting: the program first, then the tasks that it names, by energy.

    A task's time is that of all its instances, without tasks nested in them and without suspension, on however many
    cores; the program's is the wall time from the first task's start to the last one's end, so that reading idle power,
    starting workers and checking results are left out. Instances whose energy is not resolved count with the mean of
    the others. Intervals are about chance; by which factor assumed watts put all joules off stands in `watts_factor`.
    """
    quality = str(profile.info["quality"])
    counted = _counted(profile.tasks)
    named = [] if profile.trace.names_no_task else profile.summary(common=False).iterrows()
    tasks = [_task(str(name), row, quality) | counted.get(str(name), {}) for name, row in named]
    factor = None if profile.watts.is_none else max(profile.watts.idle, profile.watts.busy)
    return [row | {"watts_factor": factor} for row in (_program(profile, quality), *tasks)]


def _counted(tasks: pd.DataFrame) -> dict[str, Row]:
    """Return stalls per cycle and LLC misses by task; instances without these counters count as the others' mean."""
    known = {}
    for name, group in tasks.groupby("task", observed=True):
        stalls, cycles, misses = (_column(group, column) for column in ("stalls_frontend", "cycles", "llc_misses"))
        both = np.isfinite(stalls) & np.isfinite(cycles)
        total = cycles[both].sum()
        found = misses[np.isfinite(misses)]
        known[str(name)] = {
            "stalls_per_cycle": float(stalls[both].sum() / total) if total > 0 else math.nan,
            "llc_misses": float(found.mean() * len(group)) if len(found) else math.nan,
        }
    return known


def _column(group: pd.DataFrame, name: str) -> Any:
    return group[name].to_numpy(float) if name in group else np.full(len(group), math.nan)


def _program(profile: Profile, quality: str) -> Row:
    begin_ns, end_ns = _span_ns(profile)
    energy_j = sum((_between(q, begin_ns, end_ns) for q in profile.quanta if q.counted), 0.0)
    counted = any(q.counted for q in profile.quanta)
    nan = math.nan
    return _row("", energy_j if counted else nan, (nan, nan), (end_ns - begin_ns) * 1e-9, 1, quality)


def _span_ns(profile: Profile) -> tuple[int, int]:
    """Return when the first task began and the last ended; without tasks, first sample and end of the recording."""
    trace, tasks = profile.trace, profile.tasks
    if len(tasks):
        begin_s, end_s = tasks["start_s"].min(), (tasks["start_s"] + tasks["duration_s"]).max()
        return trace.start_ns + round(begin_s * 1e9), trace.start_ns + round(end_s * 1e9)
    starts_ns = (int(thread.stream.number("start_ns")) for thread in trace.threads)
    return min(starts_ns, default=trace.start_ns), trace.end_ns


def _between(quanta: Any, begin_ns: int, end_ns: int) -> float:
    """Return the joules of a domain in a time, NaN where a part of it is not known."""
    edges_ns = quanta.edges_ns
    if len(edges_ns) < 2:
        return math.nan
    inside = (edges_ns[1:] > begin_ns) & (edges_ns[:-1] < end_ns)
    if not quanta.valid[inside].all() or not inside.any():
        return math.nan
    total_j = np.concatenate(([0.0], np.cumsum(quanta.energy_j)))
    before, after = np.interp([begin_ns, end_ns], edges_ns, total_j)
    return float(after - before)


def _task(name: str, row: Any, quality: str) -> Row:
    count = int(row["instances"])
    energy_j, known_j = float(row["energy_mean_j"]) * count, float(row["energy_j"])
    factor = energy_j / known_j if known_j > 0 else math.nan
    bounds = (float(row["energy_low_j"]) * factor, float(row["energy_high_j"]) * factor)
    return _row(name, energy_j, bounds, float(row["own_mean_s"]) * count, count, quality)


def _row(task: str, energy_j: float, bounds_j: tuple[float, float], time_s: float, instances: int, quality: str) -> Row:
    return {
        "task": task,
        "energy_j": energy_j,
        "energy_low_j": bounds_j[0],
        "energy_high_j": bounds_j[1],
        "time_s": time_s,
        "power_w": energy_j / time_s if time_s > 0 else math.nan,
        "edp_js": energy_j * time_s,
        "ed2p_js2": energy_j * time_s**2,
        "instances": instances,
        "quality": quality,
        "stalls_per_cycle": math.nan,
        "llc_misses": math.nan,
    }


def rows_without_setting(rows: Any) -> list[Row]:
    """Return a run's rows as they were kept. Raises ValueError where they are of another shape."""
    names = set(COLUMNS) - set(SETTING)
    if isinstance(rows, list):  # sweeps of before the column
        rows = [{"watts_factor": None, **row} if isinstance(row, dict) else row for row in rows]
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) == names for row in rows):
        raise ValueError(f"it must hold rows of {', '.join(sorted(names))}")
    for row in rows:
        for name, value in row.items():
            if not isinstance(value, str) if name in TEXTS else not _is_figure(name, value):
                raise ValueError(f"{name} must not be {shown(value)}")
    return rows


def _is_figure(name: str, value: Any) -> bool:
    return (value is None and name != "instances") or (type(value) in (int, float) and not abs(value) > MOST_FIGURE)


def at(rows: Iterable[Row], frequency_hz: int | None, workers: int, repeat: int) -> list[Row]:
    """Return the rows with their setting; both its columns stay empty where no frequency was set."""
    unit = None if frequency_hz is None else "Hz"
    setting = {"setting": frequency_hz, "setting_unit": unit, "workers": workers, "repeat": repeat}
    return [{**row, **setting} for row in rows]


def write_csv(path: Path, rows: Iterable[Row], columns: Sequence[str] = COLUMNS) -> None:
    """Write a table; what is not known is an empty cell.

    Raises
    ------
    TprofError
        If it cannot be written.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows({name: _cell(row[name]) for name in columns} for row in rows)
        draft.replace(path)
    except OSError as error:
        raise unwritable(path, draft, error) from error


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return safe_cell(value)
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else value


def ends(figure: str) -> tuple[str, str]:
    """Return the columns of a figure's interval, as of `energy_j` `energy_low_j` and `energy_high_j`."""
    stem, unit = figure.rsplit("_", 1)
    return f"{stem}_low_{unit}", f"{stem}_high_{unit}"


POINT_COLUMNS = (
    "task", "setting", "setting_unit", "workers", "repeats",
    *(column for figure in FIGURES for column in (figure, *ends(figure))),
    "instances", "quality", *COUNTED, "watts_factor",
)  # fmt: skip


def points_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each task and operating point, in the order of `rows`, whose repeats stand together.

    A figure is the mean of the repeats that have it, EDP and ED²P of those of each run. The interval is Student's, so
    from two repeats it is wide; it is None where there is but one. None of them is below 0.
    """
    return [_point(list(group)) for _, group in groupby(rows, key=_point_of)]


def _point_of(row: Row) -> tuple[Any, ...]:
    return row["task"], row["setting"], row["workers"]


def _point(runs: Sequence[Row]) -> dict[str, Any]:
    same = {name: runs[0][name] for name in ("task", "setting", "setting_unit", "workers")}
    found = same | {"repeats": len(runs), "instances": mean(row["instances"] for row in runs)}
    found["quality"] = max((row["quality"] for row in runs), key=_uncertainty_rank)
    for figure in FIGURES:
        found |= dict(zip((figure, *ends(figure)), _interval(_known(runs, figure)), strict=True))
    for name in COUNTED:
        found[name] = _interval(_known(runs, name))[0]
    found["watts_factor"] = max(_known(runs, "watts_factor"), default=None)
    return found


def _known(runs: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in runs if row[name] is not None]


def _interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if not values:
        return None, None, None
    middle = mean(values)
    if len(values) == 1:
        return middle, None, None
    half = float(student(len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return middle, max(middle - half, 0.0), middle + half


def _uncertainty_rank(quality: str) -> int:
    """Rank qualities: if runs differ, the least certain is reported."""
    return _DOUBT.index(quality) if quality in _DOUBT else len(_DOUBT)
