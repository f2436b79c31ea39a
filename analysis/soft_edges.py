"""Quanta whose edges are known only to lie in a window: there the two neighbours overlap.

Cut at the middle of its window, a quantum gets what ran in a neighbour's time and loses what ran in its own. Its joules
are then shared among the wrong instances, and always to the same side: where the cut gives it much of a hungry task it
looks as if that task drew little. So within the window a moment belongs to both quanta, to the later one the more the
further it lies (the chance that the edge was before it). Each quantum's joules are still given out whole.

What comes out are quanta again, cut finer, with the joules that fall into each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .load import Load
    from .quanta import Quanta

Floats = NDArray[np.float64]
STEPS = 6
WIDE = 0.1
"""Of the shorter neighbour: an edge whose window is narrower is cut at its middle."""
WAITING = 0.05
"""Of a busy core: idle claims its part where less runs."""


@dataclass(frozen=True)
class SoftEdges:
    """How the pieces of a domain's quanta belong to them.

    Attributes
    ----------
    measured : (k quanta) as the sensor resolved them.
    pieces : (m quanta) cut at both ends of each window and within it, joules not yet known.
    before, after : (m,) index of the two quanta a piece belongs to.
    part : (m,) of it that belongs to `after`.
    soft : (k + 1,) bool, edges of the quanta that are cut softly.
    """

    measured: Quanta
    pieces: Quanta
    before: NDArray[np.intp]
    after: NDArray[np.intp]
    part: Floats
    soft: NDArray[np.bool_]

    @property
    def owner(self) -> NDArray[np.int32]:
        """Return by padded index of a piece the padded index of the quantum that it belongs to most: (m + 2,)."""
        most = np.where(self.part >= 0.5, self.after, self.before) + 1
        return np.concatenate(([0], most, [len(self.measured) + 1])).astype(np.int32)

    def gathered(self, values: Floats) -> Floats:
        """Return what quanta hold of what their pieces hold: (k,)."""
        count = len(self.measured)
        return np.asarray(
            np.bincount(self.before, weights=values * (1 - self.part), minlength=count)
            + np.bincount(self.after, weights=values * self.part, minlength=count)
        )

    def mixed(self, values: Floats) -> Floats:
        """Return by piece the mean of its quanta's values: (m,)."""
        return np.asarray(values[self.before] * (1 - self.part) + values[self.after] * self.part)


def is_soft(quanta: Quanta) -> bool:
    """Tell whether any edge is known so badly that its quanta overlap there."""
    return bool(_soft(quanta).any())


def _soft(quanta: Quanta) -> NDArray[np.bool_]:
    length_s = np.diff(quanta.edges_ns) * 1e-9
    soft = np.zeros(len(quanta.edges_ns), bool)
    soft[1:-1] = quanta.window_s[1:-1] > WIDE * np.minimum(length_s[1:], length_s[:-1])
    soft[1:-1] &= quanta.valid[1:] & quanta.valid[:-1]
    return soft


def cut_softly(quanta: Quanta) -> SoftEdges:
    """Cut quanta into pieces: at both ends of each soft edge's window and within it, at the other edges themselves."""
    soft = _soft(quanta)
    window_ns = np.where(soft, quanta.window_s * 1e9, 0.0)
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
        window_s=np.zeros(len(owner) + 1),
    )
    return SoftEdges(
        quanta,
        pieces,
        np.where(whole, owner, np.maximum(number - 1, 0)),
        owner,
        np.where(whole, 1.0, (step + 0.5) / STEPS),
        soft,
    )


def fill(soft: SoftEdges, load: Load, dynamic_j: Floats, hidden_power: float) -> Load:
    """Return the load with its pieces' joules: each quantum's, by what ran in its pieces.

    Parameters
    ----------
    soft : the pieces
    load : what ran in them, with modelled energy
    dynamic_j : (k,) joules of the quanta above static ones
    hidden_power : modelled power of CPU time that no sample shows
    """
    piece_s = np.diff(soft.pieces.edges_ns) * 1e-9
    shared_s = np.maximum(soft.gathered(piece_s), 1e-12)
    ran = load.modelled()[1:-1] + hidden_power * (load.other_s + load.unseen_s)
    inside = soft.gathered(ran)
    idle = np.maximum(WAITING * hidden_power * shared_s - inside, 0.0) / shared_s
    idle = np.where(inside + idle > 0, idle, 1.0)
    rate = dynamic_j / (inside + idle * shared_s)
    energy_j = soft.mixed(rate) * ran + soft.mixed(rate * idle) * piece_s
    return replace(load, quanta=replace(soft.pieces, energy_j=energy_j))
