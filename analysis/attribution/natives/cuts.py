"""Cuts the CPU time of one pool of native threads where a user begins or ends and where a clock was read.

A thread's clock is read about every 5 ms, so only the CPU time between two reads is known. As much of it as fits falls
into the time in which a user of the pool ran, evenly; the rest lies after a user's end. A call of a library waits for
its pool, so what a pool does while its user runs is the user's, also if the pool's threads only spin.

A part of a recording is cut as in the whole since it is known how the pool came into it (`History`), and since reads
and runs that reach into it are taken as a whole. So nothing is kept of the segments but sums: they are found again for
each window that asks for them. A pool's threads are added up, so the cost is O(runs + reads) whatever their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .segments import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED, NativeSegments, Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Source = Callable[[int, int], Runs]

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Marks = NDArray[np.bool_]
Numbers = NDArray[np.int64]

IDLE = 0.02
"""A pool that uses less than this part of a core between two reads is idle: whatever it did before has ended."""
LONG_REST_NS = 60_000_000
"""A spinning thread that waits for a core on a busy machine waits less: after so long a pool that spins has rested."""
UNSEEN_NS = 20_000_000
"""Work of so short a time before the first noted call is that of one just before calls were noted."""
LEAST_RATE = 1e-11
"""CPU seconds per second; less is what differences of numbers leave."""
LONG_NS = 1 << 62
EVER = (-LONG_NS, LONG_NS)
NO_TASK, SEVERAL = -1, -2
"""In place of the task that runs."""


class Busy(NamedTuple):
    """The times between two reads of a thread's clock in which it used CPU time; its modelled power, NaN: not known."""

    begin_ns: Times
    end_ns: Times
    cpu_s: Floats
    power: Floats


@dataclass(frozen=True)
class Clock:
    """The CPU seconds of one native thread at the times when they were read.

    Attributes
    ----------
    t_ns : (n,) int64, increasing
    cpu_s : (n,) float64, cumulative, from 0
    power : (n - 1,) float64, modelled energy per CPU second between the reads by counters, NaN where it is not known;
        None: nowhere
    """

    t_ns: Times
    cpu_s: Floats
    power: Floats | None = None

    def busy(self, begin_ns: int, end_ns: int) -> Busy:
        """Return the times in which it used CPU time that reach into a time."""
        first = max(int(np.searchsorted(self.t_ns, begin_ns, side="right")) - 1, 0)
        at = slice(first, int(np.searchsorted(self.t_ns, end_ns)) + 1)
        t_ns, used_s = self.t_ns[at], np.diff(self.cpu_s[at])
        power = np.full(len(used_s), np.nan) if self.power is None else self.power[first : first + len(used_s)]
        which = used_s > 0
        return Busy(t_ns[:-1][which], t_ns[1:][which], used_s[which], power[which])


@dataclass(frozen=True)
class Usage:
    """The clocks of all threads of a pool, each with two reads or more."""

    clocks: Sequence[Clock]

    def busy(self, begin_ns: int, end_ns: int) -> Busy:
        """Return the times in which any of them used CPU time that reach into a time."""
        return Busy(*map(np.concatenate, zip(*(one.busy(begin_ns, end_ns) for one in self.clocks), strict=True)))

    @cached_property
    def reads_ns(self) -> Times:
        """The times of all reads, increasing."""
        return np.sort(np.concatenate([one.t_ns for one in self.clocks]))

    @property
    def busy_ns(self) -> tuple[Times, Times]:
        """When the times begin and end in which any thread used CPU time."""
        used = [(one.t_ns, np.diff(one.cpu_s) > 0) for one in self.clocks]
        begins_ns, ends_ns = zip(*((t_ns[:-1][which], t_ns[1:][which]) for t_ns, which in used), strict=True)
        return np.concatenate(begins_ns), np.concatenate(ends_ns)

    @cached_property
    def spells(self) -> tuple[Times, Times]:
        """When the pool works: at any time between is some thread between two such reads."""
        begin_ns, end_ns = self.busy_ns
        order = np.argsort(begin_ns)
        begin_ns, end_ns = begin_ns[order], np.maximum.accumulate(end_ns[order])
        cut = np.flatnonzero(begin_ns[1:] > end_ns[:-1])
        return np.append(begin_ns[:1], begin_ns[cut + 1]), np.append(end_ns[cut], end_ns[-1:])

    def near(self, runs: Runs) -> Runs:
        """Return the runs in which the pool works."""
        begin_ns, end_ns = self.spells
        begun = np.searchsorted(begin_ns, runs.end_ns)
        return runs.kept(begun > np.searchsorted(end_ns, runs.begin_ns, side="right"))


