"""The CPU time of one pool's native threads: when its users ran, after they had ended, or when several could have.

A thread's clock is read about every 5 ms, so only the CPU time between two reads is known. As much of it as fits falls
into the time in which a user of the pool ran, evenly; the rest lies after a user's end. A call of a library waits for
its pool, so what a pool does while its user runs is the user's, also if the pool's threads only spin.

A pool's threads are added up, so the cost is O(samples + reads) whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
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
IDLE = 0.02
"""A pool that uses less than this part of a core between two reads is idle: whatever it did before has ended."""
WAITING = 0.02
"""A task whose thread uses less than this part of a core only waits."""
LONG_NS = 1 << 62
LEAST_SEEN_NS = 20_000_000
MOST_RESTING = 0.1
"""A pool that uses less than this part of a core right after a call sleeps at once."""
LARGEST = 100_000_000
"""With more tasks times segments the tasks' extremes are not computed: nothing, and all."""
_FIXED = float(1 << 40)
"""Rates are summed as integers in these units, so that nothing is left when a rate has been taken off again."""
_MOST_RATE = 100.0
"""CPU seconds per second; more of one thread is damage."""


@dataclass(frozen=True)
class Clock:
    """The CPU seconds of one native thread at the times when they were read.

    Attributes
    ----------
    t_ns : (n,) int64, increasing
    cpu_s : (n,) float64, cumulative, from 0
    """

    t_ns: Times
    cpu_s: Floats


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
    modelled : (n,) float64, modelled energy
    kind : (n,) int8: `OUTSIDE`, `OF_TASK`, `SPINNING` or `UNIDENTIFIED`
    task : (n,) int64: of `OF_TASK`, -1 elsewhere
    running : (n,) instances that run and can be users
    row, after : (n,) int64: of `SPINNING` the instance that ended last and its task, -1 elsewhere
    spins : whether the pool may spin after a call
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
    modelled: Floats
    kind: NDArray[np.int8]
    task: NDArray[np.int64]
    running: NDArray[np.int32]
    row: NDArray[np.int64]
    after: NDArray[np.int64]
    spins: bool
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

    @property
    def slot(self) -> NDArray[np.int32]:
        """Zeros: several instances may share a segment."""
        return np.zeros(len(self.cpu_s), np.int32)

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the task of each segment; `tasks` if it is none's, or not known."""
        own = (self.kind == OF_TASK) & (self.task < tasks)
        return np.where(own, self.task, tasks).astype(np.int32)

    def used_s(self, grid_ns: Times) -> Floats:
        """Return the CPU seconds from the first of some times to each of them."""
        at_s = np.interp(grid_ns, self.t_ns, np.concatenate(([0.0], np.cumsum(self.cpu_s))))
        return np.asarray(at_s - at_s[0])

    def total(self, kind: int, values: Floats) -> float:
        """Return the sum of the values, one a segment, of one kind."""
        return float(values[self.kind == kind].sum())

    def by_row(self, values: Floats, rows: int) -> Floats:
        """Share the values of `OF_TASK` among instances, evenly where several of the task ran: (rows,)."""
        own = self._since_begin(np.where(self.kind == OF_TASK, values / np.maximum(self.running, 1), 0.0))
        return sum_by(self.runs.row, self._of_runs(own), rows)

    def candidates(self, values: Floats, rows: int) -> Floats:
        """Return by instance all values of `UNIDENTIFIED` of which it can be the user: (rows,)."""
        unknown = self._since_begin(np.where(self.kind == UNIDENTIFIED, values, 0.0))
        return sum_by(self.runs.row, self._of_runs(unknown), rows)

    def spinning(self, values: Floats, rows: int) -> Floats:
        """Return the values of `SPINNING` by the instance that ended last: (rows,)."""
        at = self.kind == SPINNING
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
        """Return the least and the most joules of each task, at the joules that its CPU second takes: (tasks,)."""
        number = self.task_numbers(tasks)
        own_j, own_s = (sum_by(number, values, tasks + 1)[:tasks] for values in (energy_j, self.cpu_s))
        mean = energy_j.sum() / max(float(self.cpu_s.sum()), 1e-300)
        per_s = np.divide(own_j, own_s, out=np.full(tasks, mean), where=own_s > 0)
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
        parts.append((one.t_ns[at], one.t_ns[at + 1], row + offsets[index], task, np.zeros(len(at), bool)))
    if not parts:
        return Runs(*(np.empty(0, np.int64) for _ in range(4)), np.empty(0, bool))
    return Runs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def cut_pool(process: int, clocks: Sequence[Clock], runs: Runs, *, packages: bool, spins_ns: int = 0) -> NativeSegments:
    """Cut the CPU time of a pool.

    Parameters
    ----------
    process : pid
    clocks : of its threads, each with two reads or more
    runs : of its possible users; what a pool does while a doubtful one runs is unidentified
    packages : whether the machine has more than one package
    spins_ns : how long the pool may go on spinning after a call. While another task than the caller's runs and the
        pool has not rested in between, its CPU time is unidentified
    """
    near = runs.kept(_busy_in(clocks, runs))
    reads_ns = np.sort(np.concatenate([one.t_ns for one in clocks]))
    t_ns = np.unique(np.concatenate((reads_ns, near.begin_ns, near.end_ns)))
    first, last = np.searchsorted(t_ns, near.begin_ns), np.searchsorted(t_ns, near.end_ns)
    cells = len(t_ns) - 1
    sure = ~near.doubtful
    running, one_task, task = _running(near.kept(sure), first[sure], last[sure], cells)
    doubtful = _running(near.kept(~sure), first[~sure], last[~sure], cells)[0] > 0
    on, off, touches_on, touches_off = _rates(clocks, t_ns, running > 0)
    rate = np.where(running > 0, on, off)
    rests = (rate < IDLE) & ~(touches_on & touches_off)
    kind = np.where(running == 0, OUTSIDE, np.where(one_task, OF_TASK, UNIDENTIFIED)).astype(np.int8)
    users = runs.kept(~runs.doubtful)
    row, after, since_ns = _after(users, t_ns, running > 0, rests)
    kind[row >= 0] = SPINNING
    spins = bool(spins_ns) and _is_seen_to_spin(rate, t_ns, since_ns, ~touches_on, spins_ns)
    if spins:
        kind[_carried_over(users, t_ns, task, kind == OF_TASK, rests, spins_ns)] = UNIDENTIFIED
    kind[doubtful] = UNIDENTIFIED
    row[doubtful], after[doubtful] = -1, -1
    cpu_s = rate * np.diff(t_ns) * 1e-9
    unknown = np.full(len(cpu_s), -1, np.int16) if packages else None
    return NativeSegments(
        process, t_ns, cpu_s, cpu_s, kind, np.where(kind == OF_TASK, task, -1), running, row, after, spins, near, first, last,
        reads_ns, _alive(clocks, reads_ns), *_extremes(clocks, t_ns, near, first, last), unknown, unknown,
    )  # fmt: skip


