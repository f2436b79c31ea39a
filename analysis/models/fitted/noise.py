"""The noise of the equations: a banded covariance, its sizes by likelihood, and outliers.

- An edge that lies elsewhere in its window moves joules from one row to the next. Its variance is that of the modelled
  joules over the window, times `edge_scale`: 1 where windows are known, more if the sensor adds noise of its own.
- Instances of a task differ in power by a common relative deviation, `spread`. One that crosses an edge puts the same
  deviation into both rows.
- Rows in which hardly anything runs have noise of their own, in proportion to time: what a package does when it is left
  alone is not what instances do.
- Rows that nothing explains (another program's burst, swapping) get additional noise of their own, as Huber's weights.
- If those are many, rows in which something runs have noise of their own too, in proportion to time: threads that share
  processors stand still inside an instance, and nobody knows when.

The covariance is a band, tridiagonal unless instances last several rows, so whitening costs O(rows) per column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .equations import Rows, Work

Floats = NDArray[np.float64]
HUBER, NORMAL_MEDIAN, SPREADING = 3.5, 0.6745, 3
SIZES = ("spread2", "edge_scale", "idle_rate", "busy_rate")
SPREAD_BOUNDS = (-16.0, 3.0)
SCALE_BOUNDS, WIDE_BOUNDS = (0.0, 6.0), (-4.0, 6.0)
UNTIMED_BOUNDS = (-10.0, 30.0)
GRID, NEAR = 7, 1.5
"""Points at which a size is tried first, and how far around a size that is nearly right, on a logarithmic scale."""
NO_SPREAD2, CLEARLY = 1e-6, 20.0
"""A square of a spread that counts as none, and by how much a clear one is more likely (-2 log likelihood)."""
STEP, PRECISION = 0.01, 1e-11
"""Of the logarithm of a size: between the points whose misfits are compared, and to which the best size is found."""
LEAST_IDLE_ROWS = 10
MANY = 0.1
"""Outliers, as a part of all rows, that are not single events."""
NOTHING = 1e-18
LAGS, MOST_PRODUCTS = 32, 8_000_000
"""Most rows after one that an instance may connect with it in the noise, and most entries of the table of products."""


@dataclass(frozen=True)
class Noise:
    """Variances in joules squared, and their sizes.

    Attributes
    ----------
    before, after : (n,) of each row's first and last edge.
    linked : (n - 1,) whether a row's last edge is the next one's first.
    instances, across : (n,), (lags, n) variance of rows, and covariance with later ones, if instances deviate by 100 %.
    idle_s, busy_s : (n,) seconds of rows in which hardly anything ran, and of the others; else 0.
    bounds : of the logarithm of `edge_scale`.
    outlier : (n,) additional variance.
    edge_scale, spread2, idle_rate, busy_rate : the sizes; the rates in joules squared per second.
    """

    before: Floats
    after: Floats
    linked: NDArray[np.bool_]
    instances: Floats
    across: Floats
    idle_s: Floats
    busy_s: Floats
    bounds: tuple[float, float]
    outlier: Floats
    edge_scale: float = 1.0
    spread2: float = 1e-4
    idle_rate: float = 0.0
    busy_rate: float = 0.0

    @property
    def own(self) -> Floats:
        """Variance of each row's own noise, without outliers: (n,)."""
        return self.idle_rate * self.idle_s + self.busy_rate * self.busy_s

    def band(self) -> Floats:
        """Return the diagonal and what is below it: (lags + 1, n)."""
        band = np.zeros((len(self.across) + 1, len(self.instances)))
        band[0] = self.outlier + NOTHING
        for size in SIZES:
            of_size = self.of_size(size)
            band[: len(of_size)] += getattr(self, size) * of_size
        return band

    def of_size(self, size: str) -> Floats:
        """Return the part of the band that is in proportion to a size, for a size of 1."""
        if size == "spread2":
            return np.concatenate([self.instances[None], self.across])
        if size == "edge_scale":
            return np.array([self.before + self.after, np.append(np.where(self.linked, -self.after[:-1], 0.0), 0.0)])
        return (self.idle_s if size == "idle_rate" else self.busy_s)[None]

    def with_size(self, size: str, value: float) -> Noise:
        """Return the noise with another value of one of its sizes."""
        changed: dict[str, Any] = {size: value}
        return replace(self, **changed)

    def whiten(self, columns: Floats) -> tuple[Floats, float]:
        """Return columns, (n, m), with independent unit noise, and the logarithm of the covariance's determinant."""
        white, pivots = _whitened(self.band(), columns)
        return white, float(np.log(pivots).sum())

    def misfit(self, residual: Floats) -> float:
        """Return -2 times the logarithm of the residual's likelihood, up to a constant."""
        return _misfit(*_squares(self.band(), residual))

    def sized(self, residual: Floats, *, scaled: bool, near: bool = False) -> Noise:
        """Return the noise with its most likely sizes for a residual.

        Parameters
        ----------
        residual : (n,) joules
        scaled : whether the variance of edges may differ from that of their windows
        near : whether the sizes are nearly right already
        """
        found = self
        if scaled and self._is_restless and (self.busy_s > 0).any():
            found = found._with_own_of_busy_rows(residual)
        for _ in range(2 if scaled and not near else 1):
            spread = _around(found.spread2, SPREAD_BOUNDS) if near else SPREAD_BOUNDS
            found = _best(found, residual, "spread2", spread)
            if scaled:
                scale = _around(found.edge_scale, self.bounds) if near else self.bounds
                found = _best(found, residual, "edge_scale", scale)
        if (self.idle_s > 0).sum() < LEAST_IDLE_ROWS:
            return found
        idle = found.before + found.after
        low = float(np.log(np.median(idle[self.idle_s > 0] / self.idle_s[self.idle_s > 0]) * found.edge_scale + 1e-30))
        quiet = replace(found, idle_rate=0.0)
        noisy = _best(quiet, residual, "idle_rate", (low - 6.0, low + 12.0))
        return noisy if noisy.misfit(residual) < quiet.misfit(residual) else quiet

    @property
    def _is_restless(self) -> bool:
        return self.busy_rate > 0 or float((self.outlier > 0).mean()) > MANY

    def _with_own_of_busy_rows(self, residual: Floats) -> Noise:
        """Return the noise with own noise of busy rows, the most likely, in place of that of edges and instances.

        It starts from the median, which few outliers do not change, so that only these get more.
        """
        busy = self.busy_s > 0
        usual = float(np.median(residual[busy] ** 2 / self.busy_s[busy])) / NORMAL_MEDIAN**2 + 1e-30
        scale = float(np.exp(self.bounds[0]))
        found = replace(self, busy_rate=usual, edge_scale=scale, spread2=NO_SPREAD2).with_outliers(residual)
        middle = float(np.log(usual))
        return _best(found, residual, "busy_rate", (middle - 4.0, middle + 4.0))

    def clear_spread2(self, residual: Floats) -> float:
        """Return the spread, 0 if the residual is almost as likely without any.

        Edges of a sensor that is polled as regularly as it updates are not independent, which looks like a small one.
        """
        alike = replace(self, spread2=NO_SPREAD2)
        return self.spread2 if alike.misfit(residual) > self.misfit(residual) + CLEARLY else NO_SPREAD2

    def with_outliers(self, residual: Floats, beyond: float = HUBER) -> Noise:
        """Return the noise with more of it where a residual is unlikely: beyond so many standard deviations.

        Sizes that were found with outliers are too large: then the median shows what is usual.
        """
        found = replace(self, outlier=np.zeros(len(residual)))
        for _ in range(SPREADING):
            # A row that nothing explains also looks unlikely in its neighbours, until it has noise of its own.
            white = np.abs(found.whiten(residual[:, None])[0][:, 0])
            usual = min(float(np.median(white)) / NORMAL_MEDIAN, 1.0)
            excess = np.maximum((white / beyond) ** 2 - usual**2, 0.0)
            if not excess.any():
                break
            found = replace(found, outlier=found.outlier + found.band()[0] * excess)
        return found


