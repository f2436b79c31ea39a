"""Cuts the CPU time of one pool of native threads where a user begins or ends and where a clock was read.

A thread's clock is read about every 5 ms, so only the CPU time between two reads is known. As much of it as fits falls
into the time in which a user of the pool ran, evenly; the rest lies after a user's end. A call of a library waits for
its pool, so what a pool does while its user runs is the user's, also if the pool's threads only spin.

A pool is cut once, in all of a recording. Its threads are added up, so the cost is O(runs + reads) whatever their
number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .segments import (
    LONG_NS,
    OF_TASK,
    OUTSIDE,
    SEGMENT,
    SPINNING,
    UNIDENTIFIED,
    Ended,
    NativeSegments,
    joined,
    table,
    touching,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .segments import Runs

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
STEPS = 1 << 47
"""Rates are added as whole numbers of so many parts, so that nothing is left when one has been taken off again."""
AT_ONCE = 1 << 16
"""Segments of a pool that are found together."""
NO_TASK, SEVERAL = -1, -2
"""In place of the task that runs."""


class Clock(NamedTuple):
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

    def reaching(self, begin_ns: int, end_ns: int) -> Clock:
        """Return the reads in a time, and those before and after it."""
        first = max(int(np.searchsorted(self.t_ns, begin_ns, side="right")) - 1, 0)
        at = slice(first, int(np.searchsorted(self.t_ns, end_ns)) + 1)
        power = None if self.power is None else self.power[first : at.stop - 1]
        return Clock(self.t_ns[at], self.cpu_s[at], power)


@dataclass(frozen=True)
class Usage:
    """The clocks of all threads of a pool, each with two reads or more."""

    clocks: Sequence[Clock]

    @cached_property
    def reads_ns(self) -> Times:
        """The times of all reads, increasing."""
        return in_order([one.t_ns for one in self.clocks])

    @property
    def busy_ns(self) -> tuple[Times, Times]:
        """When the times between two reads begin and end in which any thread used CPU time."""
        used = [np.diff(one.cpu_s) > 0 for one in self.clocks]
        begins, ends = (
            np.concatenate([one.t_ns[part][which] for one, which in zip(self.clocks, used, strict=True)])
            for part in (slice(None, -1), slice(1, None))
        )
        return begins, ends

    @cached_property
    def spells(self) -> tuple[Times, Times]:
        """When the pool works: at any time between is some thread between two such reads."""
        begin_ns, end_ns = self.busy_ns
        order = np.argsort(begin_ns, kind="stable")
        begin_ns, end_ns = begin_ns[order], np.maximum.accumulate(end_ns[order])
        cut = np.flatnonzero(begin_ns[1:] > end_ns[:-1])
        return np.append(begin_ns[:1], begin_ns[cut + 1]), np.append(end_ns[cut], end_ns[-1:])

    def near(self, runs: Runs) -> Runs:
        """Return the runs in which the pool works."""
        begin_ns, end_ns = self.spells
        begun = np.searchsorted(begin_ns, runs["end_ns"])
        return runs[begun > np.searchsorted(end_ns, runs["begin_ns"], side="right")]


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
        return np.ones(len(runs), bool) if self.users is None else np.isin(runs["task"], self.users)

    def unexplained_s(self, cut: NativeSegments) -> float:
        """Return the CPU seconds of a pool, cut by its calls, while no call was going on nor had just ended."""
        calm_ns = cut.t_ns[:-1] - cut.last("end_ns")
        late = (cut.kind == SPINNING) & (calm_ns > 2 * self.call_spins_ns) & (self.call_spins_ns > 0)
        unexplained = ((cut.kind == OUTSIDE) & (cut.table["running"] == 0)) | late
        return float(cut.cpu_s[unexplained & (cut.t_ns[1:] > (self.calls_since_ns or 0) + UNSEEN_NS)].sum())


def cut_pool(usage: Usage, threads: Sequence[Runs], rules: Rules) -> NativeSegments:
    """Cut a pool.

    Parameters
    ----------
    usage : of the pool
    threads : what users ran on each thread with samples, in order
    rules : how it is cut
    """
    cut = _Cut.of(usage, threads, rules)
    rows, rested_ns = np.empty(len(cut.t_ns) - 1, SEGMENT), -LONG_NS
    for low in range(0, len(rows), AT_ONCE):
        at = slice(low, min(low + AT_ONCE, len(rows)))
        rows[at], rested_ns = cut.part(at, rested_ns)
    return NativeSegments(cut.t_ns, rows, cut.ended, [one[one["task"] >= 0] for one in cut.near])


class _Cut(NamedTuple):
    """A pool that is cut part by part: `near` are the runs in which it works, `t_ns` the edges of its segments."""

    usage: Usage
    rules: Rules
    near: Sequence[Runs]
    ended: Ended
    t_ns: Times

    @classmethod
    def of(cls, usage: Usage, threads: Sequence[Runs], rules: Rules) -> _Cut:
        """Find the edges."""
        near = [usage.near(one) for one in threads]
        t_ns = (usage.reads_ns, *(one[name] for one in near for name in ("begin_ns", "end_ns")))
        ended = Ended.of(joined([one[rules.is_sure(one)] for one in threads]))
        return cls(usage, rules, near, ended, distinct(in_order(t_ns)))

    def part(self, at: slice, rested_ns: int) -> tuple[NDArray[np.void], int]:
        """Return some segments, and when the pool last rested by their end; `rested_ns` is that by their begin."""
        rules, (clocks, around) = self.rules, self._around(at)
        t_ns = self.t_ns[around]
        starts_ns, count = t_ns[:-1], len(t_ns) - 1
        runs = joined([touching(one, int(t_ns[0]), int(t_ns[-1])) for one in self.near])
        first, last = (np.searchsorted(t_ns, np.clip(runs[name], t_ns[0], t_ns[-1])) for name in ("begin_ns", "end_ns"))
        sure = rules.is_sure(runs)
        running, task = _running(runs["task"][sure], first[sure], last[sure], count)
        doubtful = over(first[~sure], last[~sure], count) > 0
        used, idle = _use(clocks, t_ns, running > 0)
        before = np.searchsorted(self.ended.end_ns, starts_ns, side="right") - 1
        ended_ns, instance, after, other_ns = (one[before] for one in self.ended)
        other_ns = np.where(after == task, other_ns, ended_ns)
        rests = long_spells(idle, t_ns, rules.rest_ns)
        if rules.calls_since_ns is not None:  # a thread that spins may also wait for a core
            rests &= starts_ns - ended_ns >= rules.spins_ns
        rests_ns = np.maximum(np.maximum.accumulate(np.where(rests, starts_ns, -LONG_NS)), rested_ns)
        kind = np.where(task >= 0, OF_TASK, np.where(task == SEVERAL, UNIDENTIFIED, OUTSIDE))
        kind[doubtful] = UNIDENTIFIED
        kind[(instance > 0) & (running == 0) & ~doubtful & (rests_ns < ended_ns)] = SPINNING
        if (rules.spins_ns or rules.unsure) and rules.calls_since_ns is None:
            # The pool may still spin after another task: it has not rested since.
            spins_ns = LONG_NS if rules.unsure else rules.spins_ns
            kind[(kind == OF_TASK) & (starts_ns - other_ns < spins_ns) & (rests_ns < other_ns)] = UNIDENTIFIED
        own = slice(at.start - around.start, at.stop - around.start)
        columns: list[NDArray[Any]] = [*used, before, task, running, kind]
        return table(SEGMENT, *(one[own] for one in columns)), int(rests_ns[own.stop - 1])

    def _around(self, at: slice) -> tuple[list[Clock], slice]:
        """Return the reads, and the edges, that say what segments are."""
        begin_ns, end_ns = int(self.t_ns[at.start]) - self.rules.rest_ns, int(self.t_ns[at.stop]) + self.rules.rest_ns
        clocks = [one.reaching(begin_ns, end_ns) for one in self.usage.clocks]
        begins_ns, ends_ns = Usage(clocks).busy_ns
        first = int(np.searchsorted(self.t_ns, np.min(begins_ns, initial=begin_ns), side="right")) - 1
        last = int(np.searchsorted(self.t_ns, np.max(ends_ns, initial=end_ns)))
        return clocks, slice(max(first, 0), min(last + 1, len(self.t_ns)))


def extremes_s(usage: Usage, cut: NativeSegments, tasks: int) -> Floats:
    """Return the CPU seconds that each task used at least and at most, (2, tasks)."""
    runs, (first, last), count = cut.runs, cut.spans, len(cut)
    present = np.unique(runs["task"][runs["task"] < tasks]).tolist()

    def is_running(task: int) -> Marks:
        own = runs["task"] == task
        return over(first[own], last[own], count) > 0

    number = sum((is_running(task).astype(np.int32) for task in present), np.zeros(count, np.int32))
    places = [np.searchsorted(cut.t_ns, one.t_ns) for one in usage.clocks]
    found = np.zeros((2, tasks))
    for task in present:
        runs_here = is_running(task)
        ran_ns, alone_ns = (_until_ns(cut.t_ns, which) for which in (runs_here, runs_here & (number < 2)))
        for one, at in zip(usage.clocks, places, strict=True):
            used_s, ran_s = np.diff(one.cpu_s), np.diff(ran_ns[at]) * 1e-9
            others_s = np.diff(one.t_ns - alone_ns[at]) * 1e-9
            found[:, task] += np.maximum(used_s - others_s, 0.0).sum(), np.minimum(used_s, ran_s).sum()
    return found


def _until_ns(t_ns: Times, which: Marks) -> Times:
    """Return how much of the time up to each edge lies in some segments, (n + 1,)."""
    return np.append(0, np.cumsum(np.where(which, np.diff(t_ns), 0)))


def in_order(parts: Sequence[Times]) -> Times:
    """Return times in order, of which most are in order in each part: a stable sort merges these."""
    return np.sort(np.concatenate(parts), kind="stable")


def distinct(t_ns: Times) -> Times:
    """Return different ones of times in order."""
    return np.asarray(t_ns[np.append(True, np.diff(t_ns) > 0)])


def over(first: Numbers, last: Numbers, count: int, weights: Floats | None = None) -> Floats:
    """Return for each of so many segments the sum of whole numbers of what goes from a first one up to a last one."""
    steps = np.bincount(first, weights, count + 1) - np.bincount(last, weights, count + 1)
    return np.cumsum(steps)[:count]


def _running(tasks: Numbers, first: Numbers, last: Numbers, count: int) -> tuple[NDArray[np.int32], Numbers]:
    """Return for each segment the number of runs, of which these are the tasks, and which task they all are of."""
    known, place = np.unique(tasks, return_inverse=True)
    # Whole numbers below 2 ** 53, so these sums are exact. All are equal if count * sum of squares = square of sum.
    running, total, squares = (over(first, last, count, place.astype(np.float64) ** power) for power in range(3))
    at = np.where(running * squares == total**2, total / np.maximum(running, 1), len(known)).astype(np.int64)
    task = np.append(known, SEVERAL)[at]
    return running.astype(np.int32), np.where(running > 0, task, NO_TASK)


def _use(clocks: Sequence[Clock], t_ns: Times, on: Marks) -> tuple[list[Floats], Marks]:
    """Return what a pool used in each segment, and in which it is idle.

    As much of its CPU time between two reads as fits is used in segments in which its users run (`on`). First are CPU
    seconds, then those that were counted, last the modelled energy of these.
    """
    powers = [1.0 if one.power is None else float(np.nanmax(one.power, initial=1.0)) for one in clocks]
    units, kept = (1.0, 1.0, max(powers)), 1 if all(one.power is None for one in clocks) else 3
    # Of rates in segments with users, and in others.
    steps, on_until_ns = np.zeros((2, 3, len(t_ns)), np.int64), _until_ns(t_ns, on)
    for one in clocks:
        at = np.minimum(np.searchsorted(t_ns, one.t_ns), len(on))
        used_ns, ran_ns = np.diff(one.cpu_s) * 1e9, np.diff(on_until_ns[at])
        off_ns = np.diff(t_ns[at]) - ran_ns
        # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
        inside_ns = np.where(ran_ns > 0, np.maximum(np.minimum(used_ns, ran_ns), used_ns - off_ns), 0.0)
        both = inside_ns / np.maximum(ran_ns, 1), (used_ns - inside_ns) / np.maximum(off_ns, 1)
        power = np.full(len(used_ns), np.nan) if one.power is None else one.power
        weights = (np.ones(len(power)), ~np.isnan(power), np.nan_to_num(power))
        for target, rate in zip(steps, both, strict=True):
            rate_steps = np.where(rate > LEAST_RATE, rate, 0.0) * STEPS
            for sums, weight, unit in zip(target[:kept], weights, units, strict=False):
                more = np.rint(rate_steps * (weight / unit)).astype(np.int64)
                sums[at[:-1]] += more
                sums[at[1:]] -= more
    rates, length_s = np.cumsum(steps, axis=-1)[..., :-1], np.diff(t_ns) * 1e-9
    here, idle = np.where(on, rates[0], rates[1]), rates[:, 0].max(axis=0) < IDLE * STEPS
    return [rate * (unit / STEPS) * length_s for rate, unit in zip(here, units, strict=True)], np.asarray(idle)


def long_spells(idle: Marks, edges_ns: Times, least_ns: int) -> Marks:
    """Return the idle times, (n,) between edges, (n + 1,), that are part of a longer one of at least this length."""
    begins = np.flatnonzero(np.append(True, idle[1:] != idle[:-1])[: len(idle)])
    ends = np.append(begins[1:], len(idle))[: len(begins)]
    return np.asarray(idle & np.repeat(edges_ns[ends] - edges_ns[begins] >= least_ns, ends - begins))
