"""Frequencies of a calibration: groups runs by frequency, and scales a core's power to the other frequencies.

The paper (TProf, section 3.3) finds that a model trained at one frequency has the right shares at another one, but not
the right level. So the fit has one set of coefficients, and for each other frequency a factor of a core's power and the
package's own watts. Turbo lowers the frequency by a few percent as cores become busy; this counts as one frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .regression import columns_of, solve

if TYPE_CHECKING:
    from .observations import Observations

Floats = NDArray[np.float64]
APART = 0.08
"""Largest relative difference between runs at one frequency."""


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