@dataclass(frozen=True)
class Rules:
    """How a pool is cut.

    Attributes
    ----------
    spins_ns : how long the pool may go on spinning after a call. While another task than the caller's runs and the
        pool has not rested in between, its CPU time is unidentified
    calls_since_ns : the runs are the times inside calls, with task -1 where no task called, and between them the pool
        spins; calls before this time may be missing; None: the runs are those of tasks that may have called
    call_spins_ns : how long the pool may spin after a call at most; 0: not known
    unsure : which tasks use the pool is not known yet: after any other task its CPU time is unidentified until it rests
    users : the tasks that are known to use it, while others only may; None: all do
    """

    spins_ns: int = 0
    calls_since_ns: int | None = None
    call_spins_ns: int = 0
    unsure: bool = False
    users: Numbers | None = None

    @property
    def rest_ns(self) -> int:
        """How long a pool is idle that has rested."""
        return LONG_REST_NS if self.spins_ns else 0

    def is_sure(self, runs: Runs) -> Marks:
        """Return which runs are of tasks that are known to use the pool."""
        return np.ones(len(runs.task), bool) if self.users is None else np.isin(runs.task, self.users)

    def unexplained_s(self, cut: NativeSegments) -> float:
        """Return the CPU seconds of a pool, cut by its calls, while no call was going on nor had just ended."""
        if self.calls_since_ns is None:
            return 0.0
        calm_ns = cut.t_ns[:-1] - cut.ended_ns
        late = (cut.kind == SPINNING) & (calm_ns > 2 * self.call_spins_ns) & (self.call_spins_ns > 0)
        unexplained = ((cut.kind == OUTSIDE) & (cut.running == 0)) | late
        return float(cut.cpu_s[unexplained & (cut.t_ns[1:] > self.calls_since_ns + UNSEEN_NS)].sum())


@dataclass(frozen=True)
class Parts:
    """The parts of a recording in which pools are found, one after the other.

    Attributes
    ----------
    begins_ns, end_ns : when they begin, and when the last one ends
    within_ns : from when to when pools count; None: always
    tasks : their number
    grid_ns : times up to which the pools' CPU seconds are asked
    """

    begins_ns: Times
    within_ns: tuple[int, int] | None
    tasks: int
    grid_ns: Times
    end_ns: int = LONG_NS


