"""The users of a pool whose library's calls were noted: a pool works for whoever is inside a call.

While no call goes on, the pool's threads can only spin. Calls from threads without samples are the program's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .native_time import OUTSIDE, SPINNING, Runs, row_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import PoolCalls

    from .native_time import NativeSegments
    from .segments import Segments

Times = NDArray[np.int64]
Marks = NDArray[np.bool_]

PIECE_NS, MOST_PIECES = 500_000, 10
"""Calls that were noted together lie apart: their time is spread in pieces about so far apart."""
MOMENT_NS = 1000
MOST_UNEXPLAINED = 0.05
"""Part of a pool's CPU time that may begin without a call, before calls count as not known."""
UNSEEN_NS = 20_000_000
"""Work of so short a time before the first noted call is that of one just before calls were noted."""


class Reach(NamedTuple):
    """A thread with samples, and from when to when it has some."""

    pid: int
    tid: int
    first_ns: int
    end_ns: int


@dataclass(frozen=True)
class ThreadsCalls:
    """The calls of one library by the threads that made them.

    Attributes
    ----------
    calls : all of them
    of_thread : places of the calls of each thread with samples, by its index, in order of time
    left : places of those of other threads, in order of their begin
    left_end_ns : the latest end of these up to each of them
    """

    calls: PoolCalls
    of_thread: dict[int, NDArray[np.intp]]
    left: NDArray[np.intp]
    left_end_ns: Times

    @classmethod
    def of(cls, calls: PoolCalls, threads: Sequence[Reach]) -> ThreadsCalls:
        """Find the threads, of all with samples."""
        is_left = np.ones(len(calls.tid), bool)
        of_thread = {}
        for index, one in enumerate(threads):
            if one.pid == calls.pid:
                own = (calls.tid == one.tid) & (calls.end_ns > one.first_ns) & (calls.begin_ns < one.end_ns)
                is_left &= ~own
                of_thread[index] = np.flatnonzero(own)
        left = np.flatnonzero(is_left)
        left = left[np.argsort(calls.begin_ns[left], kind="stable")]
        ends_ns = np.maximum.accumulate(calls.end_ns[left]) if len(left) else np.empty(0, np.int64)
        return cls(calls, of_thread, left, ends_ns)

    def own(self, index: int, begin_ns: int, end_ns: int) -> NDArray[np.intp]:
        """Return the places of a thread's calls that reach into a time."""
        own = self.of_thread[index]
        first = np.searchsorted(self.calls.end_ns[own], begin_ns, side="right")
        return own[first : np.searchsorted(self.calls.begin_ns[own], end_ns)]

    def others(self, begin_ns: int, end_ns: int) -> NDArray[np.intp]:
        """Return the places of calls of threads without samples that may reach into a time."""
        first = np.searchsorted(self.left_end_ns, begin_ns, side="right")
        return self.left[first : np.searchsorted(self.calls.begin_ns[self.left], end_ns)]

    def around(self, begin_ns: int, end_ns: int) -> ThreadsCalls:
        """Return those that reach into a time, or end where it begins."""
        of_thread = {index: self.own(index, begin_ns - 1, end_ns) for index in self.of_thread}
        left = self.others(begin_ns - 1, end_ns)
        kept = np.unique(np.concatenate([left, *of_thread.values()]))
        columns = ("tid", "task", "begin_ns", "end_ns", "inside", "several")
        calls = replace(self.calls, **{name: getattr(self.calls, name)[kept] for name in columns})
        places = {index: np.searchsorted(kept, own) for index, own in of_thread.items()}
        ends_ns = np.maximum.accumulate(self.calls.end_ns[left]) if len(left) else left
        return ThreadsCalls(calls, places, np.searchsorted(kept, left), ends_ns)


