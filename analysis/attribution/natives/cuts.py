"""Cuts the CPU time of one pool of native threads where a user begins or ends and where a clock was read.

A thread's clock is read about every 5 ms, so only the CPU time between two reads is known. As much of it as fits falls
into the time in which a user of the pool ran, evenly; the rest lies after a user's end. A call of a library waits for
its pool, so what a pool does while its user runs is the user's, also if the pool's threads only spin.

How fast a pool uses CPU time follows from its reads and the time in which users ran between them, not from when exactly
they did. What is known of each read is computed block by block, and is in files where there are many (`long_arrays`).

A pool's threads are added up, so the cost is O(samples + reads) whatever the number of threads. A part of a recording
is cut as in the whole since it is known how the pool came into it: its `History`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.errors import TprofError
from tprof.trace.long_arrays import blocks, computed, differences, joined, kept, release, running_sums, zeros
from tprof.trace.long_sorts import changes, distinct_values, first_rows, sorted_values

from .segments import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .segments import Clock


Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Marks = NDArray[np.bool_]

IDLE = 0.02
"""A pool that uses less than this part of a core between two reads is idle: whatever it did before has ended."""
LONG_REST_NS = 60_000_000
"""A spinning thread that waits for a core on a busy machine waits less: after so long a pool that spins has rested."""
_FIXED = float(1 << 40)
"""Rates are summed as integers in these units, so that nothing is left when a rate has been taken off again."""
MOST_READS = 2**31 - 2
"""Of a pool: places among them have 32 bits."""
_MOST_RATE = 100.0
"""CPU seconds per second; more of one thread is damage."""


def long_spells(idle: Marks, edges_ns: Times, least_ns: int) -> Marks:
    """Return the idle times, (n,) between edges, (n + 1,), that are part of a longer one of at least this length."""
    if not least_ns or not len(idle):
        return idle
    count = len(idle)
    begins = kept(computed(count, np.int64, lambda at: np.arange(at.start, at.stop)), lambda at: changes(idle, at))
    ends = joined(np.int64, (begins[1:], np.array([count])))
    is_long = computed(
        len(begins), bool, lambda at: edges_ns[ends[at]] - edges_ns[begins[at]] >= least_ns, begins, ends, edges_ns
    )

    def of_part(at: slice) -> Marks:
        spell = np.searchsorted(begins, np.arange(at.start, at.stop), side="right") - 1
        return np.asarray(idle[at] & is_long[spell])

    return computed(count, bool, of_part, idle, is_long, begins)


@dataclass(frozen=True)
class Usage:
    """What all threads of a pool used between two reads of each one's clock, one after the other: (n,) each.

    Attributes
    ----------
    begin_ns, end_ns, cpu_s : of the time between two reads
    power : modelled energy per CPU second by counters, NaN where it is not known; None: nowhere
    reads_ns : sorted times of all reads
    threads : how many threads are read between two of these, (reads,)
    grid_ns : the distinct times of reads
    """

    begin_ns: Times
    end_ns: Times
    cpu_s: Floats
    power: Floats | None
    reads_ns: Times
    threads: NDArray[np.int64]
    grid_ns: Times

    @classmethod
    def of(cls, clocks: Sequence[Clock]) -> Usage:
        """Take the clocks of a pool's threads, each with two reads or more."""
        begin_ns, end_ns = (joined(np.int64, [one.t_ns[part] for one in clocks]) for part in (np.s_[:-1], np.s_[1:]))
        power = None
        if any(one.power is not None for one in clocks):
            nowhere = (np.broadcast_to(np.nan, len(one.t_ns) - 1) for one in clocks)
            known = (other if one.power is None else one.power for one, other in zip(clocks, nowhere, strict=True))
            power = joined(np.float64, known)
        cpu_s = joined(np.float64, [differences(one.cpu_s) for one in clocks])
        reads_ns = sorted_values(joined(np.int64, [one.t_ns for one in clocks]))
        if len(reads_ns) > MOST_READS:
            raise TprofError(
                f"a pool of native threads has {len(reads_ns):,} readings, and at most {MOST_READS:,} are known"
            )
        alive, grid_ns = _alive(clocks, reads_ns), first_rows([reads_ns])[0]
        return cls(begin_ns, end_ns, cpu_s, power, reads_ns, alive, grid_ns)

    @cached_property
    def first(self) -> NDArray[np.int32]:
        """Of each time between two reads the place of its begin among the distinct times."""
        return self._places(self.begin_ns)

    @cached_property
    def last(self) -> NDArray[np.int32]:
        """Of each time between two reads the place of its end among the distinct times."""
        return self._places(self.end_ns)

    def _places(self, t_ns: Times) -> NDArray[np.int32]:
        return computed(len(t_ns), np.int32, lambda at: np.searchsorted(self.grid_ns, t_ns[at]), t_ns, self.grid_ns)

    @cached_property
    def most_threads(self) -> int:
        """How many threads were read between two reads, at most."""
        return max((int(self.threads[at].max()) for at in blocks(len(self.threads), self.threads)), default=1)

    def release(self) -> None:
        """Leave to the kernel what is in files."""
        known = (one for one in (self.power, *(vars(self).get(name) for name in ("first", "last"))) if one is not None)
        release(self.begin_ns, self.end_ns, self.cpu_s, self.reads_ns, self.threads, self.grid_ns, *known)

    @cached_property
    def _busy(self) -> tuple[Times, Times]:
        begins, ends = (sorted_values(kept(one, lambda at: self.cpu_s[at] > 0)) for one in (self.begin_ns, self.end_ns))
        release(self.cpu_s)
        return begins, ends

    def is_busy_in(self, runs: Runs) -> Marks:
        """Return the runs that touch a time between two reads in which any thread used CPU time."""
        begins, ends = self._busy
        begun = np.searchsorted(begins, runs.end_ns, side="left")
        is_busy = begun > np.searchsorted(ends, runs.begin_ns, side="right")
        release(begins, ends)
        return is_busy


