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
from tprof.trace.long_sorts import changes, distinct_values, sorted_values, without_repeats

from .segments import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED, NativeSegments, Runs

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
        alive, grid_ns = _alive(clocks, reads_ns), without_repeats(reads_ns)
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


class OnTimes:
    """When users ran.

    Attributes
    ----------
    on_ns : (n,) between two distinct times of reads, how long users ran
    reach_ns : the first and the last moment at which a segment of the pool begins or ends
    """

    def __init__(self, usage: Usage) -> None:
        """Begin without segments."""
        self._padded_ns = zeros(len(usage.grid_ns) + 1, np.int64)
        self.on_ns = self._padded_ns[1:-1]
        self.reach_ns = int(usage.grid_ns[0]), int(usage.grid_ns[-1])

    def add(self, t_ns: Times, at: NDArray[np.intp], on: Marks) -> None:
        """Add segments: where they begin and end, between which reads, and whether users ran."""
        self.reach_ns = min(self.reach_ns[0], int(t_ns[0])), max(self.reach_ns[1], int(t_ns[-1]))
        first = int(at[0])
        sums = np.bincount(at - first, weights=np.where(on, np.diff(t_ns), 0))
        self._padded_ns[first : first + len(sums)] += sums.astype(np.int64)
        release(self._padded_ns)


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


def rates_of(usage: Usage, on_times: OnTimes, rest_ns: int) -> Rates:
    """Return the rates: as much of a pool's CPU time as fits is used while its users run.

    A pool that is idle for less than `rest_ns` has not rested.
    """
    on_until_ns = running_sums(on_times.on_ns)
    steps = _Steps(len(usage.grid_ns) - 1, _highest(usage.power))
    for at in blocks(len(usage.cpu_s)):
        first, last = usage.first[at], usage.last[at]
        on_ns, cpu_ns = on_until_ns[last] - on_until_ns[first], usage.cpu_s[at] * 1e9
        off_ns = usage.end_ns[at] - usage.begin_ns[at] - on_ns
        # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
        inside = np.where(on_ns > 0, np.maximum(np.minimum(cpu_ns, on_ns), cpu_ns - off_ns), 0.0)
        share = _Share(on_ns, off_ns, inside / np.maximum(on_ns, 1), (cpu_ns - inside) / np.maximum(off_ns, 1))
        steps.add(first, last, share, None if usage.power is None else usage.power[at])
        usage.release()
        release(on_until_ns)
    off, on, touches = steps.rates()
    before_ns, after_ns = on_times.reach_ns
    edges_ns = joined(np.int64, (np.array([before_ns]), usage.grid_ns, np.array([after_ns])))

    def is_idle(at: slice) -> Marks:
        runs, rests = (one[at] for one in touches)
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


class _Share(NamedTuple):
    """Of times between two reads how long users ran in them and did not, and the pool's CPU time per ns of both."""

    on_ns: Times
    off_ns: Times
    on: Floats
    off: Floats


class _Steps:
    """Sums of rates that hold from one cell to another, as what they change from cell to cell."""

    def __init__(self, cells: int, highest: float | None) -> None:
        """Begin without rates, whose highest power is known, or none."""
        self._cells, self._highest = cells, highest
        self._of_time, self._touches = (self._begun() for _ in range(2))
        self._counted = [self._begun() for _ in range(2)] if highest is not None else []

    def _begun(self) -> list[Times]:
        return [zeros(self._cells + 1, np.int64) for _ in range(2)]

    def add(self, first: NDArray[np.int32], last: NDArray[np.int32], share: _Share, power: Floats | None) -> None:
        """Add those of some times between two reads."""
        for target, rate in zip(self._of_time, (share.off, share.on), strict=True):
            _add_rates(target, first, last, rate)
        for target, length_ns in zip(self._touches, (share.off_ns, share.on_ns), strict=True):
            _add_rates(target, first, last, length_ns > 0)
        if power is None or self._highest is None:
            return
        known = ~np.isnan(power)
        parts = known, np.where(known, power / self._highest, 0.0)
        for targets, rate in zip(self._counted, (share.off, share.on), strict=True):
            for target, part in zip(targets, parts, strict=True):
                _add_rates(target, first, last, rate * part)

    def rates(self) -> tuple[list[Floats], list[Floats], tuple[Marks, Marks]]:
        """Return those while no user runs and while users do, and in which cells users run and do not, all padded."""
        nothing = np.broadcast_to(0.0, self._cells + 2)
        off, on = ([self._rates(step)] for step in self._of_time)
        for number, found in enumerate((off, on)):
            found += [nothing, nothing]
            if self._highest is not None:
                found[1:] = map(self._rates, self._counted[number], (1.0, self._highest))
        stands, runs = (self._rates(step) for step in self._touches)
        return off, on, (_is_some(runs), _is_some(stands))

    def _rates(self, step: Times, unit: float = 1.0) -> Floats:
        sums = running_sums(step)
        padded = zeros(self._cells + 2, np.float64)
        for at in blocks(self._cells, sums, padded):
            padded[at.start + 1 : at.stop + 1] = unit * (sums[at.start + 1 : at.stop + 1] / _FIXED)
        return padded


