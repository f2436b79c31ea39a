"""A package with known power: static watts that may drift, and for each core the watts of the task it runs.

A task's watts may be scaled by how many cores are busy (shared cache, turbo), which no model that adds up tasks can
follow exactly. All energies are integrals of step functions, taken at the moments where something changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A kind of work: how long an instance takes, what a core draws meanwhile.

    Attributes
    ----------
    duration_s : mean of the instances.
    power_w : of a core that runs it, above static power.
    duration_spread, power_spread : of instances, as a part of the mean (log-normal).
    """

    name: str
    duration_s: float
    power_w: float
    duration_spread: float = 0.1
    power_spread: float = 0.0


@dataclass(frozen=True)
class Core:
    """What one core does: instances one after the other, seconds; `task` is an index, (n,) each."""

    begin_s: Floats
    end_s: Floats
    task: NDArray[np.int64]
    power_w: Floats


@dataclass(frozen=True)
class Package:
    """A package of cores.

    Attributes
    ----------
    static_w : drawn always.
    drift_w : by how much static power has risen at the end (temperature).
    contention : part of a task's watts that is lost when all cores are busy.
    """

    static_w: float = 10.0
    drift_w: float = 0.0
    contention: float = 0.0

    def energies(self, cores: Sequence[Core], t_s: Floats, end_s: float) -> tuple[Floats, list[Floats]]:
        """Return joules drawn by the package up to each time, and dynamic joules of each core's instances.

        Parameters
        ----------
        cores
            Their schedules.
        t_s
            (m,) seconds, increasing.
        end_s
            Of the run: drift is a part of it.
        """
        moments = np.unique(
            np.concatenate([[0.0, end_s], *[core.begin_s for core in cores], *[core.end_s for core in cores]])
        )
        change = np.zeros(len(moments))
        for core in cores:
            np.add.at(change, np.searchsorted(moments, core.begin_s), 1)
            np.subtract.at(change, np.searchsorted(moments, core.end_s), 1)
        busy = np.cumsum(change)[:-1]
        crowd = np.maximum(busy - 1, 0) / max(len(cores) - 1, 1)
        scale = 1.0 - self.contention * crowd
        length_s = np.diff(moments)
        # What one watt of a task comes to, integrated up to each moment.
        scaled_s = np.concatenate(([0.0], np.cumsum(scale * length_s)))
        instances = [core.power_w * _between(core, moments, scaled_s) for core in cores]
        power = np.zeros(len(moments))
        for core in cores:
            np.add.at(power, np.searchsorted(moments, core.begin_s), core.power_w)
            np.subtract.at(power, np.searchsorted(moments, core.end_s), core.power_w)
        dynamic_j = np.concatenate(([0.0], np.cumsum(np.cumsum(power)[:-1] * scale * length_s)))
        static_j = self.static_w * t_s + self.drift_w * t_s**2 / (2 * end_s)
        return static_j + np.interp(t_s, moments, dynamic_j), instances


def _between(core: Core, moments: Floats, running_s: Floats) -> Floats:
    end, begin = np.searchsorted(moments, core.end_s), np.searchsorted(moments, core.begin_s)
    return np.asarray(running_s[end] - running_s[begin])


def random_mix(
    tasks: Sequence[Task],
    *,
    cores: int,
    duration_s: float,
    seed: int,
    idle_s: float = 1 / 3,
    busy: float = 1.0,
    changing: bool = False,
) -> list[Core]:
    """Let each core run tasks in random order, each task for about the same part of the time.

    Parameters
    ----------
    tasks
        What is run.
    cores, duration_s, seed
        How many, for how long after the idle time, and which random numbers.
    idle_s
        Before anything runs.
    busy
        Part of the time in which a core runs something.
    changing
        Let the mix change every tenth of a second, as phases of a program do.
    """
    random = np.random.default_rng(seed)
    return [_random_core(tasks, random, idle_s, duration_s, busy, changing=changing) for _ in range(cores)]


def _random_core(
    tasks: Sequence[Task], random: np.random.Generator, idle_s: float, duration_s: float, busy: float, *, changing: bool
) -> Core:
    mean_s = np.array([task.duration_s for task in tasks])
    evenly = (1 / mean_s) / (1 / mean_s).sum()
    count = int(1.5 * duration_s * busy / (evenly @ mean_s)) + 50
    task = random.choice(len(tasks), count, p=evenly)
    if changing:
        phases = random.dirichlet(np.ones(len(tasks)), size=count // 500 + 1) / mean_s
        odds = (phases / phases.sum(axis=1, keepdims=True))[np.arange(count) // 500]
        task = (np.cumsum(odds, axis=1) < random.random((count, 1))).sum(axis=1).clip(max=len(tasks) - 1)
    spread = np.array([one.duration_spread for one in tasks])[task]
    length_s = mean_s[task] * random.lognormal(-(spread**2) / 2, spread)
    gap_s = length_s * (1 / busy - 1) * random.exponential(1, count)
    # Whole nanoseconds, as a clock gives them.
    end_s = np.round((idle_s + np.cumsum(length_s + gap_s)) * 1e9) / 1e9
    begin_s = np.round((end_s - length_s) * 1e9) / 1e9
    begin_s[1:] = np.maximum(begin_s[1:], end_s[:-1])
    kept = end_s < idle_s + duration_s
    power_spread = np.array([one.power_spread for one in tasks])[task]
    power_w = np.array([one.power_w for one in tasks])[task] * random.lognormal(-(power_spread**2) / 2, power_spread)
    return Core(begin_s[kept], end_s[kept], task[kept], power_w[kept])
