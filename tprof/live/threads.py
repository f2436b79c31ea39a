"""What the threads of a session ran, block after block, from their files as far as these are committed.

The engine's loops turn samples into segments and instances, as for a profile. A thread that runs on at the end of a
block has no sample there, so its CPU clock stands in for one.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof import _core
from tprof.analysis.attribution.blocks import ENDS, RUNS_ON, THREAD, Arrays, layout_of
from tprof.analysis.attribution.segment_energy import LocatedSegments, spread
from tprof.analysis.engine.instance_table import InstanceTable
from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.kinds import StreamKind
from tprof.trace.metadata import MAX_NS
from tprof.trace.packed import MOST_RECORDS
from tprof.trace.segments import read_segment, segment_path
from tprof.trace.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.trace import Thread
    from tprof.trace.stream import Stream

Learn = Callable[[int, "NDArray[np.uint32]"], None]
"""Called with a process and the numbers of tasks of its samples, which the table then has."""
MOST_IN_BLOCK = 1 << 15
"""Samples of a block, unless a quantum has more, with some 200 bytes of memory each; so many are read at a time."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a thread ran at the end of the last block.

    Attributes
    ----------
    t_ns : until when it was followed
    task : index in the table; None: none
    since_ns : since when it has run that without a break
    cpu_s : CPU time of the thread since its first sample
    """

    t_ns: int
    task: int | None
    since_ns: int
    cpu_s: float


class FollowedThread:
    """One file of samples.

    Attributes
    ----------
    thread : as in the trace
    pid, tid, process, name, ordinal, stream : those of the thread
    first_ns : time of the first sample; None without one
    begin, end : where its segments are in the block
    """

    def __init__(
        self,
        thread: Thread,
        *,
        own: bool = False,
        has_clock: bool = True,
        end_ns: int | None = None,
        cut_off_s: float = math.inf,
    ) -> None:
        """Begin at its first sample.

        Parameters
        ----------
        thread : of a trace
        own : whether it is a thread of this process, whose clock can be read
        has_clock : whether /proc has its clock: its numbers are those of this machine
        end_ns : where its last segment ends; None: it may still run
        cut_off_s : most CPU seconds of a last segment that nothing in the file closes
        """
        self.pid, self.tid, self.process = thread.pid, thread.tid, thread.process
        self.name, self.ordinal, self.stream = thread.name, thread.ordinal, thread.stream
        self.first_ns: int | None = None
        self.begin = self.end = 0
        self.thread, self._own, self._end_ns, self._cut_off_s = thread, own, end_ns, cut_off_s
        names = thread.dtype.names or ()
        self._column = names.index("cpu_ns") - len(layout.SAMPLE_HEAD) if "cpu_ns" in thread.columns else -1
        self._has_clock = self._column >= 0 and (own or has_clock)
        self._tail = tail_of(thread.stream, thread.dtype, _fetch_of(thread.stream))
        self.state = np.zeros(1, THREAD)
        self.state["end_ns"] = MAX_NS if end_ns is None else end_ns
        self._given = self.state.view(np.uint8), np.empty(0, np.uint64), self.ordinal
        self._layout: tuple[Any, ...] = ()
        self._records = np.empty(0, thread.dtype)
        self._since_ns = self._first_cpu_ns = self._known = 0
        self._has_indices = False

    @property
    def done(self) -> int:
        """Number of samples followed so far."""
        return self._tail.done - len(self._records)

    @property
    def has_ended(self) -> bool:
        """Whether it has, and all that it ran was followed."""
        return self.first_ns is not None and not self.state["is_running"][0]

    @property
    def running(self) -> Running | None:
        """What it ran at the end of the last block; None before its first sample."""
        if self.first_ns is None:
            return None
        t_ns, instance, task, cpu_ns = (int(self.state[name][0]) for name in ("t_ns", "instance", "task", "cpu_ns"))
        is_known = instance != 0 and task != layout.NO_TASK and not self.has_ended
        return Running(t_ns, task if is_known else None, self._since_ns, (cpu_ns - self._first_cpu_ns) * 1e-9)

    def committed(self) -> int:
        """Return the number of samples that it has recorded by now. Raises TraceError."""
        return open_stream(self.stream.path, StreamKind.SAMPLES).number("committed")

    def is_over(self, t_ns: int) -> bool:
        """Whether it ended by then, so that a block that begins there has no segment of it."""
        return self.has_ended and int(self.state["end_ns"][0]) < t_ns

    @property
    def loaded_ns(self) -> int:
        """Time of the last sample that was read."""
        return int(self._records["t_ns"][-1] if len(self._records) else self.state["t_ns"][0])

    @property
    def loaded(self) -> int:
        """Number of samples that were read and not followed yet."""
        return len(self._records)

    def load(self, until_ns: int, learn: Learn, most: int = sys.maxsize) -> None:
        """Read the samples up to a time, and some more, or until there are so many. Raises OSError, TraceError."""
        parts, count, more = [self._records], len(self._records), not self.has_ended
        while more and count < most and not (len(parts[-1]) and int(parts[-1]["t_ns"][-1]) >= until_ns):
            read, more = self._tail.read(min(MOST_IN_BLOCK, most))
            if not read:
                break
            records = np.frombuffer(read, self.thread.dtype)
            count += len(records)
            learn(self.process, records["task"][records["instance"] != 0])
            if self._has_indices:
                records = self._with_indices(records)
            parts.append(records)
        if len(parts) > 1:
            # As bytes: NumPy joins records field by field.
            self._records = np.frombuffer(b"".join(one.data for one in parts), self.thread.dtype)

    def _with_indices(self, records: NDArray[np.void]) -> NDArray[np.void]:
        found = records.copy()
        found["task"] = self.thread.table.to_indices(self.process, records["task"])
        return found

    def ahead(self, until_ns: int, now_ns: int, *, packages: bool) -> tuple[Any, ...]:
        """Return what the engine follows up to a time: see `_engine.follow`."""
        clock_ns, t_ns = 0, now_ns
        end_ns, columns = self._tail.end or (self._end_ns, None)
        if end_ns is not None:
            t_ns = min(end_ns, MAX_NS) if self._end_ns is None else self._end_ns
            clock_ns = -1 if columns is None else min(columns[self._column], MAX_NS)
        elif self._has_clock and self.loaded_ns < until_ns:
            clock_ns = max(_core.thread_used_ns(self.pid, self.tid, self._own), 0)
        samples = self._find_layout(packages=packages), self._records.view(np.uint8)
        ends = RUNS_ON if end_ns is None else ENDS
        return self._given, *samples, self.begin, self.end, ends, t_ns, clock_ns, self._cut_off_s, None

    def _find_layout(self, *, packages: bool) -> tuple[Any, ...]:
        """Return how its samples are read, and what its numbers of tasks mean by now."""
        table = self.thread.table
        known = len(table.numbers(self.process))
        if not self._layout or known != self._known:
            tasks = table.lookup(self.process)
            if tasks is None and not self._has_indices:  # numbers far apart: samples get the index of each
                self._records = self._with_indices(self._records)
            self._known, self._has_indices = known, tasks is None
            self._layout = layout_of(self.thread, (), tasks, packages=packages)
        return self._layout

    def went_on(self, begin: int, end: int, done: int) -> None:
        """Note where its segments are in a block, and how many samples were taken for it."""
        self.begin, self.end = begin, end
        if not done:
            return
        if self.first_ns is None:
            self.first_ns = int(self._records["t_ns"][0])
            self._first_cpu_ns = int(self._records["cpu_ns"][0]) if self._column >= 0 else 0
        self._since_ns = int(self._records["t_ns"][done - 1])
        self._records = self._records[done:]


class LiveBlocks:
    """The segments and instances of a session, block after block.

    Attributes
    ----------
    instances : those that may run on
    before : how many of these were there before the block
    """

    def __init__(self, begin_ns: int, *, packages: bool, widths: Mapping[str, int]) -> None:
        """Begin at a time: what was before does not count; `widths` as of `InstanceTable`."""
        self.instances = InstanceTable(0, widths)
        self.before = 0
        self._arrays = self._spare = Arrays(1, 0)
        self._packages = packages
        self._begin_ns, self._own_end_ns, self._gone_s = begin_ns, begin_ns, 0.0
        self._ran: JoinedSegments | None = None

    def seen_at(self, t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the CPU seconds of all segments up to times that do not decrease, none before the last block."""
        if self._ran is None:
            return np.zeros(len(t_ns))
        edges_ns, place = np.unique(t_ns, return_inverse=True)
        between_s = spread(LocatedSegments(self._ran.t_ns, self._ran.cpu_s, edges_ns, self._ran.joints))
        return self._gone_s + np.cumsum(between_s)[place]

    def over(self) -> NDArray[np.bool_]:
        """Return which instances ended in the block. Those that end with it have a segment in the next one too."""
        records = self.instances.records
        return np.asarray(records["ended"] & (records["end_ns"] < self._own_end_ns))

    def end_of(self, ordinals: Iterable[int]) -> None:
        """Let what threads ran last end, since they were killed."""
        gone = np.isin(self.instances.records["thread"], np.fromiter(ordinals, np.int32))
        self.instances.records["ended"][gone] = True

    def read(self, threads: Sequence[FollowedThread], end_ns: int, until_ns: int, now_ns: int) -> JoinedSegments:
        """Return the segments of the next block, whose samples were loaded.

        Parameters
        ----------
        threads : that have not ended before it
        end_ns : its end: segments that begin before count in it
        until_ns : the end of what its quanta hold, not before that
        now_ns : not before `until_ns`
        """
        self._forget()
        self.before = self.instances.count
        samples = sum(one.loaded for one in threads)
        before, self._arrays = self._arrays, self._spare.with_room(self._arrays.count + samples + 4 * len(threads) + 4)
        self._spare, arrays = before, self._arrays
        self.instances.make_room(samples + len(threads) + 1)
        block = (self._own_end_ns, until_ns, self._begin_ns, MAX_NS)
        given = [one.ahead(until_ns, now_ns, packages=self._packages) for one in threads]
        places = arrays.follow(self.instances, given, before, block)
        for one, (begin, _, end, done) in zip(threads, places, strict=True):
            one.went_on(begin, end, done)
        self._own_end_ns = end_ns
        there = [one for one in threads if one.end > one.begin]
        self._ran = arrays.joined(
            [one.thread for one in there], [one.ordinal for one in there],
            [(begin, end) for begin, _, end, _ in places if end > begin], arrays.segments_s.copy(),
            self.instances, counted=[True] * len(there), earlier_s=[0.0] * len(there), packages=self._packages,
        )  # fmt: skip
        return self._ran

    def _forget(self) -> None:
        """Forget the instances that ended, and count the CPU time of segments that the next block does not need."""
        if self._ran is None:
            return
        begin_ns, end_ns, since_ns = self._ran.t_ns[:-1], self._ran.t_ns[1:], self._own_end_ns
        gone = (end_ns < since_ns) & (end_ns > begin_ns)  # those that end there are kept
        self._gone_s += float(self._ran.cpu_s[gone].sum())
        self._arrays.forget(self.instances, self.over())


