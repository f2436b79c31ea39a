"""Which tasks use a pool, from the moments at which it begins and ends to work, pooled over a recording.

A window is the time between two reads of a pool's clocks. In an onset an idle pool begins to work, so its caller runs.
A task that ran alone at several onsets is a user. Other windows after an idle one say how often each task runs in one
by chance: a set of tasks holds the users if, with 95 % confidence, others can have begun few of the onsets only. A task
that is no user by these is none if the pool mostly rested while this task ran and no user did; else it is doubtful.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_sorts import distinct_values

from .native_rates import IDLE, long_spells
from .windows import UnorderedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .native_time import Clock, Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

LEAST_ONSETS = 8
CERTAIN_ALONE = 3
"""A task that ran alone at so many onsets is a user."""
MOST_OTHERS = 0.2
LARGEST_SET = 3
MOST_COMBINED = 8
"""Tasks of which pairs are tried, and twice as many as of those of which triples are."""
CERTAIN = 1.645
LEAST_RESTED, MOSTLY = 10, 0.5
"""Windows, and part of all windows beside the users, in which the pool rested."""
SELDOM = 0.05
"""A task at whose side more of the windows after a rest begin work, and no user runs, may be a user."""
LARGEST = 400_000_000
"""Tasks times windows."""
MOST_PIECES = 1000
"""Windows of a time in which a clock stood still."""


@dataclass(frozen=True)
class Learnt:
    """The tasks that begin a pool's work, and those of which the pool does not show whether they use it."""

    users: NDArray[np.int64]
    doubtful: NDArray[np.int64]


@dataclass(frozen=True)
class Event:
    """What a task did in the windows in question, and in those that chance could have chosen: (tasks, n) each."""

    seen: NDArray[np.bool_]
    by_chance: NDArray[np.bool_]


class OnsetTimes:
    """Windows of a pool, in which of them each task ran, and in which it began and ended to run."""

    def __init__(self, clocks: Sequence[Clock]) -> None:
        """Begin with the clocks of the pool's threads."""
        self.begin_ns, self.end_ns, self.used_s = _windows(clocks)
        self._of_task: dict[int, NDArray[np.bool_]] = {}

    def add(self, runs: Runs) -> None:
        """Note runs of tasks that may use the pool, some of them more than once."""
        count = len(self.begin_ns)
        edges_ns = np.append(self.begin_ns, self.end_ns[-1:])
        begin, last = (np.searchsorted(edges_ns, one, "right") - 1 for one in (runs.begin_ns, runs.end_ns - 1))
        end = np.searchsorted(edges_ns, runs.end_ns, "right") - 1
        for task in distinct_values(runs.task).tolist():
            if task not in self._of_task and (len(self._of_task) + 1) * count > LARGEST:
                raise UnorderedError("too many tasks may use a pool of native threads for so long")
            marks = self._of_task.setdefault(task, np.zeros((3, count), bool))
            own = runs.task == task
            step = np.bincount(np.clip(begin[own], 0, count), minlength=count + 2)
            step -= np.bincount(np.clip(last[own] + 1, 0, count), minlength=count + 2)
            marks[0] |= np.cumsum(step)[:count] > 0
            for mark, at in zip(marks[1:], (begin[own], end[own]), strict=True):
                mark[at[(at >= 0) & (at < count)]] = True

    @property
    def tasks(self) -> NDArray[np.int64]:
        """The tasks, increasing."""
        return np.array(sorted(self._of_task), np.int64)

    def marks(self, number: int) -> NDArray[np.bool_]:
        """Return windows in which each task ran (0), began to run (1) and ended to run (2): (tasks, n)."""
        return np.array([self._of_task[task][number] for task in sorted(self._of_task)])


