"""What the events of a task runtime say of each instance, found in two passes over parts of their files.

All events of a recording take 41 bytes each in memory, and there are two to five for each instance. What tables and
graphs need of them is the first spawn, the first release and whether it was stolen: 49 bytes an instance, in temporary
files where these are many. Dependences are read again where they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace import EventKind, layout
from tprof.trace.graph import notes_of
from tprof.trace.long_arrays import Appended, blocks, computed, filled, release
from tprof.trace.long_sorts import distinct_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tprof.trace import Trace
    from tprof.trace.graph import EventFile

Ids = NDArray[np.uint64]
Rows = NDArray[np.int64]
Times = NDArray[np.int64]
Events = np.ndarray[Any, np.dtype[np.void]]
UNKNOWN = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
OF_INSTANCES = (EventKind.SPAWN, EventKind.READY, EventKind.STEAL)
OF_WORKERS = (EventKind.BEGIN, EventKind.END)


class Cancels(NamedTuple):
    """CANCEL events in order of time: when, of which instance, and the index of its task, which may be none's."""

    t_ns: Times
    instance: Ids
    task: NDArray[np.uint32]


class Turns(NamedTuple):
    """BEGIN and END events in order of time: when, in which thread, whether it begins, and the number of the worker."""

    t_ns: Times
    thread: Rows
    begins: NDArray[np.bool_]
    worker: Rows


@dataclass(frozen=True)
class RuntimeEvents:
    """What events say; of several of a kind for an instance the earliest counts.

    Attributes
    ----------
    files : of the events
    count : of events of known kinds
    notes : sentences on missing events
    ids : (k,) instances that were spawned, became ready or were stolen, increasing
    spawn_ns, ready_ns : (k,) CLOCK_MONOTONIC; `UNKNOWN` without such an event
    spawner, releaser : (k,) which instance spawned it, and whose end made it ready; 0: none
    task : (k,) index of the task that its SPAWN names; others are none's
    process : (k,) of the thread that wrote its READY
    stolen : (k,) whether a worker took it from another one
    cancels, turns : of instances that never ran, and of workers
    """

    files: tuple[EventFile, ...]
    count: int
    notes: tuple[str, ...]
    ids: Ids = field(repr=False)
    spawn_ns: Times = field(repr=False)
    ready_ns: Times = field(repr=False)
    spawner: Ids = field(repr=False)
    releaser: Ids = field(repr=False)
    task: NDArray[np.uint32] = field(repr=False)
    process: NDArray[np.int32] = field(repr=False)
    stolen: NDArray[np.bool_] = field(repr=False)
    cancels: Cancels = field(repr=False)
    turns: Turns = field(repr=False)

    def __len__(self) -> int:
        """Return the number of events of known kinds."""
        return self.count

    def rows(self, instances: Ids) -> Rows:
        """Return the row of each of some instances; -1 for one of which there are no events."""
        if not len(self.ids):
            return np.full(len(instances), -1)
        at = np.minimum(np.searchsorted(self.ids, instances), len(self.ids) - 1)
        return np.where((self.ids[at] == instances) & (instances != 0), at, -1)

    def parts(self, threads: Collection[int] | None = None) -> Iterator[tuple[EventFile, Events]]:
        """Read the events of known kinds again, file by file and some at a time; `threads`: of these only."""
        for file in self.files:
            if threads is None or file.ordinal in threads:
                for events in file.parts():
                    yield file, _known(events)

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(
            self.ids, self.spawn_ns, self.ready_ns, self.spawner, self.releaser, self.task, self.process, self.stolen
        )


def read_events(trace: Trace) -> RuntimeEvents:
    """Read the events of a trace twice. Raises TraceError."""
    first = _FirstPass()
    for file in trace.events:
        for events in file.parts():
            first.add(file, events)
    second = _Earliest(first.ids())
    for file in trace.events:
        for events in file.parts():
            second.add(file, _known(events))
    second.finish()
    notes = notes_of(trace.events, first.unknown)
    return RuntimeEvents(
        trace.events, first.count, notes, second.ids, second.spawn_ns, second.ready_ns, second.spawner,
        second.releaser, second.task, second.process, second.stolen, first.cancels(), first.turns(),
    )  # fmt: skip