def tail_of(stream: Stream, dtype: np.dtype[np.void], fetch: Callable[[int, int], bytes] | None = None) -> _core.Tail:
    """Return what reads the records of a stream as they come; `fetch` as of `_core.Tail`."""
    body_at = layout.HEADER_BYTES + stream.number("window_bytes")
    return _core.Tail(os.fspath(stream.path), dtype.itemsize, body_at, stream.gone, fetch)


def _fetch_of(stream: Stream) -> Callable[[int, int], bytes] | None:
    """Return what gives records from a number on that the core cannot read, as they are or may be compressed."""
    size = stream.number("record_bytes")
    if stream.segments is not None:
        return lambda first, most: _of_segment(stream, size, first, most)
    if stream.packed is None:
        return None
    known: list[tuple[int, bytes]] = [(0, b"")]

    def of_block(first: int, most: int) -> bytes:
        """Return records of the block that has the first one; the last block is kept."""
        begin = first // MOST_RECORDS * MOST_RECORDS
        if known[0][0] != begin or not known[0][1]:
            dtype = np.dtype((np.void, size))
            known[0] = begin, stream.read_part(dtype, begin, begin + MOST_RECORDS).tobytes()
        return known[0][1][(first - begin) * size : (first - begin + most) * size]

    return of_block


def _of_segment(stream: Stream, size: int, first: int, most: int) -> bytes:
    """Return records of one segment; none if it is gone. Raises TraceError."""
    number, at = divmod(first, stream.number("segment_records"))
    records, path = np.empty((most, size), np.uint8), segment_path(stream.path, number)
    damaged = read_segment(path, records, at)
    if damaged:
        raise TraceError(f"{path} has a damaged block: its live figures end there; load the session instead")
    return b"" if damaged is None else records.tobytes()
