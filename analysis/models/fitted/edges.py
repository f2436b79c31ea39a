"""Estimates where in its window an edge between two quanta lies, from the joules on both sides.

A reading gives only a window in which the value changed. Known powers narrow it: a quantum with more joules than its
load explains began earlier or ended later, and its neighbour lost what it gained. Let E_q be the joules of a quantum,
A(t) the modelled joules up to t, and e_j the joules between edge j and the mean of its window. Then
E_q = mean A_(q+1) - mean A_q + e_(q+1) - e_q + the quantum's own noise. The prior variance of e is that of A over the
window, so the posterior needs one tridiagonal system, O(quanta). Quanta keep their joules; only their load
changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.overlaps import STEPS

if TYPE_CHECKING:
    from tprof.analysis.attribution.load import Load
    from tprof.analysis.attribution.overlaps import OverlappingQuanta
    from tprof.analysis.attribution.quanta import Quanta

Floats = NDArray[np.float64]
UNINFORMATIVE = 1e6
"""The noise of a quantum without information about its edges, as a multiple of their variance."""


def estimate_edges(split: OverlappingQuanta, load: Load, static_w: Floats, hidden_power: float, own_w: float) -> Quanta:
    """Return the quanta with each overlapping edge at its most likely place and with a narrower window.

    Parameters
    ----------
    split : the quanta and their pieces
    load : of the pieces, with modelled joules
    static_w : (k,) of the quanta
    hidden_power : modelled power of CPU time without samples
    own_w : variance of a quantum's own noise, joules squared per second
    """
    joules = window_joules(split, load, static_w, hidden_power)
    residual, variance = evidence(joules, split.measured.energy_j)
    moved, left = posterior(split.measured, residual, variance, own_w)
    edges_ns, window_s = place_edges(split.measured.edges_ns, split.measured.window_s, joules, moved, left)
    return replace(split.measured, edges_ns=edges_ns, window_s=window_s)


def evidence(joules: Floats, energy_j: Floats) -> tuple[Floats, Floats]:
    """Return what quanta, (k,), have more than their load explains, and the variance of that at each edge.

    Parameters
    ----------
    joules : (k + 1, STEPS + 1) as `window_joules` returns them
    energy_j : (k,) of the quanta
    """
    middle = (joules[:, 1:] + joules[:, :-1]) / 2
    return energy_j - np.diff(middle.mean(axis=1)), np.asarray(middle.var(axis=1))


def posterior(quanta: Quanta, residual: Floats, variance: Floats, own_w: float) -> tuple[Floats, Floats]:
    """Return by how many joules each edge is moved, and the square root of the remaining part of its variance.

    Parameters
    ----------
    quanta : all of a domain
    residual, variance : as `evidence` returns them
    own_w : variance of a quantum's own noise, joules squared per second
    """
    from scipy.linalg import solveh_banded  # noqa: PLC0415 - see averaging.py

    before, after = variance[:-1], variance[1:]
    own = own_w * np.diff(quanta.edges_ns) * 1e-9 + quanta.unit_j**2 / 6 + 1e-18
    # It is unknown when the values of the first and the last reading changed; invalid quanta carry no information.
    uninformative = ~quanta.valid
    uninformative[[0, -1]] = True
    own = np.where(uninformative, UNINFORMATIVE * (before + after + own), own)
    diagonal, beside = before + after + own, after[:-1]
    value = solveh_banded(np.array([np.append(0.0, -beside), diagonal]), np.where(uninformative, 0.0, residual))
    # The diagonal of the inverse follows from the pivots of both directions, the neighbouring diagonal from it.
    ahead, backward = _pivots(diagonal, beside), _pivots(diagonal[::-1], beside[::-1])[::-1]
    inverse = 1 / (ahead + backward - diagonal)
    moved, left = np.zeros(len(quanta) + 1), np.ones(len(quanta) + 1)
    moved[1:-1] = beside * -np.diff(value)
    gain = beside * (inverse[:-1] + inverse[1:] - 2 * beside / ahead[:-1] * inverse[1:])
    left[1:-1] = np.sqrt(np.clip(1 - gain, 0.0, 1.0))
    return moved, left


def window_joules(split: OverlappingQuanta, load: Load, static_w: Floats, hidden_power: float) -> Floats:
    """Return the modelled joules up to each point of each edge's window: (k + 1, STEPS + 1)."""
    quanta, pieces = split.measured, split.pieces
    ran = load.modelled()[1:-1] + hidden_power * load.hidden_s
    ran = ran + split.mean_by_piece(static_w) * np.diff(pieces.edges_ns) * 1e-9
    total = np.concatenate(([0.0], np.cumsum(ran)))
    window_ns = np.where(split.overlapping, quanta.window_s * 1e9, 0.0)
    points_ns = quanta.edges_ns[:, None] + np.round(window_ns[:, None] * (np.arange(STEPS + 1) / STEPS - 0.5))
    return np.asarray(np.interp(points_ns, pieces.edges_ns, total))


def _pivots(diagonal: Floats, beside: Floats) -> Floats:
    """Return the pivots of a tridiagonal system whose rows have `-beside` in common."""
    from scipy.linalg import lapack  # noqa: PLC0415 - see averaging.py

    return diagonal if len(diagonal) == 1 else np.asarray(lapack.dpttrf(diagonal, -beside)[0])


def place_edges(
    edges_ns: NDArray[np.int64], window_s: Floats, joules: Floats, moved: Floats, left: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Move edges to where the modelled joules are `moved` beyond their mean, and narrow their windows around it.

    Parameters
    ----------
    edges_ns, window_s, joules : of some edges
    moved, left : as `posterior` returns them
    """
    window_ns = window_s * 1e9
    target_j = ((joules[:, 1:] + joules[:, :-1]) / 2).mean(axis=1) + moved
    span = np.maximum(joules[:, -1] - joules[:, 0], 1e-300)
    # Power varies within a window of a millisecond: find the step, then the place in it.
    step = np.clip((joules <= target_j[:, None]).sum(axis=1) - 1, 0, STEPS - 1)
    rows = np.arange(len(target_j))
    below, above = joules[rows, step], joules[rows, step + 1]
    inside = np.clip((target_j - below) / np.maximum(above - below, 1e-9 * span), 0.0, 1.0)
    part = (step + inside) / STEPS - 0.5
    narrowed_ns = window_ns * left
    reach = np.maximum((window_ns - narrowed_ns) / 2, 0.0)
    shift_ns = np.clip(part * window_ns, -reach, reach)
    overlapping = joules[:, -1] > joules[:, 0]
    moved_ns = edges_ns + np.where(overlapping, np.round(shift_ns), 0.0).astype(np.int64)
    return moved_ns, np.where(overlapping, narrowed_ns, window_ns) * 1e-9
