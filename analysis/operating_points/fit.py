"""Fits laws to measured values: coefficients ≥ 0, with random noise, and the residuals of the law."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .curves import Point
from .laws import PRIOR, by_frequency
from .scales import CERTAIN, LEVELS, Scale, levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .curves import Curve

Floats = NDArray[np.float64]
REACH, WORKERS_REACH = 0.35, 0.3
"""Correlation length of the residuals, as a part of the range of settings and of workers (in logarithms)."""
LEAST_SPARE = 3
"""Fewer residuals are small by chance too often."""
JITTER = 1e-9
WEAK = 3.0
"""Prior deviation of a coefficient, in the largest measured value."""
LEAST_POINTS = 3
"""Two do not determine the exponent of the power."""
NOISE = 0.03
"""Relative standard deviation of a curve's points, which weighs them against the prior."""
FAR = 0.15
"""With a larger relative residual at any explored frequency the laws are not used."""
RIDGE = 1e-9
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Noise:
    """The noise of n measured values: relative standard deviations, and their degrees of freedom."""

    value: Floats
    freedom: float = CERTAIN

    def after(self, squares: float, spare: int) -> Noise:
        """Return less noise if residuals with this sum of squares, of which so many are spare, show less."""
        shown = squares / float((self.value**2).mean())
        if spare < LEAST_SPARE or shown >= spare:
            return self
        total = self.freedom + spare
        return Noise(self.value * np.sqrt((self.freedom + shown) / total), total)