class CutSums:
    """Sums over the segments of a pool.

    Attributes
    ----------
    cpu_s, unexplained_s : CPU seconds, and those that calls do not explain
    by_task : (3, tasks + 1) modelled energy by counters, CPU seconds that were counted, and all, by task
    beside_s : (tasks,) CPU seconds while each task ran
    spins_after : tasks that the pool span after
    is_unidentified : whether any segment may be one of several tasks'
    low_s, length_s : seconds in which the pool was idle, and all
    outside, on : seconds and CPU seconds while no task ran, and while one did
    begins : how often the pool began to work while no task ran
    """

    def __init__(self, parts: Parts) -> None:
        """Begin without segments."""
        self.cpu_s = self.unexplained_s = self.low_s = self.length_s = 0.0
        self.by_task, self.beside_s = np.zeros((3, parts.tasks + 1)), np.zeros(parts.tasks)
        self.spins_after = set[int]()
        self.is_unidentified = self._works = False
        self.outside, self.on, self.begins = np.zeros(2), np.zeros(2), 0
        self._grid_ns, self._used_s, self._known = parts.grid_ns, np.zeros(len(parts.grid_ns)), 0

    def used_s(self) -> Floats:
        """Return the CPU seconds from the first of the times to each of them."""
        self._used_s[self._known :] = self.cpu_s
        return self._used_s - self._used_s[:1]

    def add(self, cut: NativeSegments, rules: Rules) -> None:
        """Add segments that follow those before."""
        length_s = np.diff(cut.t_ns) * 1e-9
        first, self._known = np.searchsorted(self._grid_ns, (cut.t_ns[0], cut.t_ns[-1])).tolist()
        until_s = self.cpu_s + np.append(0.0, np.cumsum(cut.cpu_s))
        self._used_s[first : self._known] = np.interp(self._grid_ns[first : self._known], cut.t_ns, until_s)
        self.cpu_s = float(until_s[-1])
        self.unexplained_s += rules.unexplained_s(cut)
        tasks = len(self.beside_s)
        self.by_task += cut.by_task((cut.counted, cut.counted_s, cut.cpu_s), tasks)
        self.beside_s += cut.beside(cut.cpu_s, tasks)
        self.spins_after |= set(cut.after[(cut.kind == SPINNING) & (cut.cpu_s > 0)].tolist())
        self.is_unidentified |= bool((cut.kind == UNIDENTIFIED).any())
        low, on, outside = cut.cpu_s < IDLE * length_s, cut.running > 0, cut.kind == OUTSIDE
        self.low_s += float(length_s[low].sum())
        self.length_s += float(length_s.sum())
        for target, which in ((self.outside, outside), (self.on, on)):
            target[:] += length_s[which].sum(), cut.cpu_s[which].sum()
        works = outside & ~low
        self.begins += int((works & ~np.append(self._works, works[:-1])).sum())
        self._works = bool(works[-1])


class History(NamedTuple):
    """What is known of a pool where a part of a recording begins.

    Attributes
    ----------
    ended : the user's run that ended last, and before it the last one of another task
    begin_ns, rested_ns : where the segment begins that goes on there, and the last one in which the pool rested
    """

    ended: Runs
    begin_ns: int
    rested_ns: int


