"""A count of CPU time, of the machine or of the program, from its readings.

It is read by one thread with one clock, so times never fall. Where some do, the file is damaged: then as many readings
as possible are kept whose times do not fall. To follow the latest time so far would trust a single time that is far
too late more than all after it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

if TYPE_CHECKING:
    from tprof.trace import Readings

Floats = NDArray[np.float64]
_PIECE, _AROUND = 1 << 16, 1 << 10
_LATEST_NS = MAX_NS // 2
"""A clock 146 years after the boot is damage."""


@dataclass(frozen=True)
class CpuCount:
    """The readings whose times are in order; columns are read when they are needed, since they can be long.

    Attributes
    ----------
    readings : all of them
    count, unordered : how many are in order, and how many are not
    first_ns, last_ns : of those in order
    """

    readings: Readings
    count: int
    unordered: int
    first_ns: int
    last_ns: int
    _which: NDArray[np.bool_] | slice

    @classmethod
    def of(cls, readings: Readings) -> CpuCount:
        """Take those of a file."""
        t_ns = readings.t_ns
        kept = _in_order(t_ns)
        unordered = len(kept) - int(kept.sum())
        which = kept if unordered else slice(None)
        ends_ns = t_ns[which][[0, -1]].tolist() if unordered < len(kept) else [0, 0]
        return cls(readings, len(kept) - unordered, unordered, ends_ns[0], ends_ns[1], which)

    def at(self, grid_ns: NDArray[np.int64]) -> Floats:
        """Return the CPU seconds since the first of some times up to each of them."""
        good = ~self.readings.missing[self._which]
        t_ns, value = self.readings.t_ns[self._which][good], self.readings.value[self._which][good]
        if not len(t_ns):
            return np.zeros(len(grid_ns))
        total_s = np.concatenate(([0.0], np.cumsum(grown(value) * self.readings.unit)))
        at_s: Floats = np.interp(grid_ns, t_ns, total_s)
        moved_s: Floats = at_s - at_s[0]
        return moved_s


def grown(value: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the growth of a count of CPU time; if it falls it was reset (a processor went offline), which is no time.

    (n,) counts give (n - 1,) differences.
    """
    return np.maximum(np.diff(value).view(np.int64), 0)


def _in_order(t_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which times are part of the longest part that never falls, (n,), found in pieces: O(n log n)."""
    kept = t_ns <= _LATEST_NS
    if kept.all() and (t_ns[1:] >= t_ns[:-1]).all():
        return kept
    possible = np.flatnonzero(kept)
    kept[:] = False
    for first in range(0, len(possible), _PIECE):
        before = possible[max(first - _AROUND, 0) : first]
        # The last ones of the piece before are looked at again: one of them may be too late for all that follow.
        at = np.concatenate((before[kept[before]], possible[first : first + _PIECE]))
        kept[at] = False
        kept[at[_longest_rise(t_ns[at].tolist())]] = True
    return kept


def _longest_rise(values: list[int]) -> list[int]:
    """Return the places of a longest part that never falls, by patience sorting."""
    tops: list[int] = []
    top_places: list[int] = []
    before = []
    for place, value in enumerate(values):
        pile = bisect_right(tops, value)
        before.append(top_places[pile - 1] if pile else -1)
        tops[pile : pile + 1], top_places[pile : pile + 1] = [value], [place]
    places = []
    place = top_places[-1] if top_places else -1
    while place >= 0:
        places.append(place)
        place = before[place]
    return places[::-1]
