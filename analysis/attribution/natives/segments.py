"""The CPU time of one pool of native threads: of which task each part is, after which, or of one of several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by

from tprof.trace.layout import NO_TASK
from tprof.trace.long_arrays import blocks, release, running_sums, total, zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.segment_energy import Shares
    from tprof.analysis.engine.instance_table import InstanceTable

    from .cuts import Usage


Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Ids = NDArray[np.uint64]

OUTSIDE, OF_TASK, SPINNING, UNIDENTIFIED = range(4)
"""What a pool's CPU time is: of the program outside tasks, of one task, after a user's end, of one of several tasks."""
_OF_SEGMENTS = (
    "cpu_s", "counted_s", "counted", "kind", "task", "running", "instance", "after", "ended_ns",
)  # fmt: skip
WAITING = 0.02
"""A task whose thread uses less than this part of a core only waits."""


class Rows(Protocol):
    """Instances and their tasks."""

    @property
    def instance(self) -> Ids:
        """Ids, (rows,)."""

    @property
    def task(self) -> NDArray[np.uint32]:
        """Indices of tasks, (rows,)."""


class RanThread(Protocol):
    """What a thread with samples ran; as of `Segments`."""

    @property
    def t_ns(self) -> Times:
        """Where segments begin and end, (n + 1,)."""

    @property
    def slot(self) -> NDArray[np.int32]:
        """0: no task, else 1 + row in `rows`, (n,)."""

    @property
    def cpu_s(self) -> Floats:
        """CPU seconds, (n,)."""

    @property
    def rows(self) -> Rows:
        """The instances."""


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
    instance : (n,) uint64, 0: none
    task : (n,) int64, -1: none, or one that is in no table
    doubtful : (n,) whether it is not known that the task uses the pool at all
    """

    begin_ns: Times
    end_ns: Times
    instance: Ids
    task: NDArray[np.int64]
    doubtful: NDArray[np.bool_]

    @classmethod
    def of(cls, one: RanThread, place: NDArray[np.intp], begin_ns: Times, end_ns: Times) -> Runs:
        """Return what ran in parts of a thread's segments."""
        row = one.slot[place].astype(np.int64) - 1
        task = np.append(one.rows.task.astype(np.int64), -1)[row]
        task[task == NO_TASK] = -1
        instance = np.append(one.rows.instance, np.uint64(0))[row]
        return cls(begin_ns, end_ns, np.where(task >= 0, instance, np.uint64(0)), task, np.zeros(len(row), bool))

    @classmethod
    def outside(cls, begin_ns: Times, end_ns: Times) -> Runs:
        """Return times of no task."""
        count = len(begin_ns)
        return cls(begin_ns, end_ns, np.zeros(count, np.uint64), np.full(count, -1), np.zeros(count, bool))

    def kept(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Runs:
        """Return some of them."""
        return Runs(*(getattr(self, name)[which] for name in self.__annotations__))

    @classmethod
    def none(cls) -> Runs:
        """Return no runs."""
        return cls.outside(*np.empty((2, 0), np.int64))

    def limited(self, begin_ns: int, end_ns: int) -> Runs:
        """Return the same, cut to a time."""
        begins_ns, ends_ns = (np.clip(one, begin_ns, end_ns) for one in (self.begin_ns, self.end_ns))
        return replace(self, begin_ns=begins_ns, end_ns=ends_ns)

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """Put several together."""
        parts = [cls.none(), *parts]
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in cls.__annotations__))


