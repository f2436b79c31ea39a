"""Events of a task runtime: spawns, dependences, releases, steals, cancellations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .metadata import MAX_NS
from .stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from .stream import Stream
    from .tasks import TaskTable

WORD = "graph"
PART = 1 << 19
"""Events of a file that are read at a time."""


@dataclass(frozen=True)
class Graph:
    """The events of all threads, by time; those of one time and thread stay in the order of the file.

    Times are within the trace's clock, but nothing else is guaranteed: an event may name an unknown instance, be
    missing or occur twice, and dependences may form cycles.

    Attributes
    ----------
    t_ns : (n,) int64, nanoseconds, CLOCK_MONOTONIC, not decreasing.
    thread : (n,) int64, ordinal of the thread that wrote it; that thread's samples may be missing.
    kind : (n,) uint8, one of `EventKind`; others are left out.
    instance, other : (n,) uint64; 0: none. Their meaning depends on the kind.
    task : (n,) uint32, index in `Trace.tasks`; 0xFFFFFFFF: none, or not in the table.
    worker : (n,) int32; -1: none.
    notes : sentences on missing events.
    """

    t_ns: npt.NDArray[np.int64]
    thread: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    instance: npt.NDArray[np.uint64]
    other: npt.NDArray[np.uint64]
    task: npt.NDArray[np.uint32]
    worker: npt.NDArray[np.int32]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.t_ns)


@dataclass(frozen=True)
class EventFile:
    """The events of one thread in its file.

    Attributes
    ----------
    ordinal, process : of the thread, as those of its samples.
    count : committed events that can be read.
    dropped : events that could not be written.
    """

    ordinal: int
    process: int
    count: int
    dropped: int
    stream: Stream = field(repr=False)
    table: TaskTable = field(repr=False)

    def parts(self) -> Iterator[np.ndarray[Any, np.dtype[np.void]]]:
        """Read the events in the order of the file, some at a time, with indices of `Trace.tasks`. Raises TraceError.

        Times are at most `MAX_NS`. A SPAWN of an instance that may run at once is followed by a READY.
        """
        for first in range(0, self.count, PART):
            events = self.stream.read_part(layout.EVENT, first, first + PART)
            events["t_ns"] = np.minimum(events["t_ns"], np.uint64(MAX_NS))
            events["task"] = self.table.to_indices(self.process, events["task"])
            at_once = (events["kind"] == kinds.EventKind.SPAWN) & (events["flags"] & kinds.EventFlag.AT_ONCE != 0)
            events = np.repeat(events, 1 + at_once)
            ready = np.flatnonzero(at_once) + np.arange(1, 1 + np.count_nonzero(at_once))
            events["kind"][ready], events["other"][ready] = kinds.EventKind.READY, 0
            yield events


def open_events(path: Path, table: TaskTable) -> EventFile:
    """Open a file of events. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.EVENTS)
    events = stream.description.get("events")
    if events != WORD:
        message = f"{path} holds events {events!r}, of which this tprof knows nothing"
        raise TraceError(message)
    number = stream.number
    dropped = sum(number(f"dropped_{reason}") for reason in ("enospc", "io", "reentrant"))
    return EventFile(number("thread"), number("process"), stream.count, dropped, stream, table)


def notes_of(files: Sequence[EventFile], unknown: int) -> tuple[str, ...]:
    """Return sentences on events that are missing, after all were read, of which so many are of unknown kinds."""
    lost = sum(one.count for file in files for one in file.stream.damaged.values())
    notes = (
        [f"{lost} events of the task runtime are lost in damaged compressed blocks: its graph has gaps"] if lost else []
    )
    if unknown > lost:
        notes.append(f"{unknown - lost} events are of a kind that this tprof does not know, and left out")
    return tuple(notes)


def read_graph(files: Sequence[EventFile]) -> Graph:
    """Read the events of all threads and put them in order of time. Raises TraceError."""
    parts = [np.concatenate([np.zeros(0, layout.EVENT), *file.parts()]) for file in files]
    events = np.concatenate([np.zeros(0, layout.EVENT), *parts])
    thread = np.repeat(np.array([file.ordinal for file in files], np.int64), [len(part) for part in parts])
    del parts
    known = np.isin(events["kind"], list(kinds.EventKind))
    unknown = int((~known).sum())
    if unknown:
        events, thread = events[known], thread[known]
    t_ns = events["t_ns"].astype(np.int64)
    order = np.argsort(t_ns, kind="stable")
    worker = events["worker"][order].astype(np.int32)
    worker[worker == layout.NO_WORKER] = -1
    return Graph(
        t_ns=t_ns[order],
        thread=thread[order],
        kind=events["kind"][order],
        instance=events["instance"][order],
        other=events["other"][order],
        task=events["task"][order],
        worker=worker,
        notes=notes_of(files, unknown),
    )
