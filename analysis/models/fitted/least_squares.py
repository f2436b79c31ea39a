"""Non-negative generalised least squares with a prior: powers, their covariance, and the noise.

The sizes of the two parts of the noise are found by maximum likelihood. Quanta that no powers explain get lower weights
(Huber's, as additional noise of their own), so that swapping or another program's burst does not dominate the fit. The
prior is weak: without data a task has the mean power of a busy second, with a standard deviation of the same size. With
it, a task with few samples, or two tasks that always run together, become uncertain instead of absurd.

The error of an edge moves power times that time from one quantum to the other. If the errors of edges are independent,
the covariance of neighbouring quanta is minus the variance of their common edge. The matrix is tridiagonal and its
Cholesky factor bidiagonal, so whitening costs O(quanta) per column. The diagonal also holds each quantum's own noise:
the spread between instances and the error of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
HUBER = 3.0
ROUNDS = 4
OWN_BOUNDS = (-14.0, 10.0)
GRID = 7
LAGS = 3


@dataclass(frozen=True)
class Prior:
    """Prior of the powers: (k,) means and standard deviations."""

    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class Solution:
    """Estimates of the columns' powers.

    Attributes
    ----------
    power : (k,), not negative where `bounded`.
    covariance : (k, k) of the estimates before they were bounded.
    own : (n,) variance of each quantum's own noise, joules squared.
    scale : observed noise relative to the expected one; 1 if the windows explain all of it.
    negative_log_likelihood : of the residuals, up to a constant.
    """

    power: Floats
    covariance: Floats
    own: Floats
    scale: float
    negative_log_likelihood: float


def solve(time: Floats, energy_j: Floats, noise: Noise, prior: Prior, bounded: NDArray[np.bool_]) -> Solution:
    """Find powers so that time times power is energy.

    Parameters
    ----------
    time : (n, k)
    energy_j : (n,)
    noise : the size of its `own` part is estimated
    prior : of the powers
    bounded : (k,) columns whose power cannot be negative
    """
    weights = np.ones(len(energy_j))
    freedom = max(len(energy_j) - time.shape[1], 1)
    size = scale = 1.0
    for _ in range(ROUNDS):
        white, _ = _noise(noise, size, scale, weights).whiten(np.column_stack([time, energy_j]))
        precise, target = _with_prior(white[:, :-1], white[:, -1], prior)
        power = _bounded(precise, target, bounded)
        residual = energy_j - time @ power
        size, scale, nll = _sizes(residual, noise, weights, freedom)
        unlikely = np.abs(_noise(noise, size, scale, weights).whiten(residual[:, None])[0][:, 0])
        weights = np.maximum(weights * np.minimum(HUBER / np.maximum(unlikely, 1e-12), 1.0) ** 2, 1e-6)
    # Once more with the last estimate of the noise.
    white, _ = _noise(noise, size, scale, weights).whiten(np.column_stack([time, energy_j]))
    precise, target = _with_prior(white[:, :-1], white[:, -1], prior)
    power = _bounded(precise, target, bounded)
    unexplained = white[:, -1] - white[:, :-1] @ power
    covariance = _covariance(precise, white[:, :-1] * unexplained[:, None])
    return Solution(power, covariance, size * scale * noise.own, scale, nll)


def _covariance(precise: Floats, scores: Floats) -> Floats:
    """Return the covariance of the powers, from autocorrelated residuals (Newey and West, 1987).

    The noise model assumes that the quanta's own noise is independent and equally large. It is neither: an instance
    across an edge is in two quanta, and the noise depends on the tasks that run. The residuals show both effects; the
    model's variance remains the lower bound.
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


def _sizes(residual: Floats, noise: Noise, weights: Floats, freedom: int) -> tuple[float, float, float]:
    """Return the size of the quanta's own noise relative to the edges', the scale of both, and the likelihood.

    The powers stay fixed: solving for them at each size would cost many times as much as everything else.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - half a second, and few profiles are fitted

    def profiled(logarithm: float) -> tuple[float, float]:
        white, determinant = _noise(noise, float(np.exp(logarithm)), 1.0, weights).whiten(residual[:, None])
        scale = float((white**2).sum()) / freedom
        return determinant / 2 + freedom / 2 * np.log(max(scale, 1e-300)), scale

    # The likelihood has a second peak if the windows are far too wide or too narrow.
    grid = np.linspace(*OWN_BOUNDS, GRID)
    best = int(np.argmin([profiled(float(at))[0] for at in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)])
    found = minimize_scalar(lambda x: profiled(x)[0], bounds=around, method="bounded", options={"xatol": 0.1})
    nll, scale = profiled(float(found.x))
    return float(np.exp(found.x)), max(scale, 1e-12), nll


def _with_prior(white: Floats, target: Floats, prior: Prior) -> tuple[Floats, Floats]:
    rows = np.diag(1 / prior.deviation)
    return np.vstack([white, rows]), np.concatenate([target, prior.mean / prior.deviation])


def _bounded(precise: Floats, target: Floats, bounded: NDArray[np.bool_]) -> Floats:
    """Least squares with some columns not negative: a free column is the difference of two that are not."""
    from scipy.optimize import nnls  # noqa: PLC0415 - as in _sizes

    free = np.flatnonzero(~bounded)
    # Columns of similar size: the solver's tolerance would drop the small ones.
    size = np.maximum(np.sqrt((precise**2).sum(axis=0)), 1e-300)
    scaled = precise / size
    triangle = np.asarray(np.linalg.qr(np.column_stack([scaled, -scaled[:, free], target]), mode="r"))
    found = nnls(triangle[:, :-1], triangle[:, -1], maxiter=50 * triangle.shape[1])[0]
    power = found[: precise.shape[1]].copy()
    power[free] -= found[precise.shape[1] :]
    return np.asarray(power / size)


@dataclass(frozen=True)
class Noise:
    """Variances in joules squared.

    Attributes
    ----------
    before, after : (n,) of each quantum's first and last edge.
    linked : (n - 1,) whether a quantum's last edge is the next one's first.
    own : (n,) of the quantum itself.
    """

    before: Floats
    after: Floats
    linked: NDArray[np.bool_]
    own: Floats

    def whiten(self, columns: Floats) -> tuple[Floats, float]:
        """Return columns with independent unit noise, and the logarithm of the covariance's determinant.

        Parameters
        ----------
        columns : (n, m)
        """
        from scipy.linalg import cholesky_banded, solve_banded  # noqa: PLC0415 - as in _sizes

        band = np.zeros((2, len(self.own)))
        band[0] = self.before + self.after + self.own
        band[1, :-1] = np.where(self.linked, -self.after[:-1], 0.0)
        factor = cholesky_banded(band, lower=True)
        return np.asarray(solve_banded((1, 0), factor, columns)), float(2 * np.log(factor[0]).sum())


def edge_variance(power_w: Floats, window_s: Floats, unit_j: float) -> Floats:
    """Return the variance of joules at each edge: uniform in its window, and rounded to whole counts.

    Parameters
    ----------
    power_w : (n + 1,) of the domain around each edge
    window_s : (n + 1,)
    unit_j : one count
    """
    return np.asarray(((power_w * window_s) ** 2 + unit_j**2) / 12)
