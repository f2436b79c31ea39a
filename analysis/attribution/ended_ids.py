"""The ids of instances that have ended, of any number of them: a recorder counts them, so they are runs of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]


class EndedIds:
    """The ids, as runs of consecutive ones, 16 bytes each.

    Attributes
    ----------
    again : those that were added more than once
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._begin = self._end = self.again = np.empty(0, np.uint64)

    def add(self, ids: Ids) -> None:
        """Add some, each of which is there once."""
        begin, end = _runs(ids)
        if self._overlaps(begin, end):
            place = np.searchsorted(self._begin, ids, side="right")
            is_known = (place > 0) & (ids <= self._end[np.maximum(place - 1, 0)])
            self.again = np.union1d(self.again, ids[is_known])
            begin, end = _runs(ids[~is_known])
        begin, end = np.concatenate((self._begin, begin)), np.concatenate((self._end, end))
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
        apart = np.flatnonzero(begin[1:] - end[:-1] > 1)
        self._begin, self._end = np.append(begin[:1], begin[apart + 1]), np.append(end[apart], end[-1:])

    def _overlaps(self, begin: Ids, end: Ids) -> bool:
        """Return whether runs have ids that are there."""
        place = np.searchsorted(self._begin, end, side="right")
        return bool(((place > 0) & (self._end[np.maximum(place - 1, 0)] >= begin)).any()) if len(self._begin) else False


def _runs(ids: Ids) -> tuple[Ids, Ids]:
    """Return the first and the last of each run of consecutive ids."""
    if not (ids[1:] > ids[:-1]).all():
        ids = np.sort(ids, kind="stable")
    breaks = np.flatnonzero(ids[1:] - ids[:-1] > 1)
    return np.concatenate((ids[:1], ids[breaks + 1])), np.concatenate((ids[breaks], ids[-1:]))
