"""The runs of a side joined: means over runs, and what their scatter says of the next run.

Instances of one run share its circumstances (memory layout, temperature, what else the machine does), so the scatter
between them is too small a yardstick for runs. Where a side has several runs, the run is therefore what is repeated:
their means are compared by Welch's test (T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013:
repeat at the highest level that varies). As each run's mean holds the scatter of its own instances, a variance between
few runs that falls below that by chance is raised to it. A single run beside several gets their relative scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .evidence import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run_figures import RunFigures

Floats = NDArray[np.float64]


class _Joined(NamedTuple):
    """A side of a comparison: `runs` (k,) is in how many runs a task is; `scatter` their variance, NaN if in fewer."""

    estimate: Estimate
    runs: NDArray[np.int64]
    scatter: Floats


def estimates(
    a: Sequence[pd.DataFrame], b: Sequence[pd.DataFrame], names: Sequence[str], *, common: bool
) -> tuple[Estimate, Estimate, NDArray[np.bool_]]:
    """Return a figure of both sides, and where one side's variance is taken from the other.

    Parameters
    ----------
    a, b : one frame a run, as in `RunFigures.figures`
    names : of the tasks
    common : whether biases include the error that all tasks of a run share
    """
    first, second = (_joined(side, names, common=common) for side in (a, b))
    borrows = (first.runs == 1) & (second.runs > 1), (second.runs == 1) & (first.runs > 1)
    left, right = _like(first, second, borrows[0]), _like(second, first, borrows[1])
    return left, right, borrows[0] | borrows[1]


def ends_of(side: Sequence[pd.DataFrame], names: Sequence[str]) -> Floats:
    """Return the upper ends of a figure that most runs of a side do not resolve, their mean; NaN for others."""
    frames = [frame.reindex(list(names)) for frame in side]
    unknown = np.full(len(names), np.nan)
    ends = np.array([frame["at_most"].to_numpy(float) if "at_most" in frame else unknown for frame in frames])
    runs = sum(frame["value"].notna().to_numpy(int) for frame in frames)
    has_end = np.isfinite(ends)
    count = has_end.sum(axis=0)
    mean = np.where(has_end, ends, 0.0).sum(axis=0) / np.maximum(count, 1)
    return np.where(2 * count > runs, mean, np.nan)


def _joined(side: Sequence[pd.DataFrame], names: Sequence[str], *, common: bool) -> _Joined:
    frames = [frame.reindex(list(names)) for frame in side]
    table = {column: np.array([frame[column].to_numpy(float) for frame in frames]) for column in frames[0].columns}
    value = table["value"]
    known = np.isfinite(value)
    runs = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.where(known, value, 0.0).sum(axis=0) / runs
        off = np.where(known, value - mean, 0.0)
        scatter = np.where(runs > 1, (off**2).sum(axis=0) / (runs - 1), np.nan)
        own = np.where(known, table["variance"], 0.0)
        within = np.nansum(own, axis=0) / runs**2
        alone = np.where(runs == 1, own.sum(axis=0), np.nan)
        variance = np.where(runs > 1, np.maximum(scatter / runs, within), alone)
        df = np.where(runs > 1, runs - 1.0, np.nansum(np.where(known, table["df"], 0.0), axis=0))
        bias = {}
        for end in ("below", "above"):
            reach = table[end] + (table[f"common_{end}"] if common else 0.0)
            bias[end] = np.nansum(np.where(known, reach, 0.0), axis=0) / runs
    return _Joined(Estimate(mean, variance, df, bias["below"], bias["above"]), runs, scatter)


def _like(one: _Joined, other: _Joined, borrows: NDArray[np.bool_]) -> Estimate:
    """Return the estimate of one side with the other's relative scatter of runs, where it borrows that."""
    own, theirs = one.estimate, other.estimate
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scatter = np.where(theirs.value > 0, other.scatter * (own.value / theirs.value) ** 2, other.scatter)
    variance = np.where(borrows, np.fmax(scatter, own.variance), own.variance)
    return Estimate(own.value, variance, np.where(borrows, theirs.df, own.df), own.below, own.above)


def totals_of(side: Sequence[RunFigures]) -> list[pd.DataFrame]:
    """Return the totals of each run as frames of the same form; their own error is not known."""
    unknown = {"variance": np.nan, "df": np.nan}
    bias = dict.fromkeys(("below", "above", "common_below", "common_above"), 0.0)
    return [pd.DataFrame({"value": pd.Series(run.totals, dtype=float)}).assign(**unknown, **bias) for run in side]
