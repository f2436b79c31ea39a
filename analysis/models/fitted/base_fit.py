"""The fit of the base columns alone, with the noise and the lateness of the sensor.

The base columns are the tasks, the program between its tasks, CPU time without samples, and static power. Powers and
noise depend on each other, so they are found in turns. Lateness is tried in steps: one is taken if its likelihood is
clearly better than that of none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .averaging import Prior
from .equations import Edges, Rows, Work, base_columns, worked_in
from .noise import HUBER, SCALE_BOUNDS, UNTIMED_BOUNDS, WIDE_BOUNDS, Noise, Spread, instance_spread
from .products import crossed, times

if TYPE_CHECKING:
    from collections.abc import Sequence


Floats = NDArray[np.float64]
LATE_S = (0.0, 5e-5, 1e-4, 2e-4, 3.5e-4, 5e-4, 7e-4, 1e-3)
HOPELESS = 60.0
"""A lateness that is so much less likely (-2 log likelihood) than another ends the search."""
ROUNDS, REFINED = 3, 4
GROSS = 20.0
"""Standard deviations beyond which a row is an outlier for any lateness."""
CLOSELY = 0.5
"""Windows shorter than this part of the time between updates show how late these are."""
IDLE = 0.02
"""Busy cores up to which a row counts as idle."""
FLOOR = 0.05
"""Least power of a task in the noise, as a part of the largest."""


@dataclass(frozen=True)
class Belief:
    """What is known of a domain before its readings are used.

    Attributes
    ----------
    static_w : static power; None if unknown.
    static_share : its relative standard deviation.
    power_share : relative standard deviation of a task's power around the mean of all tasks: 1 for a model without
        calibration, about the model's own error for a calibrated one.
    """

    static_w: float | None = None
    static_share: float = 1e-3
    power_share: float = 1.0


@dataclass(frozen=True)
class BaseFit:
    """A fit of the base columns alone.

    Attributes
    ----------
    time : (n, b) columns.
    power : (b,)
    noise : with its sizes.
    misfit : -2 times the logarithm of the likelihood.
    """

    time: Floats
    power: Floats
    noise: Noise
    misfit: float


@dataclass(frozen=True)
class Equations:
    """Rows with their base columns and all that their noise consists of."""

    rows: Rows
    time: Floats
    edges: Edges
    spread: Spread

    @classmethod
    def of(cls, rows: Rows, work: Sequence[Work], tasks: int, late_s: float, spread: Spread | None = None) -> Equations:
        """Set them up for a lateness; `spread` is computed unless it is given."""
        time, edges = base_columns(rows, work, tasks, late_s)
        hidden, length = rows.hidden_s[rows.at], rows.length_s
        spread = instance_spread(rows, work, tasks, late_s) if spread is None else spread
        return cls(rows, np.column_stack([time, hidden, length]), edges, spread)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.time.shape[1]) - 3

    @property
    def energy_j(self) -> Floats:
        """Measured joules of the rows: (n,)."""
        return self.rows.energy_j[self.rows.at]

    def joined(self) -> Equations:
        """Return the same with one column for all that runs."""
        ran = self.time[:, : self.tasks + 2].sum(axis=1)
        time = np.column_stack([ran, np.zeros((len(ran), 2)), self.time[:, -1]])
        return replace(self, time=time, edges=self.edges.joined(), spread=self.spread.joined())

    def noise(self, power: Floats, sizes: Noise | None) -> Noise:
        """Return the noise expected with these powers, with the sizes of another one."""
        tasks = self.tasks
        watts = np.maximum(power, FLOOR * max(float(power[:tasks].max(initial=0.0)), 1e-12))
        variance = self.edges.variance(watts[: tasks + 1], power[-1]) + self.rows.unit_j**2 / 12
        if not self.rows.timed:
            # The scale of the noise gives the size of unknown windows, so any constant will do.
            variance = variance + (1e-6 * float(np.mean(self.energy_j / self.rows.length_s))) ** 2
        at = self.rows.at
        squares = watts[:tasks] ** 2
        busy = self.time[:, : tasks + 2].sum(axis=1) / self.rows.length_s
        across = np.array([times(lag, squares) for lag in self.spread.across])
        found = Noise(
            variance[at], variance[at + 1], self.rows.linked, times(self.spread.own, squares), across,
            np.where(busy < IDLE, self.rows.length_s, 0.0), np.where(busy < IDLE, 0.0, self.rows.length_s),
            _scale_bounds(self.rows), np.zeros(len(at)),
        )  # fmt: skip
        if sizes is None:
            return found
        return replace(
            found, edge_scale=sizes.edge_scale, spread2=sizes.spread2, idle_rate=sizes.idle_rate,
            busy_rate=sizes.busy_rate,
        )  # fmt: skip


def is_close(rows: Rows) -> bool:
    """Return whether updates are timed closely.

    In a window as long as the time between updates an update is not equally likely at each moment.
    """
    return rows.timed and bool(np.median(rows.window_ns) * 1e-9 < CLOSELY * np.median(rows.length_s))


def _scale_bounds(rows: Rows) -> tuple[float, float]:
    return SCALE_BOUNDS if is_close(rows) else WIDE_BOUNDS if rows.timed else UNTIMED_BOUNDS


def prior_of(rows: Rows, work: Sequence[Work], tasks: int, belief: Belief) -> Prior:
    """Return the prior of the base columns.

    The prior mean of a task is the mean power of a busy second. Unknown static power lies anywhere between zero and
    the lowest power observed; idle quanta determine it far better.
    """
    energy_j, length_s = rows.energy_j[rows.at], rows.length_s
    watts = energy_j / np.maximum(length_s, 1e-12)
    floor_w = float(np.percentile(watts, 2)) / 2 if belief.static_w is None else belief.static_w
    ran = sum(float(one.modelled.sum()) for one in work) + float(rows.hidden_s.sum())
    above_j = max(float(energy_j.sum() - floor_w * length_s.sum()), 0.05 * float(energy_j.sum()))
    mean = np.full(tasks + 3, above_j / ran if ran > 0 else 1.0)
    deviation = mean * belief.power_share
    # The model was not calibrated for what runs between tasks and without samples.
    deviation[tasks : tasks + 2] = mean[tasks : tasks + 2]
    mean[-1] = floor_w
    deviation[-1] = floor_w if belief.static_w is None else belief.static_share * floor_w
    return Prior(mean, np.maximum(deviation, 1e-9))


@dataclass(frozen=True)
class Lateness:
    """The most likely lateness, by how much it is better than none, and the base fit with it."""

    late_s: float
    gain: float
    base: BaseFit


def find_lateness(rows: Rows, work: Sequence[Work], prior: Prior, tasks: int) -> Lateness:
    """Find how late the sensor shows its updates."""
    ran = worked_in(rows, work, LATE_S[-1])
    spread = instance_spread(rows, ran, tasks, 0.0, most_lags=1)
    found: dict[float, BaseFit] = {}
    for late_s in LATE_S if is_close(rows) else LATE_S[:1]:
        start = found[max(found)] if found else None
        found[late_s] = fit_base(Equations.of(rows, ran, tasks, late_s, spread), prior, start, scaled=not rows.timed)
        least = min(base.misfit for base in found.values())
        if late_s >= LATE_S[2] and found[late_s].misfit > least + HOPELESS:
            break
    penalty = 2 * float(np.log(len(rows)))
    late_s = min(found, key=lambda late: found[late].misfit + (penalty if late else 0.0))
    if not late_s:
        return Lateness(0.0, 0.0, found[0.0])
    # A sensor's own noise at its updates also looks like lateness, until both may have as much of it as fits.
    none, late = (
        fit_base(Equations.of(rows, ran, tasks, one, spread), prior, found[one], scaled=True) for one in (0.0, late_s)
    )
    gain = none.misfit - late.misfit
    return Lateness(late_s, gain, found[late_s]) if gain > penalty else Lateness(0.0, 0.0, found[0.0])


def fit_base(equations: Equations, prior: Prior, start: BaseFit | None, *, scaled: bool) -> BaseFit:
    """Fit the base columns alone, with the sizes of the noise."""
    time, energy_j = equations.time, equations.energy_j
    # Noise that adapts to each lateness would make their likelihoods no longer comparable.
    beyond = HUBER if scaled else GROSS
    power, noise = prior.mean, equations.noise(prior.mean, None)
    if start is not None:
        power, noise = start.power, start.noise
    for number in range(ROUNDS if start is None else ROUNDS - 1):
        noise = equations.noise(power, noise)
        # The very first powers are guesses, of which the noise cannot be told.
        if start is not None or number > 0:
            residual = energy_j - times(time, power)
            noise = noise.with_outliers(residual, beyond).sized(residual, scaled=scaled, near=number > (start is None))
        power = _least_squares(noise, time, energy_j, prior)
    residual = energy_j - times(time, power)
    noise = noise.with_outliers(residual, beyond)
    return BaseFit(time, power, noise, noise.misfit(residual))


def _least_squares(noise: Noise, time: Floats, energy_j: Floats, prior: Prior) -> Floats:
    white, _ = noise.whiten(np.column_stack([time, energy_j]))
    columns, target = white[:, :-1], white[:, -1]
    precise = crossed(columns, columns) + np.diag(prior.deviation**-2.0)
    power = np.zeros(len(prior.mean))
    # Tasks that always ran together differ in the last digits only: each step gains some of those that a sum loses.
    for _ in range(REFINED):
        along = crossed(columns, target - times(columns, power)) + (prior.mean - power) / prior.deviation**2
        power = power + np.linalg.solve(precise, along)
    return np.asarray(power)


def gain_over_one_power(equations: Equations, prior: Prior, full: BaseFit) -> float:
    """Compare with a fit of one power for everything that runs; a single task has no gain."""
    tasks = equations.tasks
    ran = (equations.time[:, : tasks + 2].sum(axis=0) > 0).sum()
    if (equations.time[:, :tasks].sum(axis=0) > 0).sum() < 2:
        return -np.inf
    kept = [0, tasks, tasks + 1, tasks + 2]
    few = Prior(prior.mean[kept], prior.deviation[kept])
    joined = fit_base(equations.joined(), few, None, scaled=True)
    return joined.misfit - full.misfit - (int(ran) - 1) * float(np.log(len(equations.time)))
