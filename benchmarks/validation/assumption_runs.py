"""Runs cases of assumptions, and counts how often intervals hold the truth and how often a profile warns.

The truth is what the instances of this run drew above static power. A task counts as warned of if a finding names it,
or names no task.

Runs have the seeds from `HELD_OUT_SEED` on, on which no estimator was built. They are made in rounds, the first run of
every case first, so that an interrupted measurement is a shorter one; each run is a line of a file that is kept.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.simulator import write
from benchmarks.validation.processes import completed
from tprof.errors import UsageError
from tprof.trace import load_session

from .case_errors import simulated
from .least_errors import least_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tprof.analysis import Profile

    from benchmarks.simulator import Truth
    from benchmarks.validation.processes import Progress

    from .assumptions import AssumptionCase
    from .least_errors import Floats

    Row = dict[str, Any]

HELD_OUT_SEED = 700_000
"""Of the first run that is reported: estimators are built on seeds below."""
UNRESOLVED = "unresolved"
ENOUGH = 0.9
"""An interval holds so often, or the profile warns of the task in so many of the runs in which it does not."""
MOST_FALSE = 0.05
"""Part of clean runs that may warn."""


@dataclass(frozen=True)
class Series:
    """Which runs are made: so many from a seed on; `most_s` cuts the length of each."""

    runs: int = 30
    first_seed: int = HELD_OUT_SEED
    most_s: float = np.inf


FULL = Series()
QUICK = Series(runs=1, most_s=0.6)


def measure(
    cases: Sequence[AssumptionCase], series: Series, *, keep: Path | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Run the cases.

    Parameters
    ----------
    cases, series
        Which runs.
    keep
        A file of lines of JSON: runs that it has are not made again, each other one is added as soon as it is known.
    progress
        Called with how many runs are done, and of how many.

    Returns
    -------
    dict
        `runs`, one entry a run as `run_once` returns it, and `cases`, one entry a case as `tally` returns it.

    Raises
    ------
    UsageError
        The file holds something else.
    """
    kept = {} if keep is None else _read(keep)
    seeds = range(series.first_seed, series.first_seed + series.runs)
    wanted = [(case, seed) for seed in seeds for case in cases]
    jobs = [(case, seed, series.most_s) for case, seed in wanted if (case.key, seed) not in kept]
    done = len(wanted) - len(jobs)
    for _, row in completed(run_once, jobs):
        kept[row["case"], row["seed"]] = row
        if keep is not None:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, allow_nan=False) + "\n")
        done += 1
        if progress is not None:
            progress(done, len(wanted))
    runs = [kept[case.key, seed] for case, seed in wanted]
    return {"runs": runs, "cases": [tally(case, [run for run in runs if run["case"] == case.key]) for case in cases]}


