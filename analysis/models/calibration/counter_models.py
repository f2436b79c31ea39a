"""Fits power to any counters: a linear model, which is interpretable, and a curve, which predicts better.

The linear model (non-negative, relative errors, as for equation 1) has a coefficient for each counter. Power is not
linear in the counters: it saturates as threads share cores and caches. The curve is the mean, in the logarithm of
watts, of two estimators with different errors outside their data: averaged trees, which never leave the range of their
training data, and a smooth kernel regression. Their settings are fixed, not tuned to a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, VotingRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from tprof.errors import UsageError

from .regression import COLLINEAR, inflation_of, predict, resampled_intervals, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measured_runs import Table

Floats = NDArray[np.float64]
LEAST_ROWS = 20
MOST_ROWS = 4000
"""Most rows for the curve, whose cost is quadratic; it uses a sample of a longer table."""
INTERCEPT = "constant"


@dataclass(frozen=True)
class CounterFit:
    """Power as a function of counters.

    Attributes
    ----------
    coefficients : watts per unit of each counter, and `constant` watts; 0 or more.
    intervals, inflation : as in `GoodnessOfFit`.
    r2 : of the linear model on all rows.
    line_error, curve_error, mean_error : mean absolute relative error with each group predicted from the others.
    by_group : the curve's error of each group.
    rows, groups : their numbers.
    warnings : sentences.
    """

    coefficients: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    inflation: dict[str, float]
    r2: float
    line_error: float
    curve_error: float
    mean_error: float
    by_group: dict[str, float]
    rows: int
    groups: int
    warnings: tuple[str, ...]


def fit_counters(table: Table, progress: Callable[[str], None] | None = None) -> CounterFit:
    """Fit power to a table's counters.

    Parameters
    ----------
    table
        Twenty rows or more, of two groups or more.
    progress
        Called with the group that is left out.

    Raises
    ------
    UsageError
        If there are too few rows, or only one group: cross-validation is then impossible.
    """
    if len(table.power_w) < LEAST_ROWS:
        raise UsageError(f"a fit needs at least {LEAST_ROWS} rows, got {len(table.power_w)}")
    names = np.unique(table.group)
    if len(names) < 2:
        raise UsageError(
            f'all rows are of one group ("{names[0]}"): name a column with --group that distinguishes programs'
        )
    line, curve, mean = _left_out(table, progress)
    columns = _with_constant(table.counters)
    power = solve(columns, table.power_w)
    of = (*table.names, INTERCEPT)
    inflation = {name: inflation_of(table.counters, place) for place, name in enumerate(table.names)}
    collinear = [name for name, factor in inflation.items() if factor > COLLINEAR]
    error = np.abs(curve / table.power_w - 1)
    return CounterFit(
        dict(zip(of, power.tolist(), strict=True)),
        resampled_intervals(columns, table.power_w, table.group, of),
        inflation,
        float(r2_score(table.power_w, predict(columns, power))),
        float(np.abs(line / table.power_w - 1).mean()),
        float(error.mean()),
        float(np.abs(mean / table.power_w - 1).mean()),
        {str(name): float(error[table.group == name].mean()) for name in names},
        len(table.power_w),
        len(names),
        (f"{', '.join(collinear)} can hardly be separated from the other counters (inflation)",) if collinear else (),
    )


def _left_out(table: Table, progress: Callable[[str], None] | None) -> tuple[Floats, Floats, Floats]:
    line, curve, mean = (np.empty(len(table.power_w)) for _ in range(3))
    random = np.random.default_rng(0)
    for train, test in LeaveOneGroupOut().split(table.counters, table.power_w, table.group):
        if progress is not None:
            progress(str(table.group[test[0]]))
        watts = table.power_w[train]
        mean[test] = watts.mean()
        line[test] = predict(_with_constant(table.counters[test]), solve(_with_constant(table.counters[train]), watts))
        kept = random.choice(train, min(len(train), MOST_ROWS), replace=False)
        fitted = _curve(len(table.names)).fit(table.counters[kept], table.power_w[kept])
        curve[test] = fitted.predict(table.counters[test])
    return line, curve, mean


def _with_constant(counters: Floats) -> Floats:
    return np.column_stack([counters, np.ones(len(counters))])


def _curve(counters: int) -> Any:
    trees = ExtraTreesRegressor(n_estimators=200, min_samples_leaf=20, max_features=0.5, random_state=0, n_jobs=-1)
    kernel = make_pipeline(StandardScaler(), SVR(C=1.0, gamma=0.5 / counters, epsilon=0.02))
    return TransformedTargetRegressor(
        VotingRegressor([("trees", trees), ("kernel", kernel)]), func=np.log, inverse_func=np.exp
    )
