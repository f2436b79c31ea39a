r"""Draws curves from their posterior given the measurements: several hundred, whose spread is the uncertainty.

A shape of the law is drawn by its weight, prior times ``exp(-χ²/2)`` of its best fit. Its coefficients are fitted to
measurements with random noise added, and to a weak prior with random noise added: draws of a posterior without
negative coefficients ("randomise, then optimise"), exact if none is at its bound. The residuals of the law are a
mean-reverting random walk along the settings, conditioned on the measurements: a Gaussian process with an exponential
kernel, whose deviation is `misfit`, or estimated from the residuals if there are more points than coefficients. So
curves pass the measured points within their noise, including kinks that no law has, and spread between them. A
smoother kernel was rejected: it spreads an error at one point far along the curve and is overconfident between points.

Energy and time of a run are measured, and power is their quotient: a longer time by noise lowers the power and does not
change the energy. So each draw's power is fitted to the measured energies over *that draw's* times, and at a measured
point the energy of all draws is the measured one within its own noise, for any noise of the times. Rejected: drawing
time and power independently (this loses the measured energy), and a law of the energy as the sum of all products of the
columns of time and power (more coefficients than two points determine).

All draws come from one fixed seed, in mirrored pairs: the same table gives the same advice, which depends little on the
seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .fit import mirrored, similarity
from .laws import PRIOR, Prior, law_of
from .learned import NOTHING, Shown, fitted

if TYPE_CHECKING:
    from .algorithm import SizedAlgorithm
    from .measured import Measured

Floats = NDArray[np.float64]
DRAWS = 400
SEED = 20


@dataclass(frozen=True)
class Ran:
    """The measurements at the candidates: (m,) each, NaN where nothing was run."""

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
    waiting : (draws,) share of the time at the highest setting that does not depend on the setting.
    time_noise, energy_noise : (m,) or one for all: relative standard deviation of a further measurement, with as many
        runs as the candidate had, or as other candidates had.
    missed : relative error of the best law at the measured points, beyond their noise.
    ran : the measurements; None without any.
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
    algorithm: SizedAlgorithm | None = None,
    shown: Shown = NOTHING,
) -> Draws:
    """Draw curves over the candidates from the posterior given `measured`.

    Parameters
    ----------
    measured
        At two operating points at least.
    setting, workers
        (m,) candidates.
    prior
        Assumptions about machines.
    algorithm
        The algorithm, if its counts are known.
    shown
        What other tasks of the table show.
    """
    random, count = np.random.default_rng(SEED), len(measured.time_s)
    settings, crews = np.append(measured.setting, setting), np.append(measured.workers, workers)
    law_at = law_of if algorithm is None else algorithm.law
    law = law_at(measured, settings, crews, prior)
    kernel = similarity(settings, crews, rough=law.rough)
    found = fitted(measured, law, kernel, prior, NOTHING if algorithm is not None else shown)
    time, power = found.time, found.power
    shapes = _resample(found.weight, random)
    times, parts = time.curves(shapes, kernel, random)
    powers = power.curves_through(law.powers(shapes, parts), measured.energy_j / times[:, :count], kernel, random)
    top = int(np.argmax(np.nan_to_num(measured.setting) * 1e6 + measured.workers))
    at_top = parts[:, None, :] * law.time[shapes][:, top : top + 1, :]
    waiting = at_top[..., law.waiting].sum(axis=(1, 2)) / np.maximum(at_top.sum(axis=(1, 2)), 1e-300)
    places = measured.places(setting, workers)
    time_noise, energy_noise = (
        np.array([noise.mean() if place is None else noise[place] for place in places])
        for noise in (measured.time_noise, measured.energy_noise)
    )
    ran = Ran(*(
        np.array([np.nan if place is None else values[place] for place in places])
        for values in (measured.time_s, measured.energy_j)
    ))  # fmt: skip
    missed = max(time.missed, power.missed)
    return Draws(times[:, count:], powers[:, count:], waiting, time_noise, energy_noise, missed, ran)


def draw_as_run(measured: Measured, missed: float) -> Draws:
    """Return draws of the measured points within their noise, without a law; used if no law fits them."""
    random = np.random.default_rng(SEED)
    shape = DRAWS, len(measured.time_s)
    time_s = measured.time_s * np.exp(measured.time_noise * mirrored(random, shape))
    energy_j = measured.energy_j * np.exp(measured.energy_noise * mirrored(random, shape))
    ran = Ran(measured.time_s, measured.energy_j)
    waiting = np.full(DRAWS, np.nan)
    return Draws(time_s, energy_j / time_s, waiting, measured.time_noise, measured.energy_noise, missed, ran)


def _resample(weight: Floats, random: np.random.Generator) -> NDArray[np.int64]:
    part = np.exp(weight - weight.max())
    places = (np.arange(DRAWS // 2) + random.random()) / (DRAWS // 2)
    chosen = np.minimum(np.searchsorted(np.cumsum(part / part.sum()), places), len(part) - 1)
    return np.tile(chosen.astype(np.int64), 2)
