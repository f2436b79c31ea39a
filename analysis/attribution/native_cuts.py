"""Cuts the CPU time of one pool of native threads where a user begins or ends and where a clock was read.

A thread's clock is read about every 5 ms, so only the CPU time between two reads is known. As much of it as fits falls
into the time in which a user of the pool ran, evenly; the rest lies after a user's end. A call of a library waits for
its pool, so what a pool does while its user runs is the user's, also if the pool's threads only spin.

A pool's threads are added up, so the cost is O(samples + reads) whatever the number of threads. A part of a recording
is cut as in the whole if it is known how the pool came into it: its `History`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_sorts import distinct_values

from .native_rates import LONG_REST_NS, Usage
from .native_time import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED, NativeSegments, Runs

if TYPE_CHECKING:
    from .native_rates import Rates

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Marks = NDArray[np.bool_]
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

    def at(self, begin_ns: int) -> History:
        """Return the same for a part that begins elsewhere, where a segment is cut."""
        return replace(self, begin_ns=begin_ns)

    def behind(self, rows: int) -> History:
        """Return the same with the rows of its instances behind so many others."""
        return self.with_rows(np.where(self.ended.row >= 0, self.ended.row + rows, -1))

    def with_rows(self, row: Numbers) -> History:
        """Return the same with other rows of its instances."""
        return replace(self, ended=replace(self.ended, row=row))


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


def cells_of(
    usage: Usage, runs: Runs, part_ns: tuple[int, int], history: History, last_ns: int | None = None
) -> Cells | None:
    """Return the segments in a part of a recording, None if there are none.

    Parameters
    ----------
    usage : of the pool
    runs : of its possible users, all that reach into the part
    part_ns : which part
    history : of its begin
    last_ns : where the segment ends that reaches over the end of the part; None: it is left out
    """
    begin_ns = part_ns[0]
    near = runs.kept(usage.is_busy_in(runs))
    t_ns = _edges_in(usage, near, part_ns)
    if history.begin_ns is not None:
        t_ns = np.concatenate((np.array([history.begin_ns]), t_ns))
    if last_ns is not None and len(t_ns) and t_ns[-1] < last_ns:
        t_ns = np.append(t_ns, last_ns)
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
    """Of segments, what kind they are, row and task that they follow, and whether the pool rests."""

    kind: NDArray[np.int8]
    row: Numbers
    after: Numbers
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
    row, after = _after(cells.ended, t_ns, on, rested_ns)
    kind[row >= 0] = SPINNING
    if rules.spins_ns and not rules.calls_known:
        kind[_carried_over(cells.ended, t_ns, task, kind == OF_TASK, rested_ns, rules.spins_ns)] = UNIDENTIFIED
    kind[cells.doubtful] = UNIDENTIFIED
    row[cells.doubtful], after[cells.doubtful] = -1, -1
    return Kinds(kind, row, after, rests)


def cut_of(process: int, usage: Usage, cells: Cells, rates: Rates, kinds: Kinds, *, packages: bool) -> NativeSegments:
    """Return the segments with their CPU time, without the tasks' extremes."""
    length_s, runs = np.diff(cells.t_ns) * 1e-9, cells.running > 0
    cpu_s, counted_s, counted = (
        np.where(runs, on[cells.at], off[cells.at]) * length_s for on, off in zip(rates.on, rates.off, strict=True)
    )
    unknown = np.full(len(cpu_s), -1, np.int16) if packages else None
    of_task = cells.near.task >= 0
    return NativeSegments(
        process, cells.t_ns, cpu_s, counted_s, counted, cpu_s, kinds.kind,
        np.where(kinds.kind == OF_TASK, cells.task, -1), cells.running, kinds.row, kinds.after,
        cells.near.kept(of_task), cells.first[of_task], cells.last[of_task], usage.reads_ns, usage.threads,
        np.empty(0, np.int64), np.empty(0), np.empty(0), unknown, unknown,
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


def _after(runs: Runs, t_ns: Times, on: Marks, rested_ns: Times) -> tuple[Numbers, Numbers]:
    """Return for each segment without users row and task of the run that ended last; -1 if the pool rested since."""
    if not len(runs.end_ns):
        return np.full(len(on), -1, np.int64), np.full(len(on), -1, np.int64)
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns = runs.end_ns[order]
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    follows = ~on & (before >= 0)
    last = order[np.maximum(before, 0)]
    follows &= rested_ns < runs.end_ns[last]
    return np.where(follows, runs.row[last], -1), np.where(follows, runs.task[last], -1)


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