class Fit:
    """A law's columns against measured values, all relative to these; `values` may differ between shapes.

    After the fit `noise` and `misfit` are what the residuals show of them, if there are more points than coefficients.
    """

    def __init__(
        self, columns: Floats, values: Floats, noise: Noise, misfit: Scale, row: tuple[Floats, float] | None
    ) -> None:
        self.columns, self.noise, self.misfit, self.count = columns, noise, misfit, len(noise.value)
        self.values = np.broadcast_to(values, (len(columns), self.count))
        self.largest = float(self.values.max())
        self.sd = np.hypot(noise.value, misfit.value)
        self.prior, self.aim = self._prior(row)
        rows, target = self._rows(columns, self.values)
        self.best, self.squares = nonnegative(rows, target)
        self.missed, squares, self.spare = self._left()
        self.beyond = max(squares - self.spare * float((noise.value**2).mean()), 0.0)
        self.noise, self.misfit = noise.after(squares, self.spare), misfit.updated(self.beyond, self.spare)
        self.sd = np.hypot(self.noise.value, self.misfit.value)

    def through(self, kernel: Floats) -> Floats:
        """Return the most likely values at the measured points: (shapes, n)."""
        curve = np.maximum(np.einsum("snc,sc->sn", self.columns[:, : self.count], self.best), 1e-12 * self.largest)
        left = np.log(self.values) - np.log(curve)
        return np.asarray(curve * np.exp(left @ _pull(kernel, self.misfit.value, self.noise.value)[: self.count].T))

    def curves(self, shapes: NDArray[np.int64], kernel: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Return curves at the measured points and the candidates, (draws, n + m), and coefficients."""
        columns, values = self.columns[shapes], self.values[shapes]
        groups = _groups(len(shapes), self.misfit, self.noise, random)
        curve, found = self._perturbed(columns, values, groups, random)
        left = np.log(values) - np.log(curve[:, : self.count])
        return curve * np.exp(_deviation(left, kernel, groups, random)), found

    def curves_through(self, columns: Floats, values: Floats, kernel: Floats, random: np.random.Generator) -> Floats:
        """Return curves as `curves`, of each draw's own columns and through its own values: (draws, n)."""
        groups = _groups(len(values), self.misfit, self.noise, random)
        curve, _ = self._perturbed(columns, values, groups, random)
        left = np.log(values) - np.log(curve[:, : self.count])
        # Noise in the drawn times leads to powers that no law has, beyond the noise of the law itself.
        beyond = max(float((left**2).mean() - (self.sd**2).mean()), 0.0)
        wider = [replace(one, misfit=float(np.hypot(one.misfit, np.sqrt(beyond)))) for one in groups]
        return np.asarray(curve * np.exp(_deviation(left, kernel, wider, random)))

    def _perturbed(
        self, columns: Floats, values: Floats, groups: Sequence[_Group], random: np.random.Generator
    ) -> tuple[Floats, Floats]:
        rows, target = self._rows(columns, values)
        normal = mirrored(random, target.shape)
        for one in groups:
            normal[one.draws, : self.count] *= np.hypot(one.noise, one.misfit) / self.sd
        found, _ = nonnegative(rows, target + normal)
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
        target = np.concatenate([values * scale, np.broadcast_to(self.aim, (systems, len(self.aim)))], axis=1)
        return rows, target

    def _left(self) -> tuple[float, float, int]:
        """Return the error of the best shape beyond noise, the squares of its residuals, how many are spare."""
        place = int(np.argmin(self.squares))
        curve = self.columns[place, : self.count] @ self.best[place]
        left = np.log(self.values[place] / np.maximum(curve, 1e-300))
        spare = max(self.count - int((self.best[place] > 0).sum()) - 1, 0)
        missed = float(np.sqrt(max((left**2).mean() - (self.noise.value**2).mean(), 0.0)))
        return missed, float((left**2).sum()), spare


def filled(tried: Curve, frequencies_hz: Sequence[int]) -> Curve:
    """Return a curve at these frequencies and at the explored ones; only the latter if no law fits them.

    Laws are those of the frequency without a knee, which a few points do not determine. Residuals at the explored
    frequencies are interpolated, so the curve passes through the measured points. Frequencies outside the explored
    range are left out.
    """
    if len(tried) < LEAST_POINTS or min(min(point.time_s, point.energy_j) for point in tried.values()) <= 0:
        return tried
    explored = sorted(tried)
    between = sorted({hz for hz in frequencies_hz if explored[0] < hz < explored[-1]} - set(tried))
    hz = np.array([*explored, *between], float)
    _, slowness, power, weight = by_frequency(hz, hz[0], float(explored[-1]), replace(PRIOR, knees=0, ceilings=0))
    time = np.stack([np.ones_like(slowness[:1]), slowness[:1]], axis=2)
    time_s = _through(hz, time, np.zeros(1), np.array([tried[one].time_s for one in explored]))
    power_w = _through(hz, power, weight, np.array([tried[one].power_w for one in explored]))
    if time_s is None or power_w is None:
        return tried
    made = [Point(*pair) for pair in zip((power_w * time_s).tolist(), time_s.tolist(), strict=True)]
    curve = dict(zip([*explored, *between], made, strict=True)) | dict(tried)
    return dict(sorted(curve.items()))


def _through(hz: Floats, columns: Floats, weight: Floats, values: Floats) -> Floats | None:
    """Return the best shape's values through those at the first frequencies; None if a residual is too large."""
    count = len(values)
    coefficients, squares = nonnegative(columns[:, :count] / values[:, None], np.ones((len(columns), count)))
    best = int(np.argmin(squares / NOISE**2 - 2 * weight))
    curve = columns[best] @ coefficients[best]
    left = values / curve[:count]
    if np.abs(left - 1).max() > FAR:
        return None
    return np.asarray(curve * np.interp(hz, hz[:count], left))


def mirrored(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return normal numbers whose second half is the first negated: their mean is exactly 0."""
    half = random.standard_normal((shape[0] // 2, *shape[1:]))
    return np.concatenate([half, -half])


def similarity(setting: Floats, workers: NDArray[np.int64], *, rough: float) -> Floats:
    """Return the correlation of the residuals of any two points, measured ones first.

    Parameters
    ----------
    setting, workers
        Of the points.
    rough
        Part of the residuals' variance that may have kinks along the settings; the rest has a slope. Along the workers
        all of it may.
    """
    apart = _apart(np.nan_to_num(setting, nan=1.0)) / REACH
    smooth = (1 + apart) * np.exp(-apart)
    along_workers = np.exp(-_apart(workers.astype(float)) / WORKERS_REACH)
    return np.asarray((rough * np.exp(-apart) + (1 - rough) * smooth) * along_workers)


def _apart(values: Floats) -> Floats:
    place = _place(values)
    return np.abs(place[:, None] - place[None, :])


def _place(values: Floats) -> Floats:
    logs = np.log(values)
    return np.asarray((logs - logs.min()) / max(float(np.ptp(logs)), 1e-12))


def _pull(kernel: Floats, misfit: float, noise: Floats) -> Floats:
    """Return the weights of the residuals at the measured points for each point: (n + m, n)."""
    count = len(noise)
    own = misfit**2 * kernel[:count, :count] + np.diag(noise**2)
    return np.asarray(np.linalg.solve(own, misfit**2 * kernel[:count]).T)


@dataclass(frozen=True)
class _Group:
    """Draws with the same scales: which, the misfit, the noise of each measured value."""

    draws: NDArray[np.int64]
    misfit: float
    noise: Floats


def _groups(draws: int, misfit: Scale, noise: Noise, random: np.random.Generator) -> list[_Group]:
    """Return the draws in groups whose scales stand for the distributions of both; both of a mirrored pair in one."""
    order, mixed = random.permutation(draws // 2), random.permutation(levels(noise.freedom))
    some = [order[level::LEVELS] for level in range(LEVELS)]
    return [
        _Group(np.concatenate([half, half + draws // 2]), of_misfit * misfit.value, of_noise * noise.value)
        for half, of_misfit, of_noise in zip(some, levels(misfit.freedom), mixed, strict=True)
    ]


def _deviation(left: Floats, kernel: Floats, groups: Sequence[_Group], random: np.random.Generator) -> Floats:
    """Extend the residuals at the measured points to all points: (draws, n + m) in logarithms."""
    found, normal = np.empty((len(left), len(kernel))), mirrored(random, (len(left), len(kernel)))
    for one in groups:
        pull = _pull(kernel, one.misfit, one.noise)
        spread = one.misfit**2 * (kernel - pull @ kernel[: len(one.noise)])
        # A measured candidate occurs twice; if its noise is tiny, rounding may take its variance below 0.
        root = np.linalg.cholesky(spread + JITTER * one.misfit**2 * np.eye(len(spread)))
        found[one.draws] = left[one.draws] @ pull.T + normal[one.draws] @ root.T
    return found


def nonnegative(rows: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the best coefficients ≥ 0, and the sums of squared residuals.

    Solves for every set of positive columns and selects the best valid one: exact, and cheap for the few columns of a
    law, O(systems * 2^columns). An iterative solver would treat each system separately.

    Parameters
    ----------
    rows : (systems, n, columns)
    target : (systems, n)

    Returns
    -------
    tuple
        (systems, columns) and (systems,).
    """
    gram = np.einsum("sni,snj->sij", rows, rows)
    right = np.einsum("sni,sn->si", rows, target)
    total = np.einsum("sn,sn->s", target, target)
    best, least = np.zeros_like(right), total.copy()
    columns = rows.shape[2]
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            some = list(chosen)
            part = gram[:, some][:, :, some]
            traces = np.einsum("sii->s", part)
            ridge = np.where(traces > 0, RIDGE * traces, 1.0)[:, None, None] * np.eye(size)
            found = np.linalg.solve(part + ridge, right[:, some][..., None])[..., 0]
            left = total - np.einsum("si,si->s", found, right[:, some])
            better = (found >= 0).all(axis=1) & (left < least * (1 - TOLERANCE))
            least = np.where(better, left, least)
            padded = np.zeros_like(best)
            padded[:, some] = found
            best = np.where(better[:, None], padded, best)
    return best, np.maximum(least, 0.0)