def _is_some(values: Floats) -> Marks:
    return computed(len(values), bool, lambda at: values[at] > 0, values)


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
    """

    spins_ns: int = 0
    calls_known: bool = False

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
    rest_ns : where the last segment before that one begins in which the pool rested
    """

    begin_ns: int | None
    ended: Runs
    rest_ns: int

    @classmethod
    def none(cls) -> History:
        """Return that of the begin of a recording."""
        return cls(None, Runs.none(), -LONG_NS)


@dataclass(frozen=True)
class Cells:
    """The segments of a pool in a part of a recording, and which users run in them.

    Attributes
    ----------
    t_ns : (n + 1,) where segments begin and end
    at : (n,) where they are among the reads, as in `Rates`
    near : the users' runs at whose time the pool used CPU time
    first, last : for each of these the segments where it begins and ends
    running, one_task, task : (n,) number of runs, whether all are of one task, and this task
    doubtful : (n,) whether a doubtful user runs
    ended : users' runs that ended, those of before too
    calm_ns : (n,) begin less the latest end of a run
    """

    t_ns: Times
    at: NDArray[np.intp]
    near: Runs
    first: Numbers
    last: Numbers
    running: NDArray[np.int32]
    one_task: Marks
    task: Numbers
    doubtful: Marks
    ended: Runs
    calm_ns: Times


def cells_of(usage: Usage, runs: Runs, part_ns: tuple[int, int], history: History) -> Cells | None:
    """Return the segments that end in a part of a recording, None if there are none.

    Parameters
    ----------
    usage : of the pool
    runs : of its possible users, all that reach into the part
    part_ns : which part
    history : of its begin
    """
    begin_ns = part_ns[0]
    near = runs.kept(usage.is_busy_in(runs))
    t_ns = _edges_in(usage, near, part_ns)
    if history.begin_ns is not None:
        t_ns = np.concatenate((np.array([history.begin_ns]), t_ns))
    if len(t_ns) < 2:
        return None
    count = len(t_ns) - 1
    first, last = (np.minimum(np.searchsorted(t_ns, one), count) for one in (near.begin_ns, near.end_ns))
    sure = ~near.doubtful
    running, one_task, task = _running(near.kept(sure), first[sure], last[sure], count)
    doubtful = _running(near.kept(~sure), first[~sure], last[~sure], count)[0] > 0
    ended = Runs.joined([history.ended, runs.kept(~runs.doubtful & (runs.end_ns >= begin_ns))])
    calm_ns = t_ns[:-1] - _latest_end(ended, t_ns[:-1])
    at = np.searchsorted(usage.grid_ns, t_ns[:-1], side="right")
    return Cells(t_ns, at, near, first, last, running, one_task, task, doubtful, ended, calm_ns)


def _edges_in(usage: Usage, near: Runs, part_ns: tuple[int, int]) -> Times:
    """Return the times in a part of a recording at which clocks were read or runs begin or end."""
    low, high = np.searchsorted(usage.grid_ns, part_ns)
    t_ns = np.concatenate((near.begin_ns, near.end_ns))
    return distinct_values(np.concatenate((usage.grid_ns[low:high], t_ns[(t_ns >= part_ns[0]) & (t_ns < part_ns[1])])))


class Kinds(NamedTuple):
    """Of segments the kind, instance and task that they follow, when that ended, and whether the pool rests."""

    kind: NDArray[np.int8]
    instance: NDArray[np.uint64]
    after: Numbers
    ended_ns: Times
    rests: Marks


def kinds_of(cells: Cells, rates: Rates, rules: Rules, history: History) -> Kinds:
    """Return what the segments are."""
    on, task, t_ns = cells.running > 0, cells.task, cells.t_ns
    kind = np.where(~on, OUTSIDE, np.where(cells.one_task, OF_TASK, UNIDENTIFIED)).astype(np.int8)
    kind[cells.one_task & (task < 0)] = OUTSIDE
    rests = rates.rests[cells.at]
    if rules.calls_known:  # a thread that spins may also wait for a core
        rests = rests & (cells.calm_ns >= rules.spins_ns)
    rested_ns = np.maximum(np.maximum.accumulate(np.where(rests, t_ns[:-1], -LONG_NS)), history.rest_ns)
    instance, after, ended_ns = _after(cells.ended, t_ns, on, rested_ns)
    kind[instance > 0] = SPINNING
    if rules.spins_ns and not rules.calls_known:
        kind[_carried_over(cells.ended, t_ns, task, kind == OF_TASK, rested_ns, rules.spins_ns)] = UNIDENTIFIED
    kind[cells.doubtful] = UNIDENTIFIED
    instance[cells.doubtful], after[cells.doubtful] = 0, -1
    return Kinds(kind, instance, after, ended_ns, rests)


