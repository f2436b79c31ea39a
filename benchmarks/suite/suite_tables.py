"""The suite: its programs, and the paper's tables 5 and 6 from recorded runs, beside the paper's own values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.profile.intervals import mean_half, widened
from tprof.analysis.profile.summary import errors_of, summarize
from tprof.analysis.profile.task_sums import FIGURES, OPTIONAL, TaskSums, half_widths
from tprof.benchmarks.programs.catalogue import PROGRAMS

from tprof.errors import UsageError

from .paper_programs import MACHINE, PAPER, SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tprof.analysis import Profile
    from tprof.benchmarks.repeats import Runs

    from .paper_programs import PaperTask


Row = dict[str, Any]
# In the order of the paper's figures 5 to 10.
SUITE = ("jacobi", "fft", "multisort", "ferret", "cholesky", "blackscholes")


@dataclass(frozen=True)
class Suite:
    """The runs of all programs, in order, and the machine that they ran on."""

    runs: tuple[Runs, ...]
    machine: Mapping[str, Any]

    def as_plain(self) -> Row:
        """Return machine, programs, both tables and what the paper's columns are; NaN is left as it is."""
        return {
            "machine": dict(self.machine),
            "programs": {runs.program: program(runs) for runs in self.runs},
            "table_5": table_5(self.runs),
            "table_6": table_6(self.runs),
            "paper": {"source": SOURCE, "machine": MACHINE},
        }


def program(runs: Runs) -> Row:
    """Return what stands behind a program's rows."""
    outcome, info = runs.outcome, runs.profile.info
    return {
        "size": outcome.size,
        "workers": outcome.workers,
        "checks": list(outcome.checks),
        "facts": dict(outcome.facts),
        "time": runs.times().as_plain(),
        "energy": runs.energies().as_plain(),
        "runs": runs.as_plain(),
        "quality": runs.quality,
        "sensor": info["sensor"],
        "model": info["model"],
        "model_why": info["model_why"],
        "warnings": list(dict.fromkeys(text for profile in runs.profiles for text in profile.info["warnings"])),
    }


def table_5(suite: Sequence[Runs]) -> list[Row]:
    """Return a row a program: footprint, tasks and instances of a run, then the paper's.

    Columns benchmark, footprint_bytes (of the largest task, by its arguments; None where the program does not say),
    tasks, instances (both as recorded), paper_footprint_mb, paper_tasks, paper_instances (None without the paper's).
    """
    rows = []
    for runs in suite:
        printed = PAPER.get(runs.program)
        counts = runs.profile.tasks["task"].value_counts()
        rows.append(
            {
                "benchmark": runs.program,
                "footprint_bytes": runs.outcome.facts.get("footprint_bytes"),
                "tasks": int((counts > 0).sum()),
                "instances": int(counts.sum()),
                "paper_footprint_mb": printed and printed.footprint_mb,
                "paper_tasks": printed and len(printed.tasks),
                "paper_instances": printed and printed.instances,
            }
        )
    return rows


def table_6(suite: Sequence[Runs]) -> list[Row]:
    """Return a row a task: mean energy with its interval, correlation with time, then the paper's.

    Columns benchmark, task, instances (of all runs), energy_mean_j, energy_mean_low_j, energy_mean_high_j (95 %),
    resolved, energy_time_corr (NaN where either is the same for all), run_mean_low_j, run_mean_high_j (least and
    most of the runs' means), quality, paper_energy_mean_j, paper_energy_time_corr. A task that only the paper has
    is a row too, without ours.
    """
    return [row for runs in suite for row in _tasks(runs)]


