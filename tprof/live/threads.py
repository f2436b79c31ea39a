"""What the threads of a session ran, block after block, from their files as far as these are committed.

The engine's loops turn samples into segments and instances, as for a profile. A thread that runs on at the end of a
block has no sample there, so its CPU clock stands in for one.
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tprof import _core
from tprof.analysis.attribution.blocks import ENDS, RUNS_ON, THREAD, Arrays, layout_of
from tprof.analysis.attribution.segment_energy import LocatedSegments, spread
from tprof.analysis.engine.instance_table import InstanceTable
from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.kinds import StreamKind
from tprof.trace.metadata import MAX_NS, packages_of_cpus
from tprof.trace.stream import open_stream
from tprof.trace.tasks import TaskTable
from tprof.trace.thread import open_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.trace import Thread
    from tprof.trace.stream import Stream

OUTSIDE = -1
"""In place of this process's ordinal: it is none of those that record."""
SAMPLES = ".samples"
MOST_IN_BLOCK = 1 << 15
"""Samples of a block, unless a quantum has more, with some 200 bytes of memory each; so many are read at a time."""


class Running(NamedTuple):
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


class LiveTasks:
    """The tasks of a session as far as their samples were met.

    Attributes
    ----------
    table : has them
    """

    def __init__(self, session: Path, table: TaskTable) -> None:
        """Begin with the tasks that the table has."""
        self.table, self._directory = table, session / "tasks"

    def learn(self, process: int, numbers: NDArray[np.uint32]) -> None:
        """Enter tasks with these numbers into the table; those whose names are not there have lost them."""
        known = self.table.numbers(process)
        missing = set(np.unique(numbers).tolist()) - known.keys()
        if missing:
            with suppress(TraceError):  # without a table they are lost names
                self.table.read(self._directory / f"{process:08d}.jsonl", process)
            for number in sorted(missing - known.keys()):
                self.table.lost(process, number)

    def name(self, process: int, records: NDArray[np.void]) -> None:
        """Give samples the indices of their tasks in the table, in place of numbers of their process."""
        numbers = records["task"]
        tasks = self.table.to_indices(process, numbers)
        unknown = (tasks == layout.NO_TASK) & (records["instance"] != 0)
        if unknown.any():
            self.learn(process, numbers[unknown])
            tasks = self.table.to_indices(process, numbers)
        records["task"] = tasks


