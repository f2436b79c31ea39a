"""Which tasks use a pool, from the moments at which it begins to work, pooled over a recording.

A window is the time between two reads of a pool's clocks. In an onset an idle pool begins to work, so its caller runs.
A task that ran alone at several onsets is a user. Other windows after an idle one say how often each task runs in one
by chance: a task is the user if, with 95 % confidence, others can have begun few of the onsets only, or else the two
tasks are of such a pair. A task that is no user by these is none if the pool rested while it ran, and it ran alone at
no onset; else it is doubtful.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import computed, kept, median, release, running_sums
from tprof.trace.long_sorts import first_rows

from .cuts import EVER, IDLE, long_spells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cuts import Usage
    from .segments import Clock, Runs


Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Marks = NDArray[np.bool_]
Counts = NDArray[np.int64]

LEAST_ONSETS = 8
CERTAIN_ALONE = 3
"""A task that ran alone at so many onsets is a user."""
MOST_OTHERS = 0.2
CERTAIN = 1.645
MOST_PAIRED, MOST_COMBINED = 256, 8
"""Tasks that are counted by pairs, and of which pairs are tried."""
LEAST_RESTED = 10
"""Windows of a task in which the pool rested, before that says that the task does not use it."""
MOST_PIECES = 1000
"""Windows of a time in which a clock stood still."""
AT_ONCE = 1 << 20
"""Tasks times windows that are in memory."""


class Learnt(NamedTuple):
    """The tasks that begin a pool's work, and those of which the pool does not show whether they use it."""

    users: NDArray[np.int64]
    doubtful: NDArray[np.int64]


