"""What ran around a window of time of a long recording, where the window's pools of native threads are found too.

A clock that was read before the window and in it has CPU time of both, a pool may spin in the window after a call
before it, and few onsets tell nothing. So the passes that find pools read the window and some seconds on either side,
part after part. Then a pool's segments follow from what ran in a part of the window, and are cut to it afterwards. Of a
whole recording nothing lies around.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

from .native_passes import Block
from .segments import by_number
from .windows import Window, cut_windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.trace import Trace

    from .instances import InstanceRows
    from .native_time import NativeSegments
    from .segments import Segments
    from .survey import Survey

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
AROUND_NS = 10_000_000_000
"""On either side: at the shortest interval of readings thousands of them, and far longer than any pool spins."""


class _ByCpuTime:
    columns: tuple[str, ...] = ()

    @staticmethod
    def modelled(_: Mapping[str, Floats], cpu_s: Floats) -> Floats:
        return cpu_s


BY_CPU_TIME = _ByCpuTime()
"""A model that needs no counters, for what only asks when threads ran."""


def surroundings(trace: Trace, whole: Trace) -> Trace:
    """Return the window with what lies around it."""
    begin_ns = max(trace.start_ns - AROUND_NS, whole.kept_ns)
    return whole.window(begin_ns, min(trace.end_ns + AROUND_NS, whole.end_ns))


class Parts(NamedTuple):
    """The parts of a recording in which pools are found.

    Attributes
    ----------
    windows : all of them, in order
    lead : how many are before those in which pools count
    within_ns : from when to when pools count; None: always
    threads : numbers of the threads with samples in that time, -1: none
    """

    windows: Sequence[Window]
    lead: int
    within_ns: tuple[int, int] | None
    threads: Rows

    def began_before(self, row: InstanceRows) -> bool:
        """Return whether an instance began before pools count, so that another sample may begin it then."""
        return self.within_ns is not None and int(row.start_ns[0]) < self.within_ns[0]

    def counted(self, row: InstanceRows) -> InstanceRows:
        """Return another instance as it counts."""
        if self.within_ns is None:
            return row
        end_ns, last_ns = (np.minimum(one, self.within_ns[1]) for one in (row.end_ns, row.last_ns))
        return replace(row, end_ns=end_ns, last_ns=last_ns, thread=self.threads[row.numbers].astype(np.int32))


def parts_of(found: Survey, windows: Sequence[Window], samples: int) -> Parts:
    """Return the windows of a recording, and around those of a window of time others of about so many samples."""
    if found.around is None:
        return Parts(windows, 0, None, np.arange(len(found.threads)))
    begin_ns, end_ns = within_ns = found.trace.reach_ns
    cuts_ns = [one.own_ns[0] for one in cut_windows(found.around.threads, [], samples)]
    before = _between([0, *(t_ns for t_ns in cuts_ns if 0 < t_ns < begin_ns), begin_ns])
    after = _between([end_ns, *(t_ns for t_ns in cuts_ns if t_ns > end_ns), MAX_NS])
    own = [limited_window(one, within_ns) for one in windows]
    return Parts((*before, *own, *after), len(before), within_ns, _threads_of(found, found.around))


def _threads_of(found: Survey, around: Survey) -> Rows:
    """Return the numbers of threads around a window of time among those in it, -1: not there."""
    numbers = {one.thread.ordinal: number for number, one in enumerate(found.threads)}
    return np.array([numbers.get(one.thread.ordinal, -1) for one in around.threads], np.int64)


def _between(edges_ns: Sequence[int]) -> list[Window]:
    """Return a window between each two times, if they differ."""
    return [Window((a, b), b, ()) for a, b in itertools.pairwise(edges_ns) if a < b]


def limited_window(window: Window, within_ns: tuple[int, int] | None) -> Window:
    """Return the part of a window between two times."""
    if within_ns is None:
        return window
    (begin_ns, end_ns), (first_ns, last_ns) = window.own_ns, within_ns
    own_ns = max(begin_ns, first_ns), min(end_ns, last_ns)
    return replace(window, own_ns=own_ns, until_ns=min(window.until_ns, last_ns))


def read_around(found: Survey, window: Window) -> list[Segments | None]:
    """Read the segments of each thread in a window, by CPU time; None where it has none there.

    Raises TraceError.
    """
    return by_number(found.by_cpu_time.read(window), len(found.threads))


@dataclass(frozen=True)
class Ran:
    """What ran in a window, from which the segments of pools follow.

    Attributes
    ----------
    block : of the recording, with what lies around a window of time
    rows : of its instances, their numbers among those of the window, -1: not there
    count : how many instances the window has
    within_ns : from when to when pools count; None: always
    """

    block: Block
    rows: Rows
    count: int
    within_ns: tuple[int, int] | None

    @classmethod
    def of(cls, found: Survey, window: Window, segments: Sequence[Segments | None]) -> Ran:
        """Take the segments of a window's threads, and read what lies around. Raises TraceError."""
        own = Block((window.own_ns[0], window.until_ns), segments, window.is_last)
        count = own.offsets[-1]
        if found.around is None:
            return cls(own, np.arange(count), count, None)
        wide = limited_window(window, found.trace.reach_ns)
        block = Block((wide.own_ns[0], wide.until_ns), read_around(found.around, wide), wide.is_last)
        rows = _numbers(block, own, _threads_of(found, found.around))
        return cls(block, rows, count, found.trace.reach_ns)

    def limited(self, native: NativeSegments, numbers: Rows) -> NativeSegments | None:
        """Return a pool's segments in the window of time, with other rows of instances; None if there are none."""
        if self.within_ns is None:
            return replace(native, row=np.append(numbers, -1)[native.row])
        if native.t_ns[-1] <= self.within_ns[0] or native.t_ns[0] >= self.within_ns[1]:
            return None
        return native.between(*self.within_ns, numbers)


def _numbers(block: Block, own: Block, threads: Rows) -> Rows:
    """Return for each row of threads around a window its number among those of the window, -1 without."""
    rows = np.full(block.offsets[-1], -1)
    for place, (number, wide) in enumerate(zip(threads.tolist(), block.segments, strict=True)):
        one = own.segments[number] if number >= 0 else None
        if one is None or wide is None or not len(wide.rows):
            continue
        order = np.argsort(wide.rows.instance, kind="stable")
        ids = wide.rows.instance[order]
        at = np.minimum(np.searchsorted(ids, one.rows.instance), len(ids) - 1)
        same = np.flatnonzero(ids[at] == one.rows.instance)
        rows[block.offsets[place] + order[at[same]]] = own.offsets[number] + same
    return rows