class PoolCut:
    """How a pool is cut, with sums over all its segments.

    Attributes
    ----------
    usage, source, rules, parts : of the pool, and of the recording: what users ran in a time; how it is cut
    tasks : that ran while the pool worked
    whole, sums : over all segments, and over those in the time in which pools count
    late : instances, in which part of the recording they ended, and a later one in which the pool spins after them
    """

    def __init__(self, usage: Usage, source: Source, rules: Rules, parts: Parts) -> None:
        """Cut it once, part after part."""
        self.usage, self.source, self.rules, self.parts = usage, source, rules, parts
        self.tasks = set[int]()
        self.whole = self.sums = CutSums(parts)
        if parts.within_ns is not None:
            self.sums = CutSums(parts)
        self._extremes_s = np.zeros((2, parts.tasks))
        self._life_ns = self._reached(int(usage.reads_ns[0]), int(usage.reads_ns[-1]))
        self._histories = [History(Runs.none(), -LONG_NS, -LONG_NS)]
        self.late: list[tuple[int, int, int]] = []
        for number, (begin_ns, end_ns) in enumerate(pairwise((*parts.begins_ns.tolist(), parts.end_ns))):
            self._add(number, begin_ns, end_ns)

    def _reached(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """Return from when to when the pool lives, or a task runs in which it works."""
        begins_ns, ends_ns = self.usage.spells
        at_ns = (*begins_ns[:1].tolist(), *ends_ns[-1:].tolist())
        runs = self.usage.near(Runs.joined([self.source(t_ns, t_ns) for t_ns in at_ns]))
        return int(np.min(runs.begin_ns, initial=begin_ns)), int(np.max(runs.end_ns, initial=end_ns))

    def _add(self, number: int, begin_ns: int, end_ns: int) -> None:
        """Add a part of the recording."""
        found, history = self._cut(begin_ns, end_ns, self._histories[number])
        self._histories.append(history)
        own = None if found is None else found.limited(begin_ns, end_ns)
        if found is None or own is None:
            return
        self.tasks |= set(np.unique(found.runs.task).tolist())
        self.whole.add(own, self.rules)
        self._note_late(number, found.between(begin_ns, end_ns) or found)
        within_ns = self.parts.within_ns
        inside = None if within_ns is None else own.limited(*within_ns)
        if inside is not None:
            self.sums.add(inside, self.rules)
        self._add_extremes(found, begin_ns, end_ns)

    def _note_late(self, number: int, own: NativeSegments) -> None:
        """Note instances that ended in parts before one in which the pool spins after them."""
        spins = own.kind == SPINNING
        ended = np.maximum(np.searchsorted(self.parts.begins_ns, own.ended_ns[spins], side="right") - 1, 0)
        late = ended < number
        known = zip(own.instance[spins][late].tolist(), ended[late].tolist(), strict=True)
        self.late += [(instance, part, number) for instance, part in dict.fromkeys(known)]

    def _add_extremes(self, found: NativeSegments, begin_ns: int, end_ns: int) -> None:
        """Add what tasks used at least and at most of the CPU time between reads of which the first is in a part."""
        busy = self.usage.busy(begin_ns, end_ns)
        own = (busy.begin_ns >= begin_ns) & (busy.begin_ns < end_ns)
        busy = Busy._make(one[own] for one in busy)
        begun, ended = (np.searchsorted(found.t_ns, one) for one in (busy.begin_ns, busy.end_ns))
        count, length_ns = len(found.cpu_s), np.diff(found.t_ns)
        runs = found.runs
        tasks = np.unique(runs.task[runs.task < self.parts.tasks]).tolist()
        all_running = [over(found.first[at], found.last[at], count) > 0 for at in (runs.task == one for one in tasks)]
        several = np.sum(all_running, axis=0) > 1

        def between_s(which: Marks) -> Floats:
            until_ns = np.append(0, np.cumsum(np.where(which, length_ns, 0)))
            return np.asarray((until_ns[ended] - until_ns[begun]) * 1e-9)

        length_s = (busy.end_ns - busy.begin_ns) * 1e-9
        for task, runs_here in zip(tasks, all_running, strict=True):
            least_s = np.maximum(busy.cpu_s - (length_s - between_s(runs_here & ~several)), 0.0).sum()
            self._extremes_s[:, task] += least_s, np.minimum(busy.cpu_s, between_s(runs_here)).sum()

    @property
    def extremes_s(self) -> Floats:
        """The CPU seconds that each task used at least and at most in the time in which pools count, (2, tasks).

        What is not certain of all of it may all lie in that time.
        """
        own_s, whole_s = (one.by_task[2][:-1] for one in (self.sums, self.whole))
        least_s, most_s = self._extremes_s
        if self.sums is self.whole:
            return self._extremes_s
        least_s = np.maximum(own_s - np.maximum(whole_s - least_s, 0.0), 0.0)
        return np.stack((least_s, np.minimum(own_s + np.maximum(most_s - whole_s, 0.0), self.sums.cpu_s)))

    def between(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the segments that lie between two times, cut to the time in which pools count; None without any."""
        first_ns, last_ns = self.parts.within_ns or EVER
        begin_ns, end_ns = max(begin_ns, first_ns), min(end_ns, last_ns)
        if begin_ns >= end_ns:
            return None
        begins_ns = self.parts.begins_ns
        number = max(int(np.searchsorted(begins_ns, begin_ns, side="right")) - 1, 0)
        found, _ = self._cut(int(begins_ns[number]), end_ns, self._histories[number])
        found = None if found is None else found.between(begin_ns, end_ns)
        return found if found is None or self.parts.within_ns is None else found.limited(first_ns, last_ns)

    def _cut(self, begin_ns: int, end_ns: int, history: History) -> tuple[NativeSegments | None, History]:
        """Return the segments in a time and those that reads there reach into, and the history of what comes after."""
        rules = self.rules
        low_ns, high_ns = max(begin_ns - rules.rest_ns, self._life_ns[0]), min(end_ns + rules.rest_ns, self._life_ns[1])
        if low_ns > high_ns:
            return None, history
        busy = self.usage.busy(low_ns, high_ns)
        first_ns = int(np.min(busy.begin_ns, initial=low_ns))
        last_ns = int(np.max(busy.end_ns, initial=high_ns))
        every = self.source(first_ns, last_ns)
        runs = self.usage.near(every)
        # In its first segment a pool may have been for long.
        until, stop = np.searchsorted(self.usage.reads_ns, (first_ns, last_ns), side="right").tolist()
        reads_ns = self.usage.reads_ns[max(until - 1, 0) : stop]
        t_ns = np.concatenate((reads_ns, runs.begin_ns, runs.end_ns, [history.begin_ns]))
        first_ns = int(np.max(t_ns[t_ns <= first_ns], initial=self._life_ns[0]))
        t_ns = distinct(np.append(t_ns[(t_ns > first_ns) & (t_ns < last_ns)], (first_ns, last_ns)))
        if len(t_ns) < 2:
            return None, history
        starts_ns, count = t_ns[:-1], len(t_ns) - 1
        first, last = (np.searchsorted(t_ns, np.clip(one, first_ns, last_ns)) for one in (runs.begin_ns, runs.end_ns))
        sure = rules.is_sure(runs)
        running, task = _running(runs.task[sure], first[sure], last[sure], count)
        doubtful = over(first[~sure], last[~sure], count) > 0
        rates = _rates(busy, t_ns, running > 0)
        cpu_s, counted_s, counted = (np.where(running > 0, *both) * np.diff(t_ns) * 1e-9 for both in rates)
        rests = long_spells(np.maximum(*rates[0]) < IDLE, t_ns, rules.rest_ns)
        ended = Runs.joined([history.ended, every.kept(rules.is_sure(every))])
        ended = ended.kept(np.argsort(ended.end_ns, kind="stable"))
        instance, after, ended_ns, other_ns = _before(ended, starts_ns, task)
        instance[(running > 0) | doubtful] = 0
        if rules.calls_since_ns is not None:  # a thread that spins may also wait for a core
            rests &= starts_ns - ended_ns >= rules.spins_ns
        rested_ns = np.maximum(np.maximum.accumulate(np.where(rests, starts_ns, -LONG_NS)), history.rested_ns)
        kind = np.where(task >= 0, OF_TASK, np.where(task == SEVERAL, UNIDENTIFIED, OUTSIDE)).astype(np.int8)
        kind[doubtful] = UNIDENTIFIED
        kind[(instance > 0) & (rested_ns < ended_ns)] = SPINNING
        if (rules.spins_ns or rules.unsure) and rules.calls_since_ns is None:
            # The pool may still spin after another task: it has not rested since.
            spins_ns = LONG_NS if rules.unsure else rules.spins_ns
            kind[(kind == OF_TASK) & (starts_ns - other_ns < spins_ns) & (rested_ns < other_ns)] = UNIDENTIFIED
        known = runs.task >= 0
        found = NativeSegments(
            t_ns, cpu_s, counted_s, counted, kind, task, running, instance, after, ended_ns, runs.kept(known),
            first[known], last[known],
        )  # fmt: skip
        before = max(int(np.searchsorted(starts_ns, end_ns)) - 1, 0)
        return found, History(_latest(ended, end_ns), int(starts_ns[before]), int(rested_ns[before]))


def distinct(t_ns: Times) -> Times:
    """Return different times in order: `numpy.unique` takes longer where most of them differ."""
    t_ns = np.sort(t_ns)
    return np.asarray(t_ns[np.append(True, np.diff(t_ns) > 0)])


def over(first: Numbers, last: Numbers, count: int, weights: NDArray[Any] | None = None) -> Floats:
    """Return for each of so many segments the sum of the weights of all that goes from a first one up to a last one."""
    weights = np.ones(len(first)) if weights is None else weights
    steps = np.bincount(first, weights, count + 1) - np.bincount(last, weights, count + 1)
    sums = np.cumsum(steps)[:count]
    # What is left when a weight has been taken off again is nothing.
    sums[sums < LEAST_RATE * np.max(weights, initial=0.0)] = 0.0
    return sums


def _running(tasks: Numbers, first: Numbers, last: Numbers, count: int) -> tuple[NDArray[np.int32], Numbers]:
    """Return for each segment the number of runs, of which these are the tasks, and which task they all are of."""
    known, place = np.unique(tasks, return_inverse=True)
    # Whole numbers below 2 ** 53, so these sums are exact. All are equal if count * sum of squares = square of sum.
    running, total, squares = (over(first, last, count, place.astype(np.float64) ** power) for power in range(3))
    at = np.where(running * squares == total**2, total / np.maximum(running, 1), len(known)).astype(np.int64)
    task = np.append(known, SEVERAL)[at]
    return running.astype(np.int32), np.where(running > 0, task, NO_TASK)


def _rates(busy: Busy, t_ns: Times, on: Marks) -> list[tuple[Floats, Floats]]:
    """Return what a pool uses per second in each segment if its users run, and if they do not.

    As much of its CPU time as fits is used while they do. First are CPU seconds, then those that were counted, last the
    modelled energy of these.
    """
    begun, ended = (np.searchsorted(t_ns, one) for one in (busy.begin_ns, busy.end_ns))
    on_until_ns = np.append(0, np.cumsum(np.where(on, np.diff(t_ns), 0)))
    ran_ns, cpu_ns = on_until_ns[ended] - on_until_ns[begun], busy.cpu_s * 1e9
    off_ns = busy.end_ns - busy.begin_ns - ran_ns
    # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
    inside_ns = np.where(ran_ns > 0, np.maximum(np.minimum(cpu_ns, ran_ns), cpu_ns - off_ns), 0.0)
    both = inside_ns / np.maximum(ran_ns, 1), (cpu_ns - inside_ns) / np.maximum(off_ns, 1)
    rates = [np.where(rate > LEAST_RATE, rate, 0.0) for rate in both]
    weights = np.ones(len(ran_ns)), ~np.isnan(busy.power), np.nan_to_num(busy.power)
    on_rates, off_rates = ([over(begun, ended, len(on), rate * one) for one in weights] for rate in rates)
    return list(zip(on_rates, off_rates, strict=True))


def long_spells(idle: Marks, edges_ns: Times, least_ns: int) -> Marks:
    """Return the idle times, (n,) between edges, (n + 1,), that are part of a longer one of at least this length."""
    begins = np.flatnonzero(np.append(True, idle[1:] != idle[:-1])[: len(idle)])
    ends = np.append(begins[1:], len(idle))[: len(begins)]
    return np.asarray(idle & np.repeat(edges_ns[ends] - edges_ns[begins] >= least_ns, ends - begins))


def _latest(ended: Runs, t_ns: int) -> Runs:
    """Return of runs in order of their ends the last one that ended by a time, and the last one of another task."""
    task = ended.task[: np.searchsorted(ended.end_ns, t_ns, side="right")]
    other = np.flatnonzero(task != task[-1:])[-1:]
    return ended.kept(np.append(other, np.arange(len(task))[-1:]))


def _before(ended: Runs, t_ns: Times, task: Numbers) -> tuple[NDArray[np.uint64], Numbers, Times, Times]:
    """Return instance, task and end of the run that ended last by each time, and when the last of another task did."""
    ends_ns, of_task = np.append(-LONG_NS, ended.end_ns), np.append(-2, ended.task)
    changed = np.append(False, of_task[1:] != of_task[:-1])
    other = np.maximum(np.maximum.accumulate(np.where(changed, np.arange(len(changed)), 0)) - 1, 0)
    last = np.searchsorted(ends_ns, t_ns, side="right") - 1
    instance = np.append(np.uint64(0), ended.instance)[last]
    other_ns = ends_ns[np.where(of_task[last] == task, other[last], last)]
    return instance, np.maximum(of_task[last], -1), ends_ns[last], other_ns