def cut_of(cells: Cells, rates: Rates, kinds: Kinds) -> NativeSegments:
    """Return the segments with their CPU time."""
    length_s, runs = np.diff(cells.t_ns) * 1e-9, cells.running > 0
    cpu_s, counted_s, counted = (
        np.where(runs, on[cells.at], off[cells.at]) * length_s for on, off in zip(rates.on, rates.off, strict=True)
    )
    of_task = cells.near.task >= 0
    return NativeSegments(
        cells.t_ns, cpu_s, counted_s, counted, kinds.kind, np.where(kinds.kind == OF_TASK, cells.task, -1),
        cells.running, kinds.instance, kinds.after, kinds.ended_ns, cells.near.kept(of_task), cells.first[of_task],
        cells.last[of_task],
    )  # fmt: skip


def next_history(
    usage: Usage, cells: Cells | None, runs: Runs, kinds: Kinds | None, history: History, part_ns: tuple[int, int]
) -> History:
    """Return the history of what comes after a part; without `kinds` no rests are known."""
    begin_ns, rest_ns, end_ns = history.begin_ns, history.rest_ns, part_ns[1]
    ended = Runs.joined([history.ended, runs.kept(~runs.doubtful)]) if cells is None else cells.ended
    if cells is not None:
        begin_ns = int(cells.t_ns[-1])
        if kinds is not None and kinds.rests.any():
            rest_ns = int(cells.t_ns[:-1][kinds.rests][-1])
    elif begin_ns is None:
        # The first segment may begin with the only time that there is.
        begin_ns = next(iter(_edges_in(usage, runs.kept(usage.is_busy_in(runs)), part_ns).tolist()), None)
    ended = ended.kept(np.argsort(ended.end_ns, kind="stable"))
    ends = [int(np.searchsorted(ended.end_ns, end_ns))]
    if begin_ns is not None:
        ends.insert(0, int(np.searchsorted(ended.end_ns, begin_ns, side="right")))
    return History(begin_ns, Runs.joined([_latest(ended, one) for one in dict.fromkeys(ends)]), rest_ns)


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


def _after(runs: Runs, t_ns: Times, on: Marks, rested_ns: Times) -> tuple[NDArray[np.uint64], Numbers, Times]:
    """Return for each segment without users instance, task and end of the run that ended last, if any since a rest."""
    if not len(runs.end_ns):
        return np.zeros(len(on), np.uint64), np.full(len(on), -1, np.int64), np.full(len(on), -LONG_NS)
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns = runs.end_ns[order]
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    follows = ~on & (before >= 0)
    last = order[np.maximum(before, 0)]
    follows &= rested_ns < runs.end_ns[last]
    instance = np.where(follows, runs.instance[last], np.uint64(0))
    return instance, np.where(follows, runs.task[last], -1), runs.end_ns[last]


def _latest_end(runs: Runs, at_ns: Times) -> Times:
    """Return for each time the latest end of a run up to it."""
    ends_ns = np.concatenate(([-LONG_NS], np.sort(runs.end_ns)))
    return np.asarray(ends_ns[np.searchsorted(ends_ns, at_ns, side="right") - 1])


def _carried_over(runs: Runs, t_ns: Times, task: Numbers, own: Marks, rested_ns: Times, spins_ns: int) -> Marks:
    """Return the segments of a task in which the pool may still spin after another task: it has not rested since."""
    if not len(runs.end_ns):
        return np.zeros(len(own), bool)
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns, of_task = runs.end_ns[order], runs.task[order]
    # The last end before one that was of another task than this one.
    changed = np.concatenate(([False], of_task[1:] != of_task[:-1]))
    other = np.maximum.accumulate(np.where(changed, np.arange(len(order)), 0)) - 1
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    same = (before >= 0) & (of_task[np.maximum(before, 0)] == task)
    last = np.where(same, other[np.maximum(before, 0)], before)
    last_ns = np.where(last >= 0, ends_ns[np.maximum(last, 0)], -LONG_NS)
    return np.asarray(own & (t_ns[:-1] - last_ns < spins_ns) & (rested_ns < last_ns))
