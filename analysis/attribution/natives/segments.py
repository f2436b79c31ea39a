"""The CPU time of one pool of native threads: of which task each part is, after which, or of one of several."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by

from tprof.trace.layout import NO_TASK
from tprof.trace.long_arrays import blocks, computed, empty, kept, release, total
from tprof.trace.long_sorts import sorted_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.segment_energy import Shares
    from tprof.analysis.attribution.segments import Segments

    from .cuts import Usage


Floats = NDArray[np.float64]
Times = NDArray[np.int64]

OUTSIDE, OF_TASK, SPINNING, UNIDENTIFIED = range(4)
"""What a pool's CPU time is: of the program outside tasks, of one task, after a user's end, of one of several tasks."""
_OF_SEGMENTS = ("kind", "task", "running", "row", "after", "package", "package_end")
WAITING = 0.02
"""A task whose thread uses less than this part of a core only waits."""


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


@dataclass(frozen=True)
class Runs:
    """The times in which possible users of a pool ran on threads with samples.

    Attributes
    ----------
    begin_ns, end_ns : (n,) int64
    row : (n,) index of the instance among the rows of all threads, one after the other
    task : (n,) int64
    doubtful : (n,) whether it is not known that the task uses the pool at all
    """

    begin_ns: Times
    end_ns: Times
    row: NDArray[np.int64]
    task: NDArray[np.int64]
    doubtful: NDArray[np.bool_]

    def kept(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Runs:
        """Return some of them."""
        return Runs(*(getattr(self, name)[which] for name in self.__annotations__))

    @classmethod
    def none(cls) -> Runs:
        """Return no runs."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, np.empty(0, bool))

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """Put several together."""
        parts = [cls.none(), *parts]
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in cls.__annotations__))


@dataclass(frozen=True)
class RunBounds:
    """The least and the most that runs may have used of what a pool did.

    The CPU time between two reads may have been used at any time between them. So all of an interval that a run touches
    may be its own, and none of one that it does not fill.

    Attributes
    ----------
    reads_ns : (reads,) sorted times of all reads of a pool's threads
    threads : how many threads are read between two of these
    total, alone : what the pool had used at each of them, and of that what it used in one run that ran alone
    """

    reads_ns: Times
    threads: NDArray[np.int64]
    total: Floats
    alone: Floats

    def of(self, runs: Runs) -> tuple[Floats, Floats]:
        """Return both for each of some runs."""
        after_begin = np.searchsorted(self.reads_ns, runs.begin_ns, side="left")
        before_end = np.searchsorted(self.reads_ns, runs.end_ns, side="right") - 1
        # The threads are read one after the other: that many reads further on each has been read.
        last = len(self.reads_ns) - 1
        spare_begin = self.threads[np.clip(after_begin, 0, last)]
        spare_end = self.threads[np.clip(before_end, 0, last)]
        first_of, end_of = (np.clip(one, 0, last) for one in (after_begin - spare_begin, before_end + spare_end))
        inner_begin, inner_end = (
            np.clip(one, 0, last) for one in (after_begin + spare_begin - 1, before_end - spare_end + 1)
        )
        inner_end = np.maximum(inner_end, inner_begin)
        least, most = self.alone[inner_end] - self.alone[inner_begin], self.total[end_of] - self.total[first_of]
        return np.maximum(least, 0.0), np.maximum(most, 0.0)


