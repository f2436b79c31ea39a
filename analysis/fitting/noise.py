"""The noise of quanta: an error in an edge adds to one quantum what it takes from its neighbour.

The error of an edge moves power times that time from one quantum to the other. If the errors of edges are independent,
the covariance of neighbouring quanta is minus the variance of their common edge. The matrix is tridiagonal and its
Cholesky factor bidiagonal, so whitening costs O(quanta) per column. The diagonal also holds each quantum's own noise:
the spread between instances and the error of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky_banded, solve_banded

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Variances in joules squared.

    Attributes
    ----------
    before, after : (n,) of each quantum's first and last edge.
    linked : (n - 1,) whether a quantum's last edge is the next one's first.
    own : (n,) of the quantum itself.
    """

    before: Floats
    after: Floats
    linked: NDArray[np.bool_]
    own: Floats

    def whiten(self, columns: Floats) -> tuple[Floats, float]:
        """Return columns with independent unit noise, and the logarithm of the covariance's determinant.

        Parameters
        ----------
        columns : (n, m)
        """
        band = np.zeros((2, len(self.own)))
        band[0] = self.before + self.after + self.own
        band[1, :-1] = np.where(self.linked, -self.after[:-1], 0.0)
        factor = cholesky_banded(band, lower=True)
        return np.asarray(solve_banded((1, 0), factor, columns)), float(2 * np.log(factor[0]).sum())


def edge_variance(power_w: Floats, window_s: Floats, unit_j: float) -> Floats:
    """Return the variance of joules at each edge: uniform in its window, and rounded to whole counts.

    Parameters
    ----------
    power_w : (n + 1,) of the domain around each edge
    window_s : (n + 1,)
    unit_j : one count
    """
    return np.asarray(((power_w * window_s) ** 2 + unit_j**2) / 12)
