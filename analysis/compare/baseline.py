"""The file of a baseline: what runs took, as JSON that people can read and keep beside their program.

It holds no session, only figures: for each run how it was measured, its totals, and of each task the figures that are
checked, with their standard error. Limits may stand in it too.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import is_finite, shown
from tprof.trace.user_files import UnreadableError, read_json, replace_file

from .one_model import AUTO, models_of, name_of
from .run_figures import RunFigures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KEY, VERSION = "tprof_baseline", 1
EVERY = "*"
"""The pattern of the limit for all tasks."""
FIGURES = ("energy_mean_j", "energy_j", "duration_mean_s")
MOST_BYTES = 16 << 20
LARGEST = 1e100
"""Its square is a number too."""
MOST_RUNS, MOST_TASKS = 1000, 100_000
_REMEDY = "make one by: tprof check SESSION --save FILE"
_BIASES = ("below", "above", "common_below", "common_above")
MOST_TEXT = 2000
"""Of a circumstance: one may hold a command."""
_END = "at_most"
"""Upper end of a mean that is not resolved; older baselines lack it."""
_CIRCUMSTANCES = (
    "quality", "sensor", "domains", "model", "watts", "host", "processor", "cpus", "kernel", "python", "counters",
    "unread",
)  # fmt: skip


@dataclass(frozen=True)
class Baseline:
    """The runs of a baseline.

    Attributes
    ----------
    runs : without what is not checked: power, own times, cores
    limits : largest increases by pattern of tasks, as parts: 0.05 is 5 %; those of the file, if any
    """

    runs: tuple[RunFigures, ...]
    limits: Mapping[str, float]

    @property
    def model(self) -> str:
        """The name of the power model that shared the joules of all runs; `AUTO` if it is not known, or not one."""
        models = models_of(run.circumstances for run in self.runs)
        return name_of(models[0]) if len(models) == 1 else AUTO


def write_baseline(path: Path, runs: Sequence[RunFigures], limits: Mapping[str, float]) -> None:
    """Replace the file. Raises TprofError if it cannot be written."""
    content: dict[str, Any] = {
        KEY: VERSION,
        **({"max_increase": {name: f"{100 * limit:.6g}%" for name, limit in limits.items()}} if limits else {}),
        "runs": [_plain_run(run) for run in runs],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise TprofError(f"cannot write the baseline to {path}: {error.strerror}; name another file") from error


def _plain_run(run: RunFigures) -> dict[str, Any]:
    tasks = {}
    for name in run.tasks:
        figures = {figure: _plain_figure(run.figures[figure].T[name]) for figure in FIGURES}
        known = {figure: value for figure, value in figures.items() if value is not None}
        tasks[name] = {"instances": int(run.where["instances"].loc[name]), **known}
    measured = {key: value for key, value in run.circumstances.items() if value != ""}
    totals = {key: float(value) for key, value in run.totals.items() if math.isfinite(value)}
    return {"name": run.name, "measured": measured, "totals": totals, "tasks": tasks}


def _plain_figure(row: pd.Series[Any]) -> dict[str, float] | None:
    if not math.isfinite(row["value"]):
        return None
    found = {"value": float(row["value"])}
    if math.isfinite(row["variance"]) and math.isfinite(row["df"]):
        found |= {"error": float(math.sqrt(row["variance"])), "df": float(row["df"])}
    found |= {name: float(row[name]) for name in _BIASES if row[name] > 0}
    return found | ({_END: float(row[_END])} if math.isfinite(row.get(_END, math.nan)) else {})


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises UsageError with a sentence if it is none, damaged, or of a newer version."""
    try:
        content = read_json(path, MOST_BYTES)
        return _baseline(content)
    except UnreadableError as error:
        raise UsageError(f"cannot read the baseline {path}: {error.reason}; {_REMEDY}") from None
    except ValueError as error:
        raise UsageError(f"cannot read the baseline {path}: {error}; {_REMEDY}") from None


