"""Uncertainty of figures: bounds from the sensor's resolution, intervals of means.

In its first and its last quantum an instance may have drawn anything between 0 and the quantum's whole
dynamic energy. The model shares the quanta between them; these bounds do not include its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import Shares, padded, sum_by

if TYPE_CHECKING:
    from tprof.analysis.instances import InstanceRows
    from tprof.analysis.quanta import Quanta

    from tprof.trace.estimate import WattsError

Floats = NDArray[np.float64]
_NORMAL_95 = 1.96


@dataclass
class Bounds:
    """Bounds of the instances in one domain; `edge_j` sums their parts in first and last quanta."""

    dynamic_j: Floats
    valid_before: NDArray[np.int64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    edge_j: Floats
    everywhere: bool

    @classmethod
    def of(cls, quanta: Quanta, dynamic_j: Floats, rows: InstanceRows) -> Bounds:
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


def mean_interval(
    mean: Floats, std: Floats, count: NDArray[np.int64], resolution_j: Floats, model_error_j: Floats
) -> tuple[Floats, Floats]:
    """Return the 95 % interval of mean energies.

    Parameters
    ----------
    mean, std : (k,) float64, joules; std is NaN for a single instance
    count : (k,) instances
    resolution_j : (k,) float64, root mean square of the instances' half bounds, joules
    model_error_j : (k,) float64, standard error of the power model, joules; 0 if unknown

    Notes
    -----
    The spread between instances, the sensor's resolution (as a uniform error, independent between
    instances) and the model's error (the same for all of them) add in squares.
    """
    spread_j = np.where(count > 1, np.nan_to_num(std), 0.0)
    half = _NORMAL_95 * np.sqrt((spread_j**2 + resolution_j**2 / 3.0) / np.maximum(count, 1) + model_error_j**2)
    return np.maximum(mean - half, 0.0), mean + half


def widened(low_j: Floats, high_j: Floats, static_j: Floats, error: WattsError) -> tuple[Floats, Floats]:
    """Return an interval that includes the error of an estimate's watts.

    Parameters
    ----------
    low_j, high_j : (k,) float64, joules; the interval if the watts were exact
    static_j : (k,) float64, joules; the part of the energy that is static power
    error : of the idle watts, which are static power, and of the watts of busy cores, which are the rest

    Notes
    -----
    An estimate is idle watts times time plus busy watts times busy time, so energies are linear in both. The interval
    covers every combination of watts within the error.
    """
    static_low_j = np.minimum(low_j, static_j)
    low = static_low_j / error.idle + (low_j - static_low_j) / error.busy
    return low, static_j * error.idle + (high_j - static_j) * error.busy


def narrowed(low_j: Floats, high_j: Floats, static_j: Floats, error: WattsError) -> tuple[Floats, Floats]:
    """Undo `widened`, for comparisons between figures with the same assumed watts."""
    least_j = static_j / error.idle
    low = np.where(low_j < least_j, low_j * error.idle, static_j + (low_j - least_j) * error.busy)
    return low, static_j + (high_j - static_j * error.idle) / error.busy


def fitted_interval(mean: Floats, std: Floats, count: NDArray[np.int64], error_j: Floats) -> tuple[Floats, Floats]:
    """Return the 95 % interval of mean energies whose powers were fitted.

    Parameters
    ----------
    mean, std : (k,) float64, joules; std is NaN for a single instance
    count : (k,) instances
    error_j : (k,) standard error of the mean from the fit, joules

    Notes
    -----
    The fit's error and that of sampling instances add in squares.
    """
    spread_j = np.where(count > 1, np.nan_to_num(std), 0.0)
    half = _NORMAL_95 * np.sqrt(error_j**2 + spread_j**2 / np.maximum(count, 1))
    return np.maximum(mean - half, 0.0), mean + half
