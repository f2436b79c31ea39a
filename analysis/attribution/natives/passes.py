"""Passes over a recording, part after part, that find when users of a pool ran and what its segments are.

A part is a window of a long recording, or all of one in memory. What is kept are sums, and files of segments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import Appended, AppendedColumns, blocks, release, zeros

from .calls import run_at, runs_of_calls
from .cuts import EVER, IDLE, LONG_NS, Cells, History, cells_of, edges_in, next_history, rates_of, settle_kinds
from .segments import (
    OF_TASK,
    OUTSIDE,
    SPINNING,
    UNIDENTIFIED,
    Extremes,
    NativeSegments,
    Runs,
    extremes_within,
    runs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .calls import Explained, ThreadsCalls
    from .cuts import Rules, Usage
    from .onsets import Onsets
    from .segments import RanThread

    Source = Callable[["Block"], tuple[Runs, Runs]]


Floats = NDArray[np.float64]
CELLS = {
    "kind": np.int8, "task": np.int64, "running": np.int32, "instance": np.uint64, "after": np.int64,
    "ended_ns": np.int64, "other_ns": np.int64,
}  # fmt: skip
"""What is stored of each segment of a pool, as `Cells`."""


def distinct_tasks(task: NDArray[np.int64]) -> list[int]:
    """Return the different tasks among some, without -1."""
    top = int(task.max(initial=-1))
    return np.flatnonzero(np.bincount(task[task >= 0], minlength=top + 1)).tolist()


class CutSums:
    """Sums over the segments of a pool.

    Attributes
    ----------
    cpu_s, missing_s : CPU seconds, and those that calls do not explain
    by_task : (3, tasks + 1) modelled energy by counters, CPU seconds that were counted, and all, by task
    beside_s : (tasks,) CPU seconds while each task ran
    served, spins_after : tasks that got CPU time, and that the pool span after
    is_unidentified : whether any segment may be one of several tasks'
    """

    def __init__(self, tasks: int, grid_ns: NDArray[np.int64]) -> None:
        """Begin without segments; `grid_ns` are the times up to which CPU seconds are asked."""
        self.cpu_s = self.missing_s = 0.0
        self.by_task, self.beside_s = np.zeros((3, tasks + 1)), np.zeros(tasks)
        self.served: set[int] = set()
        self.spins_after: set[int] = set()
        self._used_s, self._known = np.zeros(len(grid_ns)), 0
        self.is_unidentified = False
        self.low_s = self.length_s = 0.0
        self.outside, self.on = np.zeros(2), np.zeros(2)
        self.begins, self._works = 0, False
        self._tasks, self._grid_ns = tasks, grid_ns

    def used_s(self) -> Floats:
        """Return the CPU seconds from the first of the times to each of them."""
        used_s = self._used_s.copy()
        used_s[self._known :] = self.cpu_s
        return used_s - used_s[0] if len(used_s) else used_s

    def add(self, cut: NativeSegments, missing_s: float) -> None:
        """Add segments that follow those before."""
        length_s = np.diff(cut.t_ns) * 1e-9
        until_s = np.concatenate(([self.cpu_s], self.cpu_s + np.cumsum(cut.cpu_s)))
        first, last = np.searchsorted(self._grid_ns, (cut.t_ns[0], cut.t_ns[-1]))
        self._used_s[first:last] = np.interp(self._grid_ns[first:last], cut.t_ns, until_s)
        self._known = int(last)
        self.cpu_s = float(until_s[-1])
        self.missing_s += missing_s
        self.by_task += cut.by_task((cut.counted, cut.counted_s, cut.cpu_s), self._tasks)
        self.beside_s += cut.beside(cut.cpu_s, self._tasks)
        self.served |= set(distinct_tasks(cut.task[(cut.kind == OF_TASK) & (cut.cpu_s > 0)]))
        self.spins_after |= set(distinct_tasks(cut.after[(cut.kind == SPINNING) & (cut.cpu_s > 0)]))
        self.is_unidentified |= bool((cut.kind == UNIDENTIFIED).any())
        low = cut.cpu_s < IDLE * length_s
        on, outside = cut.running > 0, cut.kind == OUTSIDE
        self.low_s += float(length_s[low].sum())
        self.length_s += float(length_s.sum())
        for target, which in ((self.outside, outside), (self.on, on)):
            target[:] += length_s[which].sum(), cut.cpu_s[which].sum()
        works = outside & ~low
        self.begins += int((works & ~np.concatenate(([self._works], works[:-1]))).sum())
        self._works = bool(works[-1])


Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """A part of a recording.

    Attributes
    ----------
    part_ns : from when to when
    segments : of each thread with samples, those that reach into it; None: it has none there
    """

    part_ns: tuple[int, int]
    segments: Sequence[RanThread | None]


@dataclass(frozen=True)
class Facts:
    """What the passes need to know of a recording.

    Attributes
    ----------
    tasks : their number
    grid_ns : times up to which the pools' CPU seconds are asked
    begins_ns : where the parts of the recording begin
    within_ns : from when to when pools count; None: always
    """

    tasks: int
    grid_ns: NDArray[np.int64]
    begins_ns: NDArray[np.int64]
    within_ns: tuple[int, int] | None = None


@dataclass(frozen=True)
class TaskRuns:
    """All times in which tasks ran on some threads.

    Attributes
    ----------
    which : indices of the threads
    caller_computes : leave out the times in which a task only waited
    only : the only task that counts; None: all do
    possible, users : tasks that can be users, and those that are; None: all
    """

    which: Sequence[int]
    caller_computes: bool
    only: int | None
    possible: Numbers | None = None
    users: Numbers | None = None

    def __call__(self, block: Block) -> tuple[Runs, Runs]:
        """Return those that reach into a part of a recording, and moments at which the pool may begin to spin."""
        runs = runs_of(block.segments, self.which, caller_computes=self.caller_computes)
        if self.only is not None:
            runs = runs.kept(runs.task == self.only)
        if self.possible is not None:
            runs = runs.kept(np.isin(runs.task, self.possible))
        if self.users is not None:
            doubtful = ~np.isin(runs.task, self.users)
            runs = replace(runs, doubtful=doubtful)
        return runs, Runs.none()


@dataclass(frozen=True)
class CallRuns:
    """The times inside calls.

    Attributes
    ----------
    calls : of a library
    caller : index of the only thread whose calls count; None: all do
    only : the only task that counts; None: all do
    births : when the pool's threads were created, and the creating threads' indices
    """

    calls: ThreadsCalls
    caller: int | None
    only: int | None
    births: Sequence[tuple[int, int]]

    def __call__(self, block: Block) -> tuple[Runs, Runs]:
        """Return those that reach into a part of a recording, and moments at which the pool may begin to spin."""
        runs = runs_of_calls(self.calls, block.segments, block.part_ns, self.caller)
        if self.only is not None:
            runs = runs.kept(runs.task == self.only)
        return runs, Runs.joined([run_at(block.segments, index, at_ns) for index, at_ns in self.births])


class PoolPass:
    """Finds when users of a pool run, and what its segments are.

    These, and the users' runs that reach into each part of the recording, are in files where they are many.

    Attributes
    ----------
    usage : of the pool
    tasks : that ran
    is_called : whether a task gave work to the pool
    whole, sums : once it is finished, over all segments, and over those in the time in which pools count
    """

    def __init__(
        self,
        usage: Usage,
        source: Source,
        rules: Rules,
        facts: Facts,
        onsets: Onsets | None = None,
        explained: Explained | None = None,
    ) -> None:
        """Begin before the first part.

        Parameters
        ----------
        usage, source, rules : of the pool
        facts : of the recording
        onsets : notes when tasks ran around the moments at which the pool begins to work
        explained : when calls explain what the pool does; None: they need not
        """
        self.usage, self.tasks, self.is_called = usage, set[int](), False
        self._source, self._rules, self._facts, self._onsets, self._explained = source, rules, facts, onsets, explained
        self._users, self._history = set[int](), History.none()
        self._times, self._cells, self._starts = Appended(np.int64), AppendedColumns(*CELLS.values()), [0]
        self._runs, self._run_starts = AppendedColumns(np.int64, np.int64, np.uint64, np.int64), [0]
        self._padded_ns = zeros(len(usage.grid_ns) + 1, np.int64)
        self.whole = self.sums = CutSums(facts.tasks, facts.grid_ns)
        if facts.within_ns is not None:
            self.sums = CutSums(facts.tasks, facts.grid_ns)

    def add(self, block: Block) -> None:
        """Add a part of the recording."""
        (runs, further), part_ns, begin_ns = self._source(block), block.part_ns, self._history.begin_ns
        self.is_called |= bool((runs.task >= 0).any())
        if self._onsets is not None:
            self._onsets.add(runs, part_ns[1])
        runs = Runs.joined([runs, further])
        self.tasks |= set(distinct_tasks(runs.task))
        near = runs.kept(self.usage.is_busy_in(runs))
        self._users |= set(distinct_tasks(near.task))
        self._add_runs(near, part_ns)
        ended = Runs.joined([self._history.ended, runs.kept(~runs.doubtful & (runs.end_ns >= part_ns[0]))])
        edges_ns = edges_in(self.usage, near, part_ns)
        cells = cells_of(near, ended, edges_ns, begin_ns)
        if cells is not None:
            self._add_cells(cells)
        self._starts.append(self._starts[-1] + (0 if cells is None else len(cells.kind)))
        self._history = next_history(cells, edges_ns, ended, begin_ns, part_ns[1])
        self.usage.release()

    def _add_runs(self, near: Runs, part_ns: tuple[int, int]) -> None:
        known = near.kept((near.task >= 0) & (near.begin_ns < part_ns[1]) & (near.end_ns >= part_ns[0]))
        self._runs.add(known.begin_ns, known.end_ns, known.instance, known.task)
        self._run_starts.append(self._run_starts[-1] + len(known.task))

    def _add_cells(self, cells: Cells) -> None:
        begin_ns = cells.t_ns[:-1]
        self._times.add(cells.t_ns[1:] if self._starts[-1] else cells.t_ns)
        self._cells.add(*cells[1:])
        at = np.searchsorted(self.usage.grid_ns, begin_ns, side="right")
        on_ns = np.bincount(at - at[0], weights=np.where(cells.running > 0, np.diff(cells.t_ns), 0)).astype(np.int64)
        self._padded_ns[at[0] : at[0] + len(on_ns)] += on_ns
        release(self._padded_ns)

    def finish(self) -> PoolPass:
        """Find what the segments are, after the last part."""
        self._t_ns, columns = self._times.finish(), self._cells.finish()
        self._columns, self._run_columns = dict(zip(CELLS, columns, strict=True)), self._runs.finish()
        reach_ns = (int(self._t_ns[0]), int(self._t_ns[-1])) if len(self._t_ns) else EVER[::-1]
        self._rates = rates_of(self.usage, self._padded_ns[1:-1], reach_ns, self._rules.rest_ns)
        users, rested_ns = np.array(sorted(self._users), np.int64), -LONG_NS
        self._extremes = Extremes(self.usage, users, self._starts[-1])
        for number, (low, high) in enumerate(pairwise(self._starts)):
            if low < high:
                cells = Cells(self._t_ns[low : high + 1], *(one[low:high] for one in columns))
                rests = self._rates.rests[np.searchsorted(self.usage.grid_ns, cells.t_ns[:-1], side="right")]
                rested_ns = settle_kinds(cells, rests, rested_ns, self._rules)
                self._sum(self._cut(low, high, self._runs_of(number, number + 1)))
        return self

    def _sum(self, cut: NativeSegments) -> None:
        self._extremes.add(cut)
        self.whole.add(cut, 0.0 if self._explained is None else self._explained.missing_s(cut))
        if self._facts.within_ns is not None:
            part = cut.limited(*self._facts.within_ns)
            if part is not None:
                self.sums.add(part, 0.0)

    def _cut(self, low: int, high: int, runs: Runs) -> NativeSegments:
        """Return some segments with their CPU time."""
        t_ns, columns = (
            self._t_ns[low : high + 1].copy(),
            {name: one[low:high].copy() for name, one in self._columns.items()},
        )
        at, length_s = np.searchsorted(self.usage.grid_ns, t_ns[:-1], side="right"), np.diff(t_ns) * 1e-9
        cpu_s, counted_s, counted = (
            np.where(columns["running"] > 0, on[at], off[at]) * length_s
            for on, off in zip(self._rates.on, self._rates.off, strict=True)
        )
        first, last = (np.minimum(np.searchsorted(t_ns, one), high - low) for one in (runs.begin_ns, runs.end_ns))
        self._rates.release()
        release(self._t_ns, *self._columns.values(), *self._run_columns, self.usage.grid_ns)
        del columns["other_ns"]
        return NativeSegments(
            t_ns=t_ns, cpu_s=cpu_s, counted_s=counted_s, counted=counted, runs=runs, first=first, last=last, **columns
        )

    def between(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the segments that lie between two times, cut to the time in which pools count; None without any."""
        if self._facts.within_ns is not None:
            begin_ns, end_ns = max(begin_ns, self._facts.within_ns[0]), min(end_ns, self._facts.within_ns[1])
        low = max(int(np.searchsorted(self._t_ns, begin_ns, side="right")) - 1, 0)
        high = min(int(np.searchsorted(self._t_ns, end_ns)), len(self._t_ns) - 1)
        if low >= high or begin_ns >= end_ns:
            return None
        begins_ns = self._facts.begins_ns
        first = max(int(np.searchsorted(begins_ns, begin_ns, side="right")) - 1, 0)
        runs = self._runs_of(first, max(int(np.searchsorted(begins_ns, end_ns)), first + 1))
        found = self._cut(low, high, runs)
        return found if self._facts.within_ns is None else found.limited(*self._facts.within_ns)

    def _runs_of(self, first: int, stop: int) -> Runs:
        """Return the runs that reach into some parts, each of them once."""
        at = slice(self._run_starts[first], self._run_starts[stop])
        begin_ns, end_ns, instance, task = (one[at].copy() for one in self._run_columns)
        since_ns = np.repeat(self._facts.begins_ns[first:stop], np.diff(self._run_starts[first : stop + 1]))
        since_ns[: self._run_starts[first + 1] - at.start] = -LONG_NS
        return Runs(begin_ns, end_ns, instance, task, np.zeros(len(task), bool)).kept(begin_ns >= since_ns)

    def spun_after(self) -> list[set[int]]:
        """Return for each part of the recording the instances that ended in it, and after which the pool spins later.

        They are in all parts up to the last one in which it spins.
        """
        begins_ns = self._facts.begins_ns
        found: list[set[int]] = [set() for _ in begins_ns]
        for at in blocks(len(self._t_ns) - 1, self._t_ns, *self._columns.values()):
            kind, instance, ended_ns = (self._columns[name][at] for name in ("kind", "instance", "ended_ns"))
            spins = kind == SPINNING
            first = np.maximum(np.searchsorted(begins_ns, ended_ns[spins], side="right") - 1, 0).astype(np.uint64)
            last = (np.searchsorted(begins_ns, self._t_ns[at.start + 1 : at.stop + 1][spins]) - 1).astype(np.uint64)
            spans = np.unique(np.stack((instance[spins], first, last))[:, first < last], axis=1)
            for one, begin, end in spans.T.tolist():
                for part in found[begin:end]:
                    part.add(one)
        return found

    @cached_property
    def extremes(self) -> tuple[Numbers, Floats, Floats]:
        """Tasks, and the CPU seconds that each used at least and at most in the time in which pools count."""
        users, least_s, most_s = self._extremes.found()
        if self.sums is not self.whole:
            # Tasks that are not in the table have no sums.
            own_s, whole_s = (
                np.append(one.by_task[2][:-1], 0.0)[np.minimum(users, self._facts.tasks)]
                for one in (self.sums, self.whole)
            )
            least_s, most_s = extremes_within((least_s, most_s), own_s, whole_s, self.sums.cpu_s)
        return users, least_s, most_s