def _baseline(content: object) -> Baseline:
    table = _object(content, "it")
    version = table.get(KEY)
    if type(version) is not int:
        raise ValueError(f"it has no {KEY}")
    if version > VERSION:
        raise ValueError(f"it has version {version}, which a newer tprof wrote")
    runs = table.get("runs")
    if not isinstance(runs, list) or not 0 < len(runs) <= MOST_RUNS:
        raise ValueError(f"runs must be a list of 1 to {MOST_RUNS}")
    limits = {
        name: parse_limit(value) for name, value in _object(table.get("max_increase", {}), "max_increase").items()
    }
    return Baseline(tuple(_run(run, place) for place, run in enumerate(runs, 1)), limits)


def parse_limit(text: object) -> float:
    """Return a limit such as ``5%`` as a part. Raises ValueError with a clause."""
    from tprof.trace.plain_values import with_unit  # noqa: PLC0415 - used here only

    value = with_unit(text, {"%": 0.01}) if isinstance(text, str) else None
    if value is None or not math.isfinite(value):
        raise ValueError(f"a limit is a percentage such as 5%, got {shown(text)}")
    return value


def limits_of(words: Sequence[str], option: str) -> dict[str, float]:
    """Read limits such as ``5%`` and ``blur=10%``. Raises UsageError."""
    limits: dict[str, float] = {}
    for word in words:
        pattern, equals, text = word.rpartition("=")
        try:
            limits[pattern if equals else EVERY] = parse_limit(text)
        except ValueError:
            raise UsageError(f"{option} takes 5% or NAME=5%, got {shown(word)}") from None
    return limits


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object")  # noqa: TRY004 - a value of a file is a ValueError
    return value


def _run(value: object, place: int) -> RunFigures:
    run = _object(value, f"run {place}")
    tasks = _object(run.get("tasks"), f"tasks of run {place}")
    if len(tasks) > MOST_TASKS:
        raise ValueError(f"run {place} has more than {MOST_TASKS} tasks")
    rows = {name: _object(one, f"task {shown(name)} of run {place}") for name, one in tasks.items()}
    measured = _object(run.get("measured", {}), f"measured of run {place}")
    totals = _object(run.get("totals", {}), f"totals of run {place}")
    name = run.get("name")
    return RunFigures(
        name if isinstance(name, str) else f"run {place}",
        f"run {place} of the baseline",
        {figure: _frame(figure, rows) for figure in FIGURES},
        pd.DataFrame({"instances": {name: _count(row, name) for name, row in rows.items()}}, dtype=float),
        {key: float(value) for key, value in totals.items() if is_finite(value)},
        {key: str(measured.get(key, ""))[:MOST_TEXT] for key in _CIRCUMSTANCES} | {"hosts": measured.get("hosts", 1)},
    )


def _count(row: Mapping[str, Any], name: str) -> float:
    count = row.get("instances")
    if not is_finite(count) or count < 0:
        raise ValueError(f"instances of {shown(name)} must be a number, got {shown(count)}")
    return float(count)


def _frame(figure: str, rows: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    found = {name: _figure(row[figure], f"{figure} of {shown(name)}") for name, row in rows.items() if figure in row}
    return pd.DataFrame.from_dict(
        found, orient="index", columns=["value", "variance", "df", *_BIASES, _END], dtype=float
    )


def _figure(value: object, what: str) -> list[float]:
    figure = _object(value, what)
    keys = ("value", "error", "df", *_BIASES, _END)
    numbers = {key: figure.get(key, 0.0 if key in _BIASES else math.nan) for key in keys}
    for key, number in numbers.items():
        is_absent = key in ("error", "df", _END) and key not in figure
        if not is_absent and (not is_finite(number) or not 0 <= number <= LARGEST or (key == "df" and number == 0)):
            raise ValueError(f"{key} of {what} must be a number from 0 to {LARGEST:g}, got {shown(number)}")
    return [numbers["value"], numbers["error"] ** 2, *(numbers[key] for key in ("df", *_BIASES, _END))]