def _read(path: Path) -> dict[tuple[str, int], Row]:
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines]
        return {(row["case"], row["seed"]): row for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = f"cannot read the runs kept in {path}: name a file that --keep has written, or one that is not there"
        raise UsageError(message) from error


def run_once(case: AssumptionCase, seed: int, most_s: float = np.inf) -> Row:
    """Simulate one run of a case and compare its profile with the truth.

    Returns
    -------
    dict
        `case`, `seed`; `fit_s`, seconds that the analysis took; `tasks`, for each `task` the `error` of its dynamic
        energy, the ends `low` and `high` of its interval, and those of its power, `power_low` and `power_high`, all as
        parts of the truth, less 1, and in clean cases the `least` standard error that is possible; `found`, for each
        finding its `kind` and `tasks`.
    """
    case = case.of_run(seed)
    run = simulated(case, seed=seed, duration_s=min(case.duration_s, most_s))
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        path = Path(folder) / "run.tprof"
        truth = write(path, [task.name for task in case.tasks], run, sensor=case.sensor, seed=seed, counters=False)
        begin_s = time.perf_counter()
        profile = load_session(path).profile(model="fitted")
        fit_s = time.perf_counter() - begin_s
        least = None if case.causes else least_errors(profile, case)
    return {
        "case": case.key,
        "seed": seed,
        "fit_s": round(fit_s, 3),
        "tasks": list(_compared(profile, truth, [task.name for task in case.tasks], least)),
        "found": _found(profile),
    }


def _compared(profile: Profile, truth: Truth, names: Sequence[str], least: Floats | None) -> Iterator[Row]:
    """Yield the error and the intervals of each task of which an instance ran."""
    summary = profile.summary()
    resolved = np.isfinite(profile.tasks.set_index("instance").loc[truth.instance, "energy_j"].to_numpy())
    for number, name in enumerate(names):
        own = (truth.task == number) & resolved
        if not own.any():
            continue
        dynamic_j = truth.dynamic_j[own].sum()
        power_w = (dynamic_j + truth.static_j[own].sum()) / truth.duration_s[own].sum()
        row = summary.loc[name]
        figures = {"error": row["dynamic_j"], "low": row["dynamic_low_j"], "high": row["dynamic_high_j"]}
        powers = {"power_low": row["power_low_w"], "power_high": row["power_high_w"]}
        yield {
            "task": name,
            **{key: _part(joules, dynamic_j) for key, joules in figures.items()},
            **{key: _part(watts, power_w) for key, watts in powers.items()},
            **({} if least is None else {"least": float(f"{least[number]:.6g}")}),
        }


def _part(value: Any, of: float) -> float:
    return float(f"{value / of - 1:.6g}")


def _found(profile: Profile) -> list[Row]:
    """Return kinds and tasks of the findings; tasks that are shown as not resolved are warned of so."""
    summary, fitted = profile.summary(), profile.info["fitted"]
    found = [{"kind": one["kind"], "tasks": list(one["tasks"])} for one in (fitted or {"findings": []})["findings"]]
    unresolved = [str(name) for name in summary.index[~summary["resolved"]]]
    return [*found, *([{"kind": UNRESOLVED, "tasks": unresolved}] if unresolved else [])]


def tally(case: AssumptionCase, runs: Sequence[Row]) -> Row:
    """Count over the runs of a case.

    Returns
    -------
    dict
        `key`, `case`, `clean`, `runs`; `tasks`, for each `task` its `rms` error, the `least` that is possible (None if
        unknown), `held` (part of the runs in which the
        interval of the dynamic energy held the truth), `missed` (runs in which it did not) and `warned` (of those, in
        how many the profile warned of the task); `held` of all tasks, `power_held` likewise; `warned`, part of the runs
        with any finding; `named`, part of the runs with one of the right causes (None for clean ones); `kinds`, part of
        the runs by kind of finding; `fit_s`, the median; `met`, whether the aims are.
    """
    names = list(dict.fromkeys(task["task"] for run in runs for task in run["tasks"]))
    tasks = [_task_tally(name, runs) for name in names]
    kinds = [{found["kind"] for found in run["found"]} for run in runs]
    every = sorted(set().union(*kinds))
    count = max(len(runs), 1)
    warned = sum(bool(one) for one in kinds) / count
    sure = all(one["held"] >= ENOUGH or one["warned"] >= ENOUGH * one["missed"] for one in tasks)
    return {
        "key": case.key,
        "case": case.name,
        "clean": not case.causes,
        "runs": len(runs),
        "tasks": tasks,
        "held": float(np.mean([_held(task) for run in runs for task in run["tasks"]])),
        "power_held": float(np.mean([_held(task, "power_") for run in runs for task in run["tasks"]])),
        "warned": warned,
        "named": sum(bool(one & set(case.causes)) for one in kinds) / count if case.causes else None,
        "kinds": {kind: sum(kind in one for one in kinds) / count for kind in every},
        "fit_s": float(np.median([run["fit_s"] for run in runs])),
        "met": bool(sure and (bool(case.causes) or warned <= MOST_FALSE)),
    }


def _task_tally(name: str, runs: Sequence[Row]) -> Row:
    pairs = [(run, task) for run in runs for task in run["tasks"] if task["task"] == name]
    missed = [run for run, task in pairs if not _held(task)]
    least = [task["least"] for _, task in pairs if "least" in task]
    return {
        "task": name,
        "rms": float(np.sqrt(np.mean([task["error"] ** 2 for _, task in pairs]))),
        "least": float(np.sqrt(np.mean(np.square(least)))) if least else None,
        "held": 1 - len(missed) / len(pairs),
        "missed": len(missed),
        "warned": sum(_warns_of(run, name) for run in missed),
    }


def _held(task: Row, figure: str = "") -> bool:
    return bool(task[f"{figure}low"] <= 0 <= task[f"{figure}high"])


def _warns_of(run: Row, name: str) -> bool:
    return any(not found["tasks"] or name in found["tasks"] for found in run["found"])
