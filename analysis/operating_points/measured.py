"""The measurements of each task by operating point: means of a table's rows, with their noise.

An **operating point** is a setting (a frequency in Hz or a power limit in W) and a number of workers. Runs at one point
are averaged, and all points of a task are brought to the same number of instances, so that they do the same work.

**Time of a task.** `time_s` of a task's row is the sum over its instances, which ran concurrently. A choice needs the
task's part of the program's time, which is estimated as `time_s` over the workers that its instances can have
occupied, ``min(workers, instances)``. A row of the whole program (task "") has the wall time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from .scales import CERTAIN, NORMAL_95, Scale
from .table import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from pandas.core.groupby import DataFrameGroupBy

Floats = NDArray[np.float64]
RUN_NOISE = Scale(0.02, 4.0)
"""Of a single run: most are accurate to 1 or 2 %, some are off by 10 % (public measurements of single runs)."""
LEAST_NOISE = 0.005
NOISY = ("time_s", "energy_j")
MISS_S = 20e-9
"""Delay of a core by a miss of the last cache: about 80 ns, of which three quarters are hidden."""
MOST_TASKS = 30
"""Greatest number of tasks with advice, the program not counted."""


@dataclass(frozen=True)
class Run:
    """The runs at one operating point, without a law.

    Attributes
    ----------
    energy_j, time_s : medians.
    quality : as of `Measured`, of this point alone.
    """

    energy_j: float
    time_s: float
    quality: str


@dataclass(frozen=True)
class Measured:
    """One task, or the program (`task` ""), at n operating points.

    Attributes
    ----------
    setting : (n,) in `unit`; NaN where the table has no settings.
    unit : "Hz", "W", or "" where the table has no settings.
    workers : (n,)
    time_s, energy_j : (n,) for the same work at each point.
    time_noise, energy_noise : (n,) relative standard deviations of the means.
    time_freedom, energy_freedom : degrees of freedom of these.
    waiting, waiting_sd : share of memory stalls in the time at the highest setting, from counters, and its standard
        deviation; None without counters.
    quality : "measured", "estimated", "simulated", "given", or several with a comma.
    runs : of each point, the medians of its own runs and their quality; empty if only means are known.
    watts_factor : error factor of all joules, 95 %, if they are estimated from assumed watts; else 1.
    """

    task: str
    unit: str
    setting: Floats
    workers: NDArray[np.int64]
    time_s: Floats
    energy_j: Floats
    time_noise: Floats
    energy_noise: Floats
    time_freedom: float = CERTAIN
    energy_freedom: float = CERTAIN
    waiting: float | None = None
    waiting_sd: float = 0.0
    quality: str = ""
    runs: tuple[Run, ...] = ()
    watts_factor: float = 1.0

    @property
    def power_w(self) -> Floats:
        """Mean power at each point: (n,)."""
        return np.asarray(self.energy_j / self.time_s)

    @property
    def power_noise(self) -> Floats:
        """Relative standard deviation of the power, with independent errors of energy and time: (n,)."""
        return np.asarray(np.hypot(self.time_noise, self.energy_noise))

    def at(self, setting: float, workers: int) -> int | None:
        """Return the place of this point, None if it was not measured."""
        same = _same_setting(self.setting, setting) & (self.workers == workers)
        return int(np.flatnonzero(same)[0]) if same.any() else None

    def places(self, setting: Floats, workers: NDArray[np.int64]) -> list[int | None]:
        """Return the places of points, each as `at`."""
        return [self.at(*pair) for pair in zip(setting, workers, strict=True)]

    def run(self, place: int) -> Run:
        """Return the runs at a point."""
        if self.runs:
            return self.runs[place]
        return Run(float(self.energy_j[place]), float(self.time_s[place]), self.quality)


def by_task(rows: pd.DataFrame) -> list[Measured]:
    """Turn checked rows (see `table.read`) into one entry for each task, the program first.

    Parameters
    ----------
    rows
        Of one machine; `setting` may be all NaN. Rows without an energy are left out, and a task that has no other.
    """
    rows = rows[rows["energy_j"].notna()]
    points = {name: _points(rows[rows["task"] == name], name) for name in tasks_of(rows)}
    time, energy = (run_noises({name: _spread(of, column) for name, of in points.items()}) for column in NOISY)
    return [_measured(name, points[name], (time[name], energy[name])) for name in points]


def run_noises(spreads: Mapping[str, tuple[float, int]]) -> dict[str, Scale]:
    """Return the noise of a single run of each task, from the spread of repeated runs of all tasks.

    What the other tasks show shifts what is expected of a task. Beside its own repeats that counts as one more, since
    the noise of tasks and machines differs by factors. Without any repeats it is `RUN_NOISE`.

    Parameters
    ----------
    spreads
        Of each task, the sum of squared relative deviations of its runs and their degrees of freedom.
    """
    squares, freedom = (sum(one[place] for one in spreads.values()) for place in (0, 1))
    found = {}
    for name, (own, runs) in spreads.items():
        expected = RUN_NOISE.updated(squares - own, freedom - runs).value
        shown = Scale(expected, 1.0).updated(own, runs)
        # Less noise than was seen is never expected.
        seen = Scale(float(np.sqrt(own / runs)) if runs else 0.0, runs)
        larger = max(seen, shown, key=lambda one: one.value)
        found[name] = Scale(larger.value, max(larger.freedom, RUN_NOISE.freedom))
    return found


def tasks_of(rows: pd.DataFrame) -> list[str]:
    """Return the tasks that have an energy, the program first."""
    return sorted(set(rows["task"][rows["energy_j"].notna()]), key=lambda name: (name != PROGRAM, name))


def significant_tasks(rows: pd.DataFrame, most: int = MOST_TASKS) -> tuple[list[str], int, float]:
    """Return the program and the tasks with the most energy, the number of other tasks, and their share of the energy.

    Parameters
    ----------
    rows
        As `table.read` returns them.
    most
        Greatest number of tasks, the program not counted.
    """
    known = rows[rows["energy_j"].notna()]
    energy_j = known[known["task"] != PROGRAM].groupby("task")["energy_j"].sum().sort_values(ascending=False)
    names = [*([PROGRAM] if (known["task"] == PROGRAM).any() else []), *map(str, energy_j.index[:most])]
    left = energy_j.iloc[most:]
    return names, len(left), float(left.sum() / energy_j.sum()) if len(left) else 0.0


def _points(rows: pd.DataFrame, task: str) -> DataFrameGroupBy[Any, Any]:
    rows = _as_wall(rows) if task != PROGRAM else rows
    return rows.assign(_setting=rows["setting"].fillna(-1.0)).groupby(["_setting", "workers"], sort=True)


def _spread(points: DataFrameGroupBy[Any, Any], column: str) -> tuple[float, int]:
    counts = points.size().to_numpy()
    repeated = counts > 1
    spread = (points[column].std() / points[column].mean()).to_numpy(float)[repeated]
    return float(((counts[repeated] - 1) * spread**2).sum()), int((counts[repeated] - 1).sum())


def _measured(task: str, points: DataFrameGroupBy[Any, Any], noises: tuple[Scale, Scale]) -> Measured:
    mean, counts = points.mean(numeric_only=True), np.asarray(points.size(), np.int64)
    waiting, waiting_sd = _waiting(mean)
    time, energy = noises
    rows = cast("pd.DataFrame", points.obj)
    return Measured(
        task=task,
        unit=str(rows["setting_unit"].iloc[0]),
        setting=mean["setting"].to_numpy(float),
        workers=mean.index.get_level_values("workers").to_numpy(np.int64),
        time_s=mean["time_s"].to_numpy(float),
        energy_j=mean["energy_j"].to_numpy(float),
        time_noise=_noise_of_means(time, counts),
        energy_noise=np.maximum(_noise_of_means(energy, counts), _resolved(mean)),
        time_freedom=time.freedom,
        energy_freedom=energy.freedom,
        waiting=waiting,
        waiting_sd=waiting_sd,
        quality=_qualities(rows),
        runs=tuple(
            Run(float(runs["energy_j"].median()), float(runs["time_s"].median()), _qualities(rows.loc[runs.index]))
            for _, runs in points
        ),
        watts_factor=max((1.0, *rows["watts_factor"].dropna())),
    )


def _qualities(rows: pd.DataFrame) -> str:
    return ", ".join(sorted(set(rows["quality"])))


def _as_wall(rows: pd.DataFrame) -> pd.DataFrame:
    side_by_side = rows["workers"].to_numpy(float)
    work = np.ones(len(rows))
    if rows["instances"].notna().all():
        side_by_side = np.minimum(side_by_side, np.maximum(rows["instances"].to_numpy(float), 1.0))
        work = np.asarray(rows["instances"].median() / rows["instances"], float)
    scaled = {name: rows[name] * work for name in ("energy_j", "energy_low_j", "energy_high_j")}
    return rows.assign(time_s=rows["time_s"] / side_by_side * work, **scaled, llc_misses=rows["llc_misses"] * work)


def _noise_of_means(run: Scale, counts: NDArray[np.int64]) -> Floats:
    return np.maximum(run.value / np.sqrt(counts), LEAST_NOISE)


def _resolved(mean: pd.DataFrame) -> Floats:
    """Return the standard deviations of the energies' own 95 % intervals, 0 without any."""
    half = (mean["energy_high_j"] - mean["energy_low_j"]).to_numpy(float) / 2
    return np.asarray(np.nan_to_num(half / NORMAL_95 / mean["energy_j"].to_numpy(float), nan=0.0))


def _waiting(mean: pd.DataFrame) -> tuple[float | None, float]:
    at_top = mean.reset_index(drop=True).iloc[-1]
    if np.isfinite(at_top["stalls_per_cycle"]):
        return float(np.clip(at_top["stalls_per_cycle"], 0.0, 1.0)), 0.2
    if np.isfinite(at_top["llc_misses"]):
        return float(np.clip(at_top["llc_misses"] * MISS_S / at_top["time_s"], 0.0, 1.0)), 0.3
    return None, 0.0


def _same_setting(settings: Floats, setting: float) -> NDArray[np.bool_]:
    if np.isnan(setting):
        return np.isnan(settings)
    return np.isclose(settings, setting, rtol=1e-6, atol=0.0)