def _whitened(band: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """Return columns with independent unit noise, and pivots, whose product is the covariance's determinant."""
    from scipy.linalg import cholesky_banded, solve_banded  # noqa: PLC0415 - half a second, few profiles are fitted

    factor = cholesky_banded(band, lower=True, check_finite=False)
    return np.asarray(solve_banded((len(factor) - 1, 0), factor, columns, check_finite=False)), factor[0] ** 2


def _squares(band: Floats, residual: Floats) -> tuple[Floats, Floats]:
    """Return terms whose sum is the square of the white residual, infinite if there is none, and the pivots."""
    if len(band) > 2:
        white, pivots = _whitened(band, residual)
        return white**2, pivots
    from scipy.linalg import lapack  # noqa: PLC0415 - as above

    pivots, _, solved, failed = lapack.dptsv(band[0], band[1, :-1], residual)
    # Products of arrays: BLAS would start its threads for each of hundreds of short products.
    return (np.full(len(residual), np.inf), band[0]) if failed else (residual * solved, pivots)


def _misfit(squares: Floats, pivots: Floats) -> float:
    return float(squares.sum() + np.log(pivots).sum())


def _best(noise: Noise, residual: Floats, size: str, bounds: tuple[float, float]) -> Noise:
    """Minimise the misfit over the logarithm of a size; the likelihood may have a second peak.

    At its minimum a misfit is flat, so that rounding hides the minimum within many sizes. The size from which it rises
    as much in both directions is known to nearly all digits, whatever the order of sums.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - as above

    each = np.zeros((len(noise.across) + 1, len(residual)))
    part = noise.of_size(size)
    each[: len(part)] = part
    rest = noise.with_size(size, 0.0).band()

    def squares(x: float) -> tuple[Floats, Floats]:
        return _squares(rest + np.exp(x) * each, residual)

    @cache
    def rise(x: float) -> float:
        above, below = squares(x + STEP), squares(x - STEP)
        return float((above[0] - below[0]).sum() + np.log(above[1] / below[1]).sum())

    grid = np.linspace(*bounds, GRID if bounds[1] - bounds[0] > 2 * NEAR else 3)
    at = int(np.argmin([_misfit(*squares(float(x))) for x in grid]))
    first = max(at - int(rise(float(grid[at])) > 0), 0)
    low, high = (float(x) for x in (grid[first], grid[min(first + 1, len(grid) - 1)]))
    best = brentq(rise, low, high, xtol=PRECISION) if rise(low) < 0 < rise(high) else float(grid[at])
    return noise.with_size(size, float(np.exp(best)))


def _around(size: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """Return bounds around a size."""
    middle = float(np.clip(np.log(size), bounds[0] + NEAR / 2, bounds[1] - NEAR / 2))
    return max(middle - NEAR, bounds[0]), min(middle + NEAR, bounds[1])


@dataclass(frozen=True)
class Spread:
    """Sums over instances of their squared modelled time in each row, and of products with later rows, by task.

    Attributes
    ----------
    own : (n, tasks)
    across : (lags, n, tasks) of a row and the one so many (1, 2, …) later; 0 where rows between them are not used.
    """

    own: Floats
    across: Floats

    def joined(self) -> Spread:
        """Return the same with one task in place of all."""
        return Spread(self.own.sum(axis=-1, keepdims=True), self.across.sum(axis=-1, keepdims=True))


def instance_spread(rows: Rows, work: Sequence[Work], tasks: int, late_s: float, most_lags: int = LAGS) -> Spread:
    """Sum up the squares and products that the spread between instances contributes to the noise of rows.

    An instance in more rows than there are lags counts less in products of distant ones (Bartlett's taper), which keeps
    the covariance positive.
    """
    edges_ns = rows.edges_ns - round(late_s * 0.5e9)
    count = len(edges_ns) - 1
    own = np.zeros(count * tasks)
    pieces = [_pieces(one, edges_ns, tasks, own) for one in work]
    longest = max((int(one.rows_of.max(initial=1)) for one in pieces), default=1)
    lags = int(np.clip(min(longest - 1, MOST_PRODUCTS // max(count * tasks, 1)), 1, most_lags))
    across = np.zeros((lags, count * tasks))
    for one in pieces:
        key = one.row * tasks + one.task
        _add(own, key, one.ran**2)
        for lag in range(1, lags + 1):
            same = np.flatnonzero(one.owner[lag:] == one.owner[:-lag])
            tapered = np.where(one.rows_of[same] - 1 > lags, 1 - lag / (lags + 1), 1.0)
            products = tapered * one.ran[same] * one.ran[same + lag]
            _add(across[lag - 1], key[same], products)
    own, across = own.reshape(count, tasks)[rows.at], across.reshape(lags, count, tasks)[:, rows.at]
    run = np.concatenate(([0], np.cumsum(~rows.linked)))
    for lag in range(1, lags + 1):
        across[lag - 1, len(run) - lag :] = 0.0
        across[lag - 1, : len(run) - lag][run[lag:] != run[:-lag]] = 0.0
    return Spread(own, across)


def _add(sums: Floats, at: NDArray[np.int64], values: Floats) -> None:
    """Add values at places that are near each other."""
    if len(at):
        low, high = int(at.min()), int(at.max()) + 1
        sums[low:high] += np.bincount(at - low, weights=values)


@dataclass(frozen=True)
class _Pieces:
    """The parts in rows of a thread's segments that cross an edge.

    Attributes
    ----------
    row, task, owner : (m,) of each piece; the owner is the segment.
    rows_of : (m,) in how many rows the segment is.
    ran : (m,) modelled time.
    """

    row: NDArray[np.int64]
    task: NDArray[np.int64]
    owner: NDArray[np.int64]
    rows_of: NDArray[np.int64]
    ran: Floats


def _pieces(one: Work, edges_ns: NDArray[np.int64], tasks: int, own: Floats) -> _Pieces:
    """Return the pieces of segments that cross an edge, which are few; add the squares of the others to `own`."""
    quantum = locate(one.t_ns, edges_ns).astype(np.int64) - 1
    first, last = np.maximum(quantum[:-1], 0), np.minimum(quantum[1:], len(edges_ns) - 2)
    # A segment that ends on an edge has no part in the row that begins there.
    last -= (last > first) & (edges_ns[np.maximum(last, 0)] == one.t_ns[1:])
    kept = (one.task < tasks) & (one.modelled > 0) & (quantum[1:] >= 0) & (first <= last)
    inside = kept & (quantum[:-1] == first) & (quantum[1:] == first)
    whole, across = np.flatnonzero(inside), np.flatnonzero(kept & ~inside)
    key = np.asarray(first[whole] * tasks + one.task[whole], np.int64)
    _add(own, key, one.modelled[whole] ** 2)
    counts = (last - first + 1)[across]
    owner = np.repeat(across, counts)
    row = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + first[owner]
    rows_of, ran = np.repeat(counts, counts), one.modelled[owner]
    begin_ns, end_ns = one.t_ns[owner], one.t_ns[owner + 1]
    inside_ns = np.minimum(end_ns, edges_ns[row + 1]) - np.maximum(begin_ns, edges_ns[row])
    ran *= np.maximum(inside_ns, 0) / (end_ns - begin_ns)
    return _Pieces(row, one.task[owner].astype(np.int64), owner, rows_of, ran)
