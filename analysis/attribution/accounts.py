"""Books one domain's joules to accounts: tasks, runtime, other, idle; their sum is the measured energy.

In its first and its last quantum an instance may have drawn anything between 0 and the quantum's whole
dynamic energy. The model shares the quanta between them; the bounds do not include its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .segment_energy import Shares, padded, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instances import InstanceRows, Joined
    from .quanta import Quanta
    from .segments import Segments
    from .sharing import Sharing

Floats = NDArray[np.float64]


@dataclass
class Totals:
    """Joules of each instance, summed over the domains that count; `covered` if any quantum holds it."""

    dynamic_j: Floats
    static_j: Floats
    low_j: Floats
    high_j: Floats
    covered: NDArray[np.bool_]

    @classmethod
    def zeros(cls, rows: int) -> Totals:
        """Start with zeros."""
        return cls(np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows, bool))


@dataclass(frozen=True)
class Account:
    """One domain's joules by account; NaN if it measured none."""

    domain: str
    measured_j: float
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float


@dataclass
class _Bounds:
    """Bounds of the instances in one domain; `edge_j` sums their parts in first and last quanta."""

    dynamic_j: Floats
    valid_before: NDArray[np.int64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    edge_j: Floats
    everywhere: bool

    @classmethod
    def of(cls, quanta: Quanta, dynamic_j: Floats, rows: InstanceRows) -> _Bounds:
        """Find each instance's first and last quantum."""
        first = np.searchsorted(quanta.edges_ns, rows.start_ns, side="right").astype(np.int32)
        last = np.searchsorted(quanta.edges_ns, rows.end_ns, side="left").astype(np.int32)
        valid = np.cumsum(np.concatenate(([False], quanta.valid, [False])))
        return cls(padded(dynamic_j), valid, first, np.maximum(first, last), np.zeros(len(rows)), rows.package is None)

    def edge_part(
        self, quantum: NDArray[np.int32], shares: Shares, slot: NDArray[np.int32], place: slice | NDArray[np.intp]
    ) -> Floats:
        """Return by slot the joules of segments in their instance's first or last quantum."""
        first = np.concatenate((np.array([-1], np.int32), self.first[place]))
        last = np.concatenate((np.array([-1], np.int32), self.last[place]))
        own_first, own_last = first[slot], last[slot]
        at_edge = (quantum[:-1] == own_first) | (quantum[:-1] == own_last)
        edge_j = shares.energy_j * at_edge
        at = shares.at
        behind = (quantum[at + 1] == own_first[at]) | (quantum[at + 1] == own_last[at])
        edge_j[at] = shares.head_j * at_edge[at] + shares.tail_j * behind
        return sum_by(slot, edge_j, len(first))

    def finish(self, low_j: Floats, high_j: Floats, covered: NDArray[np.bool_]) -> None:
        """Widen the bounds by the dynamic energy of first and last quanta, less the shares in them."""
        low_j -= self.edge_j
        # An instance without joules here may not have run on this package at all.
        high_j -= self.edge_j
        here = self.everywhere | (self.edge_j > 0)
        high_j += np.where(here, self.dynamic_j[self.first], 0.0)
        high_j += np.where(here & (self.last != self.first), self.dynamic_j[self.last], 0.0)
        before = np.maximum(self.first - 1, 0)
        covered |= self.valid_before[self.last] > self.valid_before[before]


def settle(sharing: Sharing, segments: Sequence[Segments], joined: Joined, totals: Totals | None) -> Account:
    """Distribute one domain's joules and return its account; adds to `totals` if the domain counts."""
    quanta = sharing.measured
    bounds = _Bounds.of(quanta, sharing.dynamic_j, joined.rows)
    tasks_j = runtime_j = 0.0
    for index, thread in enumerate(segments):
        shares, static_j = sharing.segment_shares(index)
        count = len(thread.rows) + 1
        dynamic = sum_by(thread.slot, shares.energy_j, count)
        runtime_j += float(dynamic[0])
        tasks_j += float(dynamic[1:].sum())
        if totals is not None and count > 1:
            place = joined.places[index]
            edge = bounds.edge_part(sharing.quantum(index), shares, thread.slot, place)
            for target, value in ((totals.dynamic_j, dynamic), (bounds.edge_j, edge)):
                _add(target, place, value[1:])
        if static_j is not None:
            static = sum_by(thread.slot, static_j, count)
            runtime_j += float(static[0])
            tasks_j += float(static[1:].sum())
            if totals is not None and count > 1:
                _add(totals.static_j, joined.places[index], static[1:])
    if totals is not None:
        bounds.finish(totals.low_j, totals.high_j, totals.covered)
    if not quanta.valid.any():
        return Account(quanta.name, *[float("nan")] * 5)
    return Account(
        quanta.name, quanta.measured_j, tasks_j, runtime_j + sharing.unseen_j, sharing.other_j, sharing.idle_j
    )


def _add(target: Floats, place: slice | NDArray[np.intp], values: Floats) -> None:
    if isinstance(place, slice):
        target[place] += values
    else:
        np.add.at(target, place, values)