def users_by_onsets(times: OnsetTimes, *, rest_ns: int = 0) -> Learnt | None:
    """Return the tasks that use a pool; None if its onsets do not tell.

    Parameters
    ----------
    times : when each task that may use the pool ran
    rest_ns : a pool that is idle for less has not rested: a spinning thread may have waited for a core
    """
    length_ns, tasks = times.end_ns - times.begin_ns, times.tasks
    edges_ns = np.append(times.begin_ns, times.end_ns[-1:])
    idle = long_spells(times.used_s < IDLE * length_ns * 1e-9, edges_ns, rest_ns)
    seen = times.marks(0)
    after_idle = np.flatnonzero(idle[:-1]) + 1
    after_idle = after_idle[seen[:, after_idle].any(axis=0)]
    onset = after_idle[~idle[after_idle]]
    if len(onset) < LEAST_ONSETS:
        return None
    begun, ended = (times.marks(1), _or_before(times.marks(1))), _or_before(times.marks(2))
    # Where a pool rests as soon as its caller has its result, ends say as much as begins.
    before_idle = np.flatnonzero(idle[1:] & seen[:, :-1].any(axis=0))
    last = before_idle[~idle[before_idle]]
    events = [Event(one[:, onset], one[:, after_idle]) for one in (seen, *begun)]
    if not rest_ns:
        changes = [
            np.concatenate(one, axis=1)
            for one in ((begun[0][:, onset], ended[:, last]), (begun[0][:, after_idle], ended[:, before_idle]))
        ]
        events.append(Event(*changes))
    at_onset = seen[:, onset]
    users = (at_onset & (at_onset.sum(axis=0) == 1)).sum(axis=1) >= CERTAIN_ALONE
    users[_smallest_sets(events, len(tasks))] = True
    if not users.any():
        return None
    apart = seen & ~seen[users].any(axis=0)
    rested = (apart & idle).sum(axis=1)
    begins = apart[:, onset].sum(axis=1) >= np.maximum(CERTAIN_ALONE, SELDOM * apart[:, after_idle].sum(axis=1))
    doubtful = ~users & (begins | (rested < LEAST_RESTED) | (rested < apart.sum(axis=1) * MOSTLY))
    return Learnt(tasks[users], tasks[doubtful])


def _or_before(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the windows that are marked, or follow one that is."""
    marks[:, 1:] |= marks[:, :-1].copy()
    return marks


def _windows(clocks: Sequence[Clock]) -> tuple[Times, Times, Floats]:
    """Return the times between passes over all threads, and the CPU seconds in each.

    A clock that stands still is not written: such a time counts as so many windows as passes fell into it, about.
    """
    reads_ns = distinct_values(np.concatenate([one.t_ns for one in clocks]))
    lengths_ns = np.concatenate([np.diff(one.t_ns)[np.diff(one.cpu_s) > 0] for one in clocks])
    usual_ns = float(np.median(lengths_ns))
    passes_ns = reads_ns[np.append(np.diff(reads_ns) > usual_ns / 4, True)]
    pieces = np.clip(np.round(np.diff(passes_ns) / usual_ns), 1, MOST_PIECES).astype(np.int64)
    grid_ns = np.interp(
        np.arange(pieces.sum() + 1), np.concatenate(([0], np.cumsum(pieces))), passes_ns - passes_ns[0]
    ).astype(np.int64)
    grid_ns = distinct_values(grid_ns) + passes_ns[0]
    total_s = sum((np.interp(grid_ns, one.t_ns, one.cpu_s) for one in clocks), np.zeros(len(grid_ns)))
    return grid_ns[:-1], grid_ns[1:], np.diff(total_s)


def _smallest_sets(events: Sequence[Event], count: int) -> NDArray[np.int64]:
    """Return the members of all smallest sets of tasks beside which nobody needs to have begun an onset."""
    by_onsets = np.argsort(-events[0].seen.mean(axis=1), kind="stable")
    for size in range(1, min(LARGEST_SET, count) + 1):
        among = by_onsets if size == 1 else by_onsets[: MOST_COMBINED if size == 2 else MOST_COMBINED // 2]
        sets = [
            chosen
            for chosen in itertools.combinations(among.tolist(), size)
            if any(others_at_most(event, list(chosen)) <= MOST_OTHERS for event in events)
        ]
        if sets:
            return np.unique(np.concatenate(sets)).astype(np.int64)
    return np.empty(0, np.int64)


def others_at_most(event: Event, tasks: Sequence[int]) -> float:
    """Return the largest part of the onsets that others than these tasks may have begun, with 95 % confidence.

    An onset that another begins falls on these tasks only as often as any window does (Wilson's interval).
    """
    count = event.seen.shape[1]
    missed = float((~event.seen[tasks].any(axis=0)).sum())
    by_chance = float(event.by_chance[tasks].any(axis=0).mean())
    if by_chance >= 1:
        return float("inf")
    square = CERTAIN**2
    spread = CERTAIN * np.sqrt(missed * (count - missed) / count + square / 4)
    return float((missed + square / 2 + spread) / (count + square) / (1 - by_chance))