def _busy_in(clocks: Sequence[Clock], runs: Runs) -> NDArray[np.bool_]:
    """Return the runs that touch a time between two reads in which any thread used CPU time."""
    busy = [np.diff(one.cpu_s) > 0 for one in clocks]
    begins = np.sort(np.concatenate([one.t_ns[:-1][used] for one, used in zip(clocks, busy, strict=True)]))
    ends = np.sort(np.concatenate([one.t_ns[1:][used] for one, used in zip(clocks, busy, strict=True)]))
    return np.searchsorted(begins, runs.end_ns, side="left") > np.searchsorted(ends, runs.begin_ns, side="right")


def _running(
    runs: Runs, first: NDArray[np.int64], last: NDArray[np.int64], cells: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.int64]]:
    """Return for each cell the number of runs, whether all are of one task, and this task."""

    def over(weights: Floats) -> Floats:
        begun = np.bincount(first, weights=weights, minlength=cells + 1)
        return np.cumsum(begun - np.bincount(last, weights=weights, minlength=cells + 1))[:cells]

    # Whole numbers below 2 ** 53, so these sums are exact. All are equal if count * sum of squares = square of sum.
    tasks, number = np.unique(runs.task, return_inverse=True)
    number = number.astype(np.float64)
    count, total, squares = over(np.ones(len(number))), over(number), over(number**2)
    one_task = (count > 0) & (count * squares == total**2)
    place = np.where(one_task, total / np.maximum(count, 1), len(tasks)).astype(np.int64)
    return count.astype(np.int32), one_task, np.append(tasks, -1)[place].astype(np.int64)


