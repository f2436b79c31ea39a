"""The timeline's segments, packed for the page: every one of them where they fit, else the short ones in cells of time.

A segment is what a thread ran itself: nested tasks and suspended time are no part of it. The page holds at most
`PIECES` pieces. A piece is one segment, or all segments of one task that began on one core within one cell of time and
are shorter than the cell; it says how much of its time they ran and how much of that they had a processor. In
`WINDOWS` windows of time, spread evenly over the segments, every segment stays, so that the page can be zoomed
to microseconds there, however long the recording. Pieces of a thread follow each other by their start, so starts are
packed as differences, and everything as LEB128: some nine bytes a piece. Time and memory are O(n log n) and O(n).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.names import places, shown

from tprof.trace.layout import NO_CPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.window_stream import SampleIndex

    from tprof.trace import Thread

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

PIECES = 36_000
IN_WINDOWS = PIECES // 4
WINDOWS = 16
LANES = 2_000  # threads that are drawn; more make no page that anybody scrolls
_FULL = 255


@dataclass(frozen=True)
class Pieces:
    """What one thread ran, by start.

    Attributes
    ----------
    start_ns, end_ns : (n,) from the begin of the recorded block
    task : (n,) number of the name, the number of names for a task that the trace does not name
    core : (n,) where it began, -1 unknown
    own_ns : (n,) in which the thread ran it; `end_ns` - `start_ns` of a single segment
    cpu_ns : (n,) of these, with a processor; none where CPU time is not known
    count : (n,) segments in it
    """

    start_ns: Integers
    end_ns: Integers
    task: Integers
    core: Integers
    own_ns: Floats
    cpu_ns: Floats
    count: Integers

    def __len__(self) -> int:
        return len(self.start_ns)

    def where(self, rows: slice | NDArray[Any]) -> Pieces:
        """Return some of them."""
        return Pieces(*(values[rows] for values in vars(self).values()))

    def then(self, other: Pieces) -> Pieces:
        """Return these and others, by start."""
        both = Pieces(*map(np.concatenate, zip(vars(self).values(), vars(other).values(), strict=True)))
        return both.where(np.argsort(both.start_ns, kind="stable"))


def timeline_data(profile: Profile, *, pieces: int = PIECES) -> dict[str, Any]:
    """Return lanes of threads and their packed pieces, and what of the recording they leave out.

    Parameters
    ----------
    profile : whose trace is read again
    pieces : at most so many are packed
    """
    trace = profile.trace
    drawn = drawn_of(profile, trace.start_ns, pieces)
    return {
        "lanes": [_lane(one, len(lane)) for one, lane in zip(drawn.threads, drawn.lanes, strict=True)],
        "names": drawn.names,
        "duration_ns": max(trace.end_ns - trace.start_ns, 0),
        "columns": pack(drawn.lanes),
        "segments": drawn.segments,
        "merged": drawn.merged,
        "not_drawn": drawn.not_drawn,
        "cell_ns": drawn.cell_ns,
        "windows": drawn.windows,
        "threads_left_out": drawn.threads_left_out,
    }


class Drawn(NamedTuple):
    """The lanes of a page, one for each of the threads, with tasks as places in `names`."""

    names: list[str]
    threads: Sequence[Thread]
    lanes: Sequence[Pieces]
    segments: int
    cell_ns: int
    windows: list[list[int]]
    threads_left_out: int

    @property
    def merged(self) -> int:
        """How many segments are in pieces of several."""
        return sum(int(lane.count[lane.count > 1].sum()) for lane in self.lanes)

    @property
    def not_drawn(self) -> int:
        """How many segments are in no piece."""
        return self.segments - sum(int(lane.count.sum()) for lane in self.lanes)


def drawn_of(profile: Profile, start_ns: int, most: int, *, windowed: bool = True, threads: int = LANES) -> Drawn:
    """Return the lanes of a recording.

    Parameters
    ----------
    profile : whose trace is read again
    start_ns : from when times count
    most : pieces
    windowed : whether every segment stays in windows of time
    threads : at most so many are drawn
    """
    names, number = places([shown(entry.name) for entry in profile.trace.tasks])
    number = np.append(number, len(names))
    instances = profile.host_instances
    windows = _windows_of_index(instances.index, start_ns, min(IN_WINDOWS, most // 4)) if windowed else []
    growing = GrowingLanes(names, most, windows)
    for own_ns, segments in instances.segments():
        for one in segments:
            pieces = own_segments(one, number, start_ns)
            begins = range(own_ns[0] - start_ns, own_ns[1] - start_ns)
            first, last = np.searchsorted(pieces.start_ns, (begins.start, begins.stop))
            growing.add(one.thread, pieces.where(slice(first, last)))
    return growing.drawn(threads)


def _windows_of_index(index: SampleIndex, start_ns: int, most: int) -> list[list[int]]:
    """Return windows of time, spread evenly over the samples, in which together about `most` segments begin.

    They follow from the times of some samples: between two of them are about `step`.
    """
    times_ns = np.unique(index.t_ns) - start_ns
    if len(times_ns) < 2:
        return []
    first = np.unique(np.linspace(0, len(times_ns) - 2, WINDOWS).astype(int))
    length_ns = (times_ns[first + 1] - times_ns[first]) * min(most / (WINDOWS * index.step), 1.0)
    ends = times_ns[first] + np.maximum(length_ns.astype(np.int64), 1)
    return [[max(int(begin), 0), int(end)] for begin, end in zip(times_ns[first], ends, strict=True) if end > 0]


class GrowingLanes:
    """Lanes whose segments come window by window; where they get too many, those of a cell are merged.

    Cells grow to twice their length and more, so that merged pieces are shorter than a cell again.
    """

    def __init__(self, names: list[str], most: int, windows: list[list[int]]) -> None:
        """Begin without segments.

        Parameters
        ----------
        names : of tasks
        most : pieces
        windows : of time, (begin, end), in which every segment stays
        """
        self._names, self._most, self._windows = names, most, windows
        self._threads: dict[int, Thread] = {}
        self._lanes: dict[int, Pieces] = {}
        self._segments: dict[int, int] = {}
        self._cell_ns = 0

    def add(self, thread: Thread, pieces: Pieces) -> None:
        """Add the segments of a thread in a window, each a piece, by their start."""
        if not len(pieces):
            return
        ordinal = thread.ordinal
        self._threads.setdefault(ordinal, thread)
        self._segments[ordinal] = self._segments.get(ordinal, 0) + len(pieces)
        if self._cell_ns:
            pieces = self._fewer(pieces)
        self._lanes[ordinal] = self._lanes[ordinal].then(pieces) if ordinal in self._lanes else pieces
        while self._count() > self._most and self._cell_ns <= 2 * max(self._spans_ns()):
            self._cell_ns = max(2 * self._cell_ns, sum(self._spans_ns()) // self._most, 1)
            self._lanes = {number: self._fewer(lane) for number, lane in self._lanes.items()}

    def drawn(self, most: int) -> Drawn:
        """Return the lanes of at most so many threads, in their order."""
        order = sorted(self._threads, key=lambda ordinal: (self._threads[ordinal].process, ordinal))
        kept = order[:most]
        lanes = [self._lanes[ordinal] for ordinal in kept]
        if sum(map(len, lanes)) > self._most:
            lanes = _longest(lanes, self._most)
        windows = self._windows if self._cell_ns else []
        segments = sum(self._segments[ordinal] for ordinal in kept)
        threads = [self._threads[ordinal] for ordinal in kept]
        return Drawn(self._names, threads, lanes, segments, self._cell_ns, windows, len(order) - len(kept))

    def _fewer(self, pieces: Pieces) -> Pieces:
        return _merged(pieces, self._cell_ns, _inside(pieces, self._windows))

    def _count(self) -> int:
        return sum(map(len, self._lanes.values()))

    def _spans_ns(self) -> list[int]:
        return [int(lane.end_ns.max() - lane.start_ns[0]) for lane in self._lanes.values()]


def _lane(thread: Thread, count: int) -> dict[str, Any]:
    name = shown(thread.name) or f"thread-{thread.ordinal}"
    return {"process": thread.process, "pid": thread.pid, "tid": thread.tid, "name": name, "pieces": count}


def own_segments(one: Segments, number: Integers, start_ns: int) -> Pieces:
    """Return a thread's segments inside tasks, each a piece.

    Parameters
    ----------
    one : a thread
    number : (tasks + 1,) of each task's name, the last for a task that the trace does not name
    start_ns : of the recorded block
    """
    length_ns = np.diff(one.t_ns)
    rows = np.flatnonzero((one.slot > 0) & (length_ns > 0))
    own_ns = length_ns[rows].astype(float)
    cpu, start = one.cpu[rows].astype(np.int64), one.t_ns[rows] - start_ns
    return Pieces(
        start, start + length_ns[rows], number[one.task_numbers(len(number) - 1)[rows]],
        np.where(cpu == NO_CPU, -1, cpu), own_ns, np.clip(one.cpu_s[rows] * 1e9, 0.0, own_ns),
        np.ones(len(rows), np.int64),
    )  # fmt: skip


def _inside(lane: Pieces, windows: list[list[int]]) -> NDArray[np.bool_]:
    inside = np.zeros(len(lane), bool)
    for begin, end in windows:
        inside[np.searchsorted(lane.start_ns, begin) : np.searchsorted(lane.start_ns, end)] = True
    return inside


def _merged(lane: Pieces, cell_ns: int, inside: NDArray[np.bool_]) -> Pieces:
    """Put the segments that are shorter than a cell, and in no window, together by cell, task and core."""
    short = (lane.end_ns - lane.start_ns < cell_ns) & ~inside
    kept, few = lane.where(~short), lane.where(short)
    if not len(few):
        return kept
    kinds, kind = np.unique(few.task * (NO_CPU + 2) + few.core + 1, return_inverse=True)
    cell = (few.start_ns - few.start_ns[0]) // cell_ns
    order = np.lexsort((kind, cell))
    few, key = few.where(order), (cell * len(kinds) + kind)[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    together = Pieces(
        np.minimum.reduceat(few.start_ns, first), np.maximum.reduceat(few.end_ns, first), few.task[first],
        few.core[first], np.add.reduceat(few.own_ns, first), np.add.reduceat(few.cpu_ns, first),
        np.add.reduceat(few.count, first),
    )  # fmt: skip
    return kept.then(together)


def _longest(lanes: Sequence[Pieces], most: int) -> list[Pieces]:
    own_ns = np.concatenate([lane.own_ns for lane in lanes])
    kept = np.zeros(len(own_ns), bool)
    kept[np.argpartition(own_ns, len(own_ns) - most)[len(own_ns) - most :]] = True
    rows = np.split(kept, np.cumsum([len(lane) for lane in lanes])[:-1])
    return [lane.where(mine) for lane, mine in zip(lanes, rows, strict=True)]


def pack(lanes: Sequence[Pieces]) -> dict[str, str]:
    """Return the columns of all lanes, one lane after the other, as base64.

    LEB128: `start` (from the piece before it in the lane, in the first from the smallest start of all, which is
    `from_ns`), `length`, `task`, `core` + 1, `count`. Bytes: `own` and `cpu`, in 255ths of the length.
    `own` and `count` are empty where each piece is one segment.
    """
    from_ns = min((int(lane.start_ns[0]) for lane in lanes if len(lane)), default=0)
    starts = [np.diff(lane.start_ns, prepend=from_ns) for lane in lanes]
    length_ns, task, core, own_ns, cpu_ns, count = (
        np.concatenate([np.empty(0), *columns])
        for columns in (
            [lane.end_ns - lane.start_ns for lane in lanes], [lane.task for lane in lanes],
            [lane.core for lane in lanes], [lane.own_ns for lane in lanes], [lane.cpu_ns for lane in lanes],
            [lane.count for lane in lanes],
        )
    )  # fmt: skip
    single = bool((count == 1).all())
    return {
        "from_ns": str(from_ns),
        "start": leb128(np.concatenate([np.empty(0, np.int64), *starts])),
        "length": leb128(length_ns.astype(np.int64)),
        "task": leb128(task.astype(np.int64)),
        "core": leb128(core.astype(np.int64) + 1),
        "own": "" if single else _parts(own_ns, length_ns, least=1),
        "cpu": _parts(cpu_ns, length_ns),
        "count": "" if single else leb128(count.astype(np.int64)),
    }


def leb128(values: Integers) -> str:
    """Return integers from 0 as base64 of bytes: seven bits each, lowest first, the eighth bit where more follow."""
    left = values.astype(np.uint64)
    sizes = np.ones(len(left), np.int64)
    while (big := (left >> (7 * sizes).astype(np.uint64)) > 0).any():
        sizes += big
    ends = np.cumsum(sizes)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = sizes > place
        more = (sizes[rows] > place + 1).astype(np.uint8) << 7
        out[(ends - sizes)[rows] + place] = ((left[rows] >> np.uint64(7 * place)) & np.uint64(127)).astype(
            np.uint8
        ) | more
    return base64.b64encode(out.tobytes()).decode()


def _parts(values: Floats, whole: Floats, *, least: int = 0) -> str:
    shares = np.clip(np.divide(values, whole, out=np.zeros(len(whole)), where=whole > 0), 0.0, 1.0)
    return base64.b64encode(np.maximum(np.round(shares * _FULL), least).astype(np.uint8).tobytes()).decode()
