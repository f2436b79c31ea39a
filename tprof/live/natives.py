"""The native threads of a session that runs, and whose work their pools did, as far as is known by now.

A block and the second before it are looked at as a window of time of a recording that has ended: by the same rules, the
users of a pool are whoever its calls, its creators and its onsets show there. So a task's part is less certain than in
the end, when the whole recording is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.natives.pools import BY_CPU_TIME, StreamedPools
from tprof.analysis.attribution.natives.segments import Reach, joined, limited_runs, merged, runs_of, touching
from tprof.analysis.attribution.natives.users import EVER, Recorded, find_pools, settings_of
from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.kinds import NativeKind
from tprof.trace.metadata import MAX_NS
from tprof.trace.native import OF_LIBRARIES, is_clock, open_native

from .threads import tail_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tprof.analysis.attribution.natives.pools import CutPool
    from tprof.analysis.attribution.natives.segments import Runs
    from tprof.analysis.attribution.natives.users import Onsets
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.trace.native import NativeFile

    from .threads import LiveTasks, LiveThreads

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Records = np.ndarray[Any, np.dtype[np.void]]

BEFORE_NS = 1_000_000_000
"""So much before a block is looked at too: more readings than show a pool's users, and longer than any pool spins."""
LATE_NS = 25_000_000
"""A pool of which nothing was read for so long rests; else what it does after the last reading is not known yet."""
MOST_RECORDS = 1 << 16


class FollowedNatives:
    """The native threads of one process.

    Attributes
    ----------
    file, records : their file, and what is kept of it
    last_ns, has_moved : time of the last reading of a clock, and whether any moved
    """

    def __init__(self, file: NativeFile, tasks: LiveTasks) -> None:
        """Begin with the first record."""
        self._tail = tail_of(file.stream, layout.NATIVE)
        self.file, self._tasks = file, tasks
        self.records = np.empty(0, layout.NATIVE)
        self.last_ns, self.has_moved = 0, False

    def read(self, begin_ns: int, until_ns: int) -> None:
        """Read what is new up to a time, and forget readings before another. Raises OSError."""
        is_idle, more = self.last_ns < begin_ns, True
        while more and self.last_ns < until_ns:
            read, more = self._tail.read(MOST_RECORDS)
            if not read:
                break
            is_idle = False
            self._add(np.frombuffer(read, layout.NATIVE))
        if not is_idle:
            self._forget(begin_ns)

    def _add(self, records: Records) -> None:
        named = np.isin(records["kind"], (NativeKind.CREATOR, NativeKind.CALLS)) & (records["value"] > 0)
        tasks = records["task"][named]
        self._tasks.learn(self.file.process, tasks[tasks != layout.NO_TASK])
        self.records = np.concatenate((self.records, records[records["kind"] != NativeKind.COUNTS]))
        self.last_ns = max(self.last_ns, int(records["t_ns"][is_clock(records)].max(initial=0)))
        self.has_moved |= bool((records["kind"] == NativeKind.CLOCK).any())

    def _forget(self, begin_ns: int) -> None:
        """Forget calls and threads that ended before a time, and readings: threads appear with the last one before."""
        records = self.records
        kind, numbers, is_before = records["kind"], records["thread"], records["t_ns"] < begin_ns
        before = np.flatnonzero(is_clock(records) & is_before)
        latest = dict(zip(numbers[before].tolist(), records[before], strict=True))
        for at in np.flatnonzero(kind == NativeKind.APPEAR).tolist():
            if (last := latest.get(int(numbers[at]))) is not None:
                records["t_ns"][at], records["value"][at] = last["t_ns"], last["value"]
        ended = numbers[(kind == NativeKind.END) & is_before]
        gone = (kind == NativeKind.CALLS) & (records["t_ns"] + records["value"] < begin_ns)
        gone |= ~np.isin(kind, OF_LIBRARIES) & np.isin(numbers, ended) | (kind == NativeKind.CLOCK) & is_before
        self.records = records[~gone]


