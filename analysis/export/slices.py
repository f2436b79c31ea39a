"""What threads ran, as slices for tools that draw timelines: begins and ends that nest, thread by thread.

A slice is an instance from where a thread begins to run it to where it has left it, with nested tasks inside. A
suspended coroutine leaves its thread, so it has a slice for each time that it ran: these are its pieces, the first of
which stands for the instance.

A recording has a part for each window in which it is read, so that slices may begin in one part and end in a later one.
What a slice says stands where it begins, and its
joules are known when its instance has ended: so the figures of instances that go on in another window are read first,
and stay in memory.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.attribution.segments import begun_in, thread_end_ns
from tprof.analysis.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.instances import Instances, Piece

    from tprof.trace import Thread

    from .formats import Progress

Integers = NDArray[np.int64]
END, MARK = -1, -2
"""Stand for a row where the innermost slice ends, and where nothing changes but the CPU time is known."""
COLUMNS = (
    "task", "instance", "cpu", "start_s", "failed", "energy_j", "energy_low_j", "energy_high_j", "power_w",
)  # fmt: skip
"""Of the table of instances, what is kept of those that go on in another window, with `key` if it has one."""


@dataclass(frozen=True)
class ThreadSlices:
    """The slices of one thread in a part as events in order of time; n events.

    Attributes
    ----------
    thread : the thread
    name : its name, "thread-7" if it has none
    t_ns : (n,) CLOCK_MONOTONIC, not decreasing
    row : (n,) row of the instance in the part's table where a slice begins, `END` where the innermost one ends, `MARK`
        where only the CPU time is said
    continues : (n,) whether the slice that begins is not the first piece of its instance; False at ends
    cpu_ns : (n,) CPU time of the thread up to then; None if it was not recorded
    is_last : whether no later part has events of this thread
    """

    thread: Thread
    name: str
    t_ns: Integers
    row: Integers
    continues: NDArray[np.bool_]
    cpu_ns: Integers | None
    is_last: bool

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.t_ns)


def share_slices(
    profile: Profile, take: Callable[[pd.DataFrame, Iterable[ThreadSlices]], None], progress: Progress | None = None
) -> None:
    """Read what ran again, and call a function with each part: a table of instances, and threads that ran some of them.

    Parameters
    ----------
    profile : of a session
    take : called in the order of the parts; threads are in the order of processes, and may be taken once
    progress : is told how far the recording is read before the first part
    """
    instances = profile.host_instances
    trace, windows = profile.trace, instances.segments()
    crossing = _crossing(instances, trace.start_ns, progress)
    found = _rows_by_id(crossing["instance"].to_numpy())
    ends_ns = {one.ordinal: thread_end_ns(trace, one) for one in trace.threads}
    so_far: dict[int, _SoFar] = {}

    def parts(segments: Iterable[Segments], own_ns: tuple[int, int], table: _Table) -> Iterator[ThreadSlices]:
        for one in sorted(segments, key=lambda one: _place(one.thread)):
            ordinal = one.thread.ordinal
            is_last = ends_ns[ordinal] < own_ns[1]
            own = begun_in(one.t_ns, own_ns)
            events = so_far.setdefault(ordinal, _SoFar()).part(one, own, table, is_last=is_last)
            if is_last:
                del so_far[ordinal]
            if events is not None:
                yield events

    def add(piece: Piece) -> None:
        own_ns, segments = next(windows)
        ids = np.concatenate([np.empty(0, np.uint64), *(one.owners.instance[np.unique(one.slot)] for one in segments)])
        rows = _rows_of(found, np.unique(ids))
        ended = _kept(piece.tasks)
        tasks = pd.concat([ended, crossing.iloc[rows[rows >= 0]]], ignore_index=True)
        take(tasks, parts(segments, own_ns, _Table(tasks, trace.start_ns, len(ended))))

    instances.share(add)


def _crossing(instances: Instances, begin_ns: int, progress: Progress | None) -> pd.DataFrame:
    """Return the instances that began in another window than that in which they are known to have ended."""
    begins = iter(instances.begins_ns)
    found: list[pd.DataFrame] = []

    def add(piece: Piece) -> None:
        # Times of the table are right to a nanosecond; one row too many does not matter.
        before = _start_ns(piece.tasks, begin_ns) <= next(begins) + 1
        found.append(_kept(piece.tasks[before]))

    instances.share(add, progress)
    return pd.concat(found, ignore_index=True)


def _kept(tasks: pd.DataFrame) -> pd.DataFrame:
    return tasks[[*COLUMNS, *(name for name in ("key",) if name in tasks)]]


def _start_ns(tasks: pd.DataFrame, begin_ns: int) -> Integers:
    """Return when instances of a table begin, given the begin of the recorded block."""
    return begin_ns + np.rint(tasks["start_s"].to_numpy() * 1e9).astype(np.int64)


def _place(thread: Thread) -> tuple[int, int]:
    return thread.process, thread.ordinal


class _Table:
    """Finds the rows of a part's table of instances, and when these begin; its first ones end in this part."""

    def __init__(self, tasks: pd.DataFrame, begin_ns: int, ended: int = 0) -> None:
        ids = tasks["instance"].to_numpy()
        self.places, self.first_ns, self.ended = _rows_by_id(ids), _start_ns(tasks, begin_ns), ids[:ended]


