"""Events of a task runtime: spawns, dependences, releases, steals, cancellations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .metadata import MAX_NS
from .plain_values import counted
from .stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .stream import Stream
    from .tasks import TaskTable

WORD = "graph"


@dataclass(frozen=True)
class EventFile:
    """The events of one thread in its file.

    An event may name an unknown instance, be missing or occur twice, and dependences may form cycles.

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

    def read(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """Read the events in the order of the file, with indices of `Trace.tasks`. Raises TraceError.

        Times are at most `MAX_NS`. A SPAWN of an instance that may run at once is followed by a READY.
        """
        events = self.stream.read_part(layout.EVENT, 0, self.count)
        events["t_ns"] = np.minimum(events["t_ns"], np.uint64(MAX_NS))
        events["task"] = self.table.to_indices(self.process, events["task"])
        at_once = (events["kind"] == kinds.EventKind.SPAWN) & (events["flags"] & kinds.EventFlag.AT_ONCE != 0)
        events = np.repeat(events, 1 + at_once)
        ready = np.flatnonzero(at_once) + np.arange(1, 1 + np.count_nonzero(at_once))
        events["kind"][ready], events["other"][ready] = kinds.EventKind.READY, 0
        return events


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
    gone = counted(lost, "event of the task runtime is", "events of the task runtime are")
    notes = [f"{gone} lost in damaged compressed blocks: its graph has gaps"] if lost else []
    if unknown > lost:
        strange = counted(unknown - lost, "event is", "events are")
        notes.append(f"{strange} of a kind that this tprof does not know, and left out")
    return tuple(notes)