@dataclass
class NativeSegments:
    """The CPU time of one pool, cut where a user begins or ends and where a clock was read.

    Attributes
    ----------
    t_ns : (n + 1,) int64, increasing
    cpu_s : (n,) float64, of all threads of the pool
    counted_s : (n,) float64, of these the CPU seconds whose modelled energy is known by counters
    counted : (n,) float64, that modelled energy
    kind : (n,) int8: `OUTSIDE`, `OF_TASK`, `SPINNING` or `UNIDENTIFIED`
    task : (n,) int64: of `OF_TASK`
    running : (n,) instances that run and can be users
    instance, after : (n,) of `SPINNING` the instance that ended last and its task
    ended_ns : (n,) int64, when a run ended last
    runs : the users' times
    first, last : for each of `runs` the segments where it begins and ends
    modelled : (n,) float64, modelled energy of all
    package, package_end : (n,) -1: not known; None: there is one
    run_row, row : rows of the instances of `runs`, and of those that ended last, -1: not there
    """

    t_ns: Times
    cpu_s: Floats
    counted_s: Floats
    counted: Floats
    kind: NDArray[np.int8]
    task: NDArray[np.int64]
    running: NDArray[np.int32]
    instance: Ids
    after: NDArray[np.int64]
    ended_ns: Times
    runs: Runs
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    modelled: Floats = field(default_factory=lambda: np.empty(0))
    package: NDArray[np.int16] | None = None
    package_end: NDArray[np.int16] | None = None
    run_row: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    row: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def limited(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the part between two times, None if there is none; of a segment that is cut the part by time.

        What ended before these times is no instance's.
        """
        low, high = (
            int(np.searchsorted(self.t_ns[1:], begin_ns, side="right")),
            int(np.searchsorted(self.t_ns[:-1], end_ns)),
        )
        if low >= high:
            return None
        t_ns = np.clip(self.t_ns[low : high + 1], begin_ns, end_ns)
        part = np.diff(t_ns) / np.diff(self.t_ns[low : high + 1])
        of_segments = {name: getattr(self, name)[low:high] for name in _OF_SEGMENTS}
        of_segments |= {name: of_segments[name] * part for name in ("cpu_s", "counted_s", "counted")}
        of_segments["instance"] = np.where(of_segments["ended_ns"] < begin_ns, np.uint64(0), of_segments["instance"])
        first, last = (np.clip(one - low, 0, high - low) for one in (self.first, self.last))
        return NativeSegments(
            t_ns=t_ns, runs=self.runs.limited(begin_ns, end_ns), first=first, last=last, **of_segments
        )

    def placed(self, instances: InstanceTable) -> NativeSegments:
        """Return the same with rows of the instances, without runs of those that are not there."""
        run_row = instances.find(self.runs.instance)
        known = run_row >= 0
        row = np.where(self.instance > 0, instances.find(self.instance), np.int32(-1))
        return replace(
            self,
            runs=self.runs.kept(known),
            first=self.first[known],
            last=self.last[known],
            run_row=run_row[known],
            row=row,
        )

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
        return sum_by(self.run_row, self.of_runs(self.of_task(values)), rows)

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
            low = np.clip(np.searchsorted(of_segment, number), self.first, self.last)
            high = np.clip(np.searchsorted(of_segment, number, side="right"), self.first, self.last)
            total_j += (sums[high] - sums[low]).astype(np.float64)
        return total_j

    def alone(self, values: Floats) -> Floats:
        """Return the values of one run that ran alone, 0 elsewhere."""
        return np.where((self.kind == OF_TASK) & (self.running == 1), values, 0.0)

    def _since_begin(self, values: Floats) -> NDArray[np.longdouble]:
        return np.concatenate((np.zeros(1, np.longdouble), np.cumsum(values.astype(np.longdouble))))


def runs_of(segments: Sequence[RanThread | None], which: Sequence[int], *, caller_computes: bool = False) -> Runs:
    """Return the times in which tasks ran on some threads.

    Parameters
    ----------
    segments : of all threads with samples; None for one without any in the part of the recording
    which : indices of the threads
    caller_computes : leave out the times in which a task only waited
    """
    parts = []
    for index in which:
        one = segments[index]
        if one is None:
            continue
        length_s = np.diff(one.t_ns) * 1e-9
        ran = (one.slot > 0) & (length_s > 0)
        at = np.flatnonzero(ran & (one.cpu_s >= WAITING * length_s) if caller_computes else ran)
        runs = Runs.of(one, at, one.t_ns[at], one.t_ns[at + 1])
        parts.append(runs.kept(runs.task >= 0))
    return Runs.joined(parts)


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


LARGEST = 100_000_000
"""With more tasks times segments the tasks' extremes are not computed: nothing, and all."""


class Extremes:
    """How long tasks ran between two reads, and the least and the most of the pool's CPU time that follows from it.

    Attributes
    ----------
    users : tasks, increasing
    """

    def __init__(self, usage: Usage, users: NDArray[np.int64], segments: int) -> None:
        """Begin with the tasks that run in any of so many segments."""
        self.users, self._usage = users, usage
        self._is_known = len(users) * segments <= LARGEST
        count = len(users) if self._is_known else 0
        # Of each task when it ran at all, and when no other task did.
        self._ran_ns = zeros(2 * count * len(usage.grid_ns), np.int64).reshape(2, count, len(usage.grid_ns))

    def add(self, cut: NativeSegments) -> None:
        """Add segments that follow those before."""
        if not self._is_known:
            return
        grid_ns, cells = self._usage.grid_ns, len(cut.cpu_s)
        at = np.searchsorted(grid_ns, cut.t_ns[:-1], side="right") - 1
        low = max(int(at[0]), 0)
        weights_ns = np.where((at >= 0) & (at < len(grid_ns) - 1), np.diff(cut.t_ns), 0)
        running = np.zeros(cells, np.int64)
        ran = []
        for task in np.unique(cut.runs.task).tolist():
            own = cut.runs.task == task
            step = np.bincount(cut.first[own], minlength=cells + 1) - np.bincount(cut.last[own], minlength=cells + 1)
            ran.append((int(np.searchsorted(self.users, task)), np.cumsum(step)[:cells] > 0))
            running += ran[-1][1]
        for number, is_on in ran:
            for target, which in zip(self._ran_ns[:, number], (is_on, is_on & (running == 1)), strict=True):
                sums = np.bincount(np.maximum(at - low, 0), weights=np.where(which, weights_ns, 0))
                target[low : low + len(sums)] += sums.astype(np.int64)
        release(self._ran_ns)

    def found(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the tasks, and the CPU seconds that each used at least and at most."""
        usage, (least_s, most_s) = self._usage, np.zeros((2, len(self.users)))
        if not self._is_known:
            return self.users, least_s, np.full(len(self.users), total(usage.cpu_s))
        for number in range(len(self.users)):
            until_ns = [running_sums(one[number]) for one in self._ran_ns]
            for at in blocks(len(usage.cpu_s), usage.cpu_s, *until_ns):
                first, last, cpu_s = usage.first[at], usage.last[at], usage.cpu_s[at]
                any_s, alone_s = ((one[last] - one[first]) * 1e-9 for one in until_ns)
                length_s = (usage.end_ns[at] - usage.begin_ns[at]) * 1e-9
                most_s[number] += np.minimum(cpu_s, any_s).sum()
                least_s[number] += np.maximum(cpu_s - (length_s - alone_s), 0.0).sum()
                usage.release()
        return self.users, least_s, most_s


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
