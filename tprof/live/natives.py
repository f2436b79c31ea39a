"""The native threads of a session that runs, as far as their files are committed: of a block and the second before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.kinds import NativeKind
from tprof.trace.native import OF_LIBRARIES, is_clock, open_native

from .threads import tail_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tprof.trace import PoolCalls
    from tprof.trace.native import NativeFile, NativeThread
    from tprof.trace.tasks import TaskTable

    from .threads import Learn

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
    last_ns, has_moved : time of the last reading of a clock, and whether any moved
    """

    def __init__(self, file: NativeFile, learn: Learn) -> None:
        """Begin with the first record."""
        self._tail = tail_of(file.stream, layout.NATIVE)
        self._file, self._learn = file, learn
        self._records = np.empty(0, layout.NATIVE)
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
        self._learn(self._file.process, tasks[tasks != layout.NO_TASK])
        self._records = np.concatenate((self._records, records[records["kind"] != NativeKind.COUNTS]))
        self.last_ns = max(self.last_ns, int(records["t_ns"][is_clock(records)].max(initial=0)))
        self.has_moved |= bool((records["kind"] == NativeKind.CLOCK).any())

    def _forget(self, begin_ns: int) -> None:
        """Forget calls and threads that ended before a time, and readings: threads appear with the last one before."""
        records = self._records
        kind, numbers, is_before = records["kind"], records["thread"], records["t_ns"] < begin_ns
        before = np.flatnonzero(is_clock(records) & is_before)
        latest = dict(zip(numbers[before].tolist(), records[before], strict=True))
        for at in np.flatnonzero(kind == NativeKind.APPEAR).tolist():
            if (last := latest.get(int(numbers[at]))) is not None:
                records["t_ns"][at], records["value"][at] = last["t_ns"], last["value"]
        ended = numbers[(kind == NativeKind.END) & is_before]
        gone = (kind == NativeKind.CALLS) & (records["t_ns"] + records["value"] < begin_ns)
        gone |= ~np.isin(kind, OF_LIBRARIES) & np.isin(numbers, ended) | (kind == NativeKind.CLOCK) & is_before
        self._records = records[~gone]

    def threads(self) -> list[NativeThread]:
        """Return the threads that may have moved."""
        return self._file.threads_in(self._records.copy())

    def calls(self) -> list[PoolCalls]:
        """Return the calls that gave work to pools."""
        return self._file.calls_in(self._records.copy())


class Natives:
    """The native threads of all processes of a session."""

    def __init__(self, session: Path, table: TaskTable, learn: Learn) -> None:
        """Begin without any."""
        self._directory, self._table, self._learn = session / "native", table, learn
        self._files: dict[int, FollowedNatives] = {}

    @property
    def have_moved(self) -> bool:
        """Whether any has used CPU time."""
        return any(one.has_moved for one in self._files.values())

    def read(self, processes: Iterable[int], since_ns: int, until_ns: int) -> None:
        """Read what is new of some processes, for a block between two times. Raises OSError."""
        for process in set(processes) - self._files.keys():
            path = self._directory / f"{process:08d}.native"
            if path.exists():
                try:
                    self._files[process] = FollowedNatives(open_native(path, self._table), self._learn)
                except TraceError:
                    continue  # its header is not whole yet: next time
        for one in self._files.values():
            one.read(since_ns - BEFORE_NS, until_ns)

    def known_ns(self, until_ns: int, now_ns: int) -> int:
        """Return up to when it is known what they did, at most a time."""
        busy_ns = (one.last_ns for one in self._files.values() if now_ns - one.last_ns < LATE_NS)
        return min([until_ns, *busy_ns])

    def move_since(self, t_ns: int) -> bool:
        """Return whether a clock was read at a time or later."""
        return any(one.last_ns >= t_ns for one in self._files.values())

    def threads(self) -> list[NativeThread]:
        """Return those that may have moved."""
        return [one for file in self._files.values() for one in file.threads()]

    def calls(self) -> list[PoolCalls]:
        """Return the calls that gave work to pools."""
        return [one for file in self._files.values() for one in file.calls()]