class LivePools:
    """The pools of native threads of all processes of a session, block after block.

    Attributes
    ----------
    cuts : those that have segments in the block
    """

    def __init__(self, session: Path, manifest: Mapping[str, Any], threads: LiveThreads) -> None:
        """Begin before the first block."""
        self._directory, self._settings, self._threads = session / "native", settings_of(manifest), threads
        self._files: dict[int, FollowedNatives] = {}
        self._ran: dict[Reach, Runs] = {}
        self._onsets: dict[tuple[object, ...], Onsets] = {}
        self.cuts: list[CutPool] = []
        self._used_s = 0.0

    def read(self, since_ns: int, until_ns: int, now_ns: int) -> int:
        """Read what is new for a block between two times; returns up to when it is known what was done there.

        Raises OSError.
        """
        for process in set(self._threads.processes.values()) - self._files.keys():
            path = self._directory / f"{process:08d}.native"
            if path.exists():
                try:
                    file = open_native(path, self._threads.tasks.table)
                except TraceError:
                    continue  # its header is not whole yet: next time
                self._files[process] = FollowedNatives(file, self._threads.tasks)
        for one in self._files.values():
            one.read(since_ns - BEFORE_NS, until_ns)
        busy_ns = (one.last_ns for one in self._files.values() if now_ns - one.last_ns < LATE_NS)
        return min([until_ns, *busy_ns])

    def find(self, ran: JoinedSegments, own_ns: tuple[int, int], until_ns: int) -> None:
        """Find the pools in a block.

        Parameters
        ----------
        ran : what threads with samples ran
        own_ns : from when to when the block is
        until_ns : where its last quantum ends
        """
        self._used_s += sum(float(one.segments.used_s(np.array(own_ns))[0]) for one in self.cuts)
        self.cuts, since_ns = [], own_ns[0] - BEFORE_NS
        files = self._files.values()
        if not any(one.has_moved for one in files) or all(one.last_ns < since_ns for one in files):
            self._ran = {}
            return
        threads = self._threads.followed
        reaches = {one.thread.ordinal: Reach(*one.ids, one.first_ns or 0, MAX_NS) for one in threads}
        for number, one in zip(ran.numbers, ran.apart(), strict=True):
            before, begin_ns = self._ran.get(reaches[number], joined(())), int(one.t_ns[0])
            before = limited_runs(before[before["begin_ns"] < begin_ns], since_ns, begin_ns)
            self._ran[reaches[number]] = merged(joined([before, runs_of(one, EVER)]))
        self.cuts = self._found(since_ns, (own_ns[0], until_ns), ran)
        near = {thread: touching(one, own_ns[1] - BEFORE_NS, own_ns[1]) for thread, one in self._ran.items()}
        self._ran = {thread: one for thread, one in near.items() if len(one)}
        # Programs may create a pool on each of many threads.
        there = set(reaches.values())
        self._onsets = {
            key: one for key, one in self._onsets.items() if all(at in there for at in key if isinstance(at, Reach))
        }

    def _found(self, since_ns: int, within_ns: tuple[int, int], ran: JoinedSegments) -> list[CutPool]:
        """Return the pools in a time, of whose threads it is known what they ran there and before."""
        tasks = len(self._threads.tasks.table.entries)
        # The first reading after the block says what was used up to its end.
        around_ns = since_ns, within_ns[1] + LATE_NS
        read = [(one.file, one.records) for one in self._files.values()]
        natives = [thread for file, records in read for thread in file.threads_in(records.copy())]
        calls = [call for file, records in read for call in file.calls_in(records.copy())]
        given = natives, calls, self._settings, since_ns
        recorded = Recorded(*given, BY_CPU_TIME, self._ran, within_ns, around_ns, self._onsets)
        found = tuple(one for one in find_pools(recorded) if one.segments.cpu_s.sum() > 0)
        pools = StreamedPools(found, (np.ones(tasks + 1),) * len(found), ran.package is not None)
        return pools.between(*within_ns, ran.instances)

    def seen_at(self, t_ns: Times) -> Floats:
        """Return the CPU seconds of pools up to times that do not decrease, none before the last block."""
        return self._used_s + sum((one.segments.used_s(t_ns) for one in self.cuts), np.zeros(len(t_ns)))
