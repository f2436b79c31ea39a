"""Differences between two means with intervals, and how probable so large a difference is by chance alone.

A mean has a variance with degrees of freedom, from what scatters, and a bias: bounds of an error that more instances do
not lower. Welch's t test compares means of unequal variances, and the ends of the ratio's interval follow from
Fieller's theorem with the same degrees of freedom. A bias widens the intervals on both sides, and the test takes it off
the difference.

References
----------
B. L. Welch, The generalization of "Student's" problem when several different population variances are involved,
Biometrika 34 (1947); E. C. Fieller, Some problems in interval estimation, J. Roy. Stat. Soc. B 16 (1954);
S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6 (1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import student

Floats = NDArray[np.float64]
SURE_DF = 1e9
"""Degrees of freedom of a variance that is known."""


@dataclass(frozen=True)
class Estimate:
    """A figure of one side, of each task.

    Attributes
    ----------
    value : (k,) float64; NaN where it is not known
    variance : (k,) float64, of the value; NaN where it is not known
    df : (k,) float64, degrees of freedom of the variance
    below, above : (k,) float64, bounds of its bias
    """

    value: Floats
    variance: Floats
    df: Floats
    below: Floats
    above: Floats


class Difference(NamedTuple):
    """The second side less the first, of each task.

    Attributes
    ----------
    difference, low, high : (k,) float64, with the ends of the 95 % interval; these are NaN if a variance is not known
    ratio, ratio_low, ratio_high : (k,) float64, second over first; an end is NaN where there is none
    chance : (k,) float64, of a difference as large as this or larger if the two were the same; NaN if not known
    """

    difference: Floats
    low: Floats
    high: Floats
    ratio: Floats
    ratio_low: Floats
    ratio_high: Floats
    chance: Floats


def difference(a: Estimate, b: Estimate, *, is_shared: NDArray[np.bool_] | bool = False) -> Difference:
    """Return by how much `b` exceeds `a`.

    Parameters
    ----------
    a, b : the sides
    is_shared : where both variances come from one estimate, whose degrees of freedom then hold for their sum
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        away = b.value - a.value
        variance = a.variance + b.variance
        df = _degrees(a.variance, a.df, b.variance, b.df, is_shared=is_shared)
        half = student(df) * np.sqrt(variance)
        up, down = b.above + a.below, b.below + a.above
        low, high = away - half - down, away + half + up
        # In a difference that is an increase, the bias may only have raised the second and lowered the first.
        beyond = np.maximum(np.abs(away) - np.where(away > 0, down, up), 0.0)
        chance = two_sided(beyond, variance, df)
        ratio = b.value / np.where(a.value > 0, a.value, np.nan)
        ratio_low, ratio_high = _fieller(a, b, is_shared=is_shared)
        ratio_low -= ratio - (b.value - b.below) / (a.value + a.above)
        least = a.value - a.below
        ratio_high += (b.value + b.above) / np.where(least > 0, least, np.nan) - ratio
    return Difference(away, low, high, ratio, np.maximum(ratio_low, 0.0), ratio_high, chance)


def chance_beyond(a: Estimate, b: Estimate, factor: Floats, *, is_shared: NDArray[np.bool_] | bool = False) -> Floats:
    """Return the chance to see as much of `b` or more if it were no more than `factor` times `a`; NaN if not known."""
    allowed = Estimate(factor * a.value, factor**2 * a.variance, a.df, factor * a.below, factor * a.above)
    found = difference(allowed, b, is_shared=is_shared)
    return np.where(found.difference > 0, found.chance / 2, 1 - found.chance / 2)


def two_sided(beyond: Floats, variance: Floats, df: Floats) -> Floats:
    """Return the chance that a value with this variance around zero is at least as far from it."""
    from scipy.special import stdtr  # noqa: PLC0415 - takes long, and a baseline may be written without it

    exact = np.where(beyond > 0, 0.0, 1.0)
    t = beyond / np.sqrt(np.where(variance > 0, variance, 1.0))
    chance = np.where(variance > 0, 2 * stdtr(np.clip(df, 1e-3, SURE_DF), -t), exact)
    return np.where(np.isfinite(variance) & np.isfinite(beyond), np.minimum(chance, 1.0), np.nan)


def holm(chances: Floats) -> Floats:
    """Return chances corrected for their number: that any of these would be so small by chance.

    Unlike methods that bound the share of false findings, it holds however the tests depend on each other: the tasks of
    a run share the joules of one sensor, so that one's excess is another's lack. NaN stays NaN and is not counted.
    """
    found = np.full(len(chances), np.nan)
    known = np.flatnonzero(np.isfinite(chances))
    order = known[np.argsort(chances[known], kind="stable")]
    raised = chances[order] * np.arange(len(order), 0, -1)
    found[order] = np.minimum(np.maximum.accumulate(raised), 1.0) if len(order) else raised
    return found


def _degrees(of_a: Floats, df_a: Floats, of_b: Floats, df_b: Floats, *, is_shared: NDArray[np.bool_] | bool) -> Floats:
    """Return the degrees of freedom of a sum of variances (Welch and Satterthwaite)."""
    parts = of_a**2 / df_a + of_b**2 / df_b
    df = np.where(parts > 0, (of_a + of_b) ** 2 / np.where(parts > 0, parts, 1.0), SURE_DF)
    return np.where(is_shared, np.minimum(df_a, df_b), df)


def _fieller(a: Estimate, b: Estimate, *, is_shared: NDArray[np.bool_] | bool) -> tuple[Floats, Floats]:
    """Return the ends of the ratio's interval; NaN where the first side's own reaches zero."""
    ratio = b.value / np.where(a.value > 0, a.value, np.nan)
    df = _degrees(ratio**2 * a.variance, a.df, b.variance, b.df, is_shared=is_shared)
    t = student(df)
    share = t**2 * a.variance / a.value**2
    bounded = np.where(share < 1, 1 - share, np.nan)
    half = t / a.value * np.sqrt(b.variance * bounded + ratio**2 * a.variance)
    return (ratio - half) / bounded, (ratio + half) / bounded
