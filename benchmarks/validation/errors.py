"""Runs a case with one seed and says by how much each model's figures are off."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tprof.benchmarks.virtual import random_mix, write

from tprof.trace import load

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis import Profile
    from tprof.benchmarks.virtual import Truth

    from .cases import Case

CORES = 4
IDLE_S = 1 / 3
MODELS = ("fitted", "cputime", "wall time")


@dataclass(frozen=True)
class CaseResult:
    """One model in one case with one seed; arrays have one entry a task.

    Attributes
    ----------
    mean_error : of the mean dynamic energy, as a part of the true one.
    instance_error : root mean square over instances, as a part of their mean.
    covered : whether the 95 % interval of the mean holds the mean of all that could have run.
    """

    model: str
    mean_error: NDArray[np.float64]
    instance_error: NDArray[np.float64]
    covered: NDArray[np.bool_]


def run_case(case: Case, *, seed: int, duration_s: float) -> list[CaseResult]:
    """Simulate, attribute by each model, and compare with the truth."""
    mix = {"idle_s": IDLE_S, **case.mix}
    cores = random_mix(case.tasks, cores=CORES, duration_s=duration_s, seed=seed, **mix)
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        path = Path(folder) / "virtual.tprof"
        truth = write(
            path,
            case.tasks,
            cores,
            package=case.package,
            sensor=case.sensor,
            end_s=duration_s + mix["idle_s"],
            seed=seed,
        )
        trace = load(path)
        fitted, by_time = trace.profile(model="fitted"), trace.profile(model="cputime")
    wall = _by_wall_time(by_time)
    return [
        _compare(case, truth, "fitted", fitted, fitted.tasks["dynamic_j"]),
        _compare(case, truth, "cputime", by_time, by_time.tasks["dynamic_j"]),
        _compare(case, truth, "wall time", by_time, wall),
    ]


def _by_wall_time(profile: Profile) -> pd.Series[float]:
    """Share the whole run's joules by wall time, as tools do that read a sensor at a program's start and end."""
    return profile.tasks["duration_s"] * (profile.measured_j / profile.tasks["duration_s"].sum())


def _compare(case: Case, truth: Truth, model: str, profile: Profile, energy_j: pd.Series[float]) -> CaseResult:
    table = profile.tasks.assign(model_j=energy_j).set_index("instance").loc[truth.instance]
    got_j, static_j = table["model_j"].to_numpy(), table["static_j"].to_numpy()
    summary = profile.summary()
    errors, spreads, covered = [], [], []
    for number, task in enumerate(case.tasks):
        own = (truth.task == number) & np.isfinite(table["energy_j"].to_numpy())
        true_j = truth.energy_j[own]
        errors.append(got_j[own].mean() / true_j.mean() - 1)
        spreads.append(np.sqrt(((got_j[own] - true_j) ** 2).mean()) / true_j.mean())
        low_j, high_j = summary.loc[task.name, ["energy_mean_low_j", "energy_mean_high_j"]] - static_j[own].mean()
        covered.append(bool(low_j <= task.power_w * task.duration_s <= high_j))
    return CaseResult(model, np.array(errors), np.array(spreads), np.array(covered))
