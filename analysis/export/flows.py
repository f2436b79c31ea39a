"""The dependences of a session as arrows between slices, each with a number."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.profile.task_graph.lifecycle import Places

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile


class Flows:
    """The arrows of dependences: each has a number, which the slice it leaves and the slice it reaches both name."""

    def __init__(self, waits: NDArray[np.int64], waits_for: NDArray[np.int64], rows: int, first: int) -> None:
        """Sort the arrows by the rows at which they leave and arrive."""
        self.waits, self.waits_for = waits, waits_for
        number = np.arange(first, first + len(waits), dtype=np.uint64)
        self._ends = []
        for row in (waits_for, waits):
            order = np.argsort(row, kind="stable")
            self._ends.append((number[order].tolist(), np.searchsorted(row[order], np.arange(rows + 1)).tolist()))

    @classmethod
    def of(cls, profile: Profile) -> Flows | None:
        """Return the arrows of a profile; None if it has no dependences."""
        pairs = profile.dependences if len(profile.trace.graph) or len(profile.trace.keys) else None
        if pairs is None or not len(pairs):
            return None
        places = Places.of(profile.tasks["instance"].to_numpy())
        waits = places.rows(pairs["instance"].to_numpy(np.uint64))
        waits_for = places.rows(pairs["waits_for"].to_numpy(np.uint64))
        known = (waits >= 0) & (waits_for >= 0)
        # Numbers of several hosts must not meet, and JavaScript has no larger ones.
        first = zlib.crc32(str(profile.trace.path).encode("utf-8", "surrogateescape")) << 20 | 1
        return cls(waits[known], waits_for[known], len(profile.tasks), first)

    def of_row(self, row: int) -> tuple[list[int], list[int]]:
        """Return the numbers of the arrows that leave an instance, and of those that reach it."""
        leaving, arriving = ((numbers[at[row] : at[row + 1]]) for numbers, at in self._ends)
        return leaving, arriving
