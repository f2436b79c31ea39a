"""Passes over a recording, part after part, that find when users of a pool ran and what its segments are.

A part is a window of a long recording, or all of one in memory. What is kept are sums, and the times of reads.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from .calls import run_at, runs_of_calls
from .cuts import IDLE, History, OnTimes, cells_of, cut_of, kinds_of, next_history, rates_of
from .segments import (
    OF_TASK,
    OUTSIDE,
    SPINNING,
    UNIDENTIFIED,
    Extremes,
    NativeSegments,
    Runs,
    extremes_within,
    row_offsets,
    runs_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.segments import Segments

    from .calls import Explained, ThreadsCalls
    from .cuts import Cells, Rates, Rules, Usage
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

    @cached_property
    def offsets(self) -> list[int]:
        """Where the rows of each thread begin, and their number."""
        return row_offsets(self.segments)

    def rows_at(self, row: Numbers, carried: Sequence[InstanceRows]) -> list[InstanceRows]:
        """Return the instances of some rows, without sums; those behind all threads' are in `carried`."""
        found = []
        for at in row.tolist():
            index = int(np.searchsorted(self.offsets, at, side="right")) - 1
            one = self.segments[index] if index < len(self.segments) else None
            found.append(carried[at - self.offsets[-1]] if one is None else bare_row(one, at - self.offsets[index]))
        return found


def bare_row(one: Segments, row: int) -> InstanceRows:
    """Return one row of a thread, without sums."""
    found = one.rows.view(np.array([row]))
    found.own_s, found.cpu_s = np.zeros(1), np.zeros(1)
    found.counts = {name: np.zeros(1) for name in found.counts}
    return found


@dataclass(frozen=True)
class Facts:
    """What the passes need to know of a recording.

    Attributes
    ----------
    tasks : their number
    packages : whether the machine has more than one package
    grid_ns : times up to which the pools' CPU seconds are asked
    cuts_ns : times of which it is asked where the segment ends that lies there, increasing
    within_ns : from when to when pools count; None: always
    """

    tasks: int
    packages: bool
    grid_ns: NDArray[np.int64]
    cuts_ns: NDArray[np.int64]
    within_ns: tuple[int, int] | None = None


class Source(Protocol):
    """Where runs of a pool's possible users come from."""

    def runs(self, block: Block) -> tuple[Runs, Runs]:
        """Return those that reach into a part of a recording, and moments at which the pool may begin to spin."""

    def around(self, begin_ns: int, end_ns: int) -> Source:
        """Return what is needed of it between two times."""


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
            runs = Runs(runs.begin_ns, runs.end_ns, runs.row, runs.task, doubtful)
        return runs, Runs.none()

    def around(self, begin_ns: int, end_ns: int) -> Source:  # noqa: ARG002
        """Return itself: it has nothing that grows."""
        return self


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

    def around(self, begin_ns: int, end_ns: int) -> Source:
        """Return it with the calls between two times."""
        return replace(self, calls=self.calls.around(begin_ns, end_ns))


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


