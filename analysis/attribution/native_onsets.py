"""Which tasks use a pool, from the moments at which it begins and ends to work, pooled over a recording.

A window is the time between two reads of a pool's clocks. In an onset an idle pool begins to work, so its caller runs.
A task that ran alone at several onsets is a user. Other windows after an idle one say how often each task runs in one
by chance: a set of tasks holds the users if, with 95 % confidence, others can have begun few of the onsets only. A task
that is no user by these is none if the pool mostly rested while this task ran and no user did; else it is doubtful.

All of this needs numbers of windows only, which passes over the windows count part by part.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import computed, kept, median, release, running_sums
from tprof.trace.long_sorts import without_repeats

from .native_marks import TaskMarks
from .native_rates import IDLE, long_spells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .native_marks import FoundMarks
    from .native_rates import Usage
    from .native_time import Clock, Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Marks = NDArray[np.bool_]
Counts = NDArray[np.int64]
Sets = list[tuple[int, ...]]

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
MOST_PIECES = 1000
"""Windows of a time in which a clock stood still."""


@dataclass(frozen=True)
class Learnt:
    """The tasks that begin a pool's work, and those of which the pool does not show whether they use it."""

    users: NDArray[np.int64]
    doubtful: NDArray[np.int64]


class OnsetTimes:
    """Windows of a pool, and what ran in them.

    Attributes
    ----------
    edges_ns : (n + 1,) where windows begin, and the last one ends
    idle : (n,) whether the pool was idle
    marks : in which of them tasks ran, began and ended to run
    """

    def __init__(self, usage: Usage, clocks: Sequence[Clock]) -> None:
        """Begin with the clocks of the pool's threads, and what these say together."""
        self.edges_ns = _edges(usage)
        self.idle = _idle(self.edges_ns, clocks)
        self.marks = TaskMarks(len(self.idle))

    def add(self, runs: Runs) -> None:
        """Note runs of tasks that may use the pool, some of them more than once."""
        if not len(runs.task):
            return
        low, high = np.searchsorted(self.edges_ns, (runs.begin_ns.min(), runs.end_ns.max() + 1)).tolist()
        low = max(low - 1, 0)
        edges_ns = self.edges_ns[low:high]
        self.marks.add(
            runs.task,
            *(
                low + np.searchsorted(edges_ns, t_ns, side="right") - 1
                for t_ns in (runs.begin_ns, runs.end_ns - 1, runs.end_ns)
            ),
        )
        release(self.edges_ns)


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

    grid_ns = without_repeats(computed(int(before[-1]) + 1, np.int64, grid, before, passes_ns))
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


class _Part(NamedTuple):
    """Some windows that follow each other.

    Attributes
    ----------
    idle : (n,) whether the pool is idle
    kinds : (tasks, n) whether each task runs, begins to run, and began there or in the window before
    ended : (tasks, n) whether each task ended there or in the window before
    after_idle, onset : (n,) those after an idle one in which a task runs, and of these those in which the pool works
    before_idle, last : those before an idle one in which a task runs, and of these those in which the pool works
    """

    idle: Marks
    kinds: tuple[Marks, Marks, Marks]
    ended: Marks
    after_idle: Marks
    onset: Marks
    before_idle: Marks
    last: Marks


def _parts(found: FoundMarks, idle: Marks) -> Iterator[_Part]:
    """Yield all windows, in order."""
    begun_before, ended_before = np.zeros((2, len(found.tasks), 1), bool)
    for at, seen, begun, ended in found.parts():
        own = idle[at]
        before = np.append(idle[at.start - 1] if at.start else False, own[:-1])
        after = np.append(own[1:], idle[at.stop] if at.stop < len(idle) else False)
        anyone = seen.any(axis=0)
        both = tuple(
            one | np.hstack((last, one[:, :-1])) for one, last in ((begun, begun_before), (ended, ended_before))
        )
        yield _Part(
            own, (seen, begun, both[0]), both[1], before & anyone, before & anyone & ~own, after & anyone,
            after & anyone & ~own,
        )  # fmt: skip
        begun_before, ended_before = begun[:, -1:], ended[:, -1:]
        release(idle)


