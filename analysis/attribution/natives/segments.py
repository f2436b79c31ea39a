"""The CPU time of one pool of native threads: of which task each part is, after which, or of one of several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
Runs = NDArray[np.void]
"""Of `RUN`; of one thread they are in order, and do not overlap."""

OUTSIDE, OF_TASK, SPINNING, UNIDENTIFIED = range(4)
"""What a pool's CPU time is: of the program outside tasks, of one task, after a user's end, of one of several tasks."""
PARTS = 1_000_000
"""Parts of segments that are shared at a time, about."""
LONG_NS = 1 << 62
RUN = np.dtype([("begin_ns", "<i8"), ("end_ns", "<i8"), ("instance", "<u8"), ("task", "<i8")])
"""When an instance ran; `instance` 0 and `task` -1: none."""
SEGMENT = np.dtype(
    [
        ("cpu_s", "<f8"), ("counted_s", "<f8"), ("counted", "<f8"), ("ended", "<i4"), ("task", "<i4"),
        ("running", "<i4"), ("kind", "<i4"),
    ]
)  # fmt: skip
"""CPU seconds of all threads of a pool; of these the ones whose modelled energy is known by counters, and that energy;
which run ended last, a place in `Ended`; of `OF_TASK` the task; how many instances run that can be users; what it is:
`OUTSIDE`, `OF_TASK`, `SPINNING` or `UNIDENTIFIED`."""


class Reach(NamedTuple):
    """A thread, and from when to when it has samples, or is followed without any."""

    pid: int
    tid: int
    first_ns: int
    end_ns: int


def runs_of(one: Segments, own_ns: tuple[int, int]) -> Runs:
    """Return the runs of tasks on a thread, in order, as of its segments that begin between two times."""
    at = begun_in(one.t_ns, own_ns)
    task, instance = one.owners.task[one.slot[at]], one.owners.instance[one.slot[at]]
    runs = table(RUN, one.t_ns[:-1][at], one.t_ns[1:][at], instance, task)
    return merged(runs[(task != NO_TASK) & (runs["end_ns"] > runs["begin_ns"])])


def table(kind: np.dtype[np.void], *columns: NDArray[Any]) -> NDArray[np.void]:
    """Return a structured array of columns."""
    found = np.empty(len(columns[0]), kind)
    for name, column in zip(kind.names or (), columns, strict=True):
        found[name] = column
    return found


def joined(parts: Sequence[Runs]) -> Runs:
    """Put several together."""
    return np.concatenate([np.empty(0, RUN), *parts])


def merged(runs: Runs) -> Runs:
    """Return runs of one thread in order, with one in the place of each that goes on where the one before ends."""
    begins = np.ones(len(runs), bool)
    for name, before in (("begin_ns", "end_ns"), ("instance", "instance"), ("task", "task")):
        begins[1:] &= runs[name][1:] == runs[before][:-1]
    begins[1:] = ~begins[1:]
    found = runs[begins]
    found["end_ns"] = runs["end_ns"][np.append(begins[1:], True)[: len(runs)]]
    return found


def touching(runs: Runs, begin_ns: int, end_ns: int) -> Runs:
    """Return of runs of one thread in order those that touch a time."""
    first = np.searchsorted(runs["end_ns"], begin_ns)
    return runs[first : max(first, np.searchsorted(runs["begin_ns"], end_ns, side="right"))]


def limited_runs(runs: Runs, begin_ns: int, end_ns: int) -> Runs:
    """Return the same, cut to a time."""
    columns = (np.clip(runs[name], begin_ns, end_ns) for name in ("begin_ns", "end_ns"))
    return table(RUN, *columns, runs["instance"], runs["task"])


class Ended(NamedTuple):
    """The runs of users in order of their ends, first none; when the last one of another task had ended before each."""

    end_ns: Times
    instance: NDArray[np.uint64]
    task: Times
    other_ns: Times

    @classmethod
    def of(cls, runs: Runs) -> Ended:
        """Sort runs."""
        runs = runs[np.argsort(runs["end_ns"], kind="stable")]
        end_ns, task = np.append(-LONG_NS, runs["end_ns"]), np.append(-2, runs["task"])
        changed = np.append(False, task[1:] != task[:-1])
        other = np.maximum(np.maximum.accumulate(np.where(changed, np.arange(len(changed)), 0)) - 1, 0)
        return cls(end_ns, np.append(np.uint64(0), runs["instance"]), task, end_ns[other])


@dataclass
class NativeSegments:
    """The CPU time of one pool, cut where a user begins or ends and where a clock was read.

    Attributes
    ----------
    t_ns : (n + 1,) int64, increasing
    table : (n,) of `SEGMENT`
    ended : the runs after which it may spin
    threads : the users' runs, of each thread with samples
    place : of the first among the segments of the pool
    modelled : (n,) float64, modelled energy of all
    package : (n,) on which they begin and end, -1: not known; None: there is one
    run_row, row : rows of the instances of `runs`, and of those that it spins after, -1: not there
    """

    t_ns: Times
    table: NDArray[np.void]
    ended: Ended
    threads: Sequence[Runs]
    place: int = 0
    modelled: Floats = field(default_factory=lambda: np.empty(0))
    package: NDArray[np.int16] | None = None
    run_row: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    row: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def package_end(self) -> NDArray[np.int16] | None:
        """The same as `package`."""
        return self.package

    @property
    def cpu_s(self) -> Floats:
        """CPU seconds, (n,)."""
        return np.ascontiguousarray(self.table["cpu_s"])

    def used_s(self, t_ns: Times) -> Floats:
        """Return the CPU seconds up to times, 0 before the first segment."""
        return np.asarray(np.interp(t_ns, self.t_ns, np.append(0.0, np.cumsum(self.cpu_s))))

    @property
    def kind(self) -> NDArray[np.int32]:
        """What each is, (n,)."""
        return np.ascontiguousarray(self.table["kind"])

    def last(self, name: Literal["end_ns", "instance", "task"]) -> NDArray[Any]:
        """Return the end, the instance or the task of the run that ended last before each, (n,)."""
        found: NDArray[Any] = getattr(self.ended, name)[self.table["ended"]]
        return found

    @cached_property
    def runs(self) -> Runs:
        """The users' runs on all threads."""
        return joined(self.threads)

    @cached_property
    def spans(self) -> tuple[Times, Times]:
        """For each of `runs` the segments where it begins and ends."""
        first_ns, last_ns = self.t_ns[[0, -1]].tolist()
        first, last = (
            np.searchsorted(self.t_ns, np.clip(self.runs[name], first_ns, last_ns)) for name in ("begin_ns", "end_ns")
        )
        return first, last

    def between(self, begin_ns: int, end_ns: int) -> NativeSegments:
        """Return the segments and runs that lie in a time or reach into it."""
        low = min(int(np.searchsorted(self.t_ns[1:], begin_ns, side="right")), len(self))
        high = max(min(int(np.searchsorted(self.t_ns, end_ns)), len(self)), low)
        threads = [touching(one, begin_ns, end_ns) for one in self.threads]
        return NativeSegments(self.t_ns[low : high + 1], self.table[low:high], self.ended, threads, self.place + low)

    def limited(self, begin_ns: int, end_ns: int) -> NativeSegments:
        """Return the part between two times; of a segment that is cut the part by time.

        What ended before these times is no instance's.
        """
        found = self.between(begin_ns, end_ns)
        t_ns, rows = np.clip(found.t_ns, begin_ns, end_ns), found.table.copy()
        for name in ("cpu_s", "counted_s", "counted"):
            rows[name] *= np.diff(t_ns) / np.diff(found.t_ns)
        rows["ended"][found.last("end_ns") < begin_ns] = 0
        return NativeSegments(t_ns, rows, self.ended, [limited_runs(one, begin_ns, end_ns) for one in found.threads])

    def placed(self, instances: InstanceTable, power: Floats, *, packages: bool) -> NativeSegments:
        """Return the same with modelled energy and rows of the instances, without runs of those that are not there.

        Parameters
        ----------
        instances : that are there
        power : (tasks + 1,) modelled energy per CPU second where counters were not read
        packages : whether the machine has more than one
        """
        run_row = instances.find(self.runs["instance"])
        known, spins = run_row >= 0, self.kind == SPINNING
        return replace(
            self,
            threads=[self.runs[known]],
            modelled=self.modelled_at(power),
            package=np.full(len(self), -1, np.int16) if packages else None,
            run_row=run_row[known],
            row=np.where(spins, instances.find(self.last("instance")), np.int32(-1)),
        )

    def modelled_at(self, power: Floats) -> Floats:
        """Return the modelled energy, at (tasks + 1,) modelled energy per CPU second where counters were not read."""
        counted, counted_s, cpu_s = (self.table[name] for name in ("counted", "counted_s", "cpu_s"))
        return np.asarray(counted + np.maximum(cpu_s - counted_s, 0.0) * power[self.task_numbers(len(power) - 1)])

    def of_instances(self, located: LocatedSegments) -> Iterator[tuple[LocatedSegments, NDArray[np.int32]]]:
        """Yield what instances have of the segments of `OF_TASK`, some runs at a time, and the slot of each part.

        Each run stands for a thread, with its share of the segments in which it is one of several.
        """
        first, last = self.spans
        count, modelled = last - first + 1, np.append(self.of_task(located.modelled), 0.0)
        for some in np.array_split(np.arange(len(count)), 1 + int(count.sum()) // PARTS):
            end = np.cumsum(count[some])
            at = np.arange(count[some].sum()) + np.repeat(first[some] - end + count[some], count[some])
            parts = LocatedSegments(
                located.t_ns[at], modelled[at][:-1], located.edges_ns, Joints(end - count[some], end - 1)
            )
            yield parts, np.repeat(self.run_row[some] + np.int32(1), count[some])[:-1]

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the task of each segment; `tasks` if it is none's, or not known."""
        task = self.table["task"]
        return np.where((self.table["kind"] == OF_TASK) & (task < tasks), task, tasks).astype(np.int32)

    def by_task(self, values: Floats, tasks: int) -> Floats:
        """Return sums of values of `OF_TASK` by task, and last of the others: (tasks + 1,)."""
        return sum_by(self.task_numbers(tasks), values, tasks + 1)

    def counted_by_task(self, tasks: int) -> tuple[Floats, Floats]:
        """Return modelled energy and CPU seconds that were counted, as `by_task`."""
        counted, counted_s = (self.by_task(self.table[name], tasks) for name in ("counted", "counted_s"))
        return counted, counted_s

    def beside(self, values: Floats, tasks: int) -> Floats:
        """Return the sums of values while each task ran: (tasks,)."""
        return sum_by(np.minimum(self.runs["task"], tasks), self.of_runs(values), tasks + 1)[:tasks]

    def by_row(self, values: Floats, rows: int) -> Floats:
        """Share the values of `OF_TASK` among instances, evenly where several of the task ran: (rows,)."""
        return sum_by(self.run_row, self.of_runs(self.of_task(values)), rows)

    def of_task(self, values: Floats) -> Floats:
        """Return the values of `OF_TASK` for each instance of the task that runs, 0 elsewhere."""
        return np.where(self.table["kind"] == OF_TASK, values / np.maximum(self.table["running"], 1), 0.0)

    def of_runs(self, values: Floats) -> Floats:
        """Return the sums of values over the segments of each of `runs`."""
        return _between(values, *self.spans)

    def spinning(self, values: Floats, rows: int) -> Floats:
        """Return the values of `SPINNING` by the instance that ended last: (rows,)."""
        at = self.row >= 0
        return sum_by(self.row[at], values[at], rows)


def _between(values: Floats, first: NDArray[np.integer[Any]], last: NDArray[np.integer[Any]]) -> Floats:
    """Return the sums of values from some places up to others."""
    total = np.concatenate((np.zeros(1, np.longdouble), np.cumsum(values.astype(np.longdouble))))
    return np.asarray(total[last] - total[first], np.float64)


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
