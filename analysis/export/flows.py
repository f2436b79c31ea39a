"""The dependences of a session as arrows between slices, each with a number."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import AppendedColumns, blocks, computed, release
from tprof.trace.long_sorts import order_of

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

Ids = NDArray[np.uint64]


class Flows:
    """The arrows of dependences: each has a number, which the slice it leaves and the slice it reaches both name.

    Where they are many, they are in temporary files, and what a part of the slices needs of them is in memory.
    """

    def __init__(self, waits: Ids, waits_for: Ids, first: int) -> None:
        """Take the arrows in order of the instances at which they arrive, and find their order where they leave."""
        leaving, order = order_of(waits_for)
        count = len(waits)
        number_of_leaving = computed(count, np.uint64, lambda at: np.uint64(first) + order[at].astype(np.uint64), order)
        number = computed(count, np.uint64, lambda at: np.arange(first + at.start, first + at.stop))
        self._ends = [(leaving, number_of_leaving), (waits, number)]
        self._waited_for = waits_for

    @classmethod
    def of(cls, profile: Profile) -> Flows | None:
        """Return the arrows of a profile; None if it has no dependences."""
        pairs = profile.dependence_columns if profile.has_graph else None
        if pairs is None or not len(pairs):
            return None
        ran, known = profile.ran, AppendedColumns(np.uint64, np.uint64)
        for at in blocks(len(pairs), pairs.instance, pairs.waits_for, ran.instance):
            waits, waits_for = pairs.instance[at], pairs.waits_for[at]
            have_run = (ran.rows(waits) >= 0) & (ran.rows(waits_for) >= 0)
            known.add(waits[have_run], waits_for[have_run])
        # Numbers of several hosts must not meet, and JavaScript has no larger ones.
        first = zlib.crc32(str(profile.trace.path).encode("utf-8", "surrogateescape")) << 20 | 1
        waits, waits_for = known.finish()
        return cls(waits, waits_for, first)

    def between(self, instances: Ids) -> PartFlows:
        """Return the arrows that leave or reach the instances of a part, by their rows."""
        release(self._waited_for, *(array for end in self._ends for array in end))
        return PartFlows([(numbers, *_reach(ids, instances)) for ids, numbers in self._ends])

    def waited_for(self, instances: Ids) -> list[list[int]]:
        """Return for each of some instances those from which arrows reach it."""
        release(self._waited_for, self._ends[1][0])
        first, stop = _reach(self._ends[1][0], instances)
        return [self._waited_for[begin:end].tolist() for begin, end in zip(first.tolist(), stop.tolist(), strict=True)]


def _reach(ids: Ids, instances: Ids) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where the arrows of each instance begin and end among arrows in order of ids."""
    return np.searchsorted(ids, instances), np.searchsorted(ids, instances, side="right")


class PartFlows:
    """The arrows of some instances."""

    def __init__(self, ends: list[tuple[Ids, NDArray[np.intp], NDArray[np.intp]]]) -> None:
        """Take the numbers of those that leave and of those that arrive, and where each row's begin and end."""
        self._ends = [(numbers, first.tolist(), stop.tolist()) for numbers, first, stop in ends]

    def of_row(self, row: int) -> tuple[list[int], list[int]]:
        """Return the numbers of the arrows that leave an instance, and of those that reach it."""
        leaving, arriving = (numbers[first[row] : stop[row]].tolist() for numbers, first, stop in self._ends)
        return leaving, arriving
