"""Passes over a recording, part after part, that find when users of a pool ran and what its segments are.

A part is a window of a long recording, or all of one in memory. What is kept are sums, and files of segments.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import Appended, AppendedColumns, blocks, release

from .calls import run_at, runs_of_calls
from .cuts import IDLE, LONG_NS, History, OnTimes, cells_of, cut_of, kinds_of, next_history, rates_of
from .segments import (
    OF_SEGMENTS,
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
    from collections.abc import Sequence

    from tprof.analysis.attribution.segments import Segments

    from .calls import Explained, ThreadsCalls
    from .cuts import Rates, Rules, Usage
    from .onsets import Onsets


Floats = NDArray[np.float64]


def distinct_tasks(task: NDArray[np.int64]) -> list[int]:
    """Return the different tasks among some, without -1."""
    top = int(task.max(initial=-1))
    return np.flatnonzero(np.bincount(task[task >= 0], minlength=top + 1)).tolist()


class CutSums:
    """Sums over the segments of a pool.

    Attributes
    ----------
    cpu_s, counted_s, missing_s : CPU seconds, those that were counted, and those that calls do not explain
    by_task : (3, tasks + 1) modelled energy by counters, CPU seconds that were counted, and all, by task
    beside_s : (tasks,) CPU seconds while each task ran
    served, spins_after : tasks that got CPU time, and that the pool span after
    is_unidentified : whether any segment may be one of several tasks'
    """

    def __init__(self, tasks: int, grid_ns: NDArray[np.int64]) -> None:
        """Begin without segments; `grid_ns` are the times up to which CPU seconds are asked."""
        self.cpu_s = self.counted_s = self.missing_s = 0.0
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
        self.counted_s += float(cut.counted_s.sum())
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
    is_last : whether nothing comes after it
    """

    part_ns: tuple[int, int]
    segments: Sequence[Segments | None]
    is_last: bool


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


class Source(Protocol):
    """Where runs of a pool's possible users come from."""

    def runs(self, block: Block) -> tuple[Runs, Runs]:
        """Return those that reach into a part of a recording, and moments at which the pool may begin to spin."""


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

    def runs(self, block: Block) -> tuple[Runs, Runs]:
        """Return them."""
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

    def runs(self, block: Block) -> tuple[Runs, Runs]:
        """Return them."""
        runs = runs_of_calls(self.calls, block.segments, block.part_ns, self.caller)
        if self.only is not None:
            runs = runs.kept(runs.task == self.only)
        return runs, Runs.joined([run_at(block.segments, index, at_ns) for index, at_ns in self.births])


@dataclass
class OnTimesPass:
    """Finds when users of a pool run.

    Attributes
    ----------
    usage, source, rules : of the pool
    onsets : when tasks ran around the moments at which the pool begins to work; None: that is not asked
    tasks, users : tasks that ran, and those that did so while the pool used CPU time
    is_called : whether a task gave work to the pool
    segments : of the pool
    """

    usage: Usage
    source: Source
    rules: Rules
    onsets: Onsets | None = None
    tasks: set[int] = field(default_factory=set)
    users: set[int] = field(default_factory=set)
    is_called: bool = False
    segments: int = 0
    _history: History = field(default_factory=History.none)
    _on_times: OnTimes = field(init=False)

    def __post_init__(self) -> None:
        """Begin the sums."""
        self._on_times = OnTimes(self.usage)

    def add(self, block: Block) -> None:
        """Add a part of the recording."""
        runs, further = self.source.runs(block)
        self.is_called |= bool((runs.task >= 0).any())
        if self.onsets is not None:
            self.onsets.add(runs, block.part_ns[1])
        runs = Runs.joined([runs, further])
        cells = cells_of(self.usage, runs, block.part_ns, self._history)
        self.tasks |= set(distinct_tasks(runs.task))
        if cells is not None:
            self._on_times.add(cells.t_ns, cells.at, cells.running > 0)
            self.users |= set(distinct_tasks(cells.near.task))
            self.segments += len(cells.at)
        if not block.is_last:
            self._history = next_history(self.usage, cells, runs, None, self._history, block.part_ns)
        self.usage.release()

    def rates(self) -> Rates:
        """Return what the pool used per second."""
        return rates_of(self.usage, self._on_times, self.rules.rest_ns)