@dataclass
class _Event:
    """In how many of some windows a set of tasks did something, and in how many of those that chance could have chosen.

    Attributes
    ----------
    count, chances : of both kinds of windows
    seen, by_chance : (sets,)
    """

    count: int
    chances: int
    seen: Counts
    by_chance: Counts

    @classmethod
    def none(cls, sets: int) -> _Event:
        """Return no windows."""
        return cls(0, 0, np.zeros(sets, np.int64), np.zeros(sets, np.int64))

    def add(self, marks: Marks, which: Marks, by_chance: Marks, sets: Sets | None) -> None:
        """Add windows: what (tasks, n) tasks did, and which windows are of both kinds; without `sets` of each task."""
        self.count, self.chances = self.count + int(which.sum()), self.chances + int(by_chance.sum())
        self.seen += _hits(marks[:, which], sets)
        self.by_chance += _hits(marks[:, by_chance], sets)

    def plus(self, other: _Event) -> _Event:
        """Return the windows of both."""
        counts = self.count + other.count, self.chances + other.chances
        return _Event(*counts, self.seen + other.seen, self.by_chance + other.by_chance)

    def others_at_most(self) -> Floats:
        """Return for each set the largest part of the windows that others may have begun, with 95 % confidence.

        What another begins falls on these tasks only as often as any window does (Wilson's interval).
        """
        missed, by_chance = (self.count - self.seen).astype(np.float64), self.by_chance / self.chances
        square = CERTAIN**2
        spread = CERTAIN * np.sqrt(missed * (self.count - missed) / self.count + square / 4)
        most = (missed + square / 2 + spread) / (self.count + square)
        return np.asarray(np.divide(most, 1 - by_chance, out=np.full(len(most), np.inf), where=by_chance < 1))


def _hits(marks: Marks, sets: Sets | None) -> Counts:
    """Return the number of windows in which each task is marked, or any of each set."""
    if sets is None:
        return np.asarray(marks.sum(axis=1, dtype=np.int64))
    return np.array([np.count_nonzero(marks[list(one)].any(axis=0)) for one in sets], np.int64)


class _Onsets:
    """What tasks did at a pool's onsets; `ends` says whether its ends say as much as its begins."""

    def __init__(self, found: FoundMarks, idle: Marks, *, ends: bool) -> None:
        """Take in which windows tasks ran, and in which the pool was idle."""
        self.found, self._idle, self._ends = found, idle, ends
        self.alone = np.zeros(len(found.tasks), np.int64)
        """Of each task at how many onsets it ran alone."""
        self.each = self._events(None)
        """Of each task."""

    def _events(self, sets: Sets | None) -> list[_Event]:
        """Return what sets of tasks did; without, each task, of which it is known too how often it was alone."""
        events = [_Event.none(len(self.alone) if sets is None else len(sets)) for _ in range(4)]
        for part in _parts(self.found, self._idle):
            for event, marks in zip(events, part.kinds, strict=False):
                event.add(marks, part.onset, part.after_idle, sets)
            if self._ends:
                events[3].add(part.ended, part.last, part.before_idle, sets)
            if sets is None:
                at_onset = part.kinds[0][:, part.onset]
                self.alone += (at_onset & (at_onset.sum(axis=0) == 1)).sum(axis=1)
        return [*events[:3], events[1].plus(events[3])] if self._ends else events[:3]

    def smallest_sets(self) -> Counts:
        """Return the members of all smallest sets of tasks beside which nobody needs to have begun an onset."""
        count = len(self.alone)
        by_onsets = np.argsort(-(self.each[0].seen / self.each[0].count), kind="stable")
        for size in range(1, min(LARGEST_SET, count) + 1):
            among = by_onsets if size == 1 else by_onsets[: MOST_COMBINED if size == 2 else MOST_COMBINED // 2]
            sets: Sets = [(task,) for task in range(count)]
            if size > 1:
                sets = list(itertools.combinations(among.tolist(), size))
            events = self.each if size == 1 else self._events(sets)
            certain = np.any([one.others_at_most() <= MOST_OTHERS for one in events], axis=0)
            if certain.any():
                return np.unique(
                    [task for one, is_it in zip(sets, certain.tolist(), strict=True) if is_it for task in one]
                )
        return np.empty(0, np.int64)

    def doubtful(self, users: Marks) -> Marks:
        """Return the tasks of which the pool does not show that they do not use it."""
        sums = np.zeros((4, len(users)), np.int64)
        for part in _parts(self.found, self._idle):
            seen = part.kinds[0]
            apart = seen & ~seen[users].any(axis=0)
            sums[0] += apart.sum(axis=1)
            for target, which in zip(sums[1:], (part.idle, part.onset, part.after_idle), strict=True):
                target[:] += apart[:, which].sum(axis=1)
        apart_at, rested, begun, after_idle = sums
        begins = begun >= np.maximum(CERTAIN_ALONE, SELDOM * after_idle)
        return np.asarray(~users & (begins | (rested < LEAST_RESTED) | (rested < apart_at * MOSTLY)))


def users_by_onsets(times: OnsetTimes, *, rest_ns: int = 0) -> Learnt | None:
    """Return the tasks that use a pool; None if its onsets do not tell.

    Parameters
    ----------
    times : when each task that may use the pool ran
    rest_ns : a pool that is idle for less has not rested: a spinning thread may have waited for a core
    """
    found = times.marks.finish()
    # Where a pool rests as soon as its caller has its result, ends say as much as begins.
    onsets = _Onsets(found, long_spells(times.idle, times.edges_ns, rest_ns), ends=not rest_ns)
    if onsets.each[0].count < LEAST_ONSETS:
        return None
    users = onsets.alone >= CERTAIN_ALONE
    users[onsets.smallest_sets()] = True
    if not users.any():
        return None
    return Learnt(found.tasks[users], found.tasks[onsets.doubtful(users)])
