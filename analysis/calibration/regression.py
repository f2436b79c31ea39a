"""The regression behind a calibration: columns of equation 1, non-negative, weighed by relative error."""

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
"""Of a power that is fitted: its square weighs the row, and no machine draws less or more."""
LEAST_COUNT = 1e-30
"""Of the largest count of a column: a coefficient is a power over it."""


def columns_of(observations: Observations) -> tuple[Floats, tuple[str, ...]]:
    """Return (n, 5) what a, b, c, C1 and C2 are multiplied with, and which of them no counter tells."""
    parts = {"a": observations.ipc, "b": observations.l2_gbs, "c": observations.llc_gbs}
    left_out = tuple(name for name, values in parts.items() if not (np.isfinite(values).all() and values.any()))
    counted = [np.zeros(len(observations)) if name in left_out else values for name, values in parts.items()]
    return np.column_stack([*counted, observations.active_cores, np.ones(len(observations))]), left_out


def solve(columns: Floats, power_w: Floats) -> Floats:
    """Return the coefficients, (k,), 0 or more, that make the squares of relative errors least."""
    # Columns of like size: the solver's tolerance is one for all. One of next to nothing has no coefficient.
    size = np.abs(columns).max(axis=0)
    columns, size = np.where(size < LEAST_COUNT, 0.0, columns), np.maximum(size, LEAST_COUNT)
    model = LinearRegression(positive=True, fit_intercept=False)
    model.fit(columns / size, power_w, sample_weight=power_w**-2.0)
    return np.asarray(model.coef_ / size, np.float64)


def predict(columns: Floats, power: Floats) -> Floats:
    """Return watts, (n,)."""
    return np.asarray(columns @ power)
