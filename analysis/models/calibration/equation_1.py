"""Fits equation 1 of TProf to runs with measured power, and states how good the fit is.

P = sum over active cores of (a IPC + b L2 + c LLC + C1) + C2. Every coefficient is a power and cannot be negative.
Errors are relative to the power, as in the paper's table 2. Idle runs are not fitted: an idle package sleeps, while C2
is the power of one that is awake.

The paper (section 3.3) finds that a model trained at one frequency has the right shares at another one, but not the
right level. So the fit has one set of coefficients, and for each other frequency a factor of a core's power and the
package's own watts. Turbo lowers the frequency by a few percent as cores become busy; this counts as one frequency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.models.linear import Coefficients

from tprof.errors import UsageError
from tprof.trace.power_model import FORMAT

from .prediction import LeftOut
from .regression import LEAST_W, MOST_W, GoodnessOfFit, assess, columns_of, left_out_predictions, solve

if TYPE_CHECKING:
    from .observations import Observations

Floats = NDArray[np.float64]
LEAST_RUNS = 8
BUSY = 0.5
"""A run with at least so many active cores is busy."""
APART = 0.08
"""Largest relative difference between runs at one frequency."""


@dataclass(frozen=True)
class Calibration:
    """Fitted coefficients and the goodness of the fit.

    Attributes
    ----------
    coefficients : watts per unit of IPC, per GB/s of L2 and LLC traffic, per active core, per package; the scale of a
        core's power at each other frequency.
    goodness : errors, intervals, collinearity.
    hz : frequency of the coefficients, median of the runs they were fitted to; None where it is not known.
    other_frequencies : scale and static power at each other frequency.
    idle_w : power of the idle package; None without an idle run.
    runs, kernels : numbers of those that were fitted.
    left_out : coefficients without a counter.
    by_kernel : what was predicted of each run, its kernel left out.
    """

    coefficients: Coefficients
    goodness: GoodnessOfFit
    hz: float | None
    other_frequencies: tuple[Scale, ...]
    idle_w: float | None
    runs: int
    kernels: int
    left_out: tuple[str, ...]
    by_kernel: LeftOut


def fit(observations: Observations) -> Calibration:
    """Fit the coefficients.

    Parameters
    ----------
    observations
        At least eight busy runs, at two numbers of active cores or more.

    Raises
    ------
    UsageError
        If there are too few runs, or all at one number of active cores: then C1 and C2 cannot be separated.
    """
    busy = observations.where(observations.active_cores >= BUSY)
    busy = busy.where(_usable(busy))
    _check(busy)
    group, hz = frequency_of(busy.hz)
    most = int(np.bincount(group).argmax())
    main = busy.where(group == most)
    _check(main)
    columns, left_out = columns_of(main)
    power = solve(columns, main.power_w)
    idle = observations.power_w[(observations.active_cores < BUSY) & (observations.power_w > 0)]
    others = scales(busy, group, hz, power)
    return Calibration(
        _coefficients(power, others),
        assess(main, columns, power),
        float(np.median(main.hz)) if np.isfinite(main.hz).all() else None,
        others[:most] + others[most + 1 :],
        float(np.median(idle)) if len(idle) else None,
        len(main),
        len(np.unique(main.kernel)),
        left_out,
        LeftOut(left_out_predictions(columns, main.power_w, main.kernel)[0], main.power_w, main.kernel),
    )


def predict_equation_1(calibration: Calibration, observations: Observations) -> Floats:
    """Return the package's watts by equation 1, (n,); NaN where a counter that the model needs is not known.

    Between the frequencies of the calibration a core's scale and the package's watts are interpolated.
    """
    main, others = calibration.coefficients, calibration.other_frequencies
    columns = {"a": observations.ipc, "b": observations.l2_gbs, "c": observations.llc_gbs}
    cores = main.c1 * observations.active_cores
    for name, values in columns.items():
        if name not in calibration.left_out:
            cores = cores + getattr(main, name) * values
    if calibration.hz is None or not others:
        return cores + main.c2
    known = sorted([(calibration.hz, 1.0, main.c2), *((one.hz, one.core, one.package_w) for one in others)])
    hz, core, package_w = np.array(known).T
    return np.asarray(cores * np.interp(observations.hz, hz, core) + np.interp(observations.hz, hz, package_w))


def columns_known(observations: Observations) -> Floats:
    """Return the columns that equation 1 uses and some row has, (n, k), the frequency among them."""
    parts = observations.active_cores, observations.ipc, observations.l2_gbs, observations.llc_gbs, observations.hz
    return np.column_stack([values for values in parts if np.isfinite(values).any()])


def _usable(observations: Observations) -> NDArray[np.bool_]:
    """Mark rows with a power and all other values; a counter that no row has is not required."""
    known_w = (observations.power_w >= LEAST_W) & (observations.power_w <= MOST_W)
    good = known_w & np.isfinite(observations.active_cores)
    for values in (observations.ipc, observations.l2_gbs, observations.llc_gbs):
        if np.isfinite(values).any():
            good &= np.isfinite(values)
    return np.asarray(good, bool)


def _check(busy: Observations) -> None:
    if len(busy) < LEAST_RUNS:
        raise UsageError(
            f"a calibration needs at least {LEAST_RUNS} runs with a power and a number of active cores, got "
            f"{len(busy)}: run more kernels"
        )
    cores = np.unique(np.round(2 * busy.active_cores) / 2)
    if len(cores) < 2:
        raise UsageError(
            f"all runs had {cores[0]:g} active cores, so the power of a core (C1) and that of the package (C2) cannot "
            "be separated: add runs with another number of busy cores"
        )


def _coefficients(power: Floats, others: tuple[Scale, ...]) -> Coefficients:
    a, b, c, c1, c2 = (float(value) for value in power)
    pairs = tuple((one.hz, one.core) for one in others) if len(others) > 1 else ()
    return Coefficients(a, b, c, c1, c2, pairs)


@dataclass(frozen=True)
class Scale:
    """Results at a frequency: a core's power relative to the coefficients, the package's own watts."""

    hz: float
    core: float
    package_w: float


def frequency_of(hz: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the index of each run's frequency, rising, and their medians; a single group without frequencies."""
    if not np.isfinite(hz).all():
        return np.zeros(len(hz), np.intp), np.array([np.nan])
    order = np.argsort(hz, kind="stable")
    steps = np.diff(hz[order]) > APART * hz[order][:-1]
    group = np.empty(len(hz), np.intp)
    group[order] = np.concatenate(([0], np.cumsum(steps)))
    return group, np.array([np.median(hz[group == one]) for one in range(group.max() + 1)])


