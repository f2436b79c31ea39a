"""The threads of a session: rows of what ran on them since the last step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.kinds import StreamKind
from tprof.trace.packed import MOST_RECORDS
from tprof.trace.segments import read_segment, segment_path
from tprof.trace.stream import open_stream

if TYPE_CHECKING:
    from tprof.trace import Thread
    from tprof.trace.stream import Stream

Learn = Callable[[int, int], tuple[int, bool]]
"""Called with process and number of a new task; returns its index, and whether each instance gets its own rows."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a thread ran at the end of the last step.

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
    pid, tid, process, name, ordinal, stream : as in the trace
    """

    def __init__(
        self,
        thread: Thread,
        *,
        own: bool = False,
        has_clock: bool = True,
        end_ns: int | None = None,
        cut_off_s: float = math.inf,
        moments: bool = False,
        resumes: bool = False,
        stops: bool = False,
    ) -> None:
        """Begin at its first sample.

        Parameters
        ----------
        thread : of a trace
        own : whether it is a thread of this process, whose clock can be read
        has_clock : whether /proc has its clock: its numbers are those of this machine
        end_ns : where its last segment ends; None: it may still run
        cut_off_s : most CPU seconds of a last segment that nothing in the file closes
        moments : whether begins and ends of instances are noted
        resumes : whether what came before the first step was followed before
        stops : whether only the samples that `thread` has count, though its file may have more
        """
        names = thread.dtype.names or ()
        self.pid, self.tid, self.process = thread.pid, thread.tid, thread.process
        self.name, self.ordinal = thread.name, thread.ordinal
        self._follower = _core.Follower(
            path=os.fspath(thread.stream.path),
            record_bytes=thread.dtype.itemsize,
            body_at=layout.HEADER_BYTES + thread.stream.number("window_bytes"),
            process=thread.process,
            pid=thread.pid if has_clock else 0,
            tid=thread.tid if has_clock else 0,
            own=own,
            column=names.index("cpu_ns") - len(layout.SAMPLE_HEAD) if "cpu_ns" in thread.columns else -1,
            packages=np.asarray(thread.packages_of_cpus, np.int16).tobytes(),
            end_ns=end_ns,
            cut_off_ns=cut_off_s * 1e9,
            moments=moments,
            resumes=resumes,
            fetch=_fetch_of(thread.stream),
            first=thread.stream.gone,
            stop=thread.count + thread.stream.gone - thread.stream.kept if stops else None,
        )
        self.stream = thread.stream

    @property
    def first_ns(self) -> int | None:
        """Time of the first sample; None without one."""
        return self._follower.first_ns

    @property
    def done(self) -> int:
        """Number of samples followed so far."""
        return self._follower.done

    def committed(self) -> int:
        """Return the number of samples that it has recorded by now. Raises TraceError."""
        return open_stream(self.stream.path, StreamKind.SAMPLES).number("committed")

    @property
    def has_ended(self) -> bool:
        """Whether it has, and all that it ran was followed."""
        return self._follower.ended

    @property
    def running(self) -> Running | None:
        """What it ran at the end of the last step; None before its first sample."""
        found = self._follower.running
        if found is None:
            return None
        t_ns, task, since_ns, cpu_s = found
        return Running(t_ns, task if task >= 0 else None, since_ns, cpu_s)

    def follow(self, edges_ns: bytes, now_ns: int, learn: Learn) -> tuple[bytes, list[tuple[int, int]], bytes]:
        """Return the rows between the edges, the number of starts of each task, and the noted moments.

        Parameters
        ----------
        edges_ns : int64, increasing; the first is the last one of the step before
        now_ns : not before the last edge
        learn : called with each new task

        Raises
        ------
        OSError
            If the file is gone.
        """
        return self._follower.follow(edges_ns, now_ns, lambda number: learn(self.process, number))


def _fetch_of(stream: Stream) -> Callable[[int, int], bytes] | None:
    """Return what gives records that the core cannot read, because they are or may be compressed."""
    if stream.segments is not None:
        return _Segments(stream).fetch
    return None if stream.packed is None else _Packed(stream).fetch


class _Segments:
    """The compressed segments of a stream."""

    def __init__(self, stream: Stream) -> None:
        self._path, self._size = stream.path, stream.number("record_bytes")
        self._records = stream.number("segment_records")

    def fetch(self, first: int, most: int) -> bytes:
        """Return records of one segment from `first` on; none if it is gone. Raises TraceError."""
        number, at = divmod(first, self._records)
        records = np.empty((most, self._size), np.uint8)
        path = segment_path(self._path, number)
        damaged = read_segment(path, records, at)
        if damaged:
            raise TraceError(f"{path} has a damaged block: its live figures end there; load the session instead")
        return b"" if damaged is None else records.tobytes()


class _Packed:
    """The compressed records of a stream; keeps the last block."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._first = 0
        self._records = np.empty((0, stream.number("record_bytes")), np.uint8)

    def fetch(self, first: int, most: int) -> bytes:
        """Return records from `first` on. Raises TraceError."""
        at = first - self._first
        if not 0 <= at < len(self._records):
            size = self._stream.number("record_bytes")
            self._first, at = first // MOST_RECORDS * MOST_RECORDS, first % MOST_RECORDS
            records = self._stream.read_part(np.dtype((np.void, size)), self._first, self._first + MOST_RECORDS)
            self._records = records.view(np.uint8).reshape(-1, size)
        return self._records[at : at + most].tobytes()
