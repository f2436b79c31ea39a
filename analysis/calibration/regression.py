"""The regression of a calibration: columns of equation 1, non-negative, weighted by relative error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

if TYPE_CHECKING:
    from .observations import Observations

Floats = NDArray[np.float64]
NAMES = ("a", "b", "c", "C1", "C2")
LEAST_W, MOST_W = 1e-9, 1e9
"""Bounds of the fitted power: rows are weighted by its inverse square, and no machine is outside."""
LEAST_COUNT = 1e-30
"""Lower bound of a column's largest count, by which its coefficient is divided."""


def columns_of(observations: Observations) -> tuple[Floats, tuple[str, ...]]:
    """Return the columns of a, b, c, C1 and C2, (n, 5), and the names of coefficients without a counter."""
    parts = {"a": observations.ipc, "b": observations.l2_gbs, "c": observations.llc_gbs}
    left_out = tuple(name for name, values in parts.items() if not (np.isfinite(values).all() and values.any()))
    counted = [np.zeros(len(observations)) if name in left_out else values for name, values in parts.items()]
    return np.column_stack([*counted, observations.active_cores, np.ones(len(observations))]), left_out


def solve(columns: Floats, power_w: Floats) -> Floats:
    """Return the coefficients, (k,), 0 or more, that minimise the squares of relative errors."""
    # Columns of similar size, since the solver has one tolerance. A negligible column gets no coefficient.
    size = np.abs(columns).max(axis=0)
    columns, size = np.where(size < LEAST_COUNT, 0.0, columns), np.maximum(size, LEAST_COUNT)
    model = LinearRegression(positive=True, fit_intercept=False)
    model.fit(columns / size, power_w, sample_weight=power_w**-2.0)
    return np.asarray(model.coef_ / size, np.float64)


def predict(columns: Floats, power: Floats) -> Floats:
    """Return watts, (n,)."""
    return np.asarray(columns @ power)
