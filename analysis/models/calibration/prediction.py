"""Intervals of watts that a fitted model predicts for runs that it was not fitted to.

All runs of a kernel have an error in common. So an interval comes from the errors with whole groups left out: the mean
square of the groups' mean errors plus that of the runs around them. Few groups show little of the next one, hence
Student's t with as many degrees of freedom as there are groups less one. Errors are logarithms of ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import student

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LeftOut:
    """Predictions of runs, each with its whole group left out of the fit: (n,) each."""

    predicted_w: Floats
    measured_w: Floats
    group: NDArray[np.str_]

    def factor(self) -> float:
        """Return the factor by which 95 % of runs of a new group are off at most; NaN for a single group."""
        names = np.unique(self.group)
        if len(names) < 2 or not (self.predicted_w > 0).all():
            return float("nan")
        errors = [np.log(self.measured_w / self.predicted_w)[self.group == name] for name in names]
        between = np.mean([error.mean() ** 2 for error in errors]) * (1 + 1 / len(names))
        within = np.mean([error.var() for error in errors])
        return float(np.exp(student(len(names) - 1) * np.sqrt(between + within)))


@dataclass(frozen=True)
class Prediction:
    """Predicted watts of the rows of a table, (n,) each.

    Attributes
    ----------
    power_w, low_w, high_w : prediction and its 95 % interval.
    measured_w : what was measured; None if the table does not have it.
    group : of each row.
    outside : number of rows with a counter outside of the range that the model was fitted to.
    """

    power_w: Floats
    low_w: Floats
    high_w: Floats
    measured_w: Floats | None
    group: NDArray[np.str_]
    outside: int

    @property
    def error(self) -> float | None:
        """Mean absolute relative error; None without measured watts."""
        return None if self.measured_w is None else float(np.abs(self.power_w / self.measured_w - 1).mean())

    @property
    def covered(self) -> float | None:
        """Part of the rows whose measured watts lie in their intervals; None if either is not known."""
        if self.measured_w is None or np.isnan(self.low_w).any():
            return None
        return float(((self.low_w <= self.measured_w) & (self.measured_w <= self.high_w)).mean())

    def where(self, rows: NDArray[np.bool_]) -> Prediction:
        """Return the prediction of some rows."""
        measured = None if self.measured_w is None else self.measured_w[rows]
        return Prediction(
            self.power_w[rows], self.low_w[rows], self.high_w[rows], measured, self.group[rows], self.outside
        )

    def as_plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        measured = [None] * len(self.power_w) if self.measured_w is None else self.measured_w.tolist()
        columns = self.group.tolist(), measured, self.power_w.tolist(), self.low_w.tolist(), self.high_w.tolist()
        return {
            "error": self.error,
            "covered": self.covered,
            "outside": self.outside,
            "rows": [
                {"group": group, "measured_w": of, "power_w": power, "low_w": low, "high_w": high}
                for group, of, power, low, high in zip(*columns, strict=True)
            ],
        }


def predicted(
    left_out: LeftOut, power_w: Floats, measured_w: Floats | None, group: NDArray[np.str_], outside: int
) -> Prediction:
    """Return a prediction with intervals as wide as the errors of groups that were left out."""
    factor = left_out.factor()
    return Prediction(power_w, power_w / factor, power_w * factor, measured_w, group, outside)


def rows_outside(seen: Floats, of: Floats) -> int:
    """Return the number of rows of (n, k) counters with one outside of the range that was `seen`, (m, k)."""
    return int(((of < seen.min(axis=0)) | (of > seen.max(axis=0))).any(axis=1).sum())