def _known(events: Events) -> Events:
    known = np.isin(events["kind"], list(EventKind))
    return events if known.all() else events[known]


class _FirstPass:
    """Which instances there are, and the events that are few."""

    def __init__(self) -> None:
        self.count = self.unknown = 0
        self._ids = Appended(np.uint64)
        self._cancels: list[Events] = []
        self._turns: list[tuple[int, Events]] = []

    def add(self, file: EventFile, events: Events) -> None:
        known = _known(events)
        self.count += len(known)
        self.unknown += len(events) - len(known)
        named = known["instance"][np.isin(known["kind"], OF_INSTANCES)]
        self._ids.add(distinct_values(named[named != 0]))
        self._cancels.append(known[known["kind"] == EventKind.CANCEL])
        self._turns.append((file.ordinal, known[np.isin(known["kind"], OF_WORKERS)]))

    def ids(self) -> Ids:
        return distinct_values(self._ids.finish())

    def cancels(self) -> Cancels:
        t_ns, instance, task = (_joined(self._cancels, name) for name in ("t_ns", "instance", "task"))
        order = np.argsort(t_ns, kind="stable")
        return Cancels(t_ns[order].astype(np.int64), instance[order], task[order])

    def turns(self) -> Turns:
        parts = [one for _, one in self._turns]
        t_ns, kind, worker = (_joined(parts, name) for name in ("t_ns", "kind", "worker"))
        thread = np.repeat(np.array([one for one, _ in self._turns], np.int64), [len(one) for one in parts])
        order = np.argsort(t_ns, kind="stable")
        number = np.where(worker == layout.NO_WORKER, -1, worker.astype(np.int64))
        return Turns(t_ns[order].astype(np.int64), thread[order], (kind == EventKind.BEGIN)[order], number[order])


def _joined(parts: Sequence[Events], name: str) -> NDArray[Any]:
    return np.concatenate([one[name] for one in parts]) if parts else np.zeros(0, np.uint64)


class _Earliest:
    """The earliest event of each kind and instance."""

    def __init__(self, ids: Ids) -> None:
        count = len(ids)
        self.ids = ids
        self.spawn_ns, self.ready_ns, self._steal_ns = (filled(count, np.int64, NEVER) for _ in OF_INSTANCES)
        self.spawner, self.releaser = (filled(count, np.uint64, 0) for _ in range(2))
        self.task, self.process = filled(count, np.uint32, layout.NO_TASK), filled(count, np.int32, -1)

    def add(self, file: EventFile, events: Events) -> None:
        """Take the events of a part; of the same time those of earlier files and places come first."""
        at, spawns = self._earlier(events, EventKind.SPAWN, self.spawn_ns)
        self.spawner[at], self.task[at] = spawns["other"], spawns["task"]
        at, releases = self._earlier(events, EventKind.READY, self.ready_ns)
        self.releaser[at], self.process[at] = releases["other"], file.process
        self._earlier(events, EventKind.STEAL, self._steal_ns)
        release(
            self.ids, self.spawn_ns, self.ready_ns, self._steal_ns, self.spawner, self.releaser, self.task, self.process
        )

    def _earlier(self, events: Events, kind: EventKind, t_ns: Times) -> tuple[Rows, Events]:
        """Take the times of a kind; returns the rows for which they are the earliest so far, and their events."""
        named = events[(events["kind"] == kind) & (events["instance"] != 0)]
        row, when = np.searchsorted(self.ids, named["instance"]), named["t_ns"].astype(np.int64)
        order = np.lexsort((when, row))
        first = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
        first = first[when[first] < t_ns[row[first]]]
        t_ns[row[first]] = when[first]
        return row[first], named[first]

    def finish(self) -> None:
        """Mark what has no event."""
        for t_ns in (self.spawn_ns, self.ready_ns):
            for at in blocks(len(t_ns), t_ns):
                t_ns[at][t_ns[at] == NEVER] = UNKNOWN
        steal_ns = self._steal_ns
        self.stolen = computed(len(steal_ns), np.bool_, lambda at: steal_ns[at] != NEVER, steal_ns)
