"""Fits power to any counters: a linear model, which is interpretable, and a curve, which sometimes predicts better.

The linear model (non-negative, relative errors, as for equation 1) has a coefficient for each counter. Power is not
linear in the counters: it saturates as threads share cores and caches. The curve is the mean, in the logarithm of
watts, of two estimators with different errors outside their data: averaged trees, which never leave the range of their
training data, and a smooth kernel regression. Their settings are fixed, not tuned to a table.

The curve does not extrapolate, and the groups of a table may have little in common: there the line is better. So each
group is predicted from the others by both, and the one with the smaller error is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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

from .prediction import LeftOut
from .regression import COLLINEAR, inflation_of, predict, resampled_intervals, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .measured_runs import Table

Floats = NDArray[np.float64]
LEAST_ROWS = 20
MOST_ROWS = 4000
"""Most rows for the curve, whose cost is quadratic; it uses a sample of a longer table."""
TREES = 200
INTERCEPT = "constant"
LINE, CURVE = "line", "curve"


@dataclass(frozen=True)
class CounterFit:
    """Power as a function of counters.

    Attributes
    ----------
    coefficients : watts per unit of each counter, and `constant` watts; 0 or more.
    intervals, inflation : as in `GoodnessOfFit`.
    r2 : of the linear model on all rows.
    line_error, curve_error, mean_error : mean absolute relative error with each group predicted from the others.
    chosen : "line" or "curve", the one with the smaller of these errors.
    better_groups : number of groups that the chosen one predicts better than the other one.
    by_group : the error of the chosen one in each group.
    rows, groups : their numbers.
    warnings : sentences.
    left_out : what the chosen one predicted of each row, its group left out.
    """

    coefficients: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    inflation: dict[str, float]
    r2: float
    line_error: float
    curve_error: float
    mean_error: float
    chosen: str
    better_groups: int
    by_group: dict[str, float]
    rows: int
    groups: int
    warnings: tuple[str, ...]
    left_out: LeftOut = field(repr=False)

    def as_plain(self) -> dict[str, Any]:
        """Return plain values for JSON, without those of each row."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "left_out"}


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
    errors = {name: np.abs(found / table.power_w - 1) for name, found in ((LINE, line), (CURVE, curve))}
    chosen = min(errors, key=lambda name: errors[name].mean())
    by_group = {
        name: {str(group): float(error[table.group == group].mean()) for group in names}
        for name, error in errors.items()
    }
    other = by_group[CURVE if chosen == LINE else LINE]
    mean_error = float(np.abs(mean / table.power_w - 1).mean())
    return CounterFit(
        dict(zip(of, power.tolist(), strict=True)),
        resampled_intervals(columns, table.power_w, table.group, of),
        inflation,
        float(r2_score(table.power_w, predict(columns, power))),
        float(errors[LINE].mean()),
        float(errors[CURVE].mean()),
        mean_error,
        chosen,
        sum(error < other[group] for group, error in by_group[chosen].items()),
        by_group[chosen],
        len(table.power_w),
        len(names),
        tuple(_warnings(inflation, float(errors[chosen].mean()), mean_error)),
        LeftOut(line if chosen == LINE else curve, table.power_w, table.group),
    )


def predict_counters(found: CounterFit, table: Table, counters: Floats) -> Floats:
    """Return the watts, (n,), that the chosen one of the line and the curve predicts.

    Parameters
    ----------
    found, table
        The fit, and the table that it was fitted to.
    counters
        (n, k), the columns of the table's `names`.
    """
    if found.chosen == LINE:
        return predict(_with_constant(counters), np.array(list(found.coefficients.values())))
    curve = _fitted_curve(table, np.arange(len(table.power_w)), np.random.default_rng(0))
    return np.asarray(curve.predict(counters), dtype=np.float64)


def _warnings(inflation: dict[str, float], error: float, mean_error: float) -> Iterator[str]:
    collinear = [name for name, factor in inflation.items() if factor > COLLINEAR]
    if collinear:
        yield f"{', '.join(collinear)} can hardly be separated from the other counters (inflation)"
    if error >= mean_error:
        yield "the counters predict a group that was left out no better than the mean power of the others does"


def _left_out(table: Table, progress: Callable[[str], None] | None) -> tuple[Floats, Floats, Floats]:
    line, curve, mean = (np.empty(len(table.power_w)) for _ in range(3))
    random = np.random.default_rng(0)
    for train, test in LeaveOneGroupOut().split(table.counters, table.power_w, table.group):
        if progress is not None:
            progress(str(table.group[test[0]]))
        watts = table.power_w[train]
        mean[test] = watts.mean()
        line[test] = predict(_with_constant(table.counters[test]), solve(_with_constant(table.counters[train]), watts))
        curve[test] = _fitted_curve(table, train, random).predict(table.counters[test])
    return line, curve, mean


def _fitted_curve(table: Table, rows: NDArray[np.intp], random: np.random.Generator) -> Any:
    kept = random.choice(rows, min(len(rows), MOST_ROWS), replace=False)
    return _curve(len(table.names)).fit(table.counters[kept], table.power_w[kept])


def _with_constant(counters: Floats) -> Floats:
    return np.column_stack([counters, np.ones(len(counters))])


def _curve(counters: int) -> Any:
    # On one thread: several of scikit-learn's can empty the process's list of warning filters (`catch_warnings`).
    trees = ExtraTreesRegressor(n_estimators=TREES, min_samples_leaf=20, max_features=0.5, random_state=0, n_jobs=1)
    kernel = make_pipeline(StandardScaler(), SVR(C=1.0, gamma=0.5 / counters, epsilon=0.02))
    return TransformedTargetRegressor(
        VotingRegressor([("trees", trees), ("kernel", kernel)]), func=np.log, inverse_func=np.exp
    )
