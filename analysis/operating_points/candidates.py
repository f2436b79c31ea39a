"""Candidates for the choice: settings times workers, within the measured range.

Laws hold between measured points; points outside are candidates only if the user names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .measured import Measured

Floats = NDArray[np.float64]
STEPS_HZ = (1e8, 2e8, 5e8)
"""Frequencies of processors are usually multiples of 100 MHz."""
STEPS_W = (5.0, 10.0, 25.0, 50.0)
MOST_SETTINGS = 24
MOST_WORKERS = 16
MOST_POINTS = 200


@dataclass(frozen=True)
class Candidates:
    """Operating points.

    Attributes
    ----------
    unit : of the setting.
    setting : (m,), NaN if the table has none.
    workers : (m,)
    """

    unit: str
    setting: Floats
    workers: NDArray[np.int64]

    @property
    def varies_setting(self) -> bool:
        """Whether the setting varies."""
        return len(np.unique(self.setting[~np.isnan(self.setting)])) > 1

    @property
    def varies_workers(self) -> bool:
        """Whether the number of workers varies."""
        return len(np.unique(self.workers)) > 1

    def measured(self, measured: Measured) -> NDArray[np.bool_]:
        """Mark the candidates that were run: (m,)."""
        return np.array([place is not None for place in measured.places(self.setting, self.workers)])

    def named(self, place: int, *, workers: bool = True) -> str:
        """Return the name of an operating point, with its workers if they vary."""
        setting, count = float(self.setting[place]), int(self.workers[place])
        words = []
        if not np.isnan(setting):
            words.append(f"{setting / 1e9:.4g} GHz" if self.unit == "Hz" else f"{setting:.4g} W")
        if workers and (self.varies_workers or not words):
            words.append(counted(count, "worker"))
        return ", ".join(words)


def candidates(measured: Measured, settings: Sequence[float] = (), workers: Sequence[int] = ()) -> Candidates:
    """Return the candidates of a task.

    Parameters
    ----------
    measured
        All of its points are among the candidates.
    settings, workers
        Further candidates; empty: an even grid between the lowest and the highest measured.

    Raises
    ------
    UsageError
        Settings were named for a table without settings, or there are too many points.
    """
    if len(settings) and not measured.unit:
        raise UsageError("settings were named, but the table has no column setting; measure at two settings at least")
    if min(settings, default=1.0) <= 0 or min(workers, default=1) < 1:
        raise UsageError("settings must be above 0 and workers whole numbers from 1 up")
    setting = _settings(measured, settings)
    count = _workers(measured, workers)
    if len(setting) * len(count) > MOST_POINTS:
        raise UsageError(
            f"{counted(len(setting), 'setting')} times {counted(len(count), 'number')} of workers are more than "
            f"{MOST_POINTS} operating "
            "points; name fewer with --settings and --workers"
        )
    grid = np.meshgrid(setting, count, indexing="ij")
    return Candidates(measured.unit, grid[0].ravel(), grid[1].ravel().astype(np.int64))


def _settings(measured: Measured, named: Sequence[float]) -> Floats:
    was = np.unique(measured.setting)
    if not measured.unit or (len(was) == 1 and not len(named)):
        return was
    more = np.asarray(named, float) if len(named) else _grid(was[0], was[-1], measured.unit)
    # A grid point close to a measured one would be a duplicate.
    fresh = [one for one in more if np.abs(was / one - 1).min() > 0.005]
    return np.unique(np.append(was, fresh))


def _grid(low: float, high: float, unit: str) -> Floats:
    steps = STEPS_HZ if unit == "Hz" else STEPS_W
    step = next((one for one in steps if (high - low) / one < MOST_SETTINGS), (high - low) / MOST_SETTINGS)
    return np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step


def _workers(measured: Measured, named: Sequence[int]) -> NDArray[np.int64]:
    was = np.unique(measured.workers)
    low, high = int(was[0]), int(was[-1])
    if len(named):
        more = np.asarray(named, np.int64)
    elif high - low < MOST_WORKERS:
        more = np.arange(low, high + 1)
    else:
        more = np.unique(np.geomspace(low, high, MOST_WORKERS).round().astype(np.int64))
    return np.unique(np.append(was, more))