def _alive(clocks: Sequence[Clock], reads_ns: Times) -> NDArray[np.int64]:
    begun = np.sort([int(one.t_ns[0]) for one in clocks])
    ended = np.sort([int(one.t_ns[-1]) for one in clocks])

    def of_part(at: slice) -> NDArray[np.int64]:
        alive = np.searchsorted(begun, reads_ns[at], side="right") - np.searchsorted(ended, reads_ns[at], side="left")
        return np.asarray(np.maximum(alive, 1))

    return computed(len(reads_ns), np.int64, of_part, reads_ns)


@dataclass(frozen=True)
class Rates:
    """What a pool used per second between two distinct times of reads; padded with what is before and after: (n + 2,).

    Attributes
    ----------
    off, on : CPU seconds, those that were counted, and the modelled energy of these, each (n + 2,), while no user runs
        and while users do
    rests : whether the pool rested
    """

    off: Sequence[Floats]
    on: Sequence[Floats]
    rests: Marks

    def release(self) -> None:
        """Leave to the kernel what is in files."""
        release(*self.off, *self.on, self.rests)


def rates_of(usage: Usage, on_ns: Times, reach_ns: tuple[int, int], rest_ns: int) -> Rates:
    """Return the rates: as much of a pool's CPU time as fits is used while its users run.

    Parameters
    ----------
    usage : of the pool
    on_ns : (n,) between two distinct times of reads, how long users ran
    reach_ns : where the first segment begins, and the last one ends
    rest_ns : a pool that is idle for less has not rested
    """
    on_until_ns, highest = running_sums(on_ns), _highest(usage.power)
    count = len(usage.grid_ns)
    # CPU seconds, and whether there is any time; by counters, those that were counted, and their modelled energy.
    units = (1.0, 1.0) if highest is None else (1.0, 1.0, 1.0, highest)
    steps = [[zeros(count, np.int64) for _ in range(2)] for _ in units]
    for at in blocks(len(usage.cpu_s)):
        first, last = usage.first[at], usage.last[at]
        ran_ns, cpu_ns = on_until_ns[last] - on_until_ns[first], usage.cpu_s[at] * 1e9
        off_ns = usage.end_ns[at] - usage.begin_ns[at] - ran_ns
        # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
        inside = np.where(ran_ns > 0, np.maximum(np.minimum(cpu_ns, ran_ns), cpu_ns - off_ns), 0.0)
        rates = (cpu_ns - inside) / np.maximum(off_ns, 1), inside / np.maximum(ran_ns, 1)
        of_time: list[tuple[NDArray[Any], ...]] = [rates, (off_ns > 0, ran_ns > 0)]
        if usage.power is not None and highest is not None:
            known = ~np.isnan(usage.power[at])
            power = np.where(known, usage.power[at] / highest, 0.0)
            of_time += [(rates[0] * part, rates[1] * part) for part in (known, power)]
        for targets, values in zip(steps, of_time, strict=True):
            for target, value in zip(targets, values, strict=True):
                _add_rates(target, first, last, value)
        usage.release()
        release(on_until_ns)
    seconds, touches, *counted = (
        [_padded(step, unit) for step in both] for both, unit in zip(steps, units, strict=True)
    )
    nothing = np.broadcast_to(0.0, count + 1)
    off, on = ([seconds[at], *([one[at] for one in counted] or [nothing, nothing])] for at in range(2))
    before_ns, after_ns = min(reach_ns[0], int(usage.grid_ns[0])), max(reach_ns[1], int(usage.grid_ns[-1]))
    edges_ns = joined(np.int64, (np.array([before_ns]), usage.grid_ns, np.array([after_ns])))

    def is_idle(at: slice) -> Marks:
        rests, runs = (one[at] > 0 for one in touches)
        rate = np.where(runs & rests, np.maximum(on[0][at], off[0][at]), np.where(runs, on[0][at], off[0][at]))
        return np.asarray(rate < IDLE)

    idle = computed(len(edges_ns) - 1, bool, is_idle, on[0], off[0], *touches)
    return Rates(off, on, long_spells(idle, edges_ns, rest_ns))


