"""Runs a case with one seed and finds each model's errors, and whether their intervals contain the truth.

What a 95 % interval of a task's mean energy claims to hold is the mean of all instances that could have run: their
expected length, times what a core that runs the task draws, its share of static power included. An interval that knows
the power exactly still has to hold that mean, because the instances that did run are a sample: so the truth here is
`E[length] (power + static share per own second)`, and not the mean of those that ran.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.operating_points.scales import NORMAL_95

from benchmarks.simulator import Run, random_mix, write
from tprof.trace import load_session

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis import Coefficients, Profile

    from benchmarks.simulator import Truth

    from .cases import Case

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CaseResult:
    """One model in one case with one seed; arrays have one entry a task.

    Attributes
    ----------
    mean_error : of the mean dynamic energy, as a part of the true one.
    instance_error : root mean square over instances, as a part of their mean.
    score : of the mean energy, how many of its claimed standard errors it is off; NaN without an interval.
    """

    model: str
    mean_error: Floats
    instance_error: Floats
    score: Floats

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Whether the 95 % interval contains the truth."""
        return np.abs(self.score) <= NORMAL_95


def run_case(case: Case, *, seed: int, duration_s: float, model: Coefficients | None = None) -> list[CaseResult]:
    """Simulate, attribute by each of the case's models, and compare with the truth.

    Parameters
    ----------
    case, seed, duration_s
        What is simulated.
    model
        The calibrated one, for cases that compare it.
    """
    run = simulated(case, seed=seed, duration_s=duration_s)
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        session = _Session(Path(folder), case, run, seed, model)
        truth = session.write(counters=False)
        return [_compare(case, truth, name, *session.profiled(name)) for name in case.models]


def simulated(case: Case, *, seed: int, duration_s: float) -> Run:
    """Return a run of a case."""
    mix = replace(case.mix, duration_s=duration_s)
    cores = random_mix(case.tasks, mix, seed=seed)
    return Run(case.package, [task.kernel for task in case.tasks], cores, duration_s + mix.idle_s, seed)


class _Session:
    """The same run recorded with and without counters."""

    def __init__(self, folder: Path, case: Case, run: Run, seed: int, model: Coefficients | None) -> None:
        self._folder, self._case, self._run, self._seed, self._model = folder, case, run, seed, model

    def write(self, *, counters: bool) -> Truth:
        names = [task.name for task in self._case.tasks]
        path = self._path(counters=counters)
        return write(path, names, self._run, sensor=self._case.sensor, seed=self._seed, counters=counters)

    def profiled(self, name: str) -> tuple[Profile, pd.Series[float]]:
        """Return a model's profile and the dynamic joules of each instance."""
        options: dict[str, Any] = {"model": "cputime" if name == "wall time" else name}
        if name == "fitted + linear":
            options = {"model": "fitted", "coefficients": self._model}
        elif name == "linear":
            options["coefficients"] = self._model
        counters = name in ("fitted + linear", "linear", "ipc", "fesc")
        if not self._path(counters=counters).exists():
            self.write(counters=counters)
        profile = load_session(self._path(counters=counters)).profile(**options)
        return profile, _by_wall_time(profile) if name == "wall time" else profile.tasks["dynamic_j"]

    def _path(self, *, counters: bool) -> Path:
        return self._folder / ("counted.tprof" if counters else "plain.tprof")


def _by_wall_time(profile: Profile) -> pd.Series[float]:
    """Share the whole run's joules by wall time, as tools do that read a sensor at a program's start and end."""
    return profile.tasks["duration_s"] * (profile.measured_j / profile.tasks["duration_s"].sum())


def _compare(case: Case, truth: Truth, model: str, profile: Profile, energy_j: pd.Series[float]) -> CaseResult:
    table = profile.tasks.assign(model_j=energy_j).set_index("instance").loc[truth.instance]
    got_j, resolved = table["model_j"].to_numpy(), np.isfinite(table["energy_j"].to_numpy())
    summary = profile.summary()
    found = []
    for number, task in enumerate(case.tasks):
        own = (truth.task == number) & resolved
        true_j = truth.dynamic_j[own]
        if not len(true_j):
            found.append((np.nan, np.nan, np.nan))
            continue
        error = got_j[own].mean() / true_j.mean() - 1
        spread = np.sqrt(((got_j[own] - true_j) ** 2).mean()) / true_j.mean()
        score = np.nan if model == "wall time" else _score(summary.loc[task.name], population_j(case, truth, number))
        found.append((error, spread, score))
    return CaseResult(model, *np.array(found, float).T)


def population_j(case: Case, truth: Truth, number: int) -> float:
    """Return the mean energy of all instances of a task that could have run."""
    task, own = case.tasks[number], truth.task == number
    ran_s = truth.duration_s[own].sum()
    stated_w = task.kernel.unseen_w if case.package.law.core_w == 0 else None
    # If power depends on what else runs, the mean power is that of this run.
    dynamic_w = truth.dynamic_j[own].sum() / ran_s if stated_w is None else stated_w
    return float(task.duration_s * (dynamic_w + truth.static_j[own].sum() / ran_s))


def _score(row: Any, true_j: float) -> float:
    # The lower end is cut at zero; the upper one never is.
    error_j = (row["energy_mean_high_j"] - row["energy_mean_j"]) / NORMAL_95
    return float((row["energy_mean_j"] - true_j) / error_j)