class StoredSegments:
    """The segments of a pool in a whole recording, and the runs of its users in each part of it.

    They are in files where they are many, of which a window takes what lies in it.
    """

    def __init__(self, facts: Facts) -> None:
        """Begin without segments."""
        self._facts = facts
        self._begins, self._segments = Appended(np.int64), AppendedColumns(*OF_SEGMENTS.values())
        self._runs, self._run_starts = AppendedColumns(np.int64, np.int64, np.uint64, np.int64), [0]
        self._end_ns = 0

    def add(self, cut: NativeSegments | None) -> None:
        """Add segments that follow those before."""
        if cut is not None:
            self._begins.add(cut.t_ns[:-1])
            self._segments.add(*(getattr(cut, name) for name in OF_SEGMENTS))
            self._end_ns = int(cut.t_ns[-1])

    def add_runs(self, runs: Runs, part_ns: tuple[int, int]) -> None:
        """Add the runs that reach into a part of the recording."""
        runs = runs.kept((runs.task >= 0) & (runs.begin_ns < part_ns[1]) & (runs.end_ns >= part_ns[0]))
        if self._facts.within_ns is not None:
            runs = runs.limited(*self._facts.within_ns)
        self._runs.add(runs.begin_ns, runs.end_ns, runs.instance, runs.task)
        self._run_starts.append(self._run_starts[-1] + len(runs.task))

    @cached_property
    def _t_ns(self) -> NDArray[np.int64]:
        self._begins.add([self._end_ns])
        return self._begins.finish()

    @cached_property
    def _columns(self) -> dict[str, NDArray[Any]]:
        return dict(zip(OF_SEGMENTS, self._segments.finish(), strict=True))

    @cached_property
    def _run_columns(self) -> tuple[NDArray[Any], ...]:
        return self._runs.finish()

    def _release(self) -> None:
        release(self._t_ns, *self._columns.values(), *self._run_columns)

    def between(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the segments that lie between two times, none of them cut; None if there are none."""
        t_ns = self._t_ns
        low = max(int(np.searchsorted(t_ns, begin_ns, side="right")) - 1, 0)
        high = min(int(np.searchsorted(t_ns, end_ns)), len(t_ns) - 1)
        if low >= high:
            return None
        t_ns, runs = t_ns[low : high + 1].copy(), self._runs_between(begin_ns, end_ns)
        columns = {name: values[low:high].copy() for name, values in self._columns.items()}
        first, last = (np.minimum(np.searchsorted(t_ns, one), high - low) for one in (runs.begin_ns, runs.end_ns))
        self._release()
        return NativeSegments(t_ns=t_ns, runs=runs, first=first, last=last, **columns)

    def _runs_between(self, begin_ns: int, end_ns: int) -> Runs:
        """Return the runs between two times, each of them once."""
        begins_ns = self._facts.begins_ns
        first = max(int(np.searchsorted(begins_ns, begin_ns, side="right")) - 1, 0)
        stop = max(int(np.searchsorted(begins_ns, end_ns)), first + 1)
        at = slice(self._run_starts[first], self._run_starts[stop])
        begin_ns_of, end_ns_of, instance, task = (one[at].copy() for one in self._run_columns)
        runs = Runs(begin_ns_of, end_ns_of, instance, task, np.zeros(len(task), bool))
        since_ns = np.repeat(begins_ns[first:stop], np.diff(self._run_starts[first : stop + 1]))
        since_ns[: self._run_starts[first + 1] - at.start] = -LONG_NS
        return runs.kept(runs.begin_ns >= since_ns)

    def spun_after(self) -> list[set[int]]:
        """Return for each part of the recording the instances that ended in it, and after which the pool spins later.

        They are in all parts up to the last one in which it spins.
        """
        found: list[set[int]] = [set() for _ in self._facts.begins_ns]
        columns, t_ns = self._columns, self._t_ns
        for at in blocks(len(columns["kind"]), t_ns, *columns.values()):
            kind, cpu_s, instance, ended_ns = (columns[name][at] for name in ("kind", "cpu_s", "instance", "ended_ns"))
            spins = (kind == SPINNING) & (cpu_s > 0) & (instance > 0)
            first = np.searchsorted(self._facts.begins_ns, ended_ns[spins], side="right") - 1
            last = np.searchsorted(self._facts.begins_ns, t_ns[at.start + 1 : at.stop + 1][spins]) - 1
            later = first < last
            for one, begin, end in set(
                zip(*(part[later].tolist() for part in (instance[spins], first, last)), strict=True)
            ):
                for number in range(max(begin, 0), end):
                    found[number].add(one)
        return found


class CutPass:
    """Finds what the segments of a pool are.

    Attributes
    ----------
    usage : of the pool
    whole, sums : over all segments, and over those in the time in which pools count
    segments : these
    """

    def __init__(self, one: OnTimesPass, facts: Facts, explained: Explained | None = None) -> None:
        """Begin after the pass that found when users ran; `explained`: when calls explain what the pool does."""
        self.usage, self._source, self._rules, self._rates = one.usage, one.source, one.rules, one.rates()
        self._facts, self._explained = facts, explained
        self._extremes = Extremes(one.usage, np.array(sorted(one.users), np.int64), one.segments)
        self._history = History.none()
        self.whole = self.sums = CutSums(facts.tasks, facts.grid_ns)
        if facts.within_ns is not None:
            self.sums = CutSums(facts.tasks, facts.grid_ns)
        self.segments = StoredSegments(facts)

    def add(self, block: Block) -> None:
        """Add a part of the recording."""
        runs, kinds = Runs.joined(self._source.runs(block)), None
        cells = cells_of(self.usage, runs, block.part_ns, self._history)
        near = runs.kept(self.usage.is_busy_in(runs)) if cells is None else cells.near
        self.segments.add_runs(near, block.part_ns)
        if cells is not None:
            kinds = kinds_of(cells, self._rates, self._rules, self._history)
            cut = cut_of(cells, self._rates, kinds)
            self._extremes.add(cut)
            missing_s = 0.0 if self._explained is None else self._explained.missing_s(cut, cells.calm_ns)
            self.whole.add(cut, missing_s)
            part = cut if self._facts.within_ns is None else cut.limited(*self._facts.within_ns)
            self.segments.add(part)
            if part is not None and self.sums is not self.whole:
                self.sums.add(part, 0.0)
        if not block.is_last:
            self._history = next_history(self.usage, cells, runs, kinds, self._history, block.part_ns)
        self.usage.release()
        self._rates.release()

    def extremes(self) -> tuple[Numbers, Floats, Floats]:
        """Return tasks, and the CPU seconds that each used at least and at most in the time in which pools count."""
        users, least_s, most_s = self._extremes.found()
        if self.sums is not self.whole:
            # Tasks that are not in the table have no sums.
            own_s, whole_s = (
                np.append(one.by_task[2][:-1], 0.0)[np.minimum(users, self._facts.tasks)]
                for one in (self.sums, self.whole)
            )
            least_s, most_s = extremes_within((least_s, most_s), own_s, whole_s, self.sums.cpu_s)
        return users, least_s, most_s
