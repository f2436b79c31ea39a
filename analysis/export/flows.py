"""The dependences of a session as arrows between slices, each with a number."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

Ids = NDArray[np.uint64]


class Flows:
    """The arrows of dependences: each has a number, which the slice it leaves and the slice it reaches both name."""

    def __init__(self, waits: Ids, waits_for: Ids, first: int) -> None:
        """Sort the arrows by the instances at which they leave and arrive."""
        number = np.arange(first, first + len(waits), dtype=np.uint64)
        leaving, arriving = (np.argsort(ids, kind="stable") for ids in (waits_for, waits))
        self._ends = [(waits_for[leaving], number[leaving]), (waits[arriving], number[arriving])]
        self._waited_for = waits_for[arriving]

    @classmethod
    def of(cls, profile: Profile) -> Flows | None:
        """Return the arrows of a profile; None if it has no dependences."""
        pairs = profile.dependences if profile.has_graph else None
        if pairs is None or not len(pairs):
            return None
        waits, waits_for = (pairs[name].to_numpy(np.uint64) for name in ("instance", "waits_for"))
        known = (profile.ran.rows(waits) >= 0) & (profile.ran.rows(waits_for) >= 0)
        # Numbers of several hosts must not meet, and JavaScript has no larger ones.
        first = zlib.crc32(str(profile.trace.path).encode("utf-8", "surrogateescape")) << 20 | 1
        return cls(waits[known], waits_for[known], first)

    def between(self, instances: Ids) -> PartFlows:
        """Return the arrows that leave or reach the instances of a part, by their rows."""
        return PartFlows([(numbers, *_reach(ids, instances)) for ids, numbers in self._ends])

    def waited_for(self, instances: Ids) -> list[list[int]]:
        """Return for each of some instances those from which arrows reach it."""
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
