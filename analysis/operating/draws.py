r"""Curves that the measurements allow: several hundred of them, whose spread is what is not known.

A shape of the law is drawn by its weight, prior times ``exp(-χ²/2)`` of its best fit. Its coefficients are fitted to
measurements that are shaken by their noise, with a weak prior that is shaken too: draws of a posterior without
negative coefficients ("randomise, then optimise"), exact where none is at its bound. What the law leaves
over goes along the settings like a random walk that is pulled back, of deviation `misfit` or of what the residuals show
where there are more points than coefficients, conditioned on the measurements: a Gaussian process with an exponential
kernel. So curves pass the measured points within their noise, kinks that no law has included, and spread between them.
A smoother kernel was rejected: it carries an error at one point far along the curve and is too sure between.

Energy and time of a run are measured, its power is their quotient: a time that chance made longer makes the power less
and leaves the energy alone. So each draw's power is fitted to the measured energies over *that draw's* times, and at a
point that was run the energy of all draws is the measured one within its own noise, however noisy the times are.
Rejected: to draw time and power each by itself (what was measured of the energy is lost), and a law of the energy as
the sum of all products of the columns of time and power (more coefficients than two points can tell).

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
    from .algorithm import Sized
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
class Ran:
    """What was run at the candidates: (m,) each, NaN where nothing was."""

    time_s: Floats
    energy_j: Floats

    @property
    def power_w(self) -> Floats:
        """Mean power."""
        return np.asarray(self.energy_j / self.time_s)


@dataclass(frozen=True)
class Draws:
    """Curves over m candidate points.

    Attributes
    ----------
    time_s, power_w : (draws, m)
    waiting : (draws,) share of the time at the highest setting that does not know the setting.
    time_noise, energy_noise : (m,) or one for all: relative standard deviation of what running a candidate would show,
        as often as it was run, where it was not as often as others were.
    missed : by what part the best law is off at the measured points, beyond their noise.
    ran : what was run, None where nothing is known of it.
    """

    time_s: Floats
    power_w: Floats
    waiting: Floats
    time_noise: Floats | float
    energy_noise: Floats | float
    missed: float = 0.0
    ran: Ran | None = None

    @property
    def energy_j(self) -> Floats:
        """Energies, (draws, m)."""
        return np.asarray(self.time_s * self.power_w)


def draw(
    measured: Measured,
    setting: Floats,
    workers: NDArray[np.int64],
    prior: Prior = PRIOR,
    *,
    algorithm: Sized | None = None,
) -> Draws:
    """Return curves that `measured` allows at candidate points.

    Parameters
    ----------
    measured
        At two operating points at least.
    setting, workers
        (m,) candidates.
    prior
        What is taken for granted.
    algorithm
        What was run, where its counts are known.
    """
    random, count = np.random.default_rng(SEED), len(measured.time_s)
    settings, crews = np.append(measured.setting, setting), np.append(measured.workers, workers)
    law_at = law_of if algorithm is None else algorithm.law
    law, kernel = law_at(measured, settings, crews, prior), _kernel(settings, crews)
    time = _Fit(law.time, measured.time_s, measured.time_noise, law.misfit, _waiting_row(law, measured))
    every = np.arange(len(law.weight))
    power_w = measured.energy_j / time.through(kernel)
    power = _Fit(law.powers(every, time.best), power_w, measured.energy_noise, law.misfit, None)
    shapes = _resample(law.weight - 0.5 * (time.squares + power.squares), random)
    times, parts = time.curves(shapes, kernel, random)
    powers = power.curves_through(law.powers(shapes, parts), measured.energy_j / times[:, :count], kernel, random)
    top = int(np.argmax(np.nan_to_num(measured.setting) * 1e6 + measured.workers))
    at_top = parts[:, None, :] * law.time[shapes][:, top : top + 1, :]
    waiting = at_top[..., law.waiting].sum(axis=(1, 2)) / np.maximum(at_top.sum(axis=(1, 2)), 1e-300)
    return Draws(
        times[:, count:], powers[:, count:], waiting, *_noises(measured, setting, workers),
        max(time.missed, power.missed), _ran(measured, setting, workers),
    )  # fmt: skip


def draw_as_run(measured: Measured, missed: float) -> Draws:
    """Return the points that were run within their noise, no law between: for where none comes near them."""
    random = np.random.default_rng(SEED)
    shape = DRAWS, len(measured.time_s)
    time_s = measured.time_s * np.exp(measured.time_noise * _mirrored(random, shape))
    energy_j = measured.energy_j * np.exp(measured.energy_noise * _mirrored(random, shape))
    ran = Ran(measured.time_s, measured.energy_j)
    waiting = np.full(DRAWS, np.nan)
    return Draws(time_s, energy_j / time_s, waiting, measured.time_noise, measured.energy_noise, missed, ran)


def _noises(measured: Measured, setting: Floats, workers: NDArray[np.int64]) -> tuple[Floats, Floats]:
    places = [measured.at(*pair) for pair in zip(setting, workers, strict=True)]
    time, energy = (
        np.array([noise.mean() if place is None else noise[place] for place in places])
        for noise in (measured.time_noise, measured.energy_noise)
    )
    return time, energy


def _ran(measured: Measured, setting: Floats, workers: NDArray[np.int64]) -> Ran:
    places = [measured.at(*pair) for pair in zip(setting, workers, strict=True)]
    time_s, energy_j = (
        np.array([np.nan if place is None else values[place] for place in places])
        for values in (measured.time_s, measured.energy_j)
    )
    return Ran(time_s, energy_j)


class _Fit:
    """A law's columns against measured values, all relative to these; `values` may differ between shapes."""

    def __init__(
        self, columns: Floats, values: Floats, noise: Floats, misfit: float, row: tuple[Floats, float] | None
    ) -> None:
        self.columns, self.noise, self.count = columns, noise, len(noise)
        self.values = np.broadcast_to(values, (len(columns), self.count))
        self.largest = float(self.values.max())
        self.sd, self.expected = np.hypot(noise, misfit), misfit
        self.prior, self.aim = self._prior(row)
        rows, wanted = self._rows(columns, self.values)
        self.best, self.squares = nonnegative(rows, wanted)
        self.missed, self.misfit = self._left()
        self.sd = np.hypot(noise, self.misfit)

    def through(self, kernel: Floats) -> Floats:
        """Return the likeliest values at the measured points: (shapes, n)."""
        curve = np.maximum(np.einsum("snc,sc->sn", self.columns[:, : self.count], self.best), 1e-12 * self.largest)
        left = np.log(self.values) - np.log(curve)
        return np.asarray(curve * np.exp(left @ _pull(kernel, self.misfit, self.noise)[: self.count].T))

    def curves(self, shapes: NDArray[np.int64], kernel: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Return curves at the measured points and the candidates, (draws, n + m), and coefficients."""
        columns, values = self.columns[shapes], self.values[shapes]
        curve, found = self._shaken(columns, values, random)
        left = np.log(values) - np.log(curve[:, : self.count])
        return curve * np.exp(_deviation(left, kernel, self.misfit, self.noise, random)), found

    def curves_through(self, columns: Floats, values: Floats, kernel: Floats, random: np.random.Generator) -> Floats:
        """Return curves as `curves`, of each draw's own columns and through its own values: (draws, n)."""
        curve, _ = self._shaken(columns, values, random)
        left = np.log(values) - np.log(curve[:, : self.count])
        # Times that chance shook ask for powers that no law has, more than the law was shaken by.
        misfit = float(np.sqrt(self.misfit**2 + max((left**2).mean() - (self.sd**2).mean(), 0.0)))
        return np.asarray(curve * np.exp(_deviation(left, kernel, misfit, self.noise, random)))

    def _shaken(self, columns: Floats, values: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
        rows, wanted = self._rows(columns, values)
        found, _ = nonnegative(rows, wanted + _mirrored(random, wanted.shape))
        return np.maximum(np.einsum("dmc,dc->dm", columns, found), 1e-12 * self.largest), found

    def _prior(self, row: tuple[Floats, float] | None) -> tuple[Floats, Floats]:
        columns = self.columns.shape[2]
        rows = np.eye(columns) / (WEAK * self.largest)
        if row is not None:
            rows = np.vstack([rows, row[0] / (row[1] * self.largest)])
        return rows, np.zeros(len(rows))

    def _rows(self, columns: Floats, values: Floats) -> tuple[Floats, Floats]:
        scale, systems = 1 / (values * self.sd), len(columns)
        data = columns[:, : self.count, :] * scale[..., None]
        rows = np.concatenate([data, np.broadcast_to(self.prior, (systems, *self.prior.shape))], axis=1)
        wanted = np.concatenate([values * scale, np.broadcast_to(self.aim, (systems, len(self.aim)))], axis=1)
        return rows, wanted

    def _left(self) -> tuple[float, float]:
        """Return by what part the best shape is off, and the misfit that this shows where points are to spare."""
        place = int(np.argmin(self.squares))
        curve = self.columns[place, : self.count] @ self.best[place]
        left = np.log(self.values[place] / np.maximum(curve, 1e-300))
        spare = max(self.count - int((self.best[place] > 0).sum()) - 1, 0)
        beyond = max(float((left**2).sum() - spare * (self.noise**2).mean()), 0.0)
        missed = float(np.sqrt(max((left**2).mean() - (self.noise**2).mean(), 0.0)))
        if not spare:
            return missed, self.expected
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


def _pull(kernel: Floats, misfit: float, noise: Floats) -> Floats:
    """Return how what is left at the measured points counts at each point: (n + m, n)."""
    count = len(noise)
    own = misfit**2 * kernel[:count, :count] + np.diag(noise**2)
    return np.asarray(np.linalg.solve(own, misfit**2 * kernel[:count]).T)


def _deviation(left: Floats, kernel: Floats, misfit: float, noise: Floats, random: np.random.Generator) -> Floats:
    """Continue what the law leaves over at the measured points to all: (draws, n + m) in logarithms."""
    pull = _pull(kernel, misfit, noise)
    spread = misfit**2 * (kernel - pull @ kernel[: len(noise)])
    # A candidate that was measured is there twice, and where it was measured to a part of a thousand nearly nothing is
    # left: rounding may take it below 0.
    root = np.linalg.cholesky(spread + JITTER * misfit**2 * np.eye(len(spread)))
    return np.asarray(left @ pull.T + _mirrored(random, (len(left), len(root))) @ root.T)
