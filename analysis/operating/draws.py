r"""Curves that the measurements allow: several hundred of them, whose spread is what is not known.

A shape of the law is drawn by its weight, prior times ``exp(-χ²/2)`` of its best fit. Its coefficients are fitted to
measurements that are shaken by their noise, with a weak prior that is shaken too: draws of a posterior without
negative coefficients ("randomise, then optimise"), exact where none is at its bound. What the law leaves
over goes along the settings like a random walk that is pulled back, of deviation `misfit` or of what the residuals show
where there are more points than coefficients, conditioned on the measurements: a Gaussian process with an exponential
kernel. So curves pass the measured points within their noise, kinks that no law has included, and spread between them.
A smoother kernel was rejected: it carries an error at one point far along the curve and is too sure between.

All draws come from one fixed seed, in mirrored pairs: the same table gives the same advice, and it hangs little on the
seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .laws import Law, law_of
from .prior import PRIOR, Prior
from .solve import nonnegative

if TYPE_CHECKING:
    from .measured import Measured

Floats = NDArray[np.float64]
DRAWS = 400
SEED = 20
MISFIT_WORTH = 4.0
"""How many residuals the law's own `misfit` counts for."""
REACH, WORKERS_REACH = 0.5, 0.3
"""Over which part of the range of settings and of workers (in logarithms) what is left over stays alike."""
JITTER = 1e-9
WEAK = 3.0
"""Prior deviation of a coefficient, in the largest measured value."""


@dataclass(frozen=True)
class Draws:
    """Curves over m candidate points.

    Attributes
    ----------
    time_s, power_w : (draws, m)
    waiting : (draws,) share of the time at the highest setting that does not know the setting.
    noise : relative standard deviation that one more run would have.
    missed : by what part the best law is off at the measured points.
    """

    time_s: Floats
    power_w: Floats
    waiting: Floats
    noise: float
    missed: float = 0.0

    @property
    def energy_j(self) -> Floats:
        """Energies, (draws, m)."""
        return np.asarray(self.time_s * self.power_w)


def draw(measured: Measured, setting: Floats, workers: NDArray[np.int64], prior: Prior = PRIOR) -> Draws:
    """Return curves that `measured` allows at candidate points.

    Parameters
    ----------
    measured
        At two operating points at least.
    setting, workers
        (m,) candidates.
    prior
        What is taken for granted.
    """
    random = np.random.default_rng(SEED)
    law = law_of(measured, np.append(measured.setting, setting), np.append(measured.workers, workers), prior)
    time = _Fit(law.time, measured.time_s, measured.time_noise, law.misfit, _waiting_row(law, measured))
    power = _Fit(law.power, measured.power_w, measured.power_noise, law.misfit, None)
    weight = law.weight - 0.5 * (time.squares + power.squares)
    shapes = _resample(weight, random)
    kernel = _kernel(np.append(measured.setting, setting), np.append(measured.workers, workers))
    times, parts = time.curves(shapes, kernel, random)
    powers, _ = power.curves(shapes, kernel, random)
    top = int(np.argmax(np.nan_to_num(measured.setting) * 1e6 + measured.workers))
    at_top = parts[:, None, :] * law.time[shapes][:, top : top + 1, :]
    waiting = at_top[..., law.waiting].sum(axis=(1, 2)) / np.maximum(at_top.sum(axis=(1, 2)), 1e-300)
    noise = float(np.hypot(measured.time_noise, measured.energy_noise).mean())
    return Draws(times, powers, waiting, noise, max(time.missed, power.missed))


def draw_as_run(measured: Measured, missed: float) -> Draws:
    """Return the points that were run within their noise, no law between: for where none comes near them."""
    random = np.random.default_rng(SEED)
    shape = DRAWS, len(measured.time_s)
    time_s = measured.time_s * np.exp(measured.time_noise * _mirrored(random, shape))
    energy_j = measured.energy_j * np.exp(measured.energy_noise * _mirrored(random, shape))
    noise = float(np.hypot(measured.time_noise, measured.energy_noise).mean())
    return Draws(time_s, energy_j / time_s, np.full(DRAWS, np.nan), noise, missed)


