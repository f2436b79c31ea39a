"""Which tasks use a pool, from the moments at which it begins to work, pooled over a recording.

A window is the time between two reads of a pool's clocks. In an onset an idle pool begins to work, so its caller runs.
A task that ran alone at several onsets is a user. Other windows after an idle one say how often each task runs in one
by chance: a task is the user if, with 95 % confidence, others can have begun few of the onsets only. A task that is no
user by these is none if the pool rested while it ran, and it ran alone at no onset; else it is doubtful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cuts import EVER, IDLE, long_spells, over

if TYPE_CHECKING:
    from .cuts import Source, Usage


Times = NDArray[np.int64]

LEAST_ONSETS = 8
CERTAIN_ALONE = 3
"""A task that ran alone at so many onsets is a user."""
MOST_OTHERS = 0.2
CERTAIN = 1.645
LEAST_RESTED = 10
"""Windows of a task in which the pool rested, before that says that the task does not use it."""
MOST_PIECES = 1000
"""Windows of a time in which a clock stood still."""
AT_ONCE = 1 << 16
"""Windows that are looked at together."""


class Learnt(NamedTuple):
    """The tasks that begin a pool's work, and those of which the pool does not show whether they use it."""

    users: NDArray[np.int64]
    doubtful: NDArray[np.int64]


class Onsets:
    """What tasks did in the windows of a pool.

    Attributes
    ----------
    onsets, chances : windows in which the pool begins to work, and those after an idle one in which a task runs
    counts : (5, tasks) at how many onsets each task ran alone; in how many rests, windows, onsets and chances it ran
    """

    def __init__(self) -> None:
        """Begin without windows."""
        self.onsets = self.chances = 0
        self.counts = np.zeros((5, 0), np.int64)

    def add(self, usage: Usage, source: Source, rest_ns: int, own_ns: tuple[int, int]) -> None:
        """Count the windows in a time; a pool that is idle for less than `rest_ns` has not rested."""
        edges_ns = _edges(usage)
        idle = long_spells(_idle(usage, edges_ns), edges_ns, rest_ns)
        rested = np.append(False, idle)
        first, stop = (
            int(np.searchsorted(edges_ns, own_ns[0])),
            int(np.searchsorted(edges_ns, own_ns[1], side="right")) - 1,
        )
        for low in range(first, stop, AT_ONCE):
            at = slice(low, min(low + AT_ONCE, stop))
            self._count(edges_ns[low : at.stop + 1], idle[at], rested[at], source)

    def _count(self, edges_ns: Times, idle: NDArray[np.bool_], rested: NDArray[np.bool_], source: Source) -> None:
        runs, count = source(int(edges_ns[0]), int(edges_ns[-1])), len(idle)
        begin = np.clip(np.searchsorted(edges_ns, runs.begin_ns, side="right") - 1, 0, count)
        end = np.clip(np.searchsorted(edges_ns, runs.end_ns), 0, count)
        tasks = np.unique(runs.task).tolist()
        more = max(tasks, default=-1) + 1 - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, max(more, 0))))
        seen = [over(begin[own], end[own], count) > 0 for own in (runs.task == task for task in tasks)]
        number = np.sum([np.zeros(count, bool), *seen], axis=0)
        chance = rested & (number > 0)
        onset = chance & ~idle
        self.onsets, self.chances = self.onsets + int(onset.sum()), self.chances + int(chance.sum())
        for task, ran in zip(tasks, seen, strict=True):
            self.counts[:, task] += [(ran & one).sum() for one in (onset & (number == 1), idle, ran, onset, chance)]

    def learnt(self) -> Learnt | None:
        """Return the tasks that use the pool; None if its onsets do not tell.

        What another than a task begins falls on the task only as often as any window does. So the largest part of the
        onsets that others may have begun follows, with 95 % confidence, from those that it missed (Wilson's interval).
        """
        if self.onsets < LEAST_ONSETS:
            return None
        alone, rested, windows, onsets, chances = self.counts
        missed, by_chance, square = self.onsets - onsets, chances / self.chances, CERTAIN**2
        spread = CERTAIN * np.sqrt(missed * (self.onsets - missed) / self.onsets + square / 4)
        most = (missed + square / 2 + spread) / (self.onsets + square)
        others = np.divide(most, 1 - by_chance, out=np.full(len(most), np.inf), where=by_chance < 1)
        users = (alone >= CERTAIN_ALONE) | (others <= MOST_OTHERS)
        if not users.any():
            return None
        doubtful = ~users & (windows > 0) & ((rested < LEAST_RESTED) | (alone > 0))
        return Learnt(np.flatnonzero(users), np.flatnonzero(doubtful))


def _edges(usage: Usage) -> Times:
    """Return the times between passes over all threads.

    A clock that stands still is not written: such a time counts as so many windows as passes fell into it, about.
    """
    reads_ns = np.unique(usage.reads_ns)
    busy = usage.busy(*EVER)
    usual_ns = float(np.median(busy.end_ns - busy.begin_ns))
    passes_ns = reads_ns[np.append(np.diff(reads_ns) > usual_ns / 4, True)]
    pieces = np.clip(np.round(np.diff(passes_ns) / usual_ns), 1, MOST_PIECES).astype(np.int64)
    before = np.append(0, np.cumsum(pieces))
    since_ns = np.interp(np.arange(before[-1] + 1), before, passes_ns - passes_ns[0])
    return np.unique(since_ns.astype(np.int64)) + passes_ns[0]


def _idle(usage: Usage, edges_ns: Times) -> NDArray[np.bool_]:
    """Return the windows in which a pool's threads used next to no CPU time."""
    total_s = np.sum([np.interp(edges_ns, one.t_ns, one.cpu_s) for one in usage.clocks], axis=0)
    return np.asarray(np.diff(total_s) < IDLE * np.diff(edges_ns) * 1e-9)
