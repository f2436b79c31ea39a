"""Overlapping quanta: where an edge is known only to lie in a window, its two quanta overlap.

A cut at the middle of the window gives a quantum some of its neighbour's load and takes some of its own. Its joules
then go to the wrong instances, with a bias: if the cut adds much of a power-hungry task, that task seems to draw
little. So each moment of the window belongs to both quanta; the part of the later one is the probability that the edge
lies before that moment. All joules of each quantum are still distributed.

The result is again quanta, cut finer, each with its joules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.bounds import LEAST_BUSY_CORES

if TYPE_CHECKING:
    from .load import Load
    from .quanta import Quanta

Floats = NDArray[np.float64]
STEPS = 6
WIDE_WINDOW = 0.1
"""Part of the shorter neighbour: an edge with a narrower window is cut at its middle."""


@dataclass(frozen=True)
class OverlappingQuanta:
    """How the pieces of a domain's quanta belong to them.

    Attributes
    ----------
    measured : (k quanta) as the sensor resolved them.
    pieces : (m quanta) cut at both ends of each window and within it, without joules yet.
    before, after : (m,) index of the two quanta that a piece belongs to.
    part : (m,) the part of the piece that belongs to `after`.
    overlapping : (k + 1,) bool, edges at which two quanta overlap.
    """

    measured: Quanta
    pieces: Quanta
    before: NDArray[np.intp]
    after: NDArray[np.intp]
    part: Floats
    overlapping: NDArray[np.bool_]

    @property
    def owner(self) -> NDArray[np.int32]:
        """Return for each piece the quantum that it belongs to most, both as padded indices: (m + 2,)."""
        most = np.where(self.part >= 0.5, self.after, self.before) + 1
        return np.concatenate(([0], most, [len(self.measured) + 1])).astype(np.int32)

    def sum_by_quantum(self, values: Floats) -> Floats:
        """Sum the values of the pieces over each quantum: (k,)."""
        count = len(self.measured)
        return np.asarray(
            np.bincount(self.before, weights=values * (1 - self.part), minlength=count)
            + np.bincount(self.after, weights=values * self.part, minlength=count)
        )

    def mean_by_piece(self, values: Floats) -> Floats:
        """Return for each piece the weighted mean of its two quanta's values: (m,)."""
        return np.asarray(values[self.before] * (1 - self.part) + values[self.after] * self.part)


def has_overlaps(quanta: Quanta) -> bool:
    """Return whether any edge is so uncertain that its quanta overlap."""
    return bool(_overlapping_edges(quanta).any())


def _overlapping_edges(quanta: Quanta) -> NDArray[np.bool_]:
    length_s = np.diff(quanta.edges_ns) * 1e-9
    overlapping = np.zeros(len(quanta.edges_ns), bool)
    overlapping[1:-1] = quanta.window_s[1:-1] > WIDE_WINDOW * np.minimum(length_s[1:], length_s[:-1])
    overlapping[1:-1] &= quanta.valid[1:] & quanta.valid[:-1]
    return overlapping


def split_overlaps(quanta: Quanta) -> OverlappingQuanta:
    """Cut quanta into pieces: within the windows of overlapping edges and at their ends, and at the other edges."""
    overlapping = _overlapping_edges(quanta)
    window_ns = np.where(overlapping, quanta.window_s * 1e9, 0.0)
    steps = np.round(window_ns[:, None] * (np.arange(STEPS + 1) / STEPS - 0.5)).astype(np.int64)
    points_ns = np.maximum.accumulate((quanta.edges_ns[:, None] + steps).ravel())
    number, step = np.divmod(np.arange(len(points_ns) - 1), STEPS + 1)
    kept = np.diff(points_ns) > 0
    number, step = number[kept], step[kept]
    whole = step == STEPS
    owner = np.minimum(number, len(quanta) - 1)
    pieces = replace(
        quanta,
        edges_ns=np.append(points_ns[:-1][kept], points_ns[-1]),
        energy_j=np.zeros(len(owner)),
        valid=quanta.valid[owner],
        stuck=quanta.stuck[owner],
        unread=None,
        window_s=np.zeros(len(owner) + 1),
    )
    return OverlappingQuanta(
        quanta,
        pieces,
        np.where(whole, owner, np.maximum(number - 1, 0)),
        owner,
        np.where(whole, 1.0, (step + 0.5) / STEPS),
        overlapping,
    )


def distribute_energy(split: OverlappingQuanta, load: Load, dynamic_j: Floats, hidden_power: float) -> Load:
    """Return the load with joules in its pieces: those of each quantum, in proportion to the load of its pieces.

    Parameters
    ----------
    split : the pieces
    load : of the pieces, with modelled energy
    dynamic_j : (k,) joules of the quanta above the static ones
    hidden_power : modelled power of CPU time without samples
    """
    piece_s = np.diff(split.pieces.edges_ns) * 1e-9
    shared_s = np.maximum(split.sum_by_quantum(piece_s), 1e-12)
    ran = load.modelled()[1:-1] + hidden_power * load.hidden_s
    inside = split.sum_by_quantum(ran)
    idle = np.maximum(LEAST_BUSY_CORES * hidden_power * shared_s - inside, 0.0) / shared_s
    idle = np.where(inside + idle > 0, idle, 1.0)
    rate = dynamic_j / (inside + idle * shared_s)
    energy_j = split.mean_by_piece(rate) * ran + split.mean_by_piece(rate * idle) * piece_s
    return replace(load, quanta=replace(split.pieces, energy_j=energy_j))
