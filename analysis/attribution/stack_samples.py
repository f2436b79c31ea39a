"""The sampled stacks of a recording by thread and time, of which some time is in memory.

Each sample is kept once, 20 bytes, in arrays that are files where they are long. A window takes its own samples of each
thread, with the last one before it and the next one after it: with these its pieces of segments are known, however many
samples a segment has elsewhere.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import blocks, empty, release
from tprof.trace.metadata import MAX_NS
from tprof.trace.stacks import Samples

from .natives.calls import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tprof.trace import Thread, Trace
    from tprof.trace.stacks import Calls, StackFile

Integers = NDArray[np.int64]
Key = int | Reach
"""A thread: the ordinal of one with samples, else from when to when it was followed."""


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
    around_ns : (n,) int64, CPU time from the sample before to the one after; None: not known
    """

    first: int
    t_ns: Integers
    clock_ns: Integers | None
    gap_ns: Integers
    stack: NDArray[np.int32]
    around_ns: Integers | None = None

    @property
    def used_ns(self) -> Integers:
        """CPU time since the sample before, or the time itself where that is not known; of the first one no more."""
        if self.clock_ns is None:
            return self.gap_ns
        first_ns = self.clock_ns[:1] - np.minimum(self.clock_ns[:1], self.gap_ns[:1])
        return np.diff(self.clock_ns, prepend=first_ns)


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


class _Sought(NamedTuple):
    """A thread whose stacks are sought; `process` is None where only its process's number is known."""

    key: Key
    process: int | None
    pid: int
    tid: int
    begin_ns: int
    end_ns: int
    has_clock: bool

    @classmethod
    def of(cls, one: ThreadReach | Reach) -> _Sought:
        if isinstance(one, Reach):
            return cls(one, None, one.pid, one.tid, one.first_ns, one.end_ns, has_clock=True)
        thread, has_clock = one.thread, "cpu_ns" in one.thread.columns
        return cls(thread.ordinal, thread.process, thread.pid, thread.tid, one.begin_ns, one.end_ns, has_clock)

    def is_in(self, file: StackFile) -> bool:
        return self.pid == file.pid if self.process is None else self.process == file.process


class _Place(NamedTuple):
    """Where the samples of a thread are in the arrays of all, and from when to when it has segments."""

    begin: int
    end: int
    since_ns: int
    until_ns: int
    has_clock: bool


@dataclass(frozen=True)
class _OfProcess:
    """The samples of some threads of a process, in some time.

    Attributes
    ----------
    file, calls : the process's stacks
    tids : of the threads, increasing
    within_ns : after when and before when
    """

    file: StackFile
    calls: Calls
    tids: Integers
    within_ns: tuple[int, int]

    @classmethod
    def of(cls, file: StackFile, sought: Sequence[_Sought]) -> _OfProcess:
        """Take the threads of a file's process."""
        mine = [one for one in sought if one.is_in(file)]
        within_ns = min((one.begin_ns for one in mine), default=0), max((one.end_ns for one in mine), default=0)
        return cls(file, file.calls(), np.unique(np.array([one.tid for one in mine], np.int64)), within_ns)

    def parts(self) -> Iterator[tuple[Samples, Integers]]:
        """Yield samples, and of which thread each is, thread after thread and in the order of the file."""
        for samples in self.file.samples(self.calls) if len(self.tids) else ():
            of_thread = np.minimum(np.searchsorted(self.tids, samples.tid), len(self.tids) - 1)
            is_mine = self.tids[of_thread] == samples.tid
            is_mine &= (samples.t_ns > self.within_ns[0]) & (samples.t_ns < self.within_ns[1])
            which = np.flatnonzero(is_mine)
            which = which[np.argsort(of_thread[which], kind="stable")]
            yield Samples(*(one[which] for one in samples)), of_thread[which]

    def counts(self) -> Integers:
        """Return how many samples each thread has."""
        none = np.zeros(len(self.tids), np.int64)
        return sum((np.bincount(of_thread, minlength=len(none)) for _, of_thread in self.parts()), none)


