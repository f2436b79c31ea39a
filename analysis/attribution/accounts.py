"""Books one domain's joules to accounts; their sum is the measured energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.engine import _engine

from .instance_bounds import given
from .segment_energy import gather, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .natives.pools import CutPool
    from .natives.segments import NativeSegments
    from .segments import JoinedSegments
    from .sharing import Sharing

Floats = NDArray[np.float64]


NATIVE = ("native_cpu_s", "native_j", "spin_j", "native_low_j", "native_high_j")
"""What native threads add to an instance: `native_j`, within its bounds, is part of its energy, `spin_j` is not."""


@dataclass
class NativeTotals:
    """What native threads add in a block.

    Attributes
    ----------
    sums : (5, rows) of each instance, as `NATIVE`
    """

    sums: Floats

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats) -> None:  # noqa: ARG002
        """Add the joules of a pool in one domain.

        Parameters
        ----------
        number : of the pool
        native : its segments
        energy_j : their joules
        own_j : those of each instance
        """
        self.sums[NATIVE.index("native_j")] += own_j
        self.sums[NATIVE.index("spin_j")] += native.spinning(energy_j, len(own_j))


@dataclass(frozen=True)
class Account:
    """One domain's joules by account; NaN if it measured none.

    `spin_j` is of native threads after the end of the task that used them, `unidentified_j` of those that several
    running tasks could have used.
    """

    domain: str
    measured_j: float
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float
    spin_j: float = 0.0
    unidentified_j: float = 0.0


@dataclass
class Shared:
    """What a domain gives in a block.

    Attributes
    ----------
    dynamic_j, static_j : (rows,) of each instance
    sums : tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j
    """

    dynamic_j: Floats
    static_j: Floats
    sums: Floats


def settle(
    sharing: Sharing,
    ran: JoinedSegments,
    pools: Sequence[CutPool],
    native: NativeTotals | None,
    kept: Floats | None = None,
    before: int = 0,
) -> Shared:
    """Distribute one domain's joules in a block.

    Parameters
    ----------
    sharing, ran, pools : how, and among what
    native : what native threads add, to which it is added if the domain counts
    kept : what is kept for bounds of instances, to which it is added; None if the domain does not count
    before : how many quanta come before those that are shared
    """
    rows = ran.instances.count
    dynamic_j, static_j = np.zeros((2, rows + 1))
    load = sharing.load.located[0]
    edges = None if kept is None else given(sharing, before, kept)
    _engine.share(load.course, load.modelled, sharing.rate, (ran.slot, dynamic_j, edges))
    if sharing.static_rate is not None:
        busy = sharing.static_load.busy_segments(0)
        _engine.share(busy.course, busy.modelled, sharing.static_rate, (ran.slot, static_j, None))
    tasks_j, runtime_j = float(dynamic_j[1:].sum() + static_j[1:].sum()), float(dynamic_j[0] + static_j[0])
    found, kinds_j = Shared(dynamic_j[1:], static_j[1:], np.zeros(6)), np.zeros(4)
    for number, pool in enumerate(pools):
        kinds_j += _settle_pool(sharing, number, pool.segments, found, native, edges)
    if sharing.measured.valid.any():
        outside_j, native_j, spin_j, unidentified_j = kinds_j.tolist()
        found.sums[:] = (
            tasks_j + native_j, runtime_j + outside_j + sharing.unseen_j, sharing.other_j, sharing.idle_j, spin_j,
            unidentified_j,
        )  # fmt: skip
    return found


def _settle_pool(
    sharing: Sharing,
    number: int,
    native: NativeSegments,
    found: Shared,
    totals: NativeTotals | None,
    edges: tuple[Any, ...] | None,
) -> Floats:
    """Distribute the joules of one pool and return those of each kind."""
    located = sharing.load.located[1 + number]
    energy_j = gather(located, sharing.rate)
    own_j = np.zeros(len(found.dynamic_j) + 1)
    for parts, slot in native.of_instances(located):
        _engine.share(parts.course, parts.modelled, sharing.rate, (slot, own_j, edges))
    own_j = own_j[1:]
    found.dynamic_j += own_j
    if sharing.static_rate is not None:
        more_j = gather(sharing.static_load.busy_segments(1 + number), sharing.static_rate)
        of_rows = native.by_row(more_j, len(own_j))
        found.static_j += of_rows
        energy_j, own_j = energy_j + more_j, own_j + of_rows
    if totals is not None:
        totals.add(number, native, energy_j, own_j)
    return sum_by(native.kind, energy_j, 4)