class FollowedThread:
    """One file of samples.

    Attributes
    ----------
    thread : as in the trace
    first_ns : time of the first sample; None without one
    loaded_ns : time of the last sample that was read
    is_there : whether its CPU clock could be read last; True where it cannot
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
        self.thread, self._own, self._end_ns, self._cut_off_s = thread, own, end_ns, cut_off_s
        self.first_ns: int | None = None
        self.loaded_ns = self.begin = self.end = 0
        self.is_there = True
        has_cpu = "cpu_ns" in thread.columns
        self._column = (thread.dtype.names or ()).index("cpu_ns") - len(layout.SAMPLE_HEAD) if has_cpu else -1
        self._has_clock = has_cpu and (own or has_clock)
        self._tail = tail_of(thread.stream, thread.dtype, _fetch_of(thread))
        self._state = np.zeros(1, THREAD)
        self._state["end_ns"] = MAX_NS if end_ns is None else end_ns
        given = self._state.view(np.uint8), np.empty(0, np.uint64), thread.ordinal
        self._given = given, layout_of(thread, (), None, packages=True)
        self._records = np.empty(0, thread.dtype)
        self._since_ns = self._first_cpu_ns = 0

    @property
    def path(self) -> Path:
        """Its file."""
        return self.thread.stream.path

    @property
    def ids(self) -> tuple[int, int]:
        """The numbers of its process and itself in the system."""
        return self.thread.pid, self.thread.tid

    @property
    def done(self) -> int:
        """Number of samples followed so far."""
        return self._tail.done - len(self._records)

    @property
    def has_ended(self) -> bool:
        """Whether it has, and all that it ran was followed."""
        may_end = self._end_ns is not None or self._tail.end is not None
        return may_end and self.first_ns is not None and not self._state["is_running"][0]

    @property
    def running(self) -> Running | None:
        """What it ran at the end of the last block; None before its first sample."""
        if self.first_ns is None:
            return None
        t_ns, instance, task, cpu_ns = (int(self._state[name][0]) for name in ("t_ns", "instance", "task", "cpu_ns"))
        is_known = instance != 0 and task != layout.NO_TASK and not self.has_ended
        return Running(t_ns, task if is_known else None, self._since_ns, (cpu_ns - self._first_cpu_ns) * 1e-9)

    @property
    def is_left(self) -> bool:
        """Whether all samples that it has recorded by now were followed. Raises TraceError."""
        return self.done >= open_stream(self.path, StreamKind.SAMPLES).number("committed")

    def is_over(self, t_ns: int) -> bool:
        """Whether it ended by then, so that a block that begins there has no segment of it."""
        return self.has_ended and int(self._state["end_ns"][0]) < t_ns

    @property
    def loaded(self) -> int:
        """Number of samples that were read and not followed yet."""
        return len(self._records)

    def load(self, until_ns: int, tasks: LiveTasks, most: int = sys.maxsize) -> None:
        """Read the samples up to a time, and some more, or until there are so many. Raises OSError, TraceError."""
        parts, count, more = [self._records], len(self._records), not self.has_ended
        while more and count < most and self.loaded_ns < until_ns:
            read, more = self._tail.read(min(MOST_IN_BLOCK, most))
            if not read:
                break
            records = np.frombuffer(bytearray(read), self.thread.dtype)
            tasks.name(self.thread.process, records)
            self.loaded_ns, count = int(records["t_ns"][-1]), count + len(records)
            parts.append(records)
        if len(parts) > 1:
            # As bytes: NumPy joins records field by field.
            self._records = np.frombuffer(b"".join(one.data for one in parts), self.thread.dtype)

    def ahead(self, until_ns: int, now_ns: int) -> tuple[Any, ...]:
        """Return what the engine follows up to a time: see `_engine.follow`."""
        clock_ns, t_ns = 0, now_ns
        end_ns, columns = self._tail.end or (self._end_ns, None)
        if end_ns is not None:
            t_ns = min(end_ns, MAX_NS) if self._end_ns is None else self._end_ns
            clock_ns = -1 if columns is None else min(columns[self._column], MAX_NS)
        elif self._has_clock and self.loaded_ns < until_ns:
            clock_ns = _core.thread_used_ns(*self.ids, self._own)
            self.is_there = clock_ns > 0
        then = RUNS_ON if end_ns is None else ENDS
        records = self._records.view(np.uint8)
        return *self._given, records, self.begin, self.end, then, t_ns, clock_ns, self._cut_off_s, None

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


class LiveThreads:
    """The threads of a session with samples: their segments and instances, block after block.

    Attributes
    ----------
    tasks : what they run
    followed : those that have not ended, as far as they are known
    processes : the process of each thread by the thread's ordinal
    first_ns : time of the first sample; None before it
    count : how many have any samples
    instances : those that may run on
    before : how many of these were there before the block
    """

    def __init__(
        self,
        session: Path,
        manifest: dict[str, Any],
        *,
        process: int = OUTSIDE,
        count: Callable[[], int] | None = None,
        has_clock: Callable[[int], bool] = lambda _: True,
        table: TaskTable | None = None,
    ) -> None:
        """Begin without any, with the tasks of a table; the other parameters are those of `Meter`."""
        self.tasks = LiveTasks(session, table or TaskTable())
        self.followed: list[FollowedThread] = []
        self.processes: dict[int, int] = {}
        self.first_ns: int | None = None
        self.count = 0
        self._directory, self._packages_of_cpus = session / "threads", packages_of_cpus(manifest)
        self._process, self._count_files, self._has_clock = process, count, has_clock
        self._files: set[str] = set()
        self.begin(0, packages=False, widths={})

    def begin(self, t_ns: int, *, packages: bool, widths: Mapping[str, int]) -> None:
        """Begin at a time: what was before does not count; `widths` as of `InstanceTable`."""
        self.instances = InstanceTable(0, widths)
        self.before = 0
        self._arrays = self._spare = Arrays(1, 0)
        self._packages = packages
        self._begin_ns, self._own_end_ns, self._gone_s = t_ns, t_ns, 0.0
        self._ran: JoinedSegments | None = None

    def add(self, *threads: FollowedThread) -> None:
        """Follow more threads."""
        self.followed += threads
        self.count += len(threads)
        self.processes |= {one.thread.ordinal: one.thread.process for one in threads}

    def find(self) -> None:
        """Open the files of threads that are new. To list a folder gives the interpreter's lock away."""
        if self._count_files is not None and self._count_files() == len(self._files):
            return
        for name in os.listdir(self._directory):  # noqa: PTH208 - it is hot
            if not name.endswith(SAMPLES) or name in self._files:
                continue
            try:
                thread = open_thread(self._directory / name, self.tasks.table, self._packages_of_cpus)
            except TraceError:
                continue  # its header is not whole yet: next time
            own = thread.process == self._process
            self.add(FollowedThread(thread, own=own, has_clock=own or self._has_clock(thread.pid)))
            self._files.add(name)

    def forget(self, thread: FollowedThread) -> None:
        """Forget the name of a thread's file, which was removed."""
        self._files.discard(thread.path.name)

    def leave(self, threads: Collection[FollowedThread]) -> None:
        """Follow some no more."""
        if threads:
            self.followed = [one for one in self.followed if one not in threads]

    def leave_processes(self, ended: Collection[int]) -> list[FollowedThread]:
        """Follow no thread any more of processes that were killed, which are read to their end; returns these."""
        gone = [one for one in self.followed if one.thread.process in ended and one.is_left]
        if gone:
            records = self.instances.records
            records["ended"][np.isin(records["thread"], [one.thread.ordinal for one in gone])] = True
            self.leave(gone)
        return gone

    def load(self, until_ns: int, most: int = sys.maxsize) -> int:
        """Read samples up to a time, or about so many in all; returns up to when, at most that."""
        each = max(most // max(len(self.followed), 1), 1)
        for one in self.followed:
            one.load(until_ns, self.tasks, each)
        return min([until_ns, *(one.loaded_ns for one in self.followed if one.loaded >= each)])

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

    def read(self, end_ns: int, until_ns: int, now_ns: int) -> JoinedSegments:
        """Return the segments of the next block, whose samples were loaded.

        Parameters
        ----------
        end_ns : its end: segments that begin before count in it
        until_ns : the end of what its quanta hold, not before that
        now_ns : not before `until_ns`
        """
        self._forget()
        self.before, threads = self.instances.count, self.followed
        samples = sum(one.loaded for one in threads)
        before, self._arrays = self._arrays, self._spare.with_room(self._arrays.count + samples + 4 * len(threads) + 4)
        self._spare, arrays = before, self._arrays
        self.instances.make_room(samples + len(threads) + 1)
        block = (self._own_end_ns, until_ns, self._begin_ns, MAX_NS)
        given = [one.ahead(until_ns, now_ns) for one in threads]
        places = arrays.follow(self.instances, given, before, block)
        for one, (begin, _, end, done) in zip(threads, places, strict=True):
            one.went_on(begin, end, done)
        self._own_end_ns = end_ns
        if self.first_ns is None:
            self.first_ns = min((one.first_ns for one in threads if one.first_ns is not None), default=None)
        there = [one.thread for one in threads if one.end > one.begin]
        self._ran = arrays.joined(
            there, [one.ordinal for one in there],
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


def _fetch_of(thread: Thread) -> Callable[[int, int], bytes] | None:
    """Return what gives samples from a number on that are or may be compressed, none of those that are gone."""
    if thread.stream.segments is None and thread.stream.packed is None:
        return None

    def fetch(first: int, most: int) -> bytes:
        stream = open_stream(thread.stream.path, StreamKind.SAMPLES)
        place = first - stream.gone + stream.kept
        return stream.read_part(thread.dtype, place, place + most).tobytes() if first >= stream.gone else b""

    return fetch
