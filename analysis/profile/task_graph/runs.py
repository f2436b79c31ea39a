"""The intervals in which threads ran instances themselves, from their segments in one part or window after window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import _loops
from tprof.analysis.profile.instances import SummedInstances

from tprof.trace.long_arrays import computed, release
from tprof.trace.metadata import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.profile import Profile

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

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(self.row, self.begin_ns, self.end_ns, self.before)


@dataclass
class _Thread:
    """The runs of a thread so far, and the instance that it ran last, 0: none, which may go on in the next window."""

    last: int = 0
    row: list[Rows] = field(default_factory=list)
    begin_ns: list[Times] = field(default_factory=list)
    end_ns: list[Times] = field(default_factory=list)


def windows_of(profile: Profile) -> Iterator[tuple[tuple[int, int], Sequence[Segments]]]:
    """Yield for each window when the segments begin that count in it, and those of its threads, read again."""
    if isinstance(profile.instances, SummedInstances):
        yield from profile.instances.segments()
    else:
        yield (0, MAX_NS), profile.recipe.read(profile.trace).segments


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
    threads: dict[int, _Thread] = {}
    for own_ns, segments in windows:
        for one in segments:
            _add(threads.setdefault(one.thread.ordinal, _Thread()), one, own_ns, rows, start_ns)
    order = sorted(threads)
    first = np.cumsum([0, *(sum(map(len, threads[one].row)) for one in order)])

    def joined(name: str, kind: type[Any]) -> NDArray[Any]:
        parts = [part for one in order for part in getattr(threads[one], name)]
        values = np.concatenate([np.empty(0, kind), *parts])
        for one in order:
            getattr(threads[one], name).clear()
        return computed(len(values), kind, lambda at: values[at])

    return ThreadRuns(
        np.array(order, np.int64), first, joined("row", np.int32), joined("begin_ns", np.int64),
        joined("end_ns", np.int64),
    )  # fmt: skip


def _add(
    thread: _Thread,
    segments: Segments,
    own_ns: tuple[int, int],
    rows: Callable[[Ids], NDArray[np.int64]],
    start_ns: int,
) -> None:
    """Add the runs of a window; the first goes on with the last of the window before if that was of its instance."""
    own = slice(*np.searchsorted(segments.t_ns[:-1], own_ns).tolist())
    slot = segments.slot[own]
    if not len(slot):
        return
    ids = segments.rows.instance
    begins = np.flatnonzero(np.diff(slot, prepend=-1))
    ends = np.append(begins[1:], len(slot))
    kept = slot[begins] > 0
    begins, ends = begins[kept], ends[kept]
    begin_ns, end_ns = (segments.t_ns[own.start + at] - start_ns for at in (begins, ends))
    row = rows(ids)[slot[begins] - 1].astype(np.int32)
    if thread.last and slot[0] > 0 and int(ids[slot[0] - 1]) == thread.last:
        thread.end_ns[-1][-1] = end_ns[0]
        row, begin_ns, end_ns = row[1:], begin_ns[1:], end_ns[1:]
    if len(row):
        thread.row.append(row)
        thread.begin_ns.append(begin_ns)
        thread.end_ns.append(end_ns)
    thread.last = int(ids[slot[-1] - 1]) if slot[-1] > 0 else 0


def runs_of(threads: ThreadRuns, rows: int) -> Runs:
    """Sort runs by the row of their instance, of so many rows."""
    count = len(threads.row)
    order = np.lexsort((threads.begin_ns, threads.row)).astype(np.int32)
    place = np.empty(count + 1, np.int32)
    place[order] = np.arange(count, dtype=np.int32)
    place[-1] = -1
    before = order - np.int32(1)
    is_first = np.zeros(count + 1, bool)
    is_first[threads.first] = True
    before[is_first[order]] = -1
    first = np.concatenate(([0], np.cumsum(np.bincount(threads.row, minlength=rows)))).astype(np.int32)
    return Runs(
        _in_order(threads.row, order), _in_order(threads.begin_ns, order), _in_order(threads.end_ns, order),
        _in_order(place, before), first,
    )  # fmt: skip


def _in_order(values: NDArray[Any], order: Rows) -> NDArray[Any]:
    return computed(len(order), values.dtype, lambda at: values[order[at]], values)


def joined_runs(parts: Sequence[Runs], late_ns: Sequence[int], offsets: Sequence[int]) -> Runs:
    """Join the runs of several hosts.

    Parameters
    ----------
    parts : of each
    late_ns : when the recorded block of each began
    offsets : the number of rows before those of each
    """
    runs_before = np.cumsum([0, *(len(one.row) for one in parts)]).tolist()
    every = list(zip(parts, late_ns, offsets, runs_before[:-1], strict=True))
    return Runs(
        np.concatenate([one.row + np.int32(offset) for one, _, offset, _ in every]),
        np.concatenate([one.begin_ns + late for one, late, _, _ in every]),
        np.concatenate([one.end_ns + late for one, late, _, _ in every]),
        np.concatenate([np.where(one.before < 0, -1, one.before + first) for one, _, _, first in every]).astype(
            np.int32
        ),
        np.concatenate([*(one.first[:-1] + first for one, _, _, first in every), runs_before[-1:]]).astype(np.int32),
    )


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
