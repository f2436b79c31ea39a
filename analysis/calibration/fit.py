"""Fits equation 1 of TProf to runs with measured power, and states how good the fit is.

P = sum over active cores of (a IPC + b L2 + c LLC + C1) + C2. Every coefficient is a power and cannot be negative.
Errors are relative to the power, as in the paper's table 2. Idle runs are not fitted: an idle package sleeps, while C2
is the power of one that is awake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.models.linear import Coefficients

from tprof.errors import UsageError

from .frequency import Scale, frequency_of, scales
from .goodness_of_fit import GoodnessOfFit, assess
from .regression import LEAST_W, MOST_W, columns_of, solve

if TYPE_CHECKING:
    from .observations import Observations

Floats = NDArray[np.float64]
LEAST_RUNS = 8
BUSY = 0.5
"""A run with at least so many active cores is busy."""


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
    """

    coefficients: Coefficients
    goodness: GoodnessOfFit
    hz: float | None
    other_frequencies: tuple[Scale, ...]
    idle_w: float | None
    runs: int
    kernels: int
    left_out: tuple[str, ...]


def fit(observations: Observations) -> Calibration:
    """Fit the coefficients.

    Parameters
    ----------
    observations
        At least eight busy runs, at two numbers of active cores or more.

    Raises
    ------
    UsageError
        If there are too few runs, or all at one number of active cores: then C1 and C2 cannot be told apart.
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
    )


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
        message = (
            f"a calibration needs at least {LEAST_RUNS} runs with a power and a number of active cores, got "
            f"{len(busy)}: run more kernels"
        )
        raise UsageError(message)
    cores = np.unique(np.round(2 * busy.active_cores) / 2)
    if len(cores) < 2:
        message = (
            f"all runs had {cores[0]:g} active cores, so the power of a core (C1) and that of the package (C2) cannot "
            "be told apart: add runs with another number of busy cores"
        )
        raise UsageError(message)


def _coefficients(power: Floats, others: tuple[Scale, ...]) -> Coefficients:
    a, b, c, c1, c2 = (float(value) for value in power)
    pairs = tuple((one.hz, one.core) for one in others) if len(others) > 1 else ()
    return Coefficients(a, b, c, c1, c2, pairs)
