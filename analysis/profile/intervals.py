"""Intervals of mean energies, and of figures that are estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95, student

from tprof.trace import Quality
from tprof.trace.estimate import EXACT, WattsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.quanta import Quanta

Floats = NDArray[np.float64]


def mean_half(std_j: Floats, count: NDArray[np.int64], run_half_j: Floats) -> Floats:
    """Return half the 95 % interval of the mean energy of all instances that could have run.

    Parameters
    ----------
    std_j : (k,) float64, joules; spread between the instances that ran
    count : (k,) instances
    run_half_j : (k,) float64, joules; half the interval of what they used together, as `run_half` returns it

    Returns
    -------
    (k,) float64, joules; NaN for a single instance, as its spread is not known

    Notes
    -----
    The halves by the spread, with Student's t, and by sensor and model add in squares: too wide rather than too narrow
    where both are alike. One t for the sum, with the degrees of freedom of Welch and Satterthwaite, would hold in 87 %
    for two instances, since a spread that is too small by chance also raises its degrees.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.hypot(student(count - 1) * std_j / np.sqrt(count), run_half_j / count)


def run_half(count: NDArray[np.int64], resolution_j: Floats, model_error_j: Floats) -> Floats:
    """Return half the 95 % interval of what all instances of a run drew together.

    Parameters
    ----------
    count : (k,) instances
    resolution_j : (k,) float64, root mean square of the instances' half bounds, joules; 0 if powers were fitted
    model_error_j : (k,) float64, standard error of the mean from the model or the fit, joules

    Notes
    -----
    The spread between instances is not in it, in contrast to `mean_half`: the instances that ran are all of them.
    """
    return np.asarray(NORMAL_95 * np.sqrt(count * resolution_j**2 / 3.0 + (count * model_error_j) ** 2))


def around(
    joules: Floats, reach_j: tuple[Floats, Floats], static_j: Floats, error: WattsError | Factors
) -> tuple[Floats, Floats]:
    """Return the interval that reaches so far below and above, not below zero, with the common error of `widened`."""
    low_j, high_j = np.maximum(joules - reach_j[0], 0.0), joules + reach_j[1]
    return (low_j, high_j) if error.is_none else widened(low_j, high_j, static_j, error)


def part_reach(reach_j: Floats, half_squares: Floats, part: Floats, most_j: Floats) -> Floats:
    """Return how far the joules of a part of a task's instances may be from their figure, in one direction.

    Parameters
    ----------
    reach_j : (k,) float64, joules; by the relative error of all of the task's instances
    half_squares : (k,) float64, sum of the squares of the half bounds of the part's instances, joules²
    part : (k,) float64, the part's instances over all of the task
    most_j : (k,) float64, joules; as far as the bounds of the part's instances reach together

    Notes
    -----
    The mean of many instances is surer than one of them. What the instances of a part have that others lack is
    bounded by their own resolution (a uniform error, independent between instances), which adds in squares; for all
    instances of a task nothing is added.
    """
    own_j = np.minimum(NORMAL_95 * np.sqrt(half_squares / 3.0 * np.clip(1 - part, 0.0, 1.0)), np.maximum(most_j, 0.0))
    return np.asarray(np.hypot(reach_j, own_j))


def common_error(domains: Sequence[Quanta], estimate: WattsError) -> WattsError:
    """Return the error that is the same for all joules of the counted domains together; see `shared_error`."""
    return shared_error([(q.quality, q.relative_error, float(q.energy_j.sum())) for q in domains], estimate)


def shared_error(domains: Sequence[tuple[str, float, float]], estimate: WattsError) -> WattsError:
    """Return the error that is the same for all joules of domains together.

    Parameters
    ----------
    domains : quality, relative error and joules of those that are counted
    estimate : error of the watts of estimated domains; those of a sensor have their own relative error

    Notes
    -----
    Errors of domains add, since they are taken as common to all: the factors are weighted by joules. Below, the mean of
    the inverses would do, which is nearer to 1, so the interval is rather too wide.
    """
    errors = [estimate if kind == Quality.ESTIMATED else WattsError(1 + part, 1 + part) for kind, part, _ in domains]
    if len(set(errors)) == 1:
        return errors[0]
    joules = np.nan_to_num([joules for *_, joules in domains])
    if not joules.sum() > 0:
        return EXACT
    idle, busy = (
        float(np.average([getattr(one, name) for one in errors], weights=joules)) for name in ("idle", "busy")
    )
    return WattsError(idle, busy)


class Factors(NamedTuple):
    """A `WattsError` of each task, (k,) each."""

    idle: Floats
    busy: Floats

    @property
    def is_none(self) -> bool:
        """Whether all are taken as exact."""
        return bool((self.idle == 1).all() and (self.busy == 1).all())


def widened(low_j: Any, high_j: Any, static_j: Any, error: WattsError | Factors) -> tuple[Any, Any]:
    """Return an interval that includes the common error of all joules: of an estimate's watts, or of the sensor.

    Parameters
    ----------
    low_j, high_j : (k,) float64, joules; the interval if the watts were exact
    static_j : (k,) float64, joules; the part of the energy that is static power
    error : of the idle watts, which are static power, and of the watts of busy cores, which are the rest

    Notes
    -----
    An estimate is idle watts times time plus busy watts times busy time, so energies are linear in both. The interval
    covers every combination of watts within the error.
    """
    static_low_j = np.minimum(low_j, static_j)
    low = static_low_j / error.idle + (low_j - static_low_j) / error.busy
    return low, static_j * error.idle + (high_j - static_j) * error.busy


def narrowed(low_j: Floats, high_j: Floats, static_j: Floats, error: WattsError) -> tuple[Floats, Floats]:
    """Undo `widened`, for comparisons between figures with the same assumed watts."""
    least_j = static_j / error.idle
    low = np.where(low_j < least_j, low_j * error.idle, static_j + (low_j - least_j) * error.busy)
    return low, static_j + (high_j - static_j * error.idle) / error.busy
