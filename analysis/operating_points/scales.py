"""Standard deviations that are themselves known with few degrees of freedom: of a run's noise, of what no law explains.

The square of such a scale has a scaled inverse chi-squared distribution, so deviations of the scale have Student's t.
With few degrees of freedom its tails are heavier than normal: a single run is sometimes far off.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVELS = 16
NORMAL_95 = 1.96
"""How many standard deviations each side hold 95 % of a normal distribution; `student` does so of Student's t."""
LOG_STUDENT_95 = (
    0.67292621, 1.21035357, 0.70783683, 0.14999909, -0.2260202, -0.07943067, 0.14145934, -0.00338364, -0.04810833,
    0.01645837,
)  # fmt: skip
"""Coefficients by rising power of 1 / freedom, fitted at the nodes of Chebyshev polynomials to the exact values."""
PLACE = 0.58
"""Above the middle of each step, since large scales make the tails: 97.5 % is then where Student's t has it."""
QUANTILES = np.array([NormalDist().inv_cdf((place + PLACE) / LEVELS) for place in range(LEVELS)])
CERTAIN = 1e6
"""Degrees of freedom of a scale that is known."""


@dataclass(frozen=True)
class Scale:
    """A relative standard deviation and its degrees of freedom."""

    value: float
    freedom: float = CERTAIN

    def updated(self, squares: float, freedom: float) -> Scale:
        """Return the scale after deviations with this sum of squares and so many degrees of freedom."""
        total = self.freedom + freedom
        return Scale(float(np.sqrt((self.freedom * self.value**2 + squares) / total)), total)

    def times(self, factor: float) -> Scale:
        """Return the scale in another unit."""
        return Scale(self.value * factor, self.freedom)


def levels(freedom: float) -> Floats:
    """Return equally probable standard deviations, (LEVELS,) rising, relative to a scale's value.

    The quantiles of chi-squared are Wilson's and Hilferty's, right to 3 % from three degrees of freedom on.
    """
    part = 2 / (9 * freedom)
    return np.asarray(np.maximum(1 - part - QUANTILES * np.sqrt(part), 0.1) ** -1.5)


def student(freedom: ArrayLike) -> Floats:
    """Return how many standard deviations each side hold 95 % of Student's t; NaN below one degree of freedom.

    A polynomial stands for the logarithm over 1 / freedom, right to 2e-7: SciPy takes long to load.
    """
    given = np.asarray(freedom, np.float64)
    logarithm = np.polynomial.polynomial.polyval(1 / np.where(given >= 1, given, np.nan), LOG_STUDENT_95)
    return np.asarray(np.exp(logarithm), np.float64)
