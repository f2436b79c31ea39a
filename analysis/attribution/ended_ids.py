"""The ids of instances that have ended, of any number of them: a recorder counts them, so they are runs of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]


class EndedIds:
    """The ids, as runs of consecutive ones, 16 bytes each.

    Runs that were added together, or joined since, are one batch; batches double in size, so that each run is joined as
    often as the logarithm of their number.

    Attributes
    ----------
    again : those that were added more than once
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._batches: list[tuple[Ids, Ids]] = []
        self.again = np.empty(0, np.uint64)

    def add(self, ids: Ids) -> None:
        """Add some, each of which is there once."""
        begin, end = _runs(ids)
        if any(_overlap(batch, begin, end).any() for batch in self._batches):
            is_known = np.any([_overlap(batch, ids, ids) for batch in self._batches], axis=0)
            self.again = np.union1d(self.again, ids[is_known])
            begin, end = _runs(ids[~is_known])
        while self._batches and len(self._batches[-1][0]) <= 2 * len(begin):
            begin, end = _joined(self._batches.pop(), (begin, end))
        self._batches.append((begin, end))


def _overlap(batch: tuple[Ids, Ids], begin: Ids, end: Ids) -> NDArray[np.bool_]:
    """Return which runs have ids of a batch."""
    place = np.searchsorted(batch[0], end, side="right")
    return np.asarray((place > 0) & (np.append(batch[1], np.uint64(0))[np.maximum(place, 1) - 1] >= begin))


def _joined(ours: tuple[Ids, Ids], theirs: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    """Return the runs of two batches that have no id in common."""
    begin, end = (np.concatenate(both) for both in zip(ours, theirs, strict=True))
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    apart = np.flatnonzero(begin[1:] - end[:-1] > 1)
    return np.append(begin[:1], begin[apart + 1]), np.append(end[apart], end[-1:])


def _runs(ids: Ids) -> tuple[Ids, Ids]:
    """Return the first and the last of each run of consecutive ids."""
    if not (ids[1:] > ids[:-1]).all():
        ids = np.sort(ids, kind="stable")
    breaks = np.flatnonzero(ids[1:] - ids[:-1] > 1)
    return np.concatenate((ids[:1], ids[breaks + 1])), np.concatenate((ids[breaks], ids[-1:]))
