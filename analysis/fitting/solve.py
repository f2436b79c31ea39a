"""Non-negative generalised least squares with a prior: powers, their covariance, and the noise they were found under.

The sizes of the two parts of the noise are found by likelihood; quanta that no power explains are believed less
(Huber's weights, by more noise of their own), so that a page of swapping or another program's burst does not decide.
The prior is weak: without evidence a task draws what a busy second draws on average, give or take as much again. It
makes a task that is hardly seen, or two that always run together, uncertain rather than absurd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, nnls

from .noise import Noise

Floats = NDArray[np.float64]
HUBER = 3.0
ROUNDS = 3
LAGS = 3
OWN_BOUNDS = (-14.0, 10.0)
NEARBY = 1.5
RUNS, RUN_ROWS = 10, 500


@dataclass(frozen=True)
class Prior:
    """What is believed before the data: (k,) means and standard deviations."""

    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class Solution:
    """Estimates of the columns' powers.

    Attributes
    ----------
    power : (k,), not negative where `bounded`.
    covariance : (k, k) of the estimates before they were bounded.
    scale : of the noise against what was expected of it: 1 where the windows explain all.
    badness : twice the negative logarithm of the likelihood.
    """

    power: Floats
    covariance: Floats
    scale: float
    badness: float


def solve(time: Floats, energy_j: Floats, noise: Noise, prior: Prior, bounded: NDArray[np.bool_]) -> Solution:
    """Find powers so that time times power is energy.

    Parameters
    ----------
    time : (n, k)
    energy_j : (n,)
    noise : its `own` part is a unit whose size is found
    prior : of the powers
    bounded : (k,) columns whose power cannot be negative
    """
    weights, bounds = np.ones(len(energy_j)), OWN_BOUNDS
    for _ in range(ROUNDS):
        size, scale, badness = _sizes(time, energy_j, noise, weights, prior, bounds)
        # Other weights move the size a little: it is not looked for everywhere again.
        bounds = (np.log(size) - NEARBY, np.log(size) + NEARBY)
        sized = _noise(noise, size, scale, weights)
        white, _ = sized.whiten(np.column_stack([time, energy_j]))
        precise, target = _with_prior(white[:, :-1], white[:, -1], prior)
        power = _bounded(precise, target, bounded)
        residual = white[:, -1] - white[:, :-1] @ power
        weights = weights * np.minimum(HUBER / np.maximum(np.abs(residual), 1e-12), 1.0) ** 2
        weights = np.maximum(weights, 1e-6)
    covariance = _covariance(precise, white[:, :-1] * residual[:, None])
    return Solution(power, covariance, scale, badness)


def _covariance(precise: Floats, scores: Floats) -> Floats:
    """Return the covariance of the powers, from residuals as they go with their neighbours' (Newey and West, 1987).

    The noise model takes a quantum's own noise for independent, and as large in every quantum. It is neither: an
    instance that lies across an edge is in two quanta, and which tasks run decides how much is open. The residuals
    show what is left of both; where they show less than the model expects, the model is believed.
    """
    count, columns = scores.shape
    inverse = np.linalg.pinv(precise.T @ precise, hermitian=True)
    seen = scores.T @ scores
    for lag in range(1, min(LAGS, count - 1) + 1):
        both = scores[lag:].T @ scores[:-lag]
        seen += (1 - lag / (LAGS + 1)) * (both + both.T)
    prior = precise[count:]
    seen = seen * (count / max(count - columns, 1)) + prior.T @ prior
    found = inverse @ seen @ inverse
    larger = np.sqrt(np.maximum(np.diag(inverse) / np.maximum(np.diag(found), 1e-300), 1.0))
    return np.asarray(found * np.outer(larger, larger), np.float64)


def _noise(noise: Noise, size: float, scale: float, weights: Floats) -> Noise:
    surprise = (1 / weights - 1) * (noise.before + noise.after + size * noise.own)
    return Noise(noise.before * scale, noise.after * scale, noise.linked, (size * noise.own + surprise) * scale)


def _sizes(
    time: Floats, energy_j: Floats, noise: Noise, weights: Floats, prior: Prior, bounds: tuple[float, float]
) -> tuple[float, float, float]:
    """Return the size of the quanta's own noise against the edges', and the scale of both, by likelihood."""
    # One number needs no more than some thousand rows: runs of neighbours from all over the recording.
    some = _runs(len(energy_j))
    part = (time[some], energy_j[some], noise.at(some), weights[some], prior)
    best = minimize_scalar(lambda x: _measured(x, *part)[0], bounds=bounds, method="bounded", options={"xatol": 0.1})
    badness, scale = _measured(float(best.x), time, energy_j, noise, weights, prior)
    return float(np.exp(best.x)), max(scale, 1e-12), 2 * badness


def _measured(
    logarithm: float, time: Floats, energy_j: Floats, noise: Noise, weights: Floats, prior: Prior
) -> tuple[float, float]:
    """Return the negative logarithm of the likelihood of a size, and the scale that goes with it."""
    columns = np.column_stack([time, energy_j])
    white, determinant = _noise(noise, float(np.exp(logarithm)), 1.0, weights).whiten(columns)
    precise, target = _with_prior(white[:, :-1], white[:, -1], prior)
    residual = white[:, -1] - white[:, :-1] @ _least_squares(precise, target)
    freedom = max(len(residual) - time.shape[1], 1)
    scale = float(residual @ residual) / freedom
    return determinant / 2 + freedom / 2 * np.log(max(scale, 1e-300)), scale


def _runs(rows: int) -> NDArray[np.intp]:
    """Return all rows where they are few, else runs of neighbours evenly over them."""
    if rows <= 2 * RUNS * RUN_ROWS:
        return np.arange(rows)
    starts = np.linspace(0, rows - RUN_ROWS, RUNS).astype(np.intp)
    return np.asarray((starts[:, None] + np.arange(RUN_ROWS)).ravel())


def _least_squares(precise: Floats, target: Floats) -> Floats:
    """Solve by the normal equations, of columns of like size: far fewer operations than a decomposition of all rows.

    What they lose in accuracy is in directions that the readings do not tell, where it changes no residual.
    """
    size = np.maximum(np.sqrt(np.einsum("ij,ij->j", precise, precise)), 1e-300)
    gram = (precise.T @ precise) / np.outer(size, size)
    return np.asarray(np.linalg.lstsq(gram, (precise.T @ target) / size, rcond=None)[0] / size)


def _with_prior(white: Floats, target: Floats, prior: Prior) -> tuple[Floats, Floats]:
    rows = np.diag(1 / prior.deviation)
    return np.vstack([white, rows]), np.concatenate([target, prior.mean / prior.deviation])


def _bounded(precise: Floats, target: Floats, bounded: NDArray[np.bool_]) -> Floats:
    """Least squares with some columns not negative: a free column is the difference of two that are not."""
    free = np.flatnonzero(~bounded)
    # Columns of like size, or the solver's tolerance forgets the small ones.
    size = np.maximum(np.sqrt((precise**2).sum(axis=0)), 1e-300)
    scaled = precise / size
    triangle = np.asarray(np.linalg.qr(np.column_stack([scaled, -scaled[:, free], target]), mode="r"))
    found = nnls(triangle[:, :-1], triangle[:, -1], maxiter=50 * triangle.shape[1])[0]
    power = found[: precise.shape[1]].copy()
    power[free] -= found[precise.shape[1] :]
    return np.asarray(power / size)
