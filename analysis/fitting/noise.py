"""The noise of quanta: what a late edge gives to one quantum it takes from its neighbour.

An edge that really lay a little earlier moves power times that time from the quantum after it to the one before. With
independent errors of the edges the covariance of neighbouring quanta is minus the variance of their common edge: a
tridiagonal matrix, whose Cholesky factor is bidiagonal, so that whitening costs O(quanta) a column. A part on the
diagonal holds what is each quantum's own: the spread between instances, and what the model does not know.
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
    """Return the variance of joules at each edge: anywhere in its window, and cut to whole counts.

    Parameters
    ----------
    power_w : (n + 1,) of the domain around each edge
    window_s : (n + 1,)
    unit_j : one count
    """
    return np.asarray(((power_w * window_s) ** 2 + unit_j**2) / 12)
