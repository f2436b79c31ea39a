"""The intervals in which threads ran instances themselves, from their segments in one part or window after window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import _loops

from tprof.trace.long_arrays import Appended, AppendedColumns, blocks, computed, empty, joined
from tprof.trace.long_sorts import changes, firsts, places, sorted_arrays, sorted_columns

from .runtime_events import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tprof.analysis.attribution.segments import Segments

Rows = NDArray[np.int32]
Times = NDArray[np.int64]
Ids = NDArray[np.uint64]


class ThreadRuns(NamedTuple):
    """Runs thread by thread, those of a thread in order of time.

    Attributes
    ----------
    ordinal : (threads,) of each thread
    first : (threads + 1,) index of each thread's first run
    row : (m,) the instance's row among those of the recording
    begin_ns, end_ns : (m,) from the start of the recorded block
    """

    ordinal: NDArray[np.int64]
    first: NDArray[np.int64]
    row: Rows
    begin_ns: Times
    end_ns: Times

    def of(self, ordinal: int) -> tuple[Rows, Times, Times]:
        """Return the rows, begins and ends of a thread's runs; none of one that ran nothing."""
        place = np.flatnonzero(self.ordinal == ordinal)
        at = slice(int(self.first[place[0]]), int(self.first[place[0] + 1])) if len(place) else slice(0, 0)
        return self.row[at], self.begin_ns[at], self.end_ns[at]


@dataclass(frozen=True)
class Runs:
    """Intervals in which a thread ran an instance itself, by row of the instance and then by time.

    Attributes
    ----------
    row : (m,) the instance's row
    begin_ns, end_ns : (m,) from the start of the recorded block
    before : (m,) the thread's previous run, -1: none
    first : (rows + 1,) index of each instance's first run
    """

    row: Rows
    begin_ns: Times
    end_ns: Times
    before: Rows
    first: Rows


def read_thread_runs(
    windows: Iterable[tuple[tuple[int, int], Sequence[Segments]]],
    rows: Callable[[Ids], NDArray[np.int64]],
    start_ns: int,
) -> ThreadRuns:
    """Collect the runs of all threads.

    Parameters
    ----------
    windows : when the segments begin that count in each, and the segments of the threads; threads are in one order
    rows : finds the rows of instances
    start_ns : of the recorded block
    """
    found, threads = AppendedColumns(np.int32, np.int32, np.int64, np.int64, np.bool_), set()
    for own_ns, segments in windows:
        for one in segments:
            threads.add(one.thread.ordinal)
            found.add(*_of_window(one, own_ns, rows, start_ns))
    ordinals = np.array(sorted(threads), np.int64)
    ordinal, *columns = _joined(*sorted_arrays(found.finish()))
    return ThreadRuns(ordinals, np.append(np.searchsorted(ordinal, ordinals), len(ordinal)), *columns)


def _of_window(
    segments: Segments, own_ns: tuple[int, int], rows: Callable[[Ids], NDArray[np.int64]], start_ns: int
) -> tuple[NDArray[Any], ...]:
    """Return the runs in a window, the first of which may go on with the last of the window before."""
    own = slice(*np.searchsorted(segments.t_ns[:-1], own_ns).tolist())
    slot, t_ns = segments.slot[own], segments.t_ns[own.start : own.stop + 1] - start_ns
    edges = np.append(np.flatnonzero(np.diff(slot, prepend=-1)), len(slot))
    ran = np.flatnonzero(slot[edges[:-1]] > 0)
    row = rows(segments.rows.instance)[slot[edges[ran]] - 1]
    return np.full(len(ran), segments.thread.ordinal), row, t_ns[edges[ran]], t_ns[edges[ran + 1]], ran == 0


def _joined(
    ordinal: Rows, row: Rows, begin_ns: Times, end_ns: Times, may_go_on: NDArray[np.bool_]
) -> tuple[NDArray[Any], ...]:
    """Join the runs, thread by thread, that go on from one window into the next."""
    found, ends_ns = AppendedColumns(np.int32, np.int32, np.int64), Appended(np.int64)
    for at in blocks(len(row), ordinal, row, begin_ns, end_ns, may_go_on):
        before = np.maximum(places(at) - 1, 0)
        new = ~may_go_on[at] | changes(ordinal, at) | changes(row, at) | (begin_ns[at] != end_ns[before])
        first = np.flatnonzero(new) + at.start
        found.add(ordinal[first], row[first], begin_ns[first])
        ends_ns.add(end_ns[first[first > 0] - 1])
    ends_ns.add(end_ns[-1:])
    return (*found.finish(), ends_ns.finish())


def runs_of(threads: ThreadRuns, rows: int) -> Runs:
    """Sort runs by the row of their instance, of so many rows."""
    count = len(threads.row)

    def read(at: slice) -> tuple[NDArray[Any], ...]:
        place = places(at)
        begins = threads.first[(threads.first >= at.start) & (threads.first < at.stop)] - at.start
        before = place - np.int32(1)
        before[begins] = -1
        return threads.row[at], threads.begin_ns[at], threads.end_ns[at], place, before

    row, begin_ns, end_ns, was_at, before = sorted_columns(
        count, read, threads.row, threads.begin_ns, threads.end_ns, keys=2
    )
    is_at = empty(count, np.int32)
    for at in blocks(count, is_at, was_at):
        is_at[was_at[at]] = np.arange(at.start, at.stop, dtype=np.int32)

    def found(at: slice) -> Rows:
        known = before[at]
        return np.where(known < 0, known, is_at[np.maximum(known, 0)])

    return Runs(row, begin_ns, end_ns, computed(count, np.int32, found, before, is_at), firsts(row, rows))


def joined_runs(parts: Sequence[Runs], late_ns: Sequence[int], offsets: Sequence[int]) -> Runs:
    """Join the runs of several hosts.

    Parameters
    ----------
    parts : of each
    late_ns : when the recorded block of each began
    offsets : the number of rows before those of each
    """
    runs_before = np.cumsum([0, *(len(one.row) for one in parts)])[:-1].tolist()
    row = joined_columns(parts, ("row",), offsets)["row"]
    return Runs(
        row,
        **joined_columns(parts, ("begin_ns", "end_ns"), late_ns, UNKNOWN),
        **joined_columns(parts, ("before",), runs_before),
        first=firsts(row, sum(len(one.first) - 1 for one in parts)),
    )


def joined_columns(
    parts: Sequence[Any], names: Sequence[str], more: Sequence[int] | None = None, none: int = -1
) -> dict[str, NDArray[Any]]:
    """Return columns of several hosts one after the other, those of each host so much greater, but values of none."""
    return {
        name: joined(
            getattr(parts[0], name).dtype,
            (shifted(getattr(one, name), by, none) for one, by in zip(parts, more or [0] * len(parts), strict=True)),
        )
        for name in names
    }


def shifted(values: NDArray[Any], more: int, none: int) -> NDArray[Any]:
    """Return values that are so much greater, but for those that stand for none, and less."""

    def found(at: slice) -> NDArray[Any]:
        return np.where(values[at] > none, values[at] + more, values[at])

    return computed(len(values), values.dtype, found, values) if more else values


def count_until(first: Rows, times: Times, rows: Rows, until: Times, *, inclusive: bool) -> Rows:
    """Count the times of a row that are before (or at) another time.

    Parameters
    ----------
    first : (k + 1,) index of each row's first time
    times : (m,) not decreasing within a row
    rows, until : (q,) the queries

    Returns
    -------
    (q,) int32; O(q log m).
    """
    counts = np.empty(len(rows), np.int32)
    _loops.count_until(first, times, rows, until, inclusive, counts)
    return counts
