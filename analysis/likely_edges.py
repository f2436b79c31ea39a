"""Where in its window an edge between two quanta most likely lies, by the joules on both sides.

A reading says that the value changed within a window. With powers that are known the joules say more: a quantum that
holds more than what ran in it began earlier or ended later, and what one gains its neighbour lost. With E_q the joules
of a quantum, A(t) the joules that ran up to t by the powers, and e_j the joules by which edge j lies off the mean of
its window, E_q = mean A_(q+1) - mean A_q + e_(q+1) - e_q + the quantum's own noise. Prior variances of e are those of A
over the windows, so the posterior needs one tridiagonal system, O(quanta). Quanta keep their joules; only who ran in
them becomes clearer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .soft_edges import STEPS

if TYPE_CHECKING:
    from .load import Load
    from .quanta import Quanta
    from .soft_edges import SoftEdges

Floats = NDArray[np.float64]
UNTOLD = 1e6
"""Times the variance of its edges: the own noise of a quantum that says nothing of them."""


def likely_edges(soft: SoftEdges, load: Load, static_w: Floats, hidden_power: float, own_w: float) -> Quanta:
    """Return the quanta with each soft edge where it most likely lies, in the window that is left of its own.

    Parameters
    ----------
    soft : the quanta and their pieces
    load : what ran in the pieces, with modelled joules
    static_w : (k,) of the quanta
    hidden_power : modelled power of CPU time that no sample shows
    own_w : variance of a quantum's own noise, joules squared a second
    """
    quanta = soft.measured
    joules = _running(soft, load, static_w, hidden_power)
    middle = (joules[:, 1:] + joules[:, :-1]) / 2
    mean, variance = middle.mean(axis=1), middle.var(axis=1)
    residual = quanta.energy_j - np.diff(mean)
    length_s = np.diff(quanta.edges_ns) * 1e-9
    own = own_w * length_s + quanta.unit_j**2 / 6 + 1e-18
    # Of the first and the last reading nobody saw when their values changed; invalid quanta say nothing.
    untold = ~quanta.valid
    untold[[0, -1]] = True
    own = np.where(untold, UNTOLD * (variance[1:] + variance[:-1] + own), own)
    moved, left = _posterior(np.where(untold, 0.0, residual), variance, own)
    return _moved(quanta, joules, mean + moved, np.sqrt(left))


def _running(soft: SoftEdges, load: Load, static_w: Floats, hidden_power: float) -> Floats:
    """Return the joules that ran up to each point of each edge's window: (k + 1, STEPS + 1)."""
    quanta, pieces = soft.measured, soft.pieces
    ran = load.modelled()[1:-1] + hidden_power * (load.other_s + load.unseen_s)
    ran = ran + soft.mixed(static_w) * np.diff(pieces.edges_ns) * 1e-9
    total = np.concatenate(([0.0], np.cumsum(ran)))
    window_ns = np.where(soft.soft, quanta.window_s * 1e9, 0.0)
    points_ns = quanta.edges_ns[:, None] + np.round(window_ns[:, None] * (np.arange(STEPS + 1) / STEPS - 0.5))
    return np.asarray(np.interp(points_ns, pieces.edges_ns, total))


def _posterior(residual: Floats, variance: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Return the posterior mean of what each edge moved, in joules, and the part of its variance that is left."""
    from scipy.linalg import cho_solve_banded, cholesky_banded  # noqa: PLC0415 - see `_fitted` in build.py

    inner = variance[1:-1]
    band = np.zeros((2, len(residual)))
    band[1] = variance[1:] + variance[:-1] + own
    band[0, 1:] = -inner
    upper = cholesky_banded(band)
    solved = cho_solve_banded((upper, False), residual)
    moved = np.zeros(len(variance))
    moved[1:-1] = inner * (solved[:-1] - solved[1:])
    # The inverse's diagonal from the pivots of both directions, its neighbours from that.
    forward = upper[1] ** 2
    backward = cholesky_banded(np.array([np.append(0.0, band[0, :0:-1]), band[1, ::-1]]))[1][::-1] ** 2
    diagonal = 1 / (forward + backward - band[1])
    beside = inner / forward[:-1] * diagonal[1:]
    gain = inner * (diagonal[:-1] + diagonal[1:] - 2 * beside)
    left = np.ones(len(variance))
    left[1:-1] = np.clip(1 - gain, 0.0, 1.0)
    return moved, left


def _moved(quanta: Quanta, joules: Floats, wanted: Floats, left: Floats) -> Quanta:
    """Put each edge where that many joules had run, and narrow its window around it."""
    window_ns = quanta.window_s * 1e9
    span = np.maximum(joules[:, -1] - joules[:, 0], 1e-300)
    # Within a window of a millisecond power is not even: find the step, then the place in it.
    step = np.clip((joules <= wanted[:, None]).sum(axis=1) - 1, 0, STEPS - 1)
    rows = np.arange(len(wanted))
    below, above = joules[rows, step], joules[rows, step + 1]
    inside = np.clip((wanted - below) / np.maximum(above - below, 1e-9 * span), 0.0, 1.0)
    part = (step + inside) / STEPS - 0.5
    narrowed_ns = window_ns * left
    reach = np.maximum((window_ns - narrowed_ns) / 2, 0.0)
    shift_ns = np.clip(part * window_ns, -reach, reach)
    soft = joules[:, -1] > joules[:, 0]
    edges_ns = quanta.edges_ns + np.where(soft, np.round(shift_ns), 0.0).astype(np.int64)
    return replace(quanta, edges_ns=edges_ns, window_s=np.where(soft, narrowed_ns, window_ns) * 1e-9)
