"""The stacks of threads that Python started and that have no samples, under the instances that they work for.

What such a thread runs is its own, not its caller's: of the joules that its pool took for an instance, each of its
stacks has the part of the CPU time since the sample before. Their sums are of CPU seconds therefore, beside one row an
instance with these joules (`NO_STACK`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.natives.segments import OF_TASK
from tprof.analysis.attribution.segment_energy import sum_by

from .stack_rows import NO_STACK, POOL, StackRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.stack_samples import Key, ThreadStacks
    from tprof.analysis.attribution.windows import Window

Floats = NDArray[np.float64]
Ids = NDArray[np.uint64]


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
    return _rows(ids[at], np.full(len(at), NO_STACK), np.stack((own_j[at], *np.zeros((3, len(at))))))


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
    return _rows(instance, one.stack[inside].astype(np.int64), sums)


def _rows(instance: Ids, stack: NDArray[np.int64], sums: Floats) -> StackRows:
    return StackRows.of(instance, np.full(len(instance), POOL), stack, sums)
