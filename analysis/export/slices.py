"""What threads ran, as slices for tools that draw timelines: begins and ends that nest, thread by thread.

A slice is an instance from where a thread begins to run it to where it has left it, with nested tasks inside. A
suspended coroutine leaves its thread, so it has a slice for each time that it ran: these are its pieces, the first of
which stands for the instance. One thread is in memory at a time.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_reader import read_segments
from tprof.analysis.names import shown
from tprof.analysis.profile.task_graph.lifecycle import Places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.profile import Profile

    from tprof.trace import Thread

Integers = NDArray[np.int64]
END, MARK = -1, -2
"""Stand for a row where the innermost slice ends, and where nothing changes but the CPU time is known."""


@dataclass(frozen=True)
class ThreadSlices:
    """The slices of one thread as events in order of time; n events.

    Attributes
    ----------
    thread : the thread
    name : its name, "thread-7" if it has none
    t_ns : (n,) CLOCK_MONOTONIC, not decreasing
    row : (n,) row of the instance in the table of tasks where a slice begins, `END` where the innermost one ends,
        `MARK` where only the CPU time is said
    continues : (n,) whether the slice that begins is not the first piece of its instance; False at ends
    cpu_ns : (n,) CPU time of the thread up to then; None if it was not recorded
    """

    thread: Thread
    name: str
    t_ns: Integers
    row: Integers
    continues: NDArray[np.bool_]
    cpu_ns: Integers | None

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.t_ns)


class _Events(NamedTuple):
    at: array[int]
    row: array[int]
    again: bytearray


def slices_by_thread(profile: Profile) -> Iterator[ThreadSlices]:
    """Yield the slices of each thread that ran tasks, by process; each is read again from the trace."""
    tasks, trace = profile.tasks, profile.trace
    places = Places.of(tasks["instance"].to_numpy())
    first_ns = trace.start_ns + np.rint(tasks["start_s"].to_numpy() * 1e9).astype(np.int64)
    threads = sorted(trace.threads, key=lambda one: (one.process, one.ordinal))
    for segments in read_segments(trace, threads, profile.recipe.model, packages=False):
        if not segments.slot.any():
            continue
        thread = segments.thread
        rows = places.rows(segments.rows.instance)
        events = _nested(segments, marked="cpu_ns" in thread.columns)
        at = np.array(events.at, np.int64)
        local = np.array(events.row, np.int64)
        row = np.where(local >= 0, rows[np.maximum(local, 0)], local)
        # A piece that is not where the instance began follows another, on whichever thread.
        begins_there = np.abs(segments.rows.start_ns - first_ns[rows]) <= 1
        elsewhere = (local >= 0) & ~begins_there[np.maximum(local, 0)]
        total_s = np.concatenate(([segments.earlier_s], segments.earlier_s + np.cumsum(segments.cpu_s)))
        total_ns = np.rint(total_s * 1e9).astype(np.int64)
        has_cpu = "cpu_ns" in thread.columns
        yield ThreadSlices(
            thread=thread,
            name=shown(thread.name) or f"thread-{thread.ordinal}",
            t_ns=segments.t_ns[at],
            row=row,
            continues=elsewhere | np.frombuffer(events.again, bool),
            cpu_ns=total_ns[at] if has_cpu else None,
        )


def _nested(segments: Segments, *, marked: bool) -> _Events:
    """Return begins (with the thread's row of the instance) and ends that nest, at indices of the segments' times."""
    slot = segments.slot
    begins = np.arange(len(slot)) if marked else np.flatnonzero(np.diff(slot, prepend=0))
    parent = _parents(segments)
    events = _Events(array("q"), array("q"), bytearray())
    stack: list[int] = []
    begun = [False] * len(segments.rows)
    is_open = [False] * len(segments.rows)

    def leave(until: int, place: int) -> None:
        while stack and stack[-1] != until:
            is_open[stack.pop()] = False
            events.at.append(place)
            events.row.append(END)
            events.again.append(False)

    def mark(place: int) -> None:
        events.at.append(place)
        events.row.append(MARK)
        events.again.append(False)

    for place, row in zip(begins.tolist(), (slot[begins].astype(np.int64) - 1).tolist(), strict=True):
        if row == (stack[-1] if stack else END):
            mark(place)
            continue
        if row < 0:
            leave(END, place)
            continue
        above = parent[row]
        leave(row if is_open[row] else above if above >= 0 and is_open[above] else END, place)
        if not is_open[row]:
            is_open[row] = True
            stack.append(row)
            events.at.append(place)
            events.row.append(row)
            events.again.append(begun[row])
            begun[row] = True
    if marked and not stack:
        mark(len(slot))
    leave(END, len(slot))
    return events


def _parents(segments: Segments) -> list[int]:
    """Return for each of a thread's rows that of its parent, -1 where it has none on this thread."""
    rows = segments.rows
    found: list[int] = Places.of(rows.instance).rows(rows.parent).tolist()
    return found