class _Fit:
    """A law's columns against measured values, all relative to these."""

    def __init__(
        self, columns: Floats, values: Floats, noise: Floats, misfit: float, row: tuple[Floats, float] | None
    ) -> None:
        self.columns, self.values, self.noise, self.count = columns, values, noise, len(values)
        self.sd, self.expected = np.hypot(noise, misfit), misfit
        self.prior, self.aim = self._prior(row)
        rows, wanted = self._rows(np.arange(len(columns)))
        best, self.squares = nonnegative(rows, wanted)
        self.missed, self.misfit = self._left(best)

    def curves(self, shapes: NDArray[np.int64], kernel: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Return values at the candidates, (draws, m), and coefficients."""
        rows, wanted = self._rows(shapes)
        found, _ = nonnegative(rows, wanted + _mirrored(random, wanted.shape))
        curve = np.maximum(np.einsum("dmc,dc->dm", self.columns[shapes], found), 1e-12 * self.values.max())
        left = np.log(self.values) - np.log(curve[:, : self.count])
        return curve[:, self.count :] * np.exp(_deviation(left, kernel, self.misfit, self.noise, random)), found

    def _prior(self, row: tuple[Floats, float] | None) -> tuple[Floats, Floats]:
        columns = self.columns.shape[2]
        rows = np.eye(columns) / (WEAK * self.values.max())
        if row is not None:
            rows = np.vstack([rows, row[0] / (row[1] * self.values.max())])
        return rows, np.zeros(len(rows))

    def _rows(self, shapes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        scale = 1 / (self.values * self.sd)
        data = self.columns[shapes][:, : self.count, :] * scale[None, :, None]
        rows = np.concatenate([data, np.broadcast_to(self.prior, (len(shapes), *self.prior.shape))], axis=1)
        wanted = np.append(self.values * scale, self.aim)
        return rows, np.broadcast_to(wanted, (len(shapes), len(wanted)))

    def _left(self, best: Floats) -> tuple[float, float]:
        """Return by what part the best shape is off, and the misfit that this shows where points are to spare."""
        place = int(np.argmin(self.squares))
        left = np.log(self.values / np.maximum(self.columns[place, : self.count] @ best[place], 1e-300))
        missed = float(np.sqrt(np.mean(left**2)))
        spare = max(self.count - int((best[place] > 0).sum()) - 1, 0)
        if not spare:
            return missed, self.expected
        beyond = max(float((left**2).sum() - spare * (self.noise**2).mean()), 0.0)
        return missed, float(np.sqrt((MISFIT_WORTH * self.expected**2 + beyond) / (MISFIT_WORTH + spare)))


def _waiting_row(law: Law, measured: Measured) -> tuple[Floats, float] | None:
    """Return what counters say of the coefficients: waiting is such a share of all, within its deviation."""
    if measured.waiting is None or not law.waiting.any() or law.waiting.all():
        return None
    return np.where(law.waiting, 1 - measured.waiting, -measured.waiting), measured.waiting_sd


def _resample(weight: Floats, random: np.random.Generator) -> NDArray[np.int64]:
    part = np.exp(weight - weight.max())
    places = (np.arange(DRAWS // 2) + random.random()) / (DRAWS // 2)
    chosen = np.minimum(np.searchsorted(np.cumsum(part / part.sum()), places), len(part) - 1)
    return np.tile(chosen.astype(np.int64), 2)


def _mirrored(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return normal numbers of which the second half is the first with other signs: their mean is exactly 0."""
    half = random.standard_normal((shape[0] // 2, *shape[1:]))
    return np.concatenate([half, -half])


def _kernel(setting: Floats, workers: NDArray[np.int64]) -> Floats:
    """Return how alike what is left over is between any two points, measured ones first."""
    place = np.stack([
        _place(np.nan_to_num(setting, nan=1.0)) / REACH,
        _place(workers.astype(float)) / WORKERS_REACH,
    ])  # fmt: skip
    return np.asarray(np.exp(-np.abs(place[:, :, None] - place[:, None, :]).sum(axis=0)))


def _place(values: Floats) -> Floats:
    logs = np.log(values)
    return np.asarray((logs - logs.min()) / max(float(np.ptp(logs)), 1e-12))


def _deviation(left: Floats, kernel: Floats, misfit: float, noise: Floats, random: np.random.Generator) -> Floats:
    """Continue what the law leaves over at the measured points to the candidates: (draws, m) in logarithms."""
    count = len(noise)
    own = misfit**2 * kernel[:count, :count] + np.diag(noise**2)
    across = misfit**2 * kernel[count:, :count]
    pull = np.linalg.solve(own, across.T).T
    spread = misfit**2 * kernel[count:, count:] - pull @ across.T
    # At a point that was measured to a part of a thousand nearly nothing is left: rounding may take it below 0.
    root = np.linalg.cholesky(spread + JITTER * misfit**2 * np.eye(len(spread)))
    return np.asarray(left @ pull.T + _mirrored(random, (len(left), len(root))) @ root.T)