class Onsets:
    """What tasks did in the windows of a pool, counted part by part of a recording.

    Attributes
    ----------
    edges_ns : (n + 1,) where windows begin, and the last one ends
    idle : (n,) whether the pool rested
    onsets, chances : windows in which the pool begins to work, and those after an idle one in which a task runs
    counts : (3, tasks) at how many onsets each task ran alone, in how many rests it ran, and in how many windows
    ran : (2, tasks) in how many onsets and chances each task ran
    both : (2, m, m) in how many of these each two of the first tasks ran
    """

    def __init__(
        self,
        usage: Usage,
        clocks: Sequence[Clock],
        rest_ns: int,
        before: Onsets | None = None,
        own_ns: tuple[int, int] = EVER,
    ) -> None:
        """Begin with the clocks of a pool's threads.

        Parameters
        ----------
        usage, clocks : of the pool
        rest_ns : if it is idle for less it has not rested
        before : what was counted before, which goes on here; None: nothing
        own_ns : windows that begin or end outside are not counted
        """
        self.edges_ns = _edges(usage)
        self.idle = long_spells(_idle(self.edges_ns, clocks), self.edges_ns, rest_ns)
        if before is None:
            self.onsets = self.chances = 0
            self.counts, self.ran = np.zeros((3, 0), np.int64), np.zeros((2, 0), np.int64)
            self.both = np.zeros((2, MOST_PAIRED, MOST_PAIRED), np.int64)
        else:
            self.onsets, self.chances = before.onsets, before.chances
            self.counts, self.ran, self.both = before.counts, before.ran, before.both
        self._next, self._end_ns = int(np.searchsorted(self.edges_ns, own_ns[0])), own_ns[1]
        self._open = np.empty(0, np.int64)

    def add(self, runs: Runs, end_ns: int) -> None:
        """Count the windows that end in a part of the recording, of all runs of tasks that reach into it."""
        stop = int(np.searchsorted(self.edges_ns, min(end_ns, self._end_ns), side="right")) - 1
        begin, last = (
            np.searchsorted(self.edges_ns, t_ns, side="right") - 1 for t_ns in (runs.begin_ns, runs.end_ns - 1)
        )
        # What ran in a window that goes on from the part before.
        begin, last = (np.concatenate((np.full(len(self._open), self._next), one)) for one in (begin, last))
        tasks, number = np.unique(np.concatenate((self._open, runs.task)), return_inverse=True)
        more = 0, max(int(tasks.max(initial=-1)) + 1 - self.ran.shape[1], 0)
        self.counts, self.ran = (np.pad(one, ((0, 0), more)) for one in (self.counts, self.ran))
        width = max(AT_ONCE // max(len(tasks), 1), 1)
        for low in range(self._next, stop, width):
            self._count(slice(low, min(low + width, stop)), tasks, (number, begin, last))
        self._next = max(stop, self._next)
        self._open = tasks[np.unique(number[(begin <= self._next) & (last >= self._next)])]
        release(self.edges_ns, self.idle)

    def _count(self, at: slice, tasks: Counts, runs: tuple[Counts, Counts, Counts]) -> None:
        width = at.stop - at.start
        number, begin, last = (one[(runs[1] < at.stop) & (runs[2] >= at.start)] for one in runs)
        steps = np.zeros((len(tasks), width + 1), np.int64)
        np.add.at(steps, (number, np.maximum(begin - at.start, 0)), 1)
        np.subtract.at(steps, (number, np.minimum(last - at.start, width - 1) + 1), 1)
        seen = np.cumsum(steps, axis=1)[:, :width] > 0
        idle = self.idle[at]
        rested = np.append(self.idle[at.start - 1] if at.start else False, idle[:-1])
        chance = rested & seen.any(axis=0)
        onset = chance & ~idle
        alone = onset & (seen.sum(axis=0) == 1)
        self.onsets, self.chances = self.onsets + int(onset.sum()), self.chances + int(chance.sum())
        self.counts[:, tasks] += np.stack([seen[:, which].sum(axis=1) for which in (alone, idle, slice(None))])
        self.ran[:, tasks] += np.stack([seen[:, which].sum(axis=1) for which in (onset, chance)])
        first = tasks[tasks < MOST_PAIRED]
        for target, which in zip(self.both, (onset, chance), strict=True):
            paired = seen[: len(first), which].astype(np.float64)  # this product of matrices is exact
            target[np.ix_(first, first)] += (paired @ paired.T).astype(np.int64)

    def learnt(self) -> Learnt | None:
        """Return the tasks that use the pool; None if its onsets do not tell."""
        if self.onsets < LEAST_ONSETS:
            return None
        alone, rested, windows = self.counts
        users = alone >= CERTAIN_ALONE
        users[self._certain()] = True
        if not users.any():
            return None
        doubtful = ~users & (windows > 0) & ((rested < LEAST_RESTED) | (alone > 0))
        return Learnt(np.flatnonzero(users), np.flatnonzero(doubtful))

    def _certain(self) -> Counts:
        """Return the tasks beside which nobody else needs to have begun an onset, or those of all such pairs."""
        single = np.flatnonzero(self._others_at_most(self.ran) <= MOST_OTHERS)
        if len(single):
            return single
        paired = self.ran[:, :MOST_PAIRED]
        often = np.argsort(-paired[0], kind="stable")[:MOST_COMBINED]
        pairs = np.array(list(itertools.combinations(often.tolist(), 2)), np.int64).reshape(-1, 2)
        first, second = pairs.T
        either = paired[:, first] + paired[:, second] - self.both[:, first, second]
        return np.unique(pairs[self._others_at_most(either) <= MOST_OTHERS])

    def _others_at_most(self, ran: Counts) -> Floats:
        """Return the largest part of the onsets that others than some may have begun, with 95 % confidence.

        What another begins falls on these, which `ran` in so many onsets and chances, only as often as any window does
        (Wilson's interval).
        """
        missed, by_chance = self.onsets - ran[0].astype(np.float64), ran[1] / self.chances
        square = CERTAIN**2
        spread = CERTAIN * np.sqrt(missed * (self.onsets - missed) / self.onsets + square / 4)
        most = (missed + square / 2 + spread) / (self.onsets + square)
        return np.asarray(np.divide(most, 1 - by_chance, out=np.full(len(most), np.inf), where=by_chance < 1))


def _edges(usage: Usage) -> Times:
    """Return the times between passes over all threads.

    A clock that stands still is not written: such a time counts as so many windows as passes fell into it, about.
    """
    reads_ns = usage.grid_ns

    def busy_ns(at: slice) -> Times:
        return np.where(usage.cpu_s[at] > 0, usage.end_ns[at] - usage.begin_ns[at], 0)

    lengths_ns = computed(len(usage.cpu_s), np.int64, busy_ns, usage.cpu_s, usage.begin_ns, usage.end_ns)
    usual_ns = median(kept(lengths_ns, lambda at: lengths_ns[at] > 0))

    def is_pass(at: slice) -> Marks:
        is_far = np.diff(reads_ns[at.start : at.stop + 1]) > usual_ns / 4
        return np.append(is_far, True)[: at.stop - at.start]

    passes_ns = kept(reads_ns, is_pass)

    def pieces_of(at: slice) -> Counts:
        lengths = np.diff(passes_ns[at.start : at.stop + 1]) / usual_ns
        return np.asarray(np.clip(np.round(lengths), 1, MOST_PIECES).astype(np.int64))

    before = running_sums(computed(len(passes_ns) - 1, np.int64, pieces_of, passes_ns))
    first_ns = passes_ns[0]

    def grid(at: slice) -> Times:
        low = int(np.searchsorted(before, at.start, side="right")) - 1
        near = slice(low, int(np.searchsorted(before, at.stop - 1)) + 1)
        found = np.interp(np.arange(at.start, at.stop), before[near], passes_ns[near] - first_ns)
        return np.asarray(found.astype(np.int64))

    (grid_ns,) = first_rows([computed(int(before[-1]) + 1, np.int64, grid, before, passes_ns)])
    usage.release()
    return computed(len(grid_ns), np.int64, lambda at: grid_ns[at] + first_ns, grid_ns)


def _idle(edges_ns: Times, clocks: Sequence[Clock]) -> Marks:
    """Return the windows in which a pool's threads used next to no CPU time."""

    def of_part(at: slice) -> Marks:
        t_ns = edges_ns[at.start : at.stop + 1]
        total_s = sum((_read_at(one, t_ns) for one in clocks), np.zeros(len(t_ns)))
        return np.asarray(np.diff(total_s) < IDLE * np.diff(t_ns) * 1e-9)

    read = (array for one in clocks for array in (one.t_ns, one.cpu_s))
    return computed(len(edges_ns) - 1, bool, of_part, edges_ns, *read)


def _read_at(clock: Clock, t_ns: Times) -> Floats:
    """Return the CPU seconds of a thread at increasing times."""
    low = max(int(np.searchsorted(clock.t_ns, t_ns[0], side="right")) - 1, 0)
    near = slice(low, int(np.searchsorted(clock.t_ns, t_ns[-1])) + 1)
    return np.interp(t_ns, clock.t_ns[near], clock.cpu_s[near])
