"""Who runs when: random mixes of short tasks, bursts, and kernels side by side as in the paper's experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .power_law import Kernel
from .virtual_processor import Core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

IDLE_S = 1 / 3
"""What a recording reads before its program starts."""
PAUSE_S = 0.02


@dataclass(frozen=True)
class Task:
    """A kind of work: which kernel it runs, for how long.

    Attributes
    ----------
    duration_s : mean of the instances.
    duration_spread, power_spread : of instances, as a part of the mean (log-normal).
    length_exponent : an instance's power goes with its length to this power; 0: not at all.
    """

    name: str
    duration_s: float
    kernel: Kernel
    duration_spread: float = 0.1
    power_spread: float = 0.0
    length_exponent: float = 0.0


def stated(name: str, duration_s: float, power_w: float, power_spread: float = 0.0) -> Task:
    """Return a task whose power is given, for a law without anything of its own."""
    return Task(name, duration_s, Kernel(name, ipc=1.0, unseen_w=power_w), power_spread=power_spread)


@dataclass(frozen=True)
class Mix:
    """How a random mix is laid out.

    Attributes
    ----------
    cores, duration_s : how many, for how long after the idle time.
    idle_s : before anything runs.
    busy : part of the time in which a core runs something.
    changing : whether the mix changes every 500 instances, as phases of a program do.
    burst_s, gap_s : all cores work for about as long, then rest for about as long; 0: they never rest together.
    groups : tasks that a core runs right after one another, in this order; which group is next is random. Empty: each
        task is a group.
    as_often : whether groups run about as often as each other; else each runs for about the same part of the time.
    """

    cores: int = 4
    duration_s: float = 5.0
    idle_s: float = IDLE_S
    busy: float = 1.0
    changing: bool = False
    burst_s: float = 0.0
    gap_s: float = 0.0
    groups: tuple[tuple[int, ...], ...] = ()
    as_often: bool = False


def random_mix(tasks: Sequence[Task], mix: Mix, *, seed: int) -> list[Core]:
    """Let each core run tasks in random order; `Mix` says which and how often."""
    random = np.random.default_rng(seed)
    rests_s = _rests(mix, random)
    return [_random_core(tasks, random, mix, rests_s) for _ in range(mix.cores)]


def side_by_side(
    runs: Sequence[Sequence[int]], *, instance_s: float, phase_s: float, idle_s: float = 0.0
) -> list[Core]:
    """Let kernels run beside each other, a phase after the other.

    Parameters
    ----------
    runs
        For each phase the task of each core; -1 none. Cores beyond a phase's list rest.
    instance_s
        Of each instance; a phase that is shorter is one instance. A core is later than the one before by a part of it,
        so that not all begin at once.
    phase_s
        Of each phase; between two phases all cores pause.
    """
    cores = max((len(run) for run in runs), default=0)
    found = []
    for place in range(cores):
        begins, ends, tasks = [], [], []
        for number, run in enumerate(runs):
            if place >= len(run) or run[place] < 0:
                continue
            count = max(round(phase_s / instance_s), 1)
            late_s = instance_s * place / (4 * cores) if count > 1 else 0.0
            since_s = idle_s + number * (phase_s + PAUSE_S) + late_s
            begin_s = since_s + np.arange(count) * phase_s / count
            begins.append(begin_s)
            ends.append(np.append(begin_s[1:], since_s + phase_s))
            tasks.append(np.full(count, run[place]))
        begin_s, end_s, task = (np.concatenate(part) if part else np.empty(0) for part in (begins, ends, tasks))
        found.append(Core(_whole(begin_s), _whole(end_s), task.astype(np.int64), np.ones(len(task))))
    return found


def length_s(phases: int, phase_s: float, idle_s: float = 0.0) -> float:
    """Return how long so many phases of `side_by_side` take."""
    return idle_s + phases * (phase_s + PAUSE_S)


def _rests(mix: Mix, random: np.random.Generator) -> NDArray[np.float64] | None:
    """Return where bursts end in time at work, and how long the rest after each is: (2, n)."""
    if not mix.burst_s:
        return None
    count = int(3 * mix.duration_s / mix.burst_s) + 10
    return np.stack([np.cumsum(random.exponential(mix.burst_s, count)), random.exponential(mix.gap_s, count)])


def _random_core(
    tasks: Sequence[Task], random: np.random.Generator, mix: Mix, rests_s: NDArray[np.float64] | None
) -> Core:
    mean_s = np.array([task.duration_s for task in tasks])
    groups = mix.groups or tuple((number,) for number in range(len(tasks)))
    group_s = np.array([mean_s[list(group)].sum() for group in groups])
    odds_of = np.ones(len(groups)) if mix.as_often else 1 / group_s
    odds_of /= odds_of.sum()
    count = int(1.5 * mix.duration_s * mix.busy / (odds_of @ group_s)) + 50
    drawn = random.choice(len(groups), count, p=odds_of)
    task = np.concatenate([np.array(groups[number]) for number in drawn]) if mix.groups else drawn
    if mix.changing:
        phases = random.dirichlet(np.ones(len(tasks)), size=count // 500 + 1) / mean_s
        odds = (phases / phases.sum(axis=1, keepdims=True))[np.arange(count) // 500]
        task = (np.cumsum(odds, axis=1) < random.random((count, 1))).sum(axis=1).clip(max=len(tasks) - 1)
    spread = np.array([one.duration_spread for one in tasks])[task]
    length_s = mean_s[task] * random.lognormal(-(spread**2) / 2, spread)
    gap_s = length_s * (1 / mix.busy - 1) * random.exponential(1, len(task))
    end_s = np.cumsum(length_s + gap_s)
    if rests_s is not None:
        # Time at work becomes time: what begins after a burst begins after its rest.
        rested = np.append(0.0, np.cumsum(rests_s[1]))
        end_s = end_s + rested[np.searchsorted(rests_s[0], end_s - length_s)]
    end_s = _whole(mix.idle_s + end_s)
    begin_s = _whole(end_s - length_s)
    begin_s[1:] = np.maximum(begin_s[1:], end_s[:-1])
    kept = (end_s < mix.idle_s + mix.duration_s) & (end_s > begin_s)
    power_spread = np.array([one.power_spread for one in tasks])[task]
    scale = random.lognormal(-(power_spread**2) / 2, power_spread)
    scale *= (length_s / mean_s[task]) ** np.array([one.length_exponent for one in tasks])[task]
    return Core(begin_s[kept], end_s[kept], task[kept].astype(np.int64), scale[kept])


def _whole(t_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return whole nanoseconds, as a clock gives them."""
    return np.asarray(np.round(t_s * 1e9) / 1e9)
