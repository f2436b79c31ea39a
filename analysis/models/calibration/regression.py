"""The regression of a calibration, non-negative and weighted by relative error, and the goodness of its fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_percentage_error, r2_score
from sklearn.model_selection import LeaveOneGroupOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .observations import Observations

Floats = NDArray[np.float64]
NAMES = ("a", "b", "c", "C1", "C2")
LEAST_W, MOST_W = 1e-9, 1e9
"""Bounds of the fitted power: rows are weighted by its inverse square, and no machine is outside."""
LEAST_COUNT = 1e-30
"""Lower bound of a column's largest count, by which its coefficient is divided."""
RESAMPLED = 300
COLLINEAR = 10.0
"""A coefficient with a larger variance inflation factor is uncertain (a common rule)."""
NEARLY_ONE_CORE_COUNT = 0.25


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


@dataclass(frozen=True)
class GoodnessOfFit:
    """Errors and uncertainty of a fit.

    Attributes
    ----------
    r2 : part of the power's variance that the fit explains.
    error : mean absolute relative error on the runs it was fitted to.
    left_out_error : the same error of each kernel predicted from the others; NaN for a single kernel.
    mean_error : the same error of the mean power of the others as the prediction.
    residual_share : root mean square relative error on the kernels left out: the model's own error.
    intervals : 95 % interval of each coefficient, by resampling whole kernels.
    inflation : variance inflation factor of each coefficient but C2; NaN for a column of zeros.
    warnings : sentences.
    """

    r2: float
    error: float
    left_out_error: float
    mean_error: float
    residual_share: float
    intervals: dict[str, tuple[float, float]]
    inflation: dict[str, float]
    warnings: tuple[str, ...]


def assess(observations: Observations, columns: Floats, power: Floats) -> GoodnessOfFit:
    """Assess the fit `power` of `columns` to the runs' watts."""
    watts, kernel = observations.power_w, observations.kernel
    fitted = predict(columns, power)
    left_out, mean = left_out_predictions(columns, watts, kernel)
    inflation = {name: inflation_of(columns[:, :-1], place) for place, name in enumerate(NAMES[:-1])}
    return GoodnessOfFit(
        float(r2_score(watts, fitted)),
        float(mean_absolute_percentage_error(watts, fitted)),
        _relative(left_out, watts),
        _relative(mean, watts),
        float(np.sqrt(np.mean((left_out / watts - 1) ** 2))),
        resampled_intervals(columns, watts, kernel, NAMES),
        inflation,
        tuple(_warnings(observations, inflation)),
    )


def left_out_predictions(columns: Floats, watts: Floats, group: NDArray[np.str_]) -> tuple[Floats, Floats]:
    """Predict each group from the others, by the fit and by their mean power; NaN for a single group."""
    by_fit, by_mean = np.full(len(watts), np.nan), np.full(len(watts), np.nan)
    if len(np.unique(group)) > 1:
        for train, test in LeaveOneGroupOut().split(columns, watts, group):
            by_fit[test] = predict(columns[test], solve(columns[train], watts[train]))
            by_mean[test] = watts[train].mean()
    return by_fit, by_mean


def _relative(predicted: Floats, watts: Floats) -> float:
    return float(np.abs(predicted / watts - 1).mean())


def resampled_intervals(
    columns: Floats, watts: Floats, group: NDArray[np.str_], of: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return the 95 % bootstrap interval of each column's coefficient, by resampling whole groups."""
    names = np.unique(group)
    rows = [np.flatnonzero(group == name) for name in names]

    def coefficients(drawn: NDArray[np.intp], axis: int = -1) -> Floats:
        del axis  # the last one, whose places are groups
        taken = [np.concatenate([rows[place] for place in groups]) for groups in np.atleast_2d(drawn)]
        return np.transpose([solve(columns[each], watts[each]) for each in taken])

    groups = np.arange(len(names))
    if len(names) < 2:
        low = high = coefficients(groups)[:, 0]
    else:
        low, high = bootstrap(
            (groups,), coefficients, n_resamples=RESAMPLED, vectorized=True, method="percentile",
            random_state=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
    return dict(zip(of, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def inflation_of(columns: Floats, place: int) -> float:
    """Return the variance inflation factor of one of (n, k) columns; NaN where it is all zeros."""
    own, others = columns[:, place], np.delete(columns, place, axis=1)
    if not own.any():
        return float("nan")
    if np.ptp(own) == 0:
        return float("inf")
    if not others.shape[1]:
        return 1.0
    explained = float(LinearRegression().fit(others, own).score(others, own))
    return 1 / max(1 - explained, 1e-12)


def _warnings(observations: Observations, inflation: dict[str, float]) -> list[str]:
    out = []
    uncertain = [name for name, factor in inflation.items() if factor > COLLINEAR]
    if uncertain:
        out.append(
            f"{', '.join(uncertain)} can hardly be separated from the other coefficients (variance inflation above "
            f"{COLLINEAR:g}): their sum is known, each is not; add kernels that stress one part alone"
        )
    cores = observations.active_cores
    if cores.std() < NEARLY_ONE_CORE_COUNT * cores.mean() / 2:
        out.append("the numbers of active cores hardly differ: C1 and C2 can hardly be separated")
    return out
