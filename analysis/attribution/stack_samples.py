"""The sampled stacks of a recording by thread and time, of which some time is in memory.

Each sample is kept once, 20 bytes, in arrays that are files where they are long. A window takes its own samples of each
thread, with the last one before it and the next one after it: with these its pieces of segments are known, however many
samples a segment has elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .long_arrays import blocks, empty, release

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tprof.trace import Thread, Trace
    from tprof.trace.stacks import Calls, StackFile

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ThreadStacks:
    """Sampled stacks of one thread, in order of time.

    Attributes
    ----------
    first : the number of the first one among all of the thread
    t_ns : (n,) int64, when each was sampled
    clock_ns : (n,) int64, CPU time of the thread until then, which does not decrease; None: not known
    gap_ns : (n,) int64, since the sample before, or since the thread's first segment
    stack : (n,) int32, as of `StackTable`
    """

    first: int
    t_ns: Integers
    clock_ns: Integers | None
    gap_ns: Integers
    stack: NDArray[np.int32]


@dataclass(frozen=True)
class StackTable:
    """The stacks of all processes, numbered one process after the other."""

    calls: tuple[Calls, ...]

    def firsts(self) -> list[int]:
        """Return the number of the first stack of each process."""
        return [0, *np.cumsum([len(one.function) for one in self.calls]).tolist()][: len(self.calls)]

    def find(self, stack: int) -> tuple[Calls, int]:
        """Return the process of a stack, and its number there."""
        for one in self.calls:
            if stack < len(one.function):
                return one, stack
            stack -= len(one.function)
        raise IndexError(stack)


class ThreadReach(NamedTuple):
    """A thread with segments, and from when to when it has these."""

    thread: Thread
    begin_ns: int
    end_ns: int


class _Place(NamedTuple):
    """Where the samples of a thread are in the arrays of all, and from when to when it has segments."""

    begin: int
    end: int
    since_ns: int
    until_ns: int
    has_clock: bool


class SampledStacks:
    """The sampled stacks of a recording's threads.

    Attributes
    ----------
    table : the stacks
    """

    def __init__(self, trace: Trace, reaches: Iterable[ThreadReach]) -> None:
        """Read the samples that lie within the threads' segments. Raises TraceError."""
        known = list(reaches)
        calls = [one.calls() for one in trace.stack_files]
        self.table = StackTable(tuple(calls))
        tids = [
            np.unique([one.thread.tid for one in known if one.thread.process == file.process])
            for file in trace.stack_files
        ]
        counts = [_counts(*of_file) for of_file in zip(trace.stack_files, calls, tids, strict=True)]
        total = int(sum(one.sum() for one in counts))
        self._t_ns, self._clock_ns = empty(total, np.int64), empty(total, np.int64)
        self._stack = empty(total, np.int32)
        begin, ranges = 0, {}
        firsts = self.table.firsts()
        for number, (file, of_threads) in enumerate(zip(trace.stack_files, counts, strict=True)):
            begins = begin + np.concatenate(([0], np.cumsum(of_threads)))
            self._fill(file, calls[number], tids[number], begins[:-1].copy(), firsts[number])
            begin = int(begins[-1])
            for at, tid in enumerate(tids[number].tolist()):
                ranges[file.process, tid] = slice(int(begins[at]), int(begins[at + 1]))
        for place in ranges.values():
            self._sort(place)
        self._places: dict[int, _Place] = {}
        for one in known:
            of_tid = ranges.get((one.thread.process, one.thread.tid))
            if of_tid is not None:
                self._add(one, of_tid)
        self._release()

    def _fill(self, file: StackFile, calls: Calls, tids: Integers, at: Integers, first: int) -> None:
        """Put the samples of a process's threads where `at` says; `first` is the number of its first stack."""
        for samples in file.samples(calls):
            which, of_thread = _of_threads(samples.tid, tids)
            which = which[np.argsort(of_thread, kind="stable")]
            counts = np.bincount(of_thread, minlength=len(tids))
            done = 0
            for number in np.flatnonzero(counts).tolist():
                rows = which[done : done + int(counts[number])]
                place = slice(int(at[number]), int(at[number]) + len(rows))
                self._t_ns[place], self._clock_ns[place] = samples.t_ns[rows], samples.cpu_ns[rows]
                self._stack[place] = samples.stack[rows] + first
                at[number] += len(rows)
                done += len(rows)
            self._release()

    def _sort(self, place: slice) -> None:
        """Order a thread's samples by time, as a recorder's are."""
        t_ns = self._t_ns[place]
        if (t_ns[1:] < t_ns[:-1]).any():
            order = np.argsort(t_ns, kind="stable")
            for one in (self._t_ns, self._clock_ns, self._stack):
                one[place] = one[place][order]

    def _add(self, one: ThreadReach, of_tid: slice) -> None:
        """Take a thread's samples; a clock that was not read counts as that before it."""
        t_ns = self._t_ns[of_tid]
        begin = of_tid.start + int(np.searchsorted(t_ns, one.begin_ns, side="right"))
        end = of_tid.start + int(np.searchsorted(t_ns, one.end_ns))
        if begin >= end:
            return
        clock_ns, most_ns = self._clock_ns[begin:end], 0
        for at in blocks(len(clock_ns), clock_ns):
            np.maximum.accumulate(clock_ns[at], out=clock_ns[at])
            np.maximum(clock_ns[at], most_ns, out=clock_ns[at])
            most_ns = int(clock_ns[at.stop - 1])
        has_clock = most_ns > 0 and "cpu_ns" in one.thread.columns
        self._places[one.thread.ordinal] = _Place(begin, end, one.begin_ns, one.end_ns, has_clock)

    def between(self, begin_ns: int, until_ns: int) -> dict[int, ThreadStacks]:
        """Return the samples from a time to another one, by the ordinals of threads that have segments then.

        Of these all that were sampled at any time are there.
        """
        found = {
            ordinal: self._between(place, begin_ns, until_ns)
            for ordinal, place in self._places.items()
            if place.since_ns < until_ns and place.until_ns >= begin_ns
        }
        self._release()
        return found

    def _between(self, place: _Place, begin_ns: int, until_ns: int) -> ThreadStacks:
        t_ns = self._t_ns[place.begin : place.end]
        first = max(int(np.searchsorted(t_ns, begin_ns)) - 1, 0)
        stop = min(int(np.searchsorted(t_ns, until_ns)) + 1, len(t_ns))
        at = slice(place.begin + first, place.begin + stop)
        before_ns = int(t_ns[first - 1]) if first else place.since_ns
        return ThreadStacks(
            first,
            self._t_ns[at].copy(),
            self._clock_ns[at].copy() if place.has_clock else None,
            np.diff(self._t_ns[at], prepend=before_ns),
            self._stack[at].copy(),
        )

    def _release(self) -> None:
        release(self._t_ns, self._clock_ns, self._stack)


def _of_threads(tid: Integers, tids: Integers) -> tuple[Integers, Integers]:
    """Return which samples are of some threads, whose numbers are increasing, and of which of these they are."""
    if not len(tids):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    of_thread = np.minimum(np.searchsorted(tids, tid), len(tids) - 1)
    which = np.flatnonzero(tids[of_thread] == tid)
    return which, of_thread[which]


def _counts(file: StackFile, calls: Calls, tids: Integers) -> Integers:
    """Return how many samples a process's threads have."""
    found = np.zeros(len(tids), np.int64)
    for samples in file.samples(calls):
        found += np.bincount(_of_threads(samples.tid, tids)[1], minlength=len(tids))
    return found
