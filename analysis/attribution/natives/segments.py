"""The CPU time of one pool of native threads: of which task each part is, after which, or of one of several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import LocatedSegments, sum_by
from tprof.analysis.attribution.segments import Joints, begun_in

from tprof.trace.layout import NO_TASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.engine.instance_table import InstanceTable


Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Ids = NDArray[np.uint64]

OUTSIDE, OF_TASK, SPINNING, UNIDENTIFIED = range(4)
"""What a pool's CPU time is: of the program outside tasks, of one task, after a user's end, of one of several tasks."""
PARTS = 1_000_000
"""Parts of segments that are shared at a time, about."""
_OF_SEGMENTS = (
    "cpu_s", "counted_s", "counted", "kind", "task", "running", "instance", "after", "ended_ns",
)  # fmt: skip


class Reach(NamedTuple):
    """A thread, and from when to when it has samples, or is followed without any."""

    pid: int
    tid: int
    first_ns: int
    end_ns: int


@dataclass(frozen=True)
class Runs:
    """When instances ran.

    Attributes
    ----------
    begin_ns, end_ns : (n,) int64
    instance : (n,) uint64, 0: none
    task : (n,) int64, -1: none
    """

    begin_ns: Times
    end_ns: Times
    instance: Ids
    task: NDArray[np.int64]

    @classmethod
    def of(cls, one: Segments, own_ns: tuple[int, int]) -> Runs:
        """Return the runs of tasks on a thread, in order, as of its segments that begin between two times."""
        at = begun_in(one.t_ns, own_ns)
        task, instance = one.owners.task[one.slot[at]].astype(np.int64), one.owners.instance[one.slot[at]]
        begin_ns, end_ns = one.t_ns[:-1][at], one.t_ns[1:][at]
        return cls(begin_ns, end_ns, instance, task).kept((task != NO_TASK) & (end_ns > begin_ns)).merged()

    @classmethod
    def none(cls) -> Runs:
        """Return no runs."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing.astype(np.uint64), nothing)

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """Put several together."""
        parts = [cls.none(), *parts]
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in cls.__annotations__))

    def kept(self, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Runs:
        """Return some of them."""
        return Runs(*(getattr(self, name)[which] for name in self.__annotations__))

    def merged(self) -> Runs:
        """Return runs of one thread in order, with one in the place of each that goes on where the one before ends."""
        if not len(self.task):
            return self
        goes_on = (self.begin_ns[1:] == self.end_ns[:-1]) & (self.instance[1:] == self.instance[:-1])
        goes_on &= self.task[1:] == self.task[:-1]
        return replace(self.kept(np.append(True, ~goes_on)), end_ns=self.end_ns[np.append(~goes_on, True)])

    def between(self, begin_ns: int, end_ns: int) -> Runs:
        """Return of runs of one thread in order those that touch a time."""
        first = np.searchsorted(self.end_ns, begin_ns)
        return self.kept(slice(first, max(first, np.searchsorted(self.begin_ns, end_ns, side="right"))))

    def limited(self, begin_ns: int, end_ns: int) -> Runs:
        """Return the same, cut to a time."""
        begins_ns, ends_ns = (np.clip(one, begin_ns, end_ns) for one in (self.begin_ns, self.end_ns))
        return replace(self, begin_ns=begins_ns, end_ns=ends_ns)


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

    def between(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the segments and runs that lie in a time or reach into it; None if no segment does."""
        low, high = int(np.searchsorted(self.t_ns[1:], begin_ns, side="right")), int(np.searchsorted(self.t_ns, end_ns))
        high = min(high, len(self.cpu_s))
        if low >= high:
            return None
        of_segments = {name: getattr(self, name)[low:high] for name in _OF_SEGMENTS}
        known = (self.runs.end_ns >= begin_ns) & (self.runs.begin_ns < end_ns)
        first, last = (np.clip(one[known] - low, 0, high - low) for one in (self.first, self.last))
        t_ns, runs = self.t_ns[low : high + 1], self.runs.kept(known)
        return replace(self, t_ns=t_ns, runs=runs, first=first, last=last, **of_segments)

    def limited(self, begin_ns: int, end_ns: int) -> NativeSegments | None:
        """Return the part between two times, None if there is none; of a segment that is cut the part by time.

        What ended before these times is no instance's.
        """
        found = self.between(begin_ns, end_ns)
        if found is None:
            return None
        t_ns = np.clip(found.t_ns, begin_ns, end_ns)
        part = np.diff(t_ns) / np.diff(found.t_ns)
        cpu_s, counted_s, counted = found.cpu_s * part, found.counted_s * part, found.counted * part
        instance = np.where(found.ended_ns < begin_ns, np.uint64(0), found.instance)
        return replace(
            found, t_ns=t_ns, cpu_s=cpu_s, counted_s=counted_s, counted=counted, instance=instance,
            runs=found.runs.limited(begin_ns, end_ns),
        )  # fmt: skip

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

    def of_instances(self, located: LocatedSegments) -> Iterator[tuple[LocatedSegments, NDArray[np.int32]]]:
        """Yield what instances have of the segments of `OF_TASK`, some runs at a time, and the slot of each part.

        Each run stands for a thread, with its share of the segments in which it is one of several.
        """
        count, modelled = self.last - self.first + 1, np.append(self.of_task(located.modelled), 0.0)
        for some in np.array_split(np.arange(len(count)), 1 + int(count.sum()) // PARTS):
            end = np.cumsum(count[some])
            at = np.arange(count[some].sum()) + np.repeat(self.first[some] - end + count[some], count[some])
            parts = LocatedSegments(
                located.t_ns[at], modelled[at][:-1], located.edges_ns, Joints(end - count[some], end - 1)
            )
            yield parts, np.repeat(self.run_row[some] + np.int32(1), count[some])[:-1]

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

    def alone(self, values: Floats) -> Floats:
        """Return the values of one run that ran alone, 0 elsewhere."""
        return np.where((self.kind == OF_TASK) & (self.running == 1), values, 0.0)

    def _since_begin(self, values: Floats) -> NDArray[np.longdouble]:
        return np.concatenate((np.zeros(1, np.longdouble), np.cumsum(values.astype(np.longdouble))))


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