@dataclass
class CutPass:
    """Finds what the segments of a pool are.

    Attributes
    ----------
    process, usage, source, rules, rates : of the pool
    facts : of the recording
    explained : when calls explain what the pool does; None: they need not
    extremes : bounds of the CPU time of tasks
    first_read : how many of the pool's distinct times of reads are left out before those of `usage`
    used : for each part of the recording the instances that ended before, after which the pool spins in it
    reach_ns, since_ns : the latest end of a run that begins in each part, and the earliest begin of one that is read
    ends_ns : where the segments end that lie at the times that were asked, by these
    histories : of each part, and of what comes after the last one
    carried : for each part the instances of its history's runs
    within_s : tasks, and their extremes in the time in which pools count; None: not known yet
    sums, inside : over all segments, and over those in the time in which pools count; None: that is always
    """

    process: int
    usage: Usage
    source: Source
    rules: Rules
    rates: Rates
    facts: Facts
    extremes: Extremes | None
    explained: Explained | None = None
    first_read: int = 0
    used: list[set[int]] = field(default_factory=list)
    reach_ns: list[int] = field(default_factory=list)
    since_ns: list[int] = field(default_factory=list)
    ends_ns: dict[int, int] = field(default_factory=dict)
    histories: list[History] = field(default_factory=lambda: [History.none()])
    carried: list[list[InstanceRows]] = field(default_factory=lambda: [[]])
    sums: CutSums = field(init=False)
    inside: CutSums | None = field(init=False)
    within_s: tuple[Numbers, Floats, Floats] | None = None

    def __post_init__(self) -> None:
        """Begin the sums."""
        self.sums = CutSums(self.facts.tasks, self.facts.grid_ns)
        self.inside = None if self.facts.within_ns is None else CutSums(self.facts.tasks, self.facts.grid_ns)

    @classmethod
    def after(cls, one: OnTimesPass, process: int, facts: Facts, explained: Explained | None = None) -> CutPass:
        """Return the pass after the one that found when users ran."""
        extremes = Extremes(one.usage, np.array(sorted(one.users), np.int64), one.segments)
        return cls(process, one.usage, one.source, one.rules, one.rates(), facts, extremes, explained)

    def add(self, block: Block) -> None:
        """Add a part of the recording."""
        history, carried = self.histories[-1], self.carried[-1]
        runs = Runs.joined(self.source.runs(block))
        history = history.behind(block.offsets[-1])
        cells = cells_of(self.usage, runs, block.part_ns, history)
        kinds, used = None, np.empty(0, np.int64)
        begun = (runs.begin_ns >= block.part_ns[0]) & (runs.begin_ns < block.part_ns[1])
        self.reach_ns.append(int(runs.end_ns[begun].max(initial=block.part_ns[0])))
        self.since_ns.append(int(runs.begin_ns.min(initial=block.part_ns[0])))
        if cells is not None:
            kinds = kinds_of(cells, self.rates, self.rules, history)
            cut = cut_of(self.process, self.usage, cells, self.rates, kinds, packages=self.facts.packages)
            self._note(cut, cells)
            cuts_ns = self.facts.cuts_ns[slice(*np.searchsorted(self.facts.cuts_ns, cut.t_ns[[0, -1]] + 1))]
            ends_ns = cut.t_ns[np.searchsorted(cut.t_ns, cuts_ns)]
            self.ends_ns.update(zip(cuts_ns.tolist(), ends_ns.tolist(), strict=True))
            used = np.unique(cut.row[(cut.kind == SPINNING) & (cut.cpu_s > 0)])
        used = used[used >= block.offsets[-1]] - block.offsets[-1]
        self.used.append({int(carried[at].instance[0]) for at in used.tolist()})
        if not block.is_last:
            after = next_history(self.usage, cells, runs, kinds, history, block.part_ns)
            known = np.flatnonzero(after.ended.row >= 0)
            self.carried.append(block.rows_at(after.ended.row[known], carried))
            row = np.full(len(after.ended.row), -1)
            row[known] = np.arange(len(known))
            self.histories.append(after.with_rows(row))
        self.usage.release()
        self.rates.release()

    def _note(self, cut: NativeSegments, cells: Cells) -> None:
        assert self.extremes is not None  # noqa: S101 - it is not that of a window
        self.extremes.add(cut)
        missing_s = 0.0 if self.explained is None else self.explained.missing_s(cut, cells.calm_ns)
        self.sums.add(cut, missing_s)
        if self.inside is not None and self.facts.within_ns is not None:
            part = cut.limited(*self.facts.within_ns)
            if part is not None:
                self.inside.add(part, 0.0)

    def limited(self) -> CutPass:
        """Return it with the sums and extremes of the time in which pools count."""
        found, (users, *extremes_s) = copy(self), self.found_extremes()
        if self.inside is not None:
            # Tasks that are not in the table have no sums.
            own_s, whole_s = (
                np.append(one.by_task[2][:-1], 0.0)[np.minimum(users, self.facts.tasks)]
                for one in (self.inside, self.sums)
            )
            least_s, most_s = extremes_within((extremes_s[0], extremes_s[1]), own_s, whole_s, self.inside.cpu_s)
            found.sums, found.extremes, found.within_s = self.inside, None, (users, least_s, most_s)
        return found

    def found_extremes(self) -> tuple[Numbers, Floats, Floats]:
        """Return tasks, and the CPU seconds that each used at least and at most."""
        if self.within_s is not None:
            return self.within_s
        assert self.extremes is not None  # noqa: S101 - it is not that of a window
        return self.extremes.found()

    def segments_after(self, block: Block, history: History, last_ns: int | None) -> NativeSegments | None:
        """Return the segments of a part of the recording, the last of which ends at `last_ns`; None if there are none.

        Rows of instances of the part's history are behind those of the part.
        """
        history = history.behind(block.offsets[-1])
        runs = Runs.joined(self.source.runs(block))
        cells = cells_of(self.usage, runs, block.part_ns, history, last_ns)
        if cells is None:
            return None
        found = kinds_of(cells, self.rates, self.rules, history)
        return cut_of(self.process, self.usage, cells, self.rates, found, packages=self.facts.packages)

    def around(self, begin_ns: int, end_ns: int, reach_ns: int) -> CutPass:
        """Return what is needed of it between two times, up to the end of runs that begin there; without sums."""
        low = max(int(np.searchsorted(self.usage.grid_ns, begin_ns, side="right")) - 1, 0)
        high = int(np.searchsorted(self.usage.grid_ns, end_ns)) + 1
        nothing = np.empty(0, np.int64)
        facts = replace(self.facts, grid_ns=nothing, cuts_ns=nothing, within_ns=None)
        small = CutPass(
            self.process, self.usage.around(low, high, reach_ns), self.source.around(begin_ns, end_ns), self.rules,
            self.rates.part(slice(low, high + 1)), facts, None,
        )  # fmt: skip
        small.first_read = low
        return small