class SampledStacks:
    """The sampled stacks of a recording's threads.

    Attributes
    ----------
    table : the stacks
    """

    def __init__(self, trace: Trace, reaches: Iterable[ThreadReach | Reach]) -> None:
        """Read the stacks that lie within threads' segments, or within the time that they were followed.

        Raises TraceError.
        """
        known = [_Sought.of(one) for one in reaches]
        processes = [_OfProcess.of(file, known) for file in trace.stack_files]
        self.table = StackTable(tuple(one.calls for one in processes))
        counts = [one.counts() for one in processes]
        total = int(sum(one.sum() for one in counts))
        self._t_ns, self._clock_ns = empty(total, np.int64), empty(total, np.int64)
        self._stack = empty(total, np.int32)
        begin, ranges = 0, {}
        for one, of_threads, first in zip(processes, counts, self.table.firsts(), strict=True):
            begins = begin + np.concatenate(([0], np.cumsum(of_threads)))
            self._fill(one, begins[:-1].copy(), first)
            begin = int(begins[-1])
            for tid, ends in zip(one.tids.tolist(), itertools.pairwise(begins.tolist()), strict=True):
                ranges[one.file.process, tid] = slice(*ends)
        for of_tid in ranges.values():
            self._sort(of_tid)
        self._places: dict[Key, _Place] = {}
        for thread in known:
            for process in processes:
                place = ranges.get((process.file.process, thread.tid))
                if place is not None and thread.is_in(process.file):
                    self._add(thread, place)
        self._release()

    def _fill(self, process: _OfProcess, at: Integers, first: int) -> None:
        """Put the samples of a process's threads where `at` says; `first` is the number of its first stack."""
        for samples, of_thread in process.parts():
            counts = np.bincount(of_thread, minlength=len(at))
            place = (at - (np.cumsum(counts) - counts))[of_thread] + np.arange(len(of_thread))
            self._t_ns[place], self._clock_ns[place] = samples.t_ns, samples.cpu_ns
            self._stack[place] = samples.stack + first
            at += counts
            self._release()

    def _sort(self, place: slice) -> None:
        """Order a thread's samples by time, as a recorder's are."""
        t_ns = self._t_ns[place]
        if (t_ns[1:] < t_ns[:-1]).any():
            order = np.argsort(t_ns, kind="stable")
            for one in (self._t_ns, self._clock_ns, self._stack):
                one[place] = one[place][order]

    def _add(self, one: _Sought, of_tid: slice) -> None:
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
        self._places[one.key] = _Place(begin, end, one.begin_ns, one.end_ns, one.has_clock and most_ns > 0)

    def between(self, begin_ns: int, until_ns: int) -> dict[Key, ThreadStacks]:
        """Return the samples from a time to another one, by threads that have segments, or are followed, then.

        Of these all that were sampled at any time are there.
        """
        found = {
            key: self._between(place, begin_ns, until_ns)
            for key, place in self._places.items()
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
        gap_ns, stack = np.diff(self._t_ns[at], prepend=before_ns), self._stack[at].copy()
        if not place.has_clock:
            return ThreadStacks(first, t_ns[first:stop].copy(), None, gap_ns, stack)
        clock_ns = self._clock_ns[place.begin : place.end]
        number = np.arange(first, stop)
        around_ns = clock_ns[np.minimum(number + 1, len(t_ns) - 1)] - clock_ns[np.maximum(number - 1, 0)]
        # Before the first sample and after the last one it is not known.
        around_ns[(number == 0) | (number == len(t_ns) - 1)] = MAX_NS
        return ThreadStacks(first, t_ns[first:stop].copy(), clock_ns[first:stop].copy(), gap_ns, stack, around_ns)

    def _release(self) -> None:
        release(self._t_ns, self._clock_ns, self._stack)