def runs_of_calls(
    calls: ThreadsCalls, segments: Sequence[Segments | None], part_ns: tuple[int, int], caller: int | None = None
) -> Runs:
    """Return the times inside calls, as those of the instances that ran there; row and task -1: outside tasks.

    Parameters
    ----------
    calls : of one library
    segments : of all threads with samples; None for one without any in the part of the recording
    part_ns : the part of the recording
    caller : index of the only thread whose calls count; None: all threads count, also those without samples
    """
    offsets, parts = row_offsets(segments), []
    for index in calls.of_thread if caller is None else [caller]:
        one = segments[index]
        if one is None or index not in calls.of_thread:
            continue
        own = calls.own(index, int(one.t_ns[0]), int(one.t_ns[-1]))
        begin_ns, end_ns, task, several = _pieces(calls.calls, own)
        place, begin_ns, end_ns, of = _cut(one.t_ns, begin_ns, end_ns)
        row = one.slot[place].astype(np.int64) - 1
        ran = _tasks_of(one, row)
        # A call of a task that ended within the time of others' calls does not lie in theirs.
        kept = (ran == task[of]) | several[of] | (task[of] < 0)
        row = np.where(row >= 0, row + offsets[index], -1)
        parts.append(Runs(begin_ns, end_ns, row, ran, np.zeros(len(row), bool)).kept(kept))
    if caller is None:
        begin_ns, end_ns, _, _ = _pieces(calls.calls, calls.others(part_ns[0] - 1, part_ns[1]))
        nobody = np.full(len(begin_ns), -1)
        parts.append(Runs(begin_ns, end_ns, nobody, nobody, np.zeros(len(nobody), bool)))
    return Runs.joined(parts)


def run_at(segments: Sequence[Segments | None], index: int, at_ns: int) -> Runs:
    """Return a moment of whatever ran on a thread at some time, as a call that starts a library's pool."""
    one = segments[index]
    if one is None:
        return Runs.none()
    at = np.array([at_ns], np.int64)
    place, begin_ns, end_ns, _ = _cut(one.t_ns, at, at + MOMENT_NS)
    row = one.slot[place].astype(np.int64) - 1
    task = _tasks_of(one, row)
    offset = row_offsets(segments)[index]
    return Runs(begin_ns, end_ns, np.where(row >= 0, row + offset, -1), task, np.zeros(len(row), bool))


def _tasks_of(one: Segments, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the tasks of a thread's instances, -1 for no instance; the thread may have none."""
    return np.append(one.rows.task.astype(np.int64), -1)[row]


def _pieces(calls: PoolCalls, which: NDArray[np.intp]) -> tuple[Times, Times, NDArray[np.int64], Marks]:
    """Return begins, ends, tasks and whether these are of several tasks, with calls noted together spread evenly."""
    begin_ns, end_ns, inside = calls.begin_ns[which], calls.end_ns[which], calls.inside[which]
    length_ns = end_ns - begin_ns
    count = np.where(inside < 1, np.clip(length_ns // PIECE_NS, 1, MOST_PIECES), 1)
    of = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    each_ns = length_ns[of] / count[of]
    first_ns = begin_ns[of] + (number * each_ns).astype(np.int64)
    last_ns = np.minimum(first_ns + np.maximum(inside[of] * each_ns, 1).astype(np.int64), end_ns[of])
    return first_ns, last_ns, calls.task[which][of], calls.several[which][of]


def _cut(t_ns: Times, begin_ns: Times, end_ns: Times) -> tuple[NDArray[np.int64], Times, Times, NDArray[np.int64]]:
    """Return the segments that each interval lies in, with the begin and end there and the interval's number."""
    begin_ns, end_ns = np.clip(begin_ns, t_ns[0], t_ns[-1]), np.clip(end_ns, t_ns[0], t_ns[-1])
    first = np.searchsorted(t_ns, begin_ns, side="right") - 1
    last = np.minimum(np.searchsorted(t_ns, end_ns, side="left"), len(t_ns) - 1)
    count = np.maximum(last - first, 0)
    of = np.repeat(np.arange(len(count)), count)
    place = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    begin_ns, end_ns = np.maximum(begin_ns[of], t_ns[place]), np.minimum(end_ns[of], t_ns[place + 1])
    kept = end_ns > begin_ns
    return place[kept], begin_ns[kept], end_ns[kept], of[kept]


@dataclass(frozen=True)
class Explained:
    """When calls explain what a pool does.

    Attributes
    ----------
    since_ns : calls before are not known
    spins_ns : how long threads may spin after a call; 0: not known
    """

    since_ns: int
    spins_ns: int

    def missing_s(self, cut: NativeSegments, calm_ns: Times) -> float:
        """Return the CPU seconds of a pool that worked while no call was going on nor had just ended.

        Parameters
        ----------
        cut : the pool's CPU time, cut by the calls
        calm_ns : for each segment how long before its begin the last call ended
        """
        late = (cut.kind == SPINNING) & (calm_ns > 2 * self.spins_ns) & (self.spins_ns > 0)
        unexplained = ((cut.kind == OUTSIDE) & (cut.running == 0)) | late
        unexplained &= cut.t_ns[1:] > self.since_ns + UNSEEN_NS
        return float(cut.cpu_s[unexplained].sum())
