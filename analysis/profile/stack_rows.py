"""Sampled stacks by the instance or thread that ran them: of each distinct one the sums of what it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
NO_THREAD, POOL = -1, -2
NO_STACK = -1


class StackRows(NamedTuple):
    """Sampled stacks by what ran them.

    Attributes
    ----------
    instance : (n,) uint64, 0: none
    thread : (n,) int64, ordinal of the thread if no instance ran, else `NO_THREAD`, or `POOL` for a thread without
        samples that works for the instance
    stack : (n,) int64, as of `StackTable`
    sums : (4, n) joules and seconds that they stand for, squares of these joules, and number
    """

    instance: NDArray[np.uint64]
    thread: Integers
    stack: Integers
    sums: Floats

    @classmethod
    def none(cls) -> StackRows:
        """Return no stacks."""
        whole = np.empty(0, np.int64)
        return cls(np.empty(0, np.uint64), whole, whole, np.empty((4, 0)))

    @classmethod
    def of(cls, instance: NDArray[np.uint64], thread: Integers, stack: Integers, sums: Floats) -> StackRows:
        """Add the sums of the same stacks."""
        thread = np.where((instance > 0) & (thread != POOL), NO_THREAD, thread)
        (instance, thread, stack), sums = added((instance, thread, stack), sums)
        return cls(instance, thread, stack, sums)

    def taken(self, which: NDArray[np.bool_]) -> StackRows:
        """Return some of them."""
        return StackRows(self.instance[which], self.thread[which], self.stack[which], self.sums[:, which])

    def plus(self, later: StackRows) -> StackRows:
        """Return both."""
        return StackRows.of(*both(self, later))


def added(keys: Sequence[NDArray[Any]], sums: Floats) -> tuple[list[NDArray[Any]], Floats]:
    """Return distinct keys in order, and the sums, (k, n), of those that are equal."""
    if not len(keys[0]):
        return list(keys), sums
    order = np.lexsort(keys[::-1])
    keys = [one[order] for one in keys]
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in keys])
    begins = np.flatnonzero(is_new)
    return [one[begins] for one in keys], np.add.reduceat(sums[:, order], begins, axis=1)


def both(first: Iterable[NDArray[Any]], second: Iterable[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the arrays of both, joined."""
    return [np.concatenate(both, axis=-1) for both in zip(first, second, strict=True)]
