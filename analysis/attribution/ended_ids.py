"""The ids of instances that have ended, of any number of them: a recorder counts them, so 64 neighbours are a word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]
BITS = np.uint64(6)
"""An id's last bits say which bit of its word it is."""
ONE, LAST = np.uint64(1), np.uint64(63)


class _Words(NamedTuple):
    """Ids: the number of each word, increasing, and its bits."""

    number: Ids
    bits: Ids

    @classmethod
    def of(cls, number: Ids, bits: Ids) -> _Words:
        """Put words of the same number together."""
        if not (number[1:] >= number[:-1]).all():
            order = np.argsort(number, kind="stable")
            number, bits = number[order], bits[order]
        begins = np.flatnonzero(np.concatenate((np.ones(min(len(number), 1), bool), number[1:] != number[:-1])))
        return cls(number[begins], np.bitwise_or.reduceat(bits, begins) if len(begins) else bits)

    def have(self, number: Ids, bits: Ids) -> NDArray[np.bool_]:
        """Return which words have bits that are here too."""
        if not len(self.number):
            return np.zeros(len(number), bool)
        place = np.minimum(np.searchsorted(self.number, number), len(self.number) - 1)
        return np.asarray((self.number[place] == number) & (self.bits[place] & bits != 0))


class EndedIds:
    """The ids, 16 bytes for each word.

    Words that were added together, or joined since, are one batch; batches double in size, so that each word is joined
    as often as the logarithm of their number.

    Attributes
    ----------
    again : those that were added more than once
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._batches: list[_Words] = []
        self.again = np.empty(0, np.uint64)

    def add(self, ids: Ids) -> None:
        """Add some, each of which is there once."""
        number, bit = ids >> BITS, ONE << (ids & LAST)
        words = _Words.of(number, bit)
        if any(batch.have(*words).any() for batch in self._batches):
            is_known = np.any([batch.have(number, bit) for batch in self._batches], axis=0)
            self.again = np.union1d(self.again, ids[is_known])
        while self._batches and len(self._batches[-1].number) <= 2 * len(words.number):
            before = self._batches.pop()
            words = _Words.of(*(np.concatenate(both) for both in zip(before, words, strict=True)))
        self._batches.append(words)
