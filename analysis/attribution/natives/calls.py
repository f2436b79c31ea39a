"""The users of a pool whose library's calls were noted: a pool works for whoever is inside a call.

While no call goes on, the pool's threads can only spin. Calls from threads without samples are the program's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import AppendedColumns, blocks, empty, release
from tprof.trace.long_sorts import sorted_arrays

from .segments import OUTSIDE, SPINNING, Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tprof.trace import PoolCalls

    from .segments import NativeSegments, RanThread


Times = NDArray[np.int64]
Marks = NDArray[np.bool_]
Places = NDArray[np.int64]

COLUMNS = ("tid", "task", "begin_ns", "end_ns", "inside", "several")
PIECE_NS, MOST_PIECES = 500_000, 10
"""Calls that were noted together lie apart: their time is spread in pieces about so far apart."""
MOMENT_NS = 1000
MOST_UNEXPLAINED = 0.05
"""Part of a pool's CPU time that may begin without a call, before calls count as not known."""
UNSEEN_NS = 20_000_000
"""Work of so short a time before the first noted call is that of one just before calls were noted."""


class Reach(NamedTuple):
    """A thread, and from when to when it has samples, or is followed without any."""

    pid: int
    tid: int
    first_ns: int
    end_ns: int


@dataclass(frozen=True)
class ThreadsCalls:
    """The calls of one library by the threads that made them.

    Attributes
    ----------
    calls : all of them, one thread after the other
    of_thread : where the calls of each thread with samples are, by its index, in order of time
    left : places of those of other threads, in order of their begin
    left_begin_ns, left_end_ns : the begin of each of these, and the latest end up to it
    """

    calls: PoolCalls
    of_thread: dict[int, slice]
    left: Places
    left_begin_ns: Times
    left_end_ns: Times

    @classmethod
    def of(cls, calls: PoolCalls, threads: Sequence[Reach]) -> ThreadsCalls:
        """Find the threads, of all with samples."""
        of_thread = {}
        for index, one in enumerate(threads):
            if one.pid == calls.pid:
                own = slice(*np.searchsorted(calls.tid, (one.tid, one.tid + 1)).tolist())
                of_thread[index] = _reaching(calls, own, one.first_ns, one.end_ns)
        left = AppendedColumns(np.int64, np.int64, np.int64)
        for begin, end in _gaps(of_thread.values(), len(calls.tid)):
            for at in blocks(end - begin, calls.begin_ns, calls.end_ns):
                some = slice(begin + at.start, begin + at.stop)
                left.add(calls.begin_ns[some], calls.end_ns[some], np.arange(some.start, some.stop))
        begins_ns, ends_ns, places = sorted_arrays(left.finish())
        found = cls(calls, of_thread, places, begins_ns, _latest(ends_ns))
        found.release()
        return found

    def own(self, index: int, begin_ns: int, end_ns: int) -> slice:
        """Return where a thread's calls are that reach into a time."""
        return _reaching(self.calls, self.of_thread[index], begin_ns, end_ns)

    def others(self, begin_ns: int, end_ns: int) -> Places:
        """Return the places of calls of threads without samples that may reach into a time."""
        first = np.searchsorted(self.left_end_ns, begin_ns, side="right")
        return self.left[first : np.searchsorted(self.left_begin_ns, end_ns)]

    def release(self) -> None:
        """Leave to the kernel what is in files."""
        release(*(getattr(self.calls, name) for name in COLUMNS), self.left, self.left_begin_ns, self.left_end_ns)


def _reaching(calls: PoolCalls, own: slice, begin_ns: int, end_ns: int) -> slice:
    """Return where those of a thread's calls are that reach into a time."""
    first = own.start + int(np.searchsorted(calls.end_ns[own], begin_ns, side="right"))
    stop = own.start + int(np.searchsorted(calls.begin_ns[own], end_ns))
    return slice(first, max(first, stop))


def _gaps(parts: Iterable[slice], count: int) -> Iterator[tuple[int, int]]:
    """Yield from where to where so many places are in none of some parts."""
    begin = 0
    for start, stop in sorted((one.start, one.stop) for one in parts if one.stop > one.start):
        yield begin, max(start, begin)
        begin = max(begin, stop)
    yield begin, count


def _latest(ends_ns: Times) -> Times:
    """Return the latest of all ends up to each one."""
    found = empty(len(ends_ns), np.int64)
    latest_ns = 0
    for at in blocks(len(ends_ns), ends_ns, found):
        found[at] = np.maximum(np.maximum.accumulate(ends_ns[at]), latest_ns)
        latest_ns = int(found[at.stop - 1])
    return found


def runs_of_calls(
    calls: ThreadsCalls, segments: Sequence[RanThread | None], part_ns: tuple[int, int], caller: int | None = None
) -> Runs:
    """Return the times inside calls, as those of the instances that ran there; task -1: outside tasks.

    Parameters
    ----------
    calls : of one library
    segments : of all threads with samples; None for one without any in the part of the recording
    part_ns : the part of the recording
    caller : index of the only thread whose calls count; None: all threads count, also those without samples
    """
    parts = []
    for index in calls.of_thread if caller is None else [caller]:
        one = segments[index]
        if one is None or index not in calls.of_thread:
            continue
        # A call that ends where the part begins may be what the pool's next segment follows.
        own = calls.own(index, max(int(one.t_ns[0]), part_ns[0] - 1), min(int(one.t_ns[-1]), part_ns[1]))
        begin_ns, end_ns, task, several = _pieces(calls.calls, own)
        place, begin_ns, end_ns, of = _cut(one.t_ns, begin_ns, end_ns)
        runs = Runs.of(one, place, begin_ns, end_ns)
        # A call of a task that ended within the time of others' calls does not lie in theirs.
        parts.append(runs.kept((runs.task == task[of]) | several[of] | (task[of] < 0)))
    if caller is None:
        begin_ns, end_ns, _, _ = _pieces(calls.calls, calls.others(part_ns[0] - 1, part_ns[1]))
        parts.append(Runs.outside(begin_ns, end_ns))
    calls.release()
    return Runs.joined(parts)


def run_at(segments: Sequence[RanThread | None], index: int, at_ns: int) -> Runs:
    """Return a moment of whatever ran on a thread at some time, as a call that starts a library's pool."""
    one = segments[index]
    if one is None:
        return Runs.none()
    at = np.array([at_ns], np.int64)
    place, begin_ns, end_ns, _ = _cut(one.t_ns, at, at + MOMENT_NS)
    return Runs.of(one, place, begin_ns, end_ns)


def _pieces(calls: PoolCalls, which: slice | Places) -> tuple[Times, Times, NDArray[np.int64], Marks]:
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

    def missing_s(self, cut: NativeSegments) -> float:
        """Return the CPU seconds of a pool, cut by the calls, while no call was going on nor had just ended."""
        calm_ns = cut.t_ns[:-1] - cut.ended_ns
        late = (cut.kind == SPINNING) & (calm_ns > 2 * self.spins_ns) & (self.spins_ns > 0)
        unexplained = ((cut.kind == OUTSIDE) & (cut.running == 0)) | late
        unexplained &= cut.t_ns[1:] > self.since_ns + UNSEEN_NS
        return float(cut.cpu_s[unexplained].sum())