def _rows_by_id(ids: NDArray[np.uint64]) -> pd.Series[int]:
    """Return the row of each id, of one that is there again the first."""
    rows = pd.Series(np.arange(len(ids)), ids)
    return rows[~rows.index.duplicated()]


def _rows_of(rows: pd.Series[int], ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the row of each id, -1 if it is not there."""
    return np.asarray(rows.reindex(ids, fill_value=-1), np.int64)


class _Events(NamedTuple):
    at: array[int]
    row: array[int]
    again: bytearray

    def add(self, place: int, row: int, *, again: bool = False) -> None:
        """Add an event at the begin of a segment."""
        self.at.append(place)
        self.row.append(row)
        self.again.append(again)


@dataclass
class _SoFar:
    """What is known of a thread where one part of its segments ends and the next begins.

    Attributes
    ----------
    stack : ids of the instances whose slices are open
    parents : of instances that have begun on this thread and have not ended, that of the instance around each, 0: none
    cpu_s : CPU time up to there; None before the first part
    lead : when the thread began and its CPU time then in ns, for its first slice; None if it begins with that
    has_slices : whether a slice has begun
    """

    stack: list[int] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)
    cpu_s: float | None = None
    lead: tuple[int, int] | None = None
    has_slices: bool = False

    def part(self, segments: Segments, own: slice, table: _Table, *, is_last: bool) -> ThreadSlices | None:
        """Return the events of a thread's `own` segments; None if it has run no task yet."""
        thread = segments.thread
        has_cpu = "cpu_ns" in thread.columns
        ids, events = self._nested(segments, own, table, is_marked=has_cpu, is_last=is_last)
        before_s = segments.earlier_s if self.cpu_s is None else self.cpu_s
        total_s = np.concatenate(([before_s], before_s + np.cumsum(segments.cpu_s[own])))
        self.cpu_s = float(total_s[-1])
        at, row = np.array(events.at, np.int64), np.array(events.row, np.int64)
        t_ns, cpu_ns = segments.t_ns[own.start : own.stop + 1][at], np.rint(total_s * 1e9).astype(np.int64)[at]
        begins = np.flatnonzero(row >= 0)
        row[begins] = _rows_of(table.places, ids[row[begins]])
        continues = np.frombuffer(events.again, bool).copy()
        # A piece that is not where the instance began follows another, on whichever thread.
        continues[begins] |= np.abs(t_ns[begins] - table.first_ns[row[begins]]) > 1
        name = shown(thread.name) or f"thread-{thread.ordinal}"
        found = ThreadSlices(thread, name, t_ns, row, continues, cpu_ns if has_cpu else None, is_last)
        return found if self.has_slices else self._first(found, int(begins[0]) if len(begins) else None)

    def _first(self, found: ThreadSlices, begin: int | None) -> ThreadSlices | None:
        """Return events from the first slice on, after one of where the thread begins; None if there is no slice."""
        if begin != 0 and self.lead is None and len(found) and found.cpu_ns is not None:
            self.lead = int(found.t_ns[0]), int(found.cpu_ns[0])
        if begin is None:
            return None
        self.has_slices = True
        kept = slice(begin, None)
        later = replace(
            found, t_ns=found.t_ns[kept], row=found.row[kept], continues=found.continues[kept],
            cpu_ns=None if found.cpu_ns is None else found.cpu_ns[kept],
        )  # fmt: skip
        if self.lead is None or later.cpu_ns is None:
            return later
        t_ns, cpu_ns = self.lead
        return replace(
            later, t_ns=np.append(t_ns, later.t_ns), row=np.append(MARK, later.row),
            continues=np.append(False, later.continues), cpu_ns=np.append(cpu_ns, later.cpu_ns),
        )  # fmt: skip

    def _nested(
        self, segments: Segments, own: slice, table: _Table, *, is_marked: bool, is_last: bool
    ) -> tuple[NDArray[np.uint64], _Events]:
        """Return ids, and begins (with the number of an id) and ends that nest, at indices of `own` segments."""
        slots, number = np.unique(segments.slot[own], return_inverse=True)
        ran = slots[slots > 0]
        ids, around = self._known(segments.owners.instance[ran], segments.owners.parent[ran])
        parent: list[int] = _rows_of(_rows_by_id(ids), around).tolist()
        numbers = {one: number for number, one in enumerate(ids.tolist())} if self.stack or self.parents else {}
        walk = _Walk(parent, [False] * len(ids), [numbers[one] for one in self.stack])
        for one in (*self.stack, *self.parents):
            walk.begun[numbers[one]] = True
        walk.over(number - (len(slots) - len(ran)), is_marked=is_marked)
        if is_last:
            walk.end(own.stop - own.start, is_marked=is_marked)
        else:
            goes_on = np.flatnonzero(np.array(walk.begun, bool) & ~np.isin(ids, table.ended))
            self.parents = dict(zip(ids[goes_on].tolist(), around[goes_on].tolist(), strict=True))
            self.stack = ids[walk.stack].tolist()
        return ids, walk.events

    def _known(
        self, ran: NDArray[np.uint64], parents: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the ids of what a part ran and of those that go on, and for each that of the instance around it."""
        known = np.array([*self.parents, *(one for one in self.stack if one not in self.parents)], np.uint64)
        ids = np.concatenate((ran, known[~np.isin(known, ran)]))
        around = np.concatenate((parents, np.zeros(len(ids) - len(ran), np.uint64)))
        # An instance does not name its parent unless it has the begin.
        around[_rows_of(_rows_by_id(ids), known[: len(self.parents)])] = list(self.parents.values())
        return ids, around


class _Walk:
    """Goes over a thread's segments: begins and ends that nest.

    Attributes
    ----------
    parent : of each instance the number of that around it, -1: none
    begun : of each whether a slice has begun
    stack : numbers of the instances whose slices are open, outer ones first
    events : found so far
    """

    def __init__(self, parent: list[int], begun: list[bool], stack: list[int]) -> None:
        self.parent, self.begun, self.stack = parent, begun, stack
        self.events = _Events(array("q"), array("q"), bytearray())
        self._is_open = [False] * len(parent)
        for number in stack:
            self._is_open[number] = True

    def over(self, rows: Integers, *, is_marked: bool) -> None:
        """Go over segments, given the number of the instance of each, -1: none; marked ones each have an event."""
        stack, is_open, begun, parent, events = self.stack, self._is_open, self.begun, self.parent, self.events
        changes = np.diff(rows, prepend=stack[-1] if stack else END)
        at = np.arange(len(rows)) if is_marked else np.flatnonzero(changes)
        for place, row in zip(at.tolist(), rows[at].tolist(), strict=True):
            if row == (stack[-1] if stack else END):
                events.add(place, MARK)
                continue
            if row < 0:
                self._leave(END, place)
                continue
            above = parent[row]
            self._leave(row if is_open[row] else above if above >= 0 and is_open[above] else END, place)
            if not is_open[row]:
                is_open[row] = True
                stack.append(row)
                events.add(place, row, again=begun[row])
                begun[row] = True

    def end(self, place: int, *, is_marked: bool) -> None:
        """End all slices where the thread ends."""
        if is_marked and not self.stack:
            self.events.add(place, MARK)
        self._leave(END, place)

    def _leave(self, until: int, place: int) -> None:
        while self.stack and self.stack[-1] != until:
            self._is_open[self.stack.pop()] = False
            self.events.add(place, END)
