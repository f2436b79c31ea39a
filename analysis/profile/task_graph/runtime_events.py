"""What the events of a task runtime say of each instance, found in one pass over parts of their files.

There are two to five events for each instance. What tables and graphs need of them is the first of each kind, 32 bytes
an instance, in temporary files where these are many. Dependences are read again where they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace import EventKind, layout
from tprof.trace.graph import notes_of
from tprof.trace.long_arrays import AppendedColumns, release
from tprof.trace.long_sorts import first_rows, rows_of, sorted_arrays

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tprof.trace import Trace
    from tprof.trace.graph import EventFile

Ids = NDArray[np.uint64]
Times = NDArray[np.int64]
Events = np.ndarray[Any, np.dtype[np.void]]
UNKNOWN = np.iinfo(np.int64).min
OF_INSTANCES = (EventKind.SPAWN, EventKind.READY, EventKind.STEAL, EventKind.CANCEL)
OF_WORKERS = (EventKind.BEGIN, EventKind.END)


class Earliest(NamedTuple):
    """The earliest event of a kind for each instance, (k,) each; of the same time that of an earlier file and place.

    Attributes
    ----------
    ids : of the instances, increasing
    t_ns : CLOCK_MONOTONIC
    other : the instance that it names besides: which spawned it, or whose end made it ready; 0: none
    task : index of the task that it names; others are none's
    process : of the thread that wrote it
    """

    ids: Ids
    t_ns: Times
    other: Ids
    task: NDArray[np.uint32]
    process: NDArray[np.int32]

    def of(self, instances: Ids, name: str, absent: int) -> NDArray[Any]:
        """Return a column for some instances, with another value for those that have no such event."""
        row, values = rows_of(self.ids, instances), getattr(self, name)
        found = np.full(len(row), absent, values.dtype)
        found[row >= 0] = values[row[row >= 0]]
        release(values)
        return found


class Turns(NamedTuple):
    """BEGIN and END events in order of time: when, in which thread, whether it begins, and the number of the worker."""

    t_ns: Times
    thread: NDArray[np.int64]
    begins: NDArray[np.bool_]
    worker: NDArray[np.int64]


@dataclass(frozen=True)
class RuntimeEvents:
    """What events say.

    Attributes
    ----------
    files : of the events
    count : of events of known kinds
    notes : sentences on missing events
    turns : of workers
    spawns, releases, steals, cancels : of instances: when they were spawned, could run, were taken by a worker from
        another one, and were cancelled before they ran
    """

    files: tuple[EventFile, ...]
    count: int
    notes: tuple[str, ...]
    turns: Turns = field(repr=False)
    spawns: Earliest = field(repr=False)
    releases: Earliest = field(repr=False)
    steals: Earliest = field(repr=False)
    cancels: Earliest = field(repr=False)

    def __len__(self) -> int:
        """Return the number of events of known kinds."""
        return self.count

    def parts(self, threads: Collection[int] | None = None) -> Iterator[tuple[EventFile, Events]]:
        """Read the events of known kinds again, file by file and some at a time; `threads`: of these only."""
        for file in self.files:
            if threads is None or file.ordinal in threads:
                for events in file.parts():
                    yield file, events[np.isin(events["kind"], list(EventKind))]


def read_events(trace: Trace) -> RuntimeEvents:
    """Read the events of a trace. Raises TraceError."""
    count = unknown = 0
    columns = {kind: AppendedColumns(np.uint64, np.int64, np.uint64, np.uint32, np.int32) for kind in OF_INSTANCES}
    turns = AppendedColumns(np.int64, np.int64, np.bool_, np.int64)
    for file in trace.events:
        for events in file.parts():
            known = int(np.isin(events["kind"], list(EventKind)).sum())
            count, unknown = count + known, unknown + len(events) - known
            for kind, found in columns.items():
                some = events[(events["kind"] == kind) & (events["instance"] != 0)]
                process = np.full(len(some), file.process)
                found.add(some["instance"], some["t_ns"], some["other"], some["task"], process)
            some = events[np.isin(events["kind"], OF_WORKERS)]
            worker = np.where(some["worker"] == layout.NO_WORKER, -1, some["worker"].astype(np.int64))
            turns.add(some["t_ns"], np.full(len(some), file.ordinal), some["kind"] == EventKind.BEGIN, worker)
    earliest = (Earliest(*first_rows(sorted_arrays(found.finish(), keys=2))) for found in columns.values())
    notes = notes_of(trace.events, unknown)
    return RuntimeEvents(trace.events, count, notes, Turns(*sorted_arrays(turns.finish())), *earliest)
