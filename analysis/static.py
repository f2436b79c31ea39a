"""Shares static energy among the cores in proportion to their busy time, and within a core by CPU time.

A waiting thread uses a few microseconds of a core; it does not count as running there. If less than one core is busy
in total, the remainder of one core is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .attribution import Rate, padded, rates, spread

if TYPE_CHECKING:
    from .load import Load
    from .segments import Segments

Floats = NDArray[np.float64]
_NO_CPU = 0xFFFF


@dataclass(frozen=True)
class Static:
    """The shares of one domain's static energy.

    Attributes
    ----------
    cores : per thread (n,) int64, the number of each segment's core
    rate : joules per CPU second of a core in a quantum
    other_j, unseen_j, idle_j : joules of CPU time without samples, and of idle time
    """

    cores: tuple[NDArray[np.int64], ...]
    rate: Rate
    other_j: float
    unseen_j: float
    idle_j: float


def plan_static(load: Load, static_j: Floats) -> Static:
    """Split static joules.

    Parameters
    ----------
    load : of the domain; CPU seconds without samples count as so many cores
    static_j : (k,) joules
    """
    segments, edges_ns = load.segments, load.quanta.edges_ns
    names: dict[int, int] = {}
    cores = tuple(_cores(segment, index, names) for index, segment in enumerate(segments))
    width = len(edges_ns) + 1
    flat = np.zeros(len(names) * width)
    for index, core in enumerate(cores):
        flat += spread(load.busy_lane(index), edges_ns, row=core, rows=len(names))
    busy_s = flat.reshape(len(names), width)
    seconds = padded(np.diff(edges_ns) * 1e-9)
    running = np.minimum(np.divide(busy_s, seconds, out=np.zeros_like(busy_s), where=seconds > 0), 1.0)
    other, unseen = (
        np.divide(padded(part), seconds, out=np.zeros(width), where=seconds > 0)
        for part in (load.other_s, load.unseen_s)
    )
    count = running.sum(axis=0) + other + unseen
    claimed = np.maximum(count, 1.0)
    each_j = rates(padded(static_j), claimed)
    return Static(
        cores,
        Rate.of(rates((each_j * running).ravel(), flat), edges_ns),
        other_j=float(each_j @ other),
        unseen_j=float(each_j @ unseen),
        idle_j=float(padded(static_j)[claimed <= 0].sum() + each_j @ (claimed - count)),
    )


def _cores(segment: Segments, index: int, names: dict[int, int]) -> NDArray[np.int64]:
    """Number the cores; a thread on an unknown core counts as its own core."""
    lookup = np.zeros(_NO_CPU + 1, np.int64)
    for cpu in np.flatnonzero(np.bincount(segment.cpu)):
        key = int(cpu) if cpu != _NO_CPU else -1 - index
        lookup[cpu] = names.setdefault(key, len(names))
    return lookup[segment.cpu]
