"""Sampled stacks by the instance or thread that ran them: of each distinct one the sums of what it stands for.

Threads that Python started and that have no samples are under the instances that they work for. What such a thread runs
is its own, not its caller's: of the joules that its pool took for an instance, each of its stacks has the part of the
CPU time since the sample before. Their sums are of CPU seconds therefore, beside one row an instance with these joules
(`NO_STACK`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.natives.segments import OF_TASK
from tprof.analysis.attribution.segment_energy import sum_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.stack_samples import Key, ThreadStacks
    from tprof.analysis.attribution.windows import Window

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
NO_THREAD, POOL = -1, -2
NO_STACK = -1


class StackRows(NamedTuple):
    """Sampled stacks by what ran them.

    Attributes
    ----------
    instance : (n,) uint64, 0: none; in trees their nodes
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

    def of_nodes(self, node: Integers) -> StackRows:
        """Return them with nodes of a tree, -1: none, in the place of instances."""
        return self._replace(instance=np.maximum(node, 0).astype(np.uint64))

    def plus(self, later: StackRows) -> StackRows:
        """Return both."""
        return StackRows.of(*joined(self, later))


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


def joined(*parts: Iterable[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the arrays of all parts, one after the other."""
    return [np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)]


def pool_stacks(
    window: Window, activity: Activity, stacks: Mapping[Key, ThreadStacks], pools_j: Sequence[Floats]
) -> StackRows:
    """Return the joules of pools that Python started by instance, and their stacks.

    Parameters
    ----------
    window, activity : what ran in it
    stacks : its samples by thread
    pools_j : of each pool the joules of its segments
    """
    found = StackRows.none()
    for pool, energy_j in zip(activity.pools, pools_j, strict=True):
        if pool.found.python:
            found = found.plus(_joules(pool.segments, energy_j))
        for one in pool.found.python:
            if one in stacks:
                found = found.plus(_sampled(window, pool.segments, stacks[one]))
    return found


def _joules(native: NativeSegments, energy_j: Floats) -> StackRows:
    ids, code = np.unique(native.runs.instance, return_inverse=True)
    own_j = sum_by(code, native.of_runs(native.of_task(energy_j)), len(ids))
    at = np.flatnonzero(own_j > 0)
    return _of_pool(ids[at], np.full(len(at), NO_STACK), np.stack((own_j[at], *np.zeros((3, len(at))))))


def _sampled(window: Window, native: NativeSegments, one: ThreadStacks) -> StackRows:
    """Return the stacks of a thread that were sampled in the window, while its pool worked for an instance."""
    segment = np.searchsorted(native.t_ns, one.t_ns) - 1
    inside = (segment >= 0) & (segment < len(native.kind))
    inside &= (one.t_ns >= window.own_ns[0]) & (one.t_ns < window.own_ns[1])
    inside[inside] = native.kind[segment[inside]] == OF_TASK
    runs = native.runs.kept(np.argsort(native.runs.begin_ns, kind="stable"))
    run = np.searchsorted(runs.begin_ns, one.t_ns) - 1
    inside &= run >= 0
    inside[inside] = runs.end_ns[run[inside]] >= one.t_ns[inside]
    used_s, instance = one.used_ns[inside] * 1e-9, runs.instance[run[inside]]
    sums = np.stack((used_s, np.zeros(len(used_s)), used_s**2, np.ones(len(used_s))))
    return _of_pool(instance, one.stack[inside].astype(np.int64), sums)


def _of_pool(instance: NDArray[np.uint64], stack: NDArray[np.int64], sums: Floats) -> StackRows:
    return StackRows.of(instance, np.full(len(instance), POOL), stack, sums)