def _tasks(runs: Runs) -> Iterator[Row]:
    printed = PAPER.get(runs.program)
    left = list(printed.tasks) if printed else []
    means = [profile.summary()["energy_mean_j"] for profile in runs.profiles]
    for key, row in pooled(runs.profiles).iterrows():
        name = str(key)
        task = printed.task(name) if printed else None
        run_means = np.array([float(mean.get(name, math.nan)) for mean in means])
        if task in left:
            left.remove(task)
        ours = {
            "instances": int(row["instances"]),
            **{column: float(row[column]) for column in ("energy_mean_j", "energy_mean_low_j", "energy_mean_high_j")},
            "resolved": bool(row["resolved"]),
            "energy_time_corr": float(row["energy_time_corr"]),
            "run_mean_low_j": float(np.fmin.reduce(run_means)),
            "run_mean_high_j": float(np.fmax.reduce(run_means)),
            "quality": runs.quality,
        }
        yield {"benchmark": runs.program, "task": name, **ours, **_printed(task)}
    for task in left:
        empty = dict.fromkeys(
            (
                "energy_mean_j", "energy_mean_low_j", "energy_mean_high_j", "resolved", "energy_time_corr",
                "run_mean_low_j", "run_mean_high_j", "quality",
            )
        )  # fmt: skip
        yield {"benchmark": runs.program, "task": task.name, "instances": 0, **empty, **_printed(task)}


def _printed(task: PaperTask | None) -> Row:
    return {
        "paper_energy_mean_j": task and task.energy_mean_j,
        "paper_energy_time_corr": task and task.energy_time_corr,
    }


def pooled(profiles: Sequence[Profile]) -> pd.DataFrame:
    """Summarize the instances of all runs together.

    Means and correlations are those of all instances. The interval keeps the mean half width of the runs': sensor and
    model have the same error in each, so that repeating narrows nothing that this interval holds. A task with a single
    instance a run has the spread between runs. Intervals of sums and of powers are those of one run, and left out.
    """
    if len(profiles) == 1:
        return profiles[0].summary()
    summaries = [profile.summary(common=False) for profile in profiles]
    watts = max((profile.watts for profile in profiles), key=lambda one: one.busy)
    tasks = pd.concat([profile.tasks.assign(task=profile.tasks["task"].astype(str)) for profile in profiles])
    tasks["task"] = tasks["task"].astype("category")
    own_s = np.concatenate([profile.own_s for profile in profiles])
    figures = {name: tasks[name].to_numpy(float) for name in (*FIGURES, *OPTIONAL) if name in tasks}
    figures |= {"own_s": own_s, "half_j": half_widths(tasks, watts)}
    names, code = tuple(map(str, tasks["task"].cat.categories)), tasks["task"].cat.codes.to_numpy().astype(np.int32)
    sums = TaskSums.of(names, code, figures)
    table = summarize(sums, errors_of(sums, watts=watts), common=False)
    means, sums_j = (
        pd.concat([one[f"{figure}_high_j"] - one[f"{figure}_j"] for one in summaries]).groupby(level=0).mean()
        for figure in ("energy_mean", "energy")
    )
    dynamic_j = tasks.groupby("task", observed=True)["dynamic_j"].mean().reindex(table.index)
    count = sums.columns["resolved"][pd.Index(sums.names).get_indexer(table.index)].astype(np.int64)
    half_j = (sums_j * len(summaries)).reindex(table.index).to_numpy()
    means_j, halves_j = table["energy_mean_j"].to_numpy(), means.reindex(table.index).to_numpy()
    spread_j = mean_half(table["energy_std_j"].to_numpy(), count, half_j)
    halves_j = np.where(np.isnan(halves_j), spread_j, halves_j)
    static_j = means_j - dynamic_j.to_numpy()
    low_j, high_j = widened(np.maximum(means_j - halves_j, 0.0), means_j + halves_j, static_j, watts)
    of_one_run = [f"{name}_{end}" for name in ("energy", "dynamic") for end in ("low_j", "high_j")]
    of_one_run += ["power_low_w", "power_high_w", "energy_mean_at_most_j"]
    return table.drop(columns=of_one_run).assign(
        energy_mean_low_j=low_j, energy_mean_high_j=high_j, resolved=dynamic_j > half_j / count
    )


def is_absent(value: float | None) -> bool:
    """Return whether there is no such figure."""
    return value is None or math.isnan(value)


def members(names: Sequence[str] = SUITE) -> tuple[str, ...]:
    """Return the names of the suite's programs, each once.

    Raises
    ------
    UsageError
        If the catalogue lacks one: a suite with a gap would be read as a whole one.
    """
    lacking = [name for name in names if name not in PROGRAMS]
    if lacking:
        raise UsageError(
            f"the suite needs {', '.join(lacking)}, which the catalogue of programs does not have: "
            f"run what it has by name ({', '.join(PROGRAMS)})"
        )
    return tuple(dict.fromkeys(names))