def _rates(
    clocks: Sequence[Clock], t_ns: Times, on: NDArray[np.bool_]
) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the threads' CPU seconds per second while users run and while none does.

    Also where some thread's clock was last read before, or next after, a time with users, and one without any.
    """
    cells = len(t_ns) - 1
    length_ns = np.diff(t_ns)
    used_ns = np.concatenate(([0], np.cumsum(np.where(on, length_ns, 0))))
    steps = np.zeros((4, cells + 1), np.int64)
    for clock in clocks:
        at = np.searchsorted(t_ns, clock.t_ns)
        on_ns = np.diff(used_ns[at])
        off_ns = np.diff(clock.t_ns) - on_ns
        cpu_ns = np.diff(clock.cpu_s) * 1e9
        # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
        inside = np.where(on_ns > 0, np.maximum(np.minimum(cpu_ns, on_ns), cpu_ns - off_ns), 0.0)
        rates = (inside / np.maximum(on_ns, 1), (cpu_ns - inside) / np.maximum(off_ns, 1), on_ns > 0, off_ns > 0)
        for step, rate in zip(steps, rates, strict=True):
            fixed = np.round(np.minimum(rate, _MOST_RATE) * _FIXED).astype(np.int64)
            np.add.at(step, at[:-1], fixed)
            np.subtract.at(step, at[1:], fixed)
    sums = np.cumsum(steps, axis=1)[:, :cells]
    return sums[0] / _FIXED, sums[1] / _FIXED, sums[2] > 0, sums[3] > 0


def _extremes(
    clocks: Sequence[Clock], t_ns: Times, runs: Runs, first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the tasks that ran, and the CPU seconds that each used at least and at most."""
    tasks, number = np.unique(runs.task, return_inverse=True)
    cells = len(t_ns) - 1
    least_s, most_s = np.zeros(len(tasks)), np.zeros(len(tasks))
    if len(tasks) * cells > LARGEST:
        return tasks, least_s, np.full(len(tasks), sum(float(one.cpu_s[-1]) for one in clocks))
    length_ns = np.diff(t_ns)
    running = np.zeros((len(tasks), cells), bool)
    for task in range(len(tasks)):
        own = number == task
        begun = np.bincount(first[own], minlength=cells + 1) - np.bincount(last[own], minlength=cells + 1)
        running[task] = np.cumsum(begun)[:cells] > 0
    only = running.sum(axis=0) == 1
    places = [np.searchsorted(t_ns, clock.t_ns) for clock in clocks]
    for task in range(len(tasks)):
        any_s, alone_s = (
            np.concatenate(([0.0], np.cumsum(np.where(ran, length_ns, 0) * 1e-9)))
            for ran in (running[task], running[task] & only)
        )
        for clock, at in zip(clocks, places, strict=True):
            cpu_s, length_s = np.diff(clock.cpu_s), np.diff(clock.t_ns) * 1e-9
            most_s[task] += np.minimum(cpu_s, np.diff(any_s[at])).sum()
            least_s[task] += np.maximum(cpu_s - (length_s - np.diff(alone_s[at])), 0.0).sum()
    return tasks, least_s, most_s


def _after(
    runs: Runs, t_ns: Times, on: NDArray[np.bool_], rests: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Times]:
    """Return for each segment without users the run that ended last, and the time since then.

    The run is its row and its task, both -1 if the pool rested since then.
    """
    nobody = np.full(len(on), -1, np.int64)
    if not len(runs.end_ns):
        return nobody, nobody, np.full(len(on), LONG_NS)
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns = runs.end_ns[order]
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    follows = ~on & (before >= 0)
    last = order[np.maximum(before, 0)]
    since_ns = np.where(follows, t_ns[:-1] - runs.end_ns[last], LONG_NS)
    follows &= _last_of(rests, t_ns) < runs.end_ns[last]
    return np.where(follows, runs.row[last], -1), np.where(follows, runs.task[last], -1), since_ns


def _last_of(rests: NDArray[np.bool_], t_ns: Times) -> Times:
    """Return for each segment the begin of the last one in which the pool rested, itself included."""
    return np.asarray(np.maximum.accumulate(np.where(rests, t_ns[:-1], -LONG_NS)))


def _is_seen_to_spin(rate: Floats, t_ns: Times, since_ns: Times, is_apart: NDArray[np.bool_], spins_ns: int) -> bool:
    """Return whether a pool works on where no user runs shortly after one did, or whether that was hardly seen."""
    late = is_apart & (since_ns < spins_ns)
    length_ns = np.diff(t_ns)[late]
    return bool(length_ns.sum() < LEAST_SEEN_NS or rate[late] @ length_ns > MOST_RESTING * length_ns.sum())


def _carried_over(
    runs: Runs, t_ns: Times, task: NDArray[np.int64], own: NDArray[np.bool_], rests: NDArray[np.bool_], spins_ns: int
) -> NDArray[np.bool_]:
    """Return the segments of a task in which the pool may still spin after another task: it has not rested since."""
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns, of_task = runs.end_ns[order], runs.task[order]
    # The last end before one that was of another task than this one.
    changed = np.concatenate(([False], of_task[1:] != of_task[:-1]))
    other = np.maximum.accumulate(np.where(changed, np.arange(len(order)), 0)) - 1
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    same = (before >= 0) & (of_task[np.maximum(before, 0)] == task)
    last = np.where(same, other[np.maximum(before, 0)], before)
    last_ns = np.where(last >= 0, ends_ns[np.maximum(last, 0)], -LONG_NS)
    return own & (t_ns[:-1] - last_ns < spins_ns) & (_last_of(rests, t_ns) < last_ns)


def _alive(clocks: Sequence[Clock], reads_ns: Times) -> NDArray[np.int64]:
    begun = np.sort([int(one.t_ns[0]) for one in clocks])
    ended = np.sort([int(one.t_ns[-1]) for one in clocks])
    alive = np.searchsorted(begun, reads_ns, side="right") - np.searchsorted(ended, reads_ns, side="left")
    return np.maximum(alive, 1)
