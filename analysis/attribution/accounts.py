"""Books one domain's joules to accounts; their sum is the measured energy.

In its first and its last quantum an instance may have drawn anything between 0 and the quantum's whole
dynamic energy. The model shares the quanta between them; the bounds do not include its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

from .segment_energy import Shares, locate, members, padded, sum_by, values_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instances import InstanceRows, Joined
    from .native_time import NativeSegments
    from .native_users import Pool
    from .open_instances import EdgeParts
    from .quanta import Quanta
    from .segments import JoinedSegments
    from .sharing import Sharing

Floats = NDArray[np.float64]
Place = slice | NDArray[np.intp]
Times = NDArray[np.int64]


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
    task_least_j, task_most_j : (tasks,) bounds of each task's sum
    pool_j : by pool the joules of each kind
    """

    cpu_s: Floats
    joules: Floats
    spin_j: Floats
    least_j: Floats
    most_j: Floats
    task_least_j: Floats
    task_most_j: Floats
    pool_j: list[Floats]

    @property
    def of_rows(self) -> Floats:
        """All sums of instances: (5, rows)."""
        return np.stack([self.cpu_s, self.joules, self.spin_j, self.least_j, self.most_j])

    @classmethod
    def of_instances(cls, of_rows: Floats) -> NativeTotals:
        """Take sums of instances, without those of tasks and pools."""
        cpu_s, joules, spin_j, least_j, most_j = map(np.ascontiguousarray, of_rows)
        return cls(cpu_s, joules, spin_j, least_j, most_j, np.zeros(0), np.zeros(0), [])

    def view(self, which: NDArray[np.bool_]) -> NativeTotals:
        """Return the sums of some instances."""
        return NativeTotals.of_instances(self.of_rows[:, which])

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats, joined: Joined) -> None:
        """Add the joules of a pool in one domain.

        Parameters
        ----------
        number : of the pool
        native : its segments
        energy_j : their joules
        own_j : those of each instance
        joined : the instances
        """
        rows = joined.parts
        self.joules += own_j
        self.spin_j += joined.to_rows(native.spinning(energy_j, rows))
        least_j, most_j = self.bounds(number, native, energy_j)
        of_rows = (joined.to_rows(sum_by(native.runs.row, part, rows)) for part in (least_j, most_j))
        self.add_bounds(np.stack([*of_rows]), own_j)
        self.note(number, native, energy_j)

    def add_bounds(self, bounds_j: Floats, own_j: Floats) -> None:
        """Add bounds of instances in one pool and domain, (2, rows), which hold their joules there."""
        self.least_j += np.minimum(bounds_j[0], own_j)
        self.most_j += np.maximum(bounds_j[1], own_j)

    def bounds(self, number: int, native: NativeSegments, energy_j: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Return the least and the most joules of each of a pool's runs."""
        return native.bounds(energy_j)

    def note(self, number: int, native: NativeSegments, energy_j: Floats) -> None:
        """Add to the sums of tasks and pools."""
        least_j, most_j = native.task_bounds(energy_j, len(self.task_least_j))
        self.task_least_j += least_j
        self.task_most_j += most_j
        self.pool_j[number] += sum_by(native.kind, energy_j, 4)

    @classmethod
    def of(cls, pools: Sequence[Pool], joined: Joined, tasks: int) -> NativeTotals | None:
        """Begin with the CPU seconds and without joules; None without pools."""
        if not pools:
            return None
        rows = len(joined.rows)
        own = [one.segments.by_row(one.segments.cpu_s, joined.parts) for one in pools]
        joules, spin_j, least_j, most_j = (np.zeros(rows) for _ in range(4))
        return cls(
            joined.to_rows(np.sum(own, axis=0)), joules, spin_j, least_j, most_j, np.zeros(tasks), np.zeros(tasks),
            [np.zeros(4) for _ in pools],
        )  # fmt: skip


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
class _Bounds:
    """Bounds of the instances in one domain; `edge_j` sums their parts in first and last quanta."""

    dynamic_j: Floats
    valid: NDArray[np.bool_]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    edge_j: Floats
    everywhere: bool

    @classmethod
    def of(cls, quanta: Quanta, dynamic_j: Floats, rows: InstanceRows) -> _Bounds:
        """Find each instance's first and last quantum."""
        edges_ns = quanta.edges_ns
        first = locate(rows.start_ns, edges_ns)
        last = first.copy()
        spans = np.flatnonzero(rows.end_ns > values_at(np.append(edges_ns, MAX_NS), first))
        last[spans] = np.searchsorted(edges_ns, rows.end_ns[spans], side="left")
        valid = np.concatenate(([False], quanta.valid, [False]))
        return cls(padded(dynamic_j), valid, first, last, np.zeros(len(rows)), rows.package is None)

    def edge_part(
        self, quantum: NDArray[np.int32], shares: Shares, slot: NDArray[np.int32], place: Place, dynamic_j: Floats
    ) -> Floats:
        """Return by slot the joules of segments in their instance's first or last quantum, of `dynamic_j` in all."""
        first, last = (np.concatenate((np.array([-1], np.int32), one[place])) for one in (self.first, self.last))
        spans = first != last
        inside_j = np.where(spans, 0.0, dynamic_j)
        inside_j[0] = 0.0
        at = members(slot, spans)
        own = slot[at]
        at_edge = (quantum[at] == first[own]) | (quantum[at] == last[own])
        edge_j = shares.energy_j[at] * at_edge
        cut = np.flatnonzero(spans[slot[shares.at]])
        segment = shares.at[cut]
        number, own_first, own_last = np.searchsorted(at, segment), first[slot[segment]], last[slot[segment]]
        behind = (quantum[segment + 1] == own_first) | (quantum[segment + 1] == own_last)
        edge_j[number] = shares.head_j[cut] * at_edge[number] + shares.tail_j[cut] * behind
        return inside_j + sum_by(own, edge_j, len(first))

    def native_edge_part(
        self, native: NativeSegments, place: NDArray[np.intp], quantum: NDArray[np.int32], shares: Shares
    ) -> Floats:
        """Return the joules of native threads in each instance's first or last quantum; `place` is of rows of runs."""
        row = place[native.runs.row]
        first, last = self.first[row], self.last[row]
        own_j = native.in_quantum(quantum, shares, first)
        own_j += np.where(first != last, native.in_quantum(quantum, shares, last), 0.0)
        return sum_by(row, own_j, len(self.first))

    def finish(self, low_j: Floats, high_j: Floats, covered: NDArray[np.bool_]) -> None:
        """Widen the bounds by the dynamic energy of first and last quanta, less the shares in them."""
        low_j -= self.edge_j
        high_j -= self.edge_j
        spans = np.flatnonzero(self.last != self.first)
        most_j = values_at(self.dynamic_j, self.first)
        most_j[spans] += self.dynamic_j[self.last[spans]]
        # An instance without joules here may not have run on this package at all.
        high_j += most_j if self.everywhere else np.where(self.edge_j > 0, most_j, 0.0)
        covered |= values_at(self.valid, self.first)
        before = np.cumsum(self.valid)
        covered[spans] |= before[self.last[spans]] > before[self.first[spans]]


def settle(
    sharing: Sharing,
    groups: Sequence[JoinedSegments],
    pools: Sequence[Pool],
    joined: Joined,
    totals: Totals | None,
    edges: EdgeParts | None = None,
) -> Account:
    """Distribute one domain's joules and return its account; adds to `totals` if the domain counts, and to `edges`."""
    quanta = sharing.measured
    bounds = _Bounds.of(quanta, sharing.dynamic_j, joined.rows)
    tasks_j = runtime_j = 0.0
    for number, (group, place) in enumerate(zip(groups, joined.places, strict=False)):
        shares, static_j = sharing.shares_of(number)
        slot, count = group.slot, len(group.rows) + 1
        dynamic = sum_by(slot, shares.energy_j, count)
        runtime_j += float(dynamic[0])
        tasks_j += float(dynamic[1:].sum())
        if totals is not None and count > 1:
            quantum = sharing.quantum(number)
            edge = bounds.edge_part(quantum, shares, slot, place, dynamic)
            for target, value in ((totals.dynamic_j, dynamic), (bounds.edge_j, edge)):
                _add(target, place, value[1:])
            if edges is not None:
                edges.add(quantum, shares, slot, place)
        if static_j is not None:
            static = sum_by(slot, static_j, count)
            runtime_j += float(static[0])
            tasks_j += float(static[1:].sum())
            if totals is not None and count > 1:
                _add(totals.static_j, place, static[1:])
    kinds_j = np.zeros(4)
    for index, pool in enumerate(pools):
        kinds_j += _settle_pool(sharing, len(groups) + index, pool.segments, bounds, joined, totals, index, edges)
    if totals is not None:
        bounds.finish(totals.low_j, totals.high_j, totals.covered)
    if not quanta.valid.any():
        return Account(quanta.name, *[float("nan")] * 7)
    outside_j, native_j, spin_j, unidentified_j = kinds_j.tolist()
    return Account(
        quanta.name, quanta.measured_j, tasks_j + native_j, runtime_j + outside_j + sharing.unseen_j, sharing.other_j,
        sharing.idle_j, spin_j, unidentified_j,
    )  # fmt: skip


def _settle_pool(
    sharing: Sharing,
    index: int,
    native: NativeSegments,
    bounds: _Bounds,
    joined: Joined,
    totals: Totals | None,
    number: int,
    edges: EdgeParts | None,
) -> Floats:
    """Distribute the joules of one pool and return those of each kind."""
    shares, static_j = sharing.shares_of(index)
    energy_j = shares.energy_j if static_j is None else shares.energy_j + static_j
    kinds_j = sum_by(native.kind, energy_j, 4)
    if totals is None or totals.native is None:
        return kinds_j
    rows, place = joined.parts, joined.place
    dynamic = joined.to_rows(native.by_row(shares.energy_j, rows))
    totals.dynamic_j += dynamic
    own_j = dynamic
    if static_j is not None:
        static = joined.to_rows(native.by_row(static_j, rows))
        totals.static_j += static
        own_j = dynamic + static
    quantum = sharing.quantum(index)
    edge_j = bounds.native_edge_part(native, place, quantum, shares)
    bounds.edge_j += np.where(bounds.first != bounds.last, np.clip(edge_j, 0.0, dynamic), dynamic)
    totals.native.add(number, native, energy_j, own_j, joined)
    if edges is not None:
        edges.add_native(native, place, quantum, shares)
    return kinds_j


def _add(target: Floats, place: Place, values: Floats) -> None:
    if isinstance(place, slice):
        target[place] += values
    else:
        np.add.at(target, place, values)