def scales(busy: Observations, group: NDArray[np.intp], hz: Floats, power: Floats) -> tuple[Scale, ...]:
    """Fit the factor of a core's power and the package's watts at each frequency; `power` are the coefficients."""
    found = []
    for number, frequency in enumerate(hz):
        runs = busy.where(group == number)
        columns, _ = columns_of(runs)
        cores = columns[:, :-1] @ power[:-1]
        if len(np.unique(np.round(2 * runs.active_cores))) < 2:
            # A single number of cores cannot separate them: assume the package's watts of the main frequency.
            core = float(np.median(np.maximum(runs.power_w - power[-1], 0.0) / cores))
            found.append(Scale(float(frequency), core, float(power[-1])))
            continue
        core, package_w = solve(np.column_stack([cores, np.ones(len(runs))]), runs.power_w)
        found.append(Scale(float(frequency), float(core), float(package_w)))
    return tuple(found)


def as_model(
    calibration: Calibration, *, processor: str | None, date: str, version: str, source: str, quality: str
) -> dict[str, Any]:
    """Return the model as `tprof.trace.power_model` describes it, with the goodness of its fit.

    Parameters
    ----------
    calibration
        The fit.
    processor
        Of the machine on which the watts were measured; None where a table does not name it.
    date, version
        The day of the fit, and the tprof that made it.
    source
        Where the runs come from: "tprof calibrate" or a table's name.
    quality
        Of the watts: measured, simulated or given.
    """
    found = calibration.coefficients
    return {
        "format": FORMAT,
        "processor": processor,
        "date": date,
        "tprof": version,
        "source": source,
        "quality": quality,
        "coefficients": {"a": found.a, "b": found.b, "c": found.c, "C1": found.c1, "C2": found.c2},
        "scales": [list(pair) for pair in found.scales],
        "counters": list(found.columns),
        "hz": calibration.hz,
        "other_frequencies": [
            {"hz": one.hz, "core": one.core, "package_w": one.package_w} for one in calibration.other_frequencies
        ],
        "idle_w": calibration.idle_w,
        "runs": calibration.runs,
        "kernels": calibration.kernels,
        "left_out": list(calibration.left_out),
        **goodness_as_plain(calibration.goodness),
    }


def goodness_as_plain(goodness: GoodnessOfFit) -> dict[str, Any]:
    """Return errors, intervals and warnings; NaN and infinity become None."""
    return {
        "r2": _known(goodness.r2),
        "error": _known(goodness.error),
        "left_out_error": _known(goodness.left_out_error),
        "mean_error": _known(goodness.mean_error),
        "residual_share": _known(goodness.residual_share),
        "intervals": {name: list(pair) for name, pair in goodness.intervals.items()},
        "inflation": {name: _known(factor) for name, factor in goodness.inflation.items()},
        "warnings": list(goodness.warnings),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
