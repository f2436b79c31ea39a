"""Joules of instances: the segments' shares added up by row, and what the sensor's resolution leaves open.

An instance's energy within its first and last quantum is the model's word; the sensor only says that it lies
between nothing and the whole dynamic energy of that quantum. This is the bound in energy_low_j and energy_high_j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .instances import NOT_YET, add_by_row

if TYPE_CHECKING:
    import numpy.typing as npt

    from .domain import DomainAttribution, Handed
    from .instances import Instances

    Floats = npt.NDArray[np.float64]


class InstanceEnergies:
    """Energy of each row over all counted domains."""

    def __init__(self, count: int) -> None:
        """Begin with nothing."""
        self.dynamic_j = np.zeros(count)
        self.static_j = np.zeros(count)
        self.low_j = np.zeros(count)
        self.high_j = np.zeros(count)
        self.covered = np.zeros(count, bool)

    def add(self, domain: DomainEnergies) -> None:
        """Add a counted domain's."""
        self.dynamic_j += domain.dynamic_j
        self.static_j += domain.static_j
        certain = domain.dynamic_j - domain.edge_j
        self.low_j += np.maximum(certain, 0.0) + domain.static_j
        self.high_j += np.maximum(certain + domain.open_j(), domain.dynamic_j) + domain.static_j
        self.covered |= domain.covered


class DomainEnergies:
    """Energy of each row in one domain."""

    def __init__(self, attribution: DomainAttribution, instances: Instances) -> None:
        """Find each row's first and last quantum."""
        count = instances.rows.count
        self.quanta = attribution.quanta
        self.whole_j = np.concatenate([[0.0], attribution.dynamic_j, [0.0]])
        self.valid = np.concatenate([[False], self.quanta.valid, [False]])
        self.valid_before = np.concatenate([[0], np.cumsum(self.valid)])
        edges = self.quanta.edges_ns
        start_ns = np.where(instances.start_ns == NOT_YET, 0, instances.start_ns)
        # One more than the quantum's index, so that "before the first" is 0.
        self.first = np.searchsorted(edges, start_ns, side="right").astype(np.int32)
        self.last = np.searchsorted(edges, instances.end_ns, side="left").astype(np.int32)
        self.last = np.maximum(self.last, self.first)
        self.dynamic_j = np.zeros(count)
        self.static_j = np.zeros(count)
        self.edge_j = np.zeros(count)
        self.covered = np.zeros(count, bool)

    def add(self, handed: Handed, row: npt.NDArray[np.int32]) -> None:
        """Add a thread's."""
        add_by_row(self.dynamic_j, row, handed.dynamic_j)
        add_by_row(self.static_j, row, handed.static_j)
        place = handed.placement
        quantum = place.quantum + np.int32(1)
        edge_j = np.where(place.inside & self._is_edge(row, quantum), handed.dynamic_j, 0.0)
        crossing = place.crossing
        rows = row[crossing]
        head = np.where(self._is_edge(rows, place.first + 1), handed.head_j, 0.0)
        edge_j[crossing] = head + np.where(self._is_edge(rows, place.last + 1), handed.tail_j, 0.0)
        add_by_row(self.edge_j, row, edge_j)
        owned = row >= 0
        self.covered[row[owned & place.inside & self.valid[quantum]]] = True
        seen = self.valid_before[place.last + 2] - self.valid_before[np.maximum(place.first + 1, 0)]
        self.covered[rows[(rows >= 0) & (seen > 0)]] = True

    def _is_edge(self, row: npt.NDArray[np.int32], quantum: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        if not len(self.first):
            return np.zeros(len(row), bool)
        return (self.first[row] == quantum) | (self.last[row] == quantum)

    def open_j(self) -> Floats:
        """Return the whole dynamic energy of each row's first and last quantum."""
        top = len(self.whole_j) - 1
        first, last = np.minimum(self.first, top), np.minimum(self.last, top)
        return self.whole_j[first] + np.where(last != first, self.whole_j[last], 0.0)