def _highest(power: Floats | None) -> float | None:
    """Return the highest power that is known; None if none is."""
    if power is None:
        return None
    found = (power[at][~np.isnan(power[at])].max(initial=-np.inf) for at in blocks(len(power), power))
    highest = float(max(found, default=-np.inf))
    return None if highest == -np.inf else highest


def _padded(step: Times, unit: float) -> Floats:
    """Return the rates between the distinct times of reads, from what changes at each of these."""
    sums, count = running_sums(step), len(step) - 1
    padded = zeros(count + 2, np.float64)
    for at in blocks(count, sums, padded):
        padded[at.start + 1 : at.stop + 1] = unit * (sums[at.start + 1 : at.stop + 1] / _FIXED)
    return padded


def _add_rates(step: Times, first: NDArray[np.int32], last: NDArray[np.int32], rate: NDArray[Any]) -> None:
    fixed = np.round(np.minimum(rate, _MOST_RATE) * _FIXED).astype(np.int64)
    np.add.at(step, first, fixed)
    np.subtract.at(step, last, fixed)
    release(step)


Numbers = NDArray[np.int64]

LONG_NS = 1 << 62
EVER = (-LONG_NS, LONG_NS)


@dataclass(frozen=True)
class Rules:
    """How a pool is cut.

    Attributes
    ----------
    spins_ns : how long the pool may go on spinning after a call. While another task than the caller's runs and the
        pool has not rested in between, its CPU time is unidentified
    calls_known : the runs are the times inside calls, with task -1 where no task called; between them the pool spins
    unsure : which tasks use the pool is not known yet: after any other task its CPU time is unidentified until it rests
    """

    spins_ns: int = 0
    calls_known: bool = False
    unsure: bool = False

    @property
    def rest_ns(self) -> int:
        """How long a pool is idle that has rested."""
        return LONG_REST_NS if self.spins_ns else 0