def _equal_to(values: NDArray[np.int32], number: NDArray[np.integer[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where in increasing values those begin and end that are equal to each number."""
    least, most = (int(values[0]), int(values[-1])) if len(values) else (0, -1)
    if most - least > len(number):
        return np.searchsorted(values, number), np.searchsorted(values, number, side="right")
    # Far fewer numbers are distinct than there are.
    begins = np.searchsorted(values, np.arange(least, most + 2, dtype=np.int32))
    at = np.clip(number, least - 1, most + 1) - least
    return begins[np.maximum(at, 0)], begins[np.minimum(at + 1, len(begins) - 1)]


class TaskBounds(NamedTuple):
    """Sums from which bounds of the joules of tasks follow.

    Attributes
    ----------
    own_j : (tasks,) of segments of `OF_TASK`
    beside_j, beside_s : (tasks,) of all segments in which each task ran, and their CPU seconds
    all_j : of all segments
    """

    own_j: Floats
    beside_j: Floats
    beside_s: Floats
    all_j: float

    def of(self, users: NDArray[np.int64], least_s: Floats, most_s: Floats, cpu_s: float) -> tuple[Floats, Floats]:
        """Return the least and the most joules of each task, at those that a CPU second took while it ran: (tasks,).

        Parameters
        ----------
        users, least_s, most_s : tasks, and the CPU seconds that each used at least and at most
        cpu_s : CPU seconds of the pool
        """
        tasks = len(self.own_j)
        mean = self.all_j / max(cpu_s, 1e-300)
        per_s = np.divide(self.beside_j, self.beside_s, out=np.full(tasks, mean), where=self.beside_s > 0)
        bounds_s, known = np.zeros((2, tasks)), users < tasks
        bounds_s[:, users[known]] = least_s[known], most_s[known]
        least_j, most_j = bounds_s * per_s
        return np.minimum(least_j, self.own_j), np.maximum(most_j, self.own_j)


@dataclass
class NativeSegments:
    """The CPU time of one pool, cut where a user begins or ends and where a clock was read.

    Attributes
    ----------
    process : pid
    t_ns : (n + 1,) int64, increasing
    cpu_s : (n,) float64, of all threads of the pool
    counted_s : (n,) float64, of these the CPU seconds whose modelled energy is known by counters
    counted : (n,) float64, that modelled energy
    modelled : (n,) float64, modelled energy of all
    kind : (n,) int8: `OUTSIDE`, `OF_TASK`, `SPINNING` or `UNIDENTIFIED`
    task : (n,) int64: of `OF_TASK`, -1 elsewhere
    running : (n,) instances that run and can be users
    row, after : (n,) int64: of `SPINNING` the instance that ended last and its task, -1 elsewhere
    runs : the users' times
    first, last : for each of `runs` the segments where it begins and ends
    reads_ns : sorted times of all reads
    threads : how many threads are read between two of these, (reads,)
    users, least_s, most_s : tasks that ran, and the CPU seconds that each used at least and at most: between two
        reads any order is possible
    package, package_end : (n,) -1: not known
    """

    process: int
    t_ns: Times
    cpu_s: Floats
    counted_s: Floats
    counted: Floats
    modelled: Floats
    kind: NDArray[np.int8]
    task: NDArray[np.int64]
    running: NDArray[np.int32]
    row: NDArray[np.int64]
    after: NDArray[np.int64]
    runs: Runs
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    reads_ns: Times
    threads: NDArray[np.int64]
    users: NDArray[np.int64]
    least_s: Floats
    most_s: Floats
    package: NDArray[np.int16] | None
    package_end: NDArray[np.int16] | None

    def between(self, begin_ns: int, end_ns: int, rows: NDArray[np.int64]) -> NativeSegments:
        """Return the part in a window; of a segment that is cut the part by time.

        Parameters
        ----------
        begin_ns, end_ns : the window
        rows : numbers of the instances in the window by those of now, -1: not in it
        """
        numbers = np.append(rows, -1)
        runs = self.runs.kept(
            (self.runs.begin_ns < end_ns) & (self.runs.end_ns > begin_ns) & (numbers[self.runs.row] >= 0)
        )
        runs = replace(
            runs, begin_ns=np.maximum(runs.begin_ns, begin_ns), end_ns=np.minimum(runs.end_ns, end_ns),
            row=numbers[runs.row],
        )  # fmt: skip
        part = replace(self, runs=runs, row=numbers[self.row])
        begin_ns, end_ns = max(begin_ns, int(self.t_ns[0])), min(end_ns, int(self.t_ns[-1]))
        inside = (self.t_ns > begin_ns) & (self.t_ns < end_ns)
        cut = part.cut_at(np.concatenate(([begin_ns], self.t_ns[inside], [max(end_ns, begin_ns)])))
        own_s, whole_s = (one.of_task_s(self.users) for one in (cut, self))
        least_s, most_s = extremes_within((self.least_s, self.most_s), own_s, whole_s, float(cut.cpu_s.sum()))
        return replace(cut, least_s=least_s, most_s=most_s)

    def limited(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the part between two times, with the same instances; None if there is none."""
        if self.t_ns[-1] <= begin_ns or self.t_ns[0] >= end_ns:
            return None
        rows = np.arange(int(max(self.row.max(initial=-1), self.runs.row.max(initial=-1))) + 1)
        return self.between(begin_ns, end_ns, rows)

    def cut_at(self, t_ns: Times) -> NativeSegments:
        """Return segments that begin and end at other times, each in one of these; of one that is cut part by time."""
        at = np.clip(np.searchsorted(self.t_ns, t_ns[:-1], side="right") - 1, 0, len(self.cpu_s) - 1)
        part = np.diff(t_ns) / np.diff(self.t_ns)[at]
        taken: dict[str, Any] = {
            name: None if (one := getattr(self, name)) is None else one[at] for name in _OF_SEGMENTS
        }
        first, last = (
            np.searchsorted(t_ns, np.clip(one, t_ns[0], t_ns[-1])) for one in (self.runs.begin_ns, self.runs.end_ns)
        )
        return replace(
            self, t_ns=t_ns, first=first, last=last, **taken,
            **{name: getattr(self, name)[at] * part for name in ("cpu_s", "counted_s", "counted", "modelled")},
        )  # fmt: skip

    def of_task_s(self, tasks: NDArray[np.int64]) -> Floats:
        """Return the CPU seconds that are some tasks' own."""
        top = int(max(tasks.max(initial=0), self.task.max(initial=0))) + 1
        return sum_by(self.task_numbers(top), self.cpu_s, top + 1)[tasks]

    @property
    def slot(self) -> NDArray[np.int32]:
        """Zeros: several instances may share a segment."""
        return np.zeros(len(self.cpu_s), np.int32)

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the task of each segment; `tasks` if it is none's, or not known."""
        own = (self.kind == OF_TASK) & (self.task < tasks)
        return np.where(own, self.task, tasks).astype(np.int32)

    def draw(self, power: Floats) -> None:
        """Set the modelled energy, at (tasks + 1,) modelled energy per CPU second where counters were not read."""
        number = self.task_numbers(len(power) - 1)
        self.modelled = self.counted + np.maximum(self.cpu_s - self.counted_s, 0.0) * power[number]

    def by_task(self, values: Sequence[Floats], tasks: int) -> Floats:
        """Return sums of values of `OF_TASK` by task, and last of the others: (values, tasks + 1)."""
        return np.stack([sum_by(self.task_numbers(tasks), one, tasks + 1) for one in values])

    def beside(self, values: Floats, tasks: int) -> Floats:
        """Return the sums of values while each task ran: (tasks,)."""
        return sum_by(np.minimum(self.runs.task, tasks), self.of_runs(values), tasks + 1)[:tasks]

    def by_row(self, values: Floats, rows: int) -> Floats:
        """Share the values of `OF_TASK` among instances, evenly where several of the task ran: (rows,)."""
        return sum_by(self.runs.row, self.of_runs(self.of_task(values)), rows)

    def of_task(self, values: Floats) -> Floats:
        """Return the values of `OF_TASK` for each instance of the task that runs, 0 elsewhere."""
        return np.where(self.kind == OF_TASK, values / np.maximum(self.running, 1), 0.0)

    def of_runs(self, values: Floats) -> Floats:
        """Return the sums of values over the segments of each of `runs`."""
        total = self._since_begin(values)
        return (total[self.last] - total[self.first]).astype(np.float64)

    def spinning(self, values: Floats, rows: int) -> Floats:
        """Return the values of `SPINNING` by the instance that ended last: (rows,)."""
        at = (self.kind == SPINNING) & (self.row >= 0)
        return sum_by(self.row[at], values[at], rows)

    def in_quantum(self, quantum: NDArray[np.int32], shares: Shares, number: NDArray[np.integer[Any]]) -> Floats:
        """Return for each of `runs` its part of the joules of `OF_TASK` in one quantum.

        Parameters
        ----------
        quantum : (n + 1,) in which segments begin and end
        shares : their joules
        number : of each run, the quantum
        """
        head_j, tail_j = shares.energy_j.copy(), np.zeros(len(self.kind))
        head_j[shares.at], tail_j[shares.at] = shares.head_j, shares.tail_j
        total_j = np.zeros(len(number))
        for part_j, of_segment in ((head_j, quantum[:-1]), (tail_j, quantum[1:])):
            sums = self._since_begin(self.of_task(part_j))
            low, high = (np.clip(one, self.first, self.last) for one in _equal_to(of_segment, number))
            total_j += (sums[high] - sums[low]).astype(np.float64)
        return total_j

    def alone(self, values: Floats) -> Floats:
        """Return the values of one run that ran alone, 0 elsewhere."""
        return np.where((self.kind == OF_TASK) & (self.running == 1), values, 0.0)

    def _since_begin(self, values: Floats) -> NDArray[np.longdouble]:
        return np.concatenate((np.zeros(1, np.longdouble), np.cumsum(values.astype(np.longdouble))))


def runs_of(segments: Sequence[Segments | None], which: Sequence[int], *, caller_computes: bool = False) -> Runs:
    """Return the times in which tasks ran on some threads.

    Parameters
    ----------
    segments : of all threads with samples; None for one without any in the part of the recording
    which : indices of the threads
    caller_computes : leave out the times in which a task only waited
    """
    offsets, parts = row_offsets(segments), []
    for index in which:
        one = segments[index]
        if one is None:
            continue
        length_s = np.diff(one.t_ns) * 1e-9
        ran = (one.slot > 0) & (length_s > 0)
        at = np.flatnonzero(ran & (one.cpu_s >= WAITING * length_s) if caller_computes else ran)
        row = one.slot[at].astype(np.int64) - 1
        task = tasks_of(one, row)
        runs = Runs(one.t_ns[at], one.t_ns[at + 1], row + offsets[index], task, np.zeros(len(row), bool))
        parts.append(runs if (task >= 0).all() else runs.kept(task >= 0))
    return Runs.joined(parts)


def tasks_of(one: Segments, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the tasks of a thread's rows, -1 for row -1 and for a task that is in no table; it may have no rows."""
    task = np.append(one.rows.task.astype(np.int64), -1)[row]
    task[task == NO_TASK] = -1
    return task


def row_offsets(segments: Sequence[Segments | None]) -> list[int]:
    """Return where the rows of each thread begin among those of all, one after the other, and their number."""
    return [0, *itertools.accumulate(0 if one is None else len(one.rows) for one in segments)]


def power_of_pool(power: Floats, counted: Floats, counted_s: Floats) -> Floats:
    """Return the modelled energy per CPU second of a pool where its counters were not read: as where they were.

    Parameters
    ----------
    power : (tasks + 1,) by task and last of none, for a pool without counters
    counted, counted_s : (tasks + 1,) modelled energy and CPU seconds of the pool by counters
    """
    if counted_s.sum() > 0:
        power = np.full(len(power), counted.sum() / counted_s.sum())
    return np.asarray(np.divide(counted, counted_s, out=power.copy(), where=counted_s > 0))


def power_of_tasks(modelled: Floats, cpu_s: Floats) -> Floats:
    """Return the modelled energy per CPU second by task, and last that of all, from sums by task and last of none."""
    mean = modelled.sum() / cpu_s.sum() if cpu_s.sum() > 0 and modelled.sum() > 0 else 1.0
    power: Floats = np.divide(modelled, cpu_s, out=np.full(len(cpu_s), mean), where=(cpu_s > 0) & (modelled > 0))
    power[-1] = mean
    return power


LARGEST = 100_000_000
"""With more tasks times segments the tasks' extremes are not computed: nothing, and all."""
AT_ONCE = 4_000_000
"""Tasks times segments that are in memory."""
_NUMBER = 32
"""Bits of the number of a time between two reads."""
_NUMBERS = (1 << _NUMBER) - 1


class Extremes:
    """Sums over the times between two reads, each of which is settled when all of its segments are known.

    Attributes
    ----------
    users : tasks, increasing
    """

    def __init__(self, usage: Usage, users: NDArray[np.int64], segments: int) -> None:
        """Begin with the tasks that run in any of so many segments."""
        self.users = users
        self._usage = usage
        self._is_known = len(users) * segments <= LARGEST
        self._least_s, self._most_s = np.zeros((2, len(users)))
        self._order = _by_end(usage)
        # What is settled later needs what lies between these reads.
        self._needs = _least_of_later(self._order, usage)
        self._settled, self._begin = 0, 0
        self._ran_ns = np.zeros((2, len(users), 0))

    def add(self, cut: NativeSegments) -> None:
        """Add segments that follow those before."""
        if self._is_known and len(self.users):
            count = max(AT_ONCE // len(self.users), 1)
            for begin in range(0, len(cut.cpu_s), count):
                self._add(cut, slice(begin, min(begin + count, len(cut.cpu_s))))

    def _add(self, cut: NativeSegments, part: slice) -> None:
        usage, t_ns, cells = self._usage, cut.t_ns[part.start : part.stop + 1], part.stop - part.start
        at = np.searchsorted(usage.grid_ns, t_ns[:-1], side="right") - 1
        inside = (at >= self._begin) & (at < len(usage.grid_ns) - 1)
        stop = int(np.searchsorted(usage.grid_ns, t_ns[-1], side="right"))
        width = max(stop - self._begin, self._ran_ns.shape[2])
        ran_ns = np.zeros((2, len(self.users), width))
        ran_ns[:, :, : self._ran_ns.shape[2]] = self._ran_ns
        weights, place = np.where(inside, np.diff(t_ns), 0), np.where(inside, at - self._begin, 0)
        near = np.flatnonzero((cut.first < part.stop) & (cut.last > part.start))
        first, last = (np.clip(one[near] - part.start, 0, cells) for one in (cut.first, cut.last))
        number = np.searchsorted(self.users, cut.runs.task[near])
        running = np.zeros((len(self.users), cells), bool)
        for task in np.unique(number).tolist():
            own = number == task
            step = np.bincount(first[own], minlength=cells + 1) - np.bincount(last[own], minlength=cells + 1)
            running[task] = np.cumsum(step)[:cells] > 0
        alone = running & (running.sum(axis=0) == 1)
        for task in np.flatnonzero(running.any(axis=1)).tolist():
            for target, ran in zip(ran_ns, (running, alone), strict=True):
                target[task] += np.bincount(place, weights=np.where(ran[task], weights, 0), minlength=width)
        self._ran_ns = ran_ns
        self._settle(stop - 1)

    def _settle(self, known: int) -> None:
        """Settle the times that end up to a read."""
        usage = self._usage
        stop = int(np.searchsorted(self._order, (known + 1) << _NUMBER))
        now = self._order[self._settled : stop] & _NUMBERS
        until_s = np.pad(np.cumsum(self._ran_ns, axis=2), ((0, 0), (0, 0), (1, 0))) * 1e-9
        any_s, alone_s = until_s[:, :, usage.last[now] - self._begin] - until_s[:, :, usage.first[now] - self._begin]
        length_s = (usage.end_ns[now] - usage.begin_ns[now]) * 1e-9
        self._most_s += np.minimum(usage.cpu_s[now], any_s).sum(axis=1)
        self._least_s += np.maximum(usage.cpu_s[now] - (length_s - alone_s), 0.0).sum(axis=1)
        self._settled = stop
        begin = max(min(int(self._needs[stop]), known), self._begin)
        self._ran_ns, self._begin = self._ran_ns[:, :, begin - self._begin :], begin
        usage.release()
        release(self._order, self._needs)

    def found(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the tasks, and the CPU seconds that each used at least and at most."""
        if not self._is_known:
            return self.users, np.zeros(len(self.users)), np.full(len(self.users), total(self._usage.cpu_s))
        return self.users, self._least_s, self._most_s


def _by_end(usage: Usage) -> NDArray[np.int64]:
    """Return the times between two reads in which CPU time was used, by their end: its place, and their number."""
    count = len(usage.cpu_s)
    keys = computed(
        count, np.int64, lambda at: (usage.last[at].astype(np.int64) << _NUMBER) | np.arange(at.start, at.stop),
        usage.last,
    )  # fmt: skip
    busy = sorted_values(kept(keys, lambda at: usage.cpu_s[at] > 0))
    usage.release()
    return busy


def _least_of_later(order: NDArray[np.int64], usage: Usage) -> NDArray[np.int32]:
    """Return for each of these times the first read at which it or a later one begins; last the number of reads."""
    least = empty(len(order) + 1, np.int32)
    least[-1] = len(usage.grid_ns)
    for at in blocks(len(order), order, least, backwards=True):
        first = np.append(usage.first[order[at] & _NUMBERS], least[at.stop])
        least[at.start : at.stop] = np.minimum.accumulate(first[::-1])[::-1][:-1]
        usage.release()
    return least


def extremes_within(
    extremes_s: tuple[Floats, Floats], own_s: Floats, whole_s: Floats, most_s: float
) -> tuple[Floats, Floats]:
    """Return the least and the most that tasks used in a window, where what is not certain of each may all lie.

    Parameters
    ----------
    extremes_s : the least and the most that each used in all
    own_s, whole_s : what is its own, in the window and in all
    most_s : of all tasks in the window
    """
    least_s = np.maximum(own_s - np.maximum(whole_s - extremes_s[0], 0.0), 0.0)
    return least_s, np.minimum(own_s + np.maximum(extremes_s[1] - whole_s, 0.0), most_s)
