"""The CPU time of one pool of native threads: of which task each part is, after which, or of one of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .segment_energy import sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .segments import Segments

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

OUTSIDE, OF_TASK, SPINNING, UNIDENTIFIED = range(4)
"""What a pool's CPU time is: of the program outside tasks, of one task, after a user's end, of one of several tasks."""
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

    def kept(self, which: NDArray[np.bool_]) -> Runs:
        """Return some of them."""
        return Runs(*(getattr(self, name)[which] for name in self.__annotations__))


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
        begin_ns, end_ns = max(begin_ns, int(self.t_ns[0])), min(end_ns, int(self.t_ns[-1]))
        inside = (self.t_ns > begin_ns) & (self.t_ns < end_ns)
        t_ns = np.concatenate(([begin_ns], self.t_ns[inside], [max(end_ns, begin_ns)]))
        at = np.clip(np.searchsorted(self.t_ns, t_ns[:-1], side="right") - 1, 0, len(self.cpu_s) - 1)
        part = np.diff(t_ns) / np.diff(self.t_ns)[at]
        numbers = np.append(rows, -1)
        runs = self.runs.kept(
            (self.runs.begin_ns < end_ns) & (self.runs.end_ns > begin_ns) & (numbers[self.runs.row] >= 0)
        )
        runs = replace(
            runs, begin_ns=np.maximum(runs.begin_ns, begin_ns), end_ns=np.minimum(runs.end_ns, end_ns),
            row=numbers[runs.row],
        )  # fmt: skip
        cut = replace(
            self, t_ns=t_ns, runs=runs, kind=self.kind[at], task=self.task[at], running=self.running[at],
            row=numbers[self.row[at]], after=self.after[at], first=np.searchsorted(t_ns, runs.begin_ns),
            last=np.searchsorted(t_ns, runs.end_ns), package=None if self.package is None else self.package[at],
            package_end=None if self.package_end is None else self.package_end[at],
            **{name: getattr(self, name)[at] * part for name in ("cpu_s", "counted_s", "counted", "modelled")},
        )  # fmt: skip
        own_s, whole_s = (one.of_task_s(self.users) for one in (cut, self))
        # What is not certain of a task's time may all lie in the window.
        return replace(
            cut,
            least_s=np.maximum(own_s - np.maximum(whole_s - self.least_s, 0.0), 0.0),
            most_s=np.minimum(own_s + np.maximum(self.most_s - whole_s, 0.0), cut.cpu_s.sum()),
        )

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

    def weigh(self, power: Floats) -> None:
        """Set the modelled energy: by counters where these were read, else as of the counted part of the pool.

        Parameters
        ----------
        power : (tasks + 1,) modelled energy per CPU second, by task and last of none, for a pool without counters
        """
        number = self.task_numbers(len(power) - 1)
        counted, counted_s = (sum_by(number, values, len(power)) for values in (self.counted, self.counted_s))
        if counted_s.sum() > 0:
            power = np.full(len(power), counted.sum() / counted_s.sum())
        power = np.divide(counted, counted_s, out=power.copy(), where=counted_s > 0)
        self.modelled = self.counted + np.maximum(self.cpu_s - self.counted_s, 0.0) * power[number]

    def used_s(self, grid_ns: Times) -> Floats:
        """Return the CPU seconds from the first of some times to each of them."""
        at_s = np.interp(grid_ns, self.t_ns, np.concatenate(([0.0], np.cumsum(self.cpu_s))))
        return np.asarray(at_s - at_s[0])

    def by_row(self, values: Floats, rows: int) -> Floats:
        """Share the values of `OF_TASK` among instances, evenly where several of the task ran: (rows,)."""
        own = self._since_begin(np.where(self.kind == OF_TASK, values / np.maximum(self.running, 1), 0.0))
        return sum_by(self.runs.row, self._of_runs(own), rows)

    def spinning(self, values: Floats, rows: int) -> Floats:
        """Return the values of `SPINNING` by the instance that ended last: (rows,)."""
        at = (self.kind == SPINNING) & (self.row >= 0)
        return sum_by(self.row[at], values[at], rows)

    def within(self, begin_ns: Times, end_ns: Times, values: Floats) -> Floats:
        """Return the values of `OF_TASK`, shared as by `by_row`, in any intervals: (m,)."""
        own = self._since_begin(np.where(self.kind == OF_TASK, values / np.maximum(self.running, 1), 0.0))
        total = own.astype(np.float64)
        return np.asarray(np.interp(np.maximum(end_ns, begin_ns), self.t_ns, total)) - np.interp(
            begin_ns, self.t_ns, total
        )

    def bounds(self, values: Floats) -> tuple[Floats, Floats]:
        """Return for each of `runs` the least and the most of the values that it may have used.

        The CPU time between two reads may have been used at any time between them. So all of an interval that a run
        touches may be its own, and none of one that it does not fill.
        """
        total = self._since_begin(values).astype(np.float64)
        alone = self._since_begin(np.where((self.kind == OF_TASK) & (self.running == 1), values, 0.0)).astype(float)
        around = self.reads_ns
        after_begin = np.searchsorted(around, self.runs.begin_ns, side="left")
        before_end = np.searchsorted(around, self.runs.end_ns, side="right") - 1
        # The threads are read one after the other: that many reads further on each has been read.
        last = len(around) - 1
        spare_begin = self.threads[np.clip(after_begin, 0, last)]
        spare_end = self.threads[np.clip(before_end, 0, last)]
        first_of, end_of = (
            around[np.clip(after_begin - spare_begin, 0, last)],
            around[np.clip(before_end + spare_end, 0, last)],
        )
        first_of, end_of = np.minimum(first_of, self.runs.begin_ns), np.maximum(end_of, self.runs.end_ns)
        inner_begin = around[np.clip(after_begin + spare_begin - 1, 0, last)]
        inner_end = around[np.clip(before_end - spare_end + 1, 0, last)]
        most = np.interp(end_of, self.t_ns, total) - np.interp(first_of, self.t_ns, total)
        inner_begin, inner_end = np.maximum(inner_begin, self.runs.begin_ns), np.minimum(inner_end, self.runs.end_ns)
        inner_end = np.maximum(inner_end, inner_begin)
        least = np.interp(inner_end, self.t_ns, alone) - np.interp(inner_begin, self.t_ns, alone)
        return np.maximum(least, 0.0), np.maximum(most, 0.0)

    def task_bounds(self, energy_j: Floats, tasks: int) -> tuple[Floats, Floats]:
        """Return the least and the most joules of each task, at those that a CPU second took while it ran: (tasks,)."""
        own_j = sum_by(self.task_numbers(tasks), energy_j, tasks + 1)[:tasks]
        beside_j, beside_s = (
            sum_by(np.minimum(self.runs.task, tasks), self._of_runs(self._since_begin(values)), tasks + 1)[:tasks]
            for values in (energy_j, self.cpu_s)
        )
        mean = energy_j.sum() / max(float(self.cpu_s.sum()), 1e-300)
        per_s = np.divide(beside_j, beside_s, out=np.full(tasks, mean), where=beside_s > 0)
        least_s, most_s = np.zeros(tasks), np.zeros(tasks)
        known = self.users < tasks
        least_s[self.users[known]], most_s[self.users[known]] = self.least_s[known], self.most_s[known]
        return np.minimum(least_s * per_s, own_j), np.maximum(most_s * per_s, own_j)

    def _since_begin(self, values: Floats) -> NDArray[np.longdouble]:
        return np.concatenate((np.zeros(1, np.longdouble), np.cumsum(values.astype(np.longdouble))))

    def _of_runs(self, total: NDArray[np.longdouble]) -> Floats:
        return (total[self.last] - total[self.first]).astype(np.float64)


def runs_of(segments: Sequence[Segments], which: Sequence[int], *, caller_computes: bool = False) -> Runs:
    """Return the times in which tasks ran on some threads.

    Parameters
    ----------
    segments : of all threads with samples
    which : indices of the threads
    caller_computes : leave out the times in which a task only waited
    """
    offsets = np.cumsum([0, *(len(one.rows) for one in segments)])
    parts = []
    for index in which:
        one = segments[index]
        length_s = np.diff(one.t_ns) * 1e-9
        ran = (one.slot > 0) & (length_s > 0)
        at = np.flatnonzero(ran & (one.cpu_s >= WAITING * length_s) if caller_computes else ran)
        row = one.slot[at].astype(np.int64) - 1
        task = one.rows.task[row].astype(np.int64)
        parts.append((one.t_ns[at], one.t_ns[at + 1], row + offsets[index], task))
    if not parts:
        nothing = np.empty(0, np.int64)
        return Runs(nothing, nothing, nothing, nothing, np.empty(0, bool))
    begin_ns, end_ns, row, task = (np.concatenate([part[place] for part in parts]) for place in range(4))
    return Runs(begin_ns, end_ns, row, task, np.zeros(len(row), bool))