@dataclass(frozen=True)
class History:
    """What is known of a pool where a part of a recording begins.

    Attributes
    ----------
    begin_ns : where the segment begins that goes on there; None: no segment does
    ended : of the users' runs that ended before those that a later segment may follow
    """

    begin_ns: int | None
    ended: Runs

    @classmethod
    def none(cls) -> History:
        """Return that of the begin of a recording."""
        return cls(None, Runs.none())


class Cells(NamedTuple):
    """The segments of a pool that end in a part of a recording, and which users run in them.

    Attributes
    ----------
    t_ns : (n + 1,) where segments begin and end
    kind : (n,) int8, that of a pool that rests whenever no user runs
    task : (n,) int64, the task of all users that run; -1: none, or several
    running : (n,) how many runs there are
    instance, after : (n,) of the run that ended last, where no user runs, its instance and task
    ended_ns, other_ns : (n,) when that one ended, and the last one of another task than `task`
    """

    t_ns: Times
    kind: NDArray[np.int8]
    task: Numbers
    running: NDArray[np.int32]
    instance: NDArray[np.uint64]
    after: Numbers
    ended_ns: Times
    other_ns: Times


def cells_of(near: Runs, ended: Runs, t_ns: Times, begin_ns: int | None) -> Cells | None:
    """Return the segments that end in a part of a recording, None if there are none.

    Parameters
    ----------
    near : the runs that reach into the part at whose time the pool used CPU time
    ended : runs that end in it or ended before
    t_ns : the times in it at which segments begin
    begin_ns : where the segment begins that goes on there; None: no segment does
    """
    if begin_ns is not None:
        t_ns = np.concatenate((np.array([begin_ns]), t_ns))
    if len(t_ns) < 2:
        return None
    count = len(t_ns) - 1
    first, last = (np.minimum(np.searchsorted(t_ns, one), count) for one in (near.begin_ns, near.end_ns))
    sure = ~near.doubtful
    running, one_task, task = _running(near.kept(sure), first[sure], last[sure], count)
    doubtful = _running(near.kept(~sure), first[~sure], last[~sure], count)[0] > 0
    of_task = one_task & (task >= 0)
    kind = np.where(of_task, OF_TASK, np.where((running > 0) & ~one_task, UNIDENTIFIED, OUTSIDE)).astype(np.int8)
    kind[doubtful] = UNIDENTIFIED
    instance, after, ended_ns, other_ns = _before(ended, t_ns[:-1], task)
    instance[(running > 0) | doubtful] = 0
    return Cells(t_ns, kind, task, running, instance, after, ended_ns, other_ns)


def edges_in(usage: Usage, near: Runs, part_ns: tuple[int, int]) -> Times:
    """Return the times in a part of a recording at which clocks were read or runs begin or end."""
    low, high = np.searchsorted(usage.grid_ns, part_ns)
    t_ns = np.concatenate((near.begin_ns, near.end_ns))
    return distinct_values(np.concatenate((usage.grid_ns[low:high], t_ns[(t_ns >= part_ns[0]) & (t_ns < part_ns[1])])))


def settle_kinds(cells: Cells, rests: Marks, rested_ns: int, rules: Rules) -> int:
    """Set the kinds of segments by when the pool rested, and return where the last one begins in which it does.

    Parameters
    ----------
    cells : the segments, whose kinds are set in place
    rests : (n,) whether the pool used next to no CPU time
    rested_ns : where the last segment before them begins in which it rested
    rules : of the pool
    """
    kind, begin_ns = cells.kind, cells.t_ns[:-1]
    if rules.calls_known:  # a thread that spins may also wait for a core
        rests = rests & (begin_ns - cells.ended_ns >= rules.spins_ns)
    since_ns = np.maximum(np.maximum.accumulate(np.where(rests, begin_ns, -LONG_NS)), rested_ns)
    kind[(cells.instance > 0) & (since_ns < cells.ended_ns)] = SPINNING
    if (rules.spins_ns or rules.unsure) and not rules.calls_known:
        # The pool may still spin after another task: it has not rested since.
        spins_ns = LONG_NS if rules.unsure else rules.spins_ns
        spins = (begin_ns - cells.other_ns < spins_ns) & (since_ns < cells.other_ns)
        kind[(kind == OF_TASK) & spins] = UNIDENTIFIED
    return int(since_ns[-1])


