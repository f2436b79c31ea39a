"""Books one domain's joules to accounts; their sum is the measured energy.

In its first and its last quantum an instance may have drawn anything between 0 and the quantum's whole
dynamic energy. The model shares the quanta between them; the bounds do not include its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.engine import _engine

from .segment_energy import Shares, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instance_bounds import EdgeJoules
    from .natives.pools import CutPool
    from .natives.segments import NativeSegments
    from .segments import JoinedSegments
    from .sharing import Sharing

Floats = NDArray[np.float64]


@dataclass
class Totals:
    """Joules of each instance, summed over the domains that count; `covered` if any quantum holds it.

    `native` is what native threads add, `gpu` what GPUs do (not in the other sums); None if none is known.
    """

    dynamic_j: Floats
    static_j: Floats
    low_j: Floats
    high_j: Floats
    covered: NDArray[np.bool_]
    native: NativeTotals | None
    gpu: GpuTotals | None = None

    def add_gpu(self, more: GpuTotals, covered: NDArray[np.bool_]) -> None:
        """Add one GPU's joules, and which instances it covers."""
        self.gpu = more if self.gpu is None else self.gpu.plus(more)
        self.covered |= covered

    def view(self, which: NDArray[np.bool_]) -> Totals:
        """Return those of some instances."""
        low_j, high_j, covered = self.low_j[which], self.high_j[which], self.covered[which]
        native = None if self.native is None else self.native.view(which)
        gpu = None if self.gpu is None else self.gpu.view(which)
        return Totals(self.dynamic_j[which], self.static_j[which], low_j, high_j, covered, native, gpu)

    @classmethod
    def zeros(cls, rows: int, native: NativeTotals | None = None) -> Totals:
        """Start with zeros."""
        return cls(np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows, bool), native)


@dataclass(frozen=True)
class GpuTotals:
    """Joules of GPUs of each instance, (rows,), and their bounds."""

    joules: Floats
    least: Floats
    most: Floats

    def view(self, which: NDArray[np.bool_]) -> GpuTotals:
        """Return those of some instances."""
        return GpuTotals(self.joules[which], self.least[which], self.most[which])

    def plus(self, other: GpuTotals) -> GpuTotals:
        """Return the sums with another GPU's."""
        return GpuTotals(self.joules + other.joules, self.least + other.least, self.most + other.most)


@dataclass
class NativeTotals:
    """What native threads add.

    Attributes
    ----------
    cpu_s, joules, spin_j : (rows,) of each instance; `joules` is part of its energy, `spin_j` is not
    least_j, most_j : (rows,) bounds of `joules`
    """

    cpu_s: Floats
    joules: Floats
    spin_j: Floats
    least_j: Floats
    most_j: Floats

    @property
    def of_rows(self) -> Floats:
        """All sums of instances: (5, rows)."""
        return np.stack([self.cpu_s, self.joules, self.spin_j, self.least_j, self.most_j])

    @classmethod
    def of_instances(cls, of_rows: Floats) -> NativeTotals:
        """Take sums of instances, without notes."""
        return cls(*map(np.ascontiguousarray, of_rows))

    def view(self, which: NDArray[np.bool_]) -> NativeTotals:
        """Return the sums of some instances."""
        return NativeTotals.of_instances(self.of_rows[:, which])

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats) -> None:  # noqa: ARG002
        """Add the joules of a pool in one domain.

        Parameters
        ----------
        number : of the pool
        native : its segments
        energy_j : their joules
        own_j : those of each instance
        """
        self.joules += own_j
        self.spin_j += native.spinning(energy_j, len(own_j))


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
    edges: EdgeJoules | None,
) -> Shared:
    """Distribute one domain's joules in a block; adds to `native` and `edges` if the domain counts."""
    rows = ran.instances.count
    dynamic_j, static_j = np.zeros((2, rows + 1))
    load = sharing.load.located[0]
    apart = None if edges is None else edges.given(sharing.owner)
    _engine.share(load.course, load.modelled, sharing.rate, (ran.slot, dynamic_j, apart))
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
    edges: EdgeJoules | None,
) -> Floats:
    """Distribute the joules of one pool and return those of each kind."""
    shares = Shares.of(sharing.load.located[1 + number], sharing.rate)
    static_j = None
    if sharing.static_rate is not None:
        static_j = Shares.of(sharing.static_load.busy_segments(1 + number), sharing.static_rate).energy_j
    energy_j = shares.energy_j if static_j is None else shares.energy_j + static_j
    kinds_j = sum_by(native.kind, energy_j, 4)
    if totals is None:
        return kinds_j
    rows = len(found.dynamic_j)
    own_j = np.zeros(rows)
    for values, total_j in ((shares.energy_j, found.dynamic_j), (static_j, found.static_j)):
        if values is not None:
            of_rows = native.by_row(values, rows)
            np.add(total_j, of_rows, out=total_j)
            own_j += of_rows
    totals.add(number, native, energy_j, own_j)
    if edges is not None:
        edges.add_native(native, sharing.quantum(1 + number), shares)
    return kinds_j