def next_history(cells: Cells | None, t_ns: Times, ended: Runs, begin_ns: int | None, end_ns: int) -> History:
    """Return the history of what comes after a part of a recording.

    Parameters
    ----------
    cells : the segments that end there; None: none does
    t_ns : the times there at which segments begin
    ended : runs that end there or ended before
    begin_ns : where the segment begins that goes on there; None: no segment does
    end_ns : of the part
    """
    if cells is not None:
        begin_ns = int(cells.t_ns[-1])
    elif begin_ns is None and len(t_ns):  # the first segment may begin with the only time that there is
        begin_ns = int(t_ns[0])
    ended = ended.kept(np.argsort(ended.end_ns, kind="stable"))
    ends = [int(np.searchsorted(ended.end_ns, end_ns))]
    if begin_ns is not None:
        ends.insert(0, int(np.searchsorted(ended.end_ns, begin_ns, side="right")))
    return History(begin_ns, Runs.joined([_latest(ended, one) for one in dict.fromkeys(ends)]))


def _latest(ended: Runs, count: int) -> Runs:
    """Return of the first runs in order of their ends the last one, and before it the last one of another task."""
    if not count:
        return Runs.none()
    other = np.flatnonzero(ended.task[:count] != ended.task[count - 1])[-1:]
    return ended.kept(np.append(other, count - 1))


def _running(runs: Runs, first: Numbers, last: Numbers, cells: int) -> tuple[NDArray[np.int32], Marks, Numbers]:
    """Return for each cell the number of runs, whether all are of one task, and this task."""

    def over(weights: Floats) -> Floats:
        begun = np.bincount(first, weights=weights, minlength=cells + 1)
        return np.cumsum(begun - np.bincount(last, weights=weights, minlength=cells + 1))[:cells]

    # Whole numbers below 2 ** 53, so these sums are exact. All are equal if count * sum of squares = square of sum.
    tasks = np.flatnonzero(np.bincount(runs.task + 1)) - 1
    place = np.searchsorted(tasks, np.arange(-1, tasks.max(initial=-1) + 1)).astype(np.float64)[runs.task + 1]
    count, total, squares = over(np.ones(len(place))), over(place), over(place**2)
    one_task = (count > 0) & (count * squares == total**2)
    at = np.where(one_task, total / np.maximum(count, 1), len(tasks)).astype(np.int64)
    return count.astype(np.int32), one_task, np.append(tasks, -1)[at].astype(np.int64)


def _before(runs: Runs, t_ns: Times, task: Numbers) -> tuple[NDArray[np.uint64], Numbers, Times, Times]:
    """Return instance, task and end of the run that ended last by each time, and when the last of another task did."""
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns, of_task = np.append(-LONG_NS, runs.end_ns[order]), np.append(-2, runs.task[order])
    changed = np.append(False, of_task[1:] != of_task[:-1])
    other = np.maximum(np.maximum.accumulate(np.where(changed, np.arange(len(changed)), 0)) - 1, 0)
    last = np.searchsorted(ends_ns, t_ns, side="right") - 1
    instance = np.append(np.uint64(0), runs.instance[order])[last]
    other_ns = ends_ns[np.where(of_task[last] == task, other[last], last)]
    return instance, np.maximum(of_task[last], -1), ends_ns[last], other_ns
