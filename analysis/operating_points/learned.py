"""What a table's tasks show of each other: the shape of their processor's law, and how far laws are off.

A task that was run at two operating points leaves nothing to check a law by. Other tasks of the same table, run on the
same processor at more points, do: the law is fitted to them at the points of the first task alone, and the points left
out show which exponents, knees and ceilings predict, and how far from them the best one is. Both are shrunk towards the
prior, the less so the more tasks there are: shapes keep a part of the prior, since a task may be of its own kind, and
misfits keep their few degrees of freedom.

Where all tasks were run at the same points, nothing is left out, and the residuals of the others count in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .fit import Fit, Noise, similarity
from .laws import PRIOR, law_of
from .scales import Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .laws import Law, Prior
    from .measured import Measured

Floats = NDArray[np.float64]
TASKS = 2.0
"""So many tasks that show something count as much as the prior of shapes."""
INDEPENDENT = 3.0
"""Points left out of one task count as so many independent ones at most: a law is off at neighbours alike."""
MOST_RATIO = 3.0
"""Most that a square of one task counts, relative to the one expected."""


@dataclass(frozen=True)
class Finding:
    """What one task shows: probabilities of the shapes, and squares over those expected, of time and of power."""

    shapes: Floats
    ratios: tuple[float, float]
    spare: float


@dataclass(frozen=True)
class Shown:
    """What the other tasks show of one with the same settings."""

    findings: tuple[Finding, ...] = ()

    def shapes(self, weight: Floats) -> Floats:
        """Return log weights of shapes: the prior's, mixed with what predicts the other tasks."""
        if not self.findings:
            return weight
        prior = np.exp(weight - weight.max())
        part = len(self.findings) / (len(self.findings) + TASKS)
        return np.asarray(
            np.log((1 - part) * prior / prior.sum() + part * np.mean([one.shapes for one in self.findings], axis=0))
        )

    def misfit(self, place: int, expected: Scale) -> Scale:
        """Return the misfit of the time (place 0) or the power (1) after the other tasks."""
        squares = sum(min(one.ratios[place], MOST_RATIO * one.spare) for one in self.findings)
        spare = sum(one.spare for one in self.findings)
        # Others show the size of misfits, and nothing of how much tasks differ in it: the freedom stays.
        return expected.times(float(np.sqrt((expected.freedom + squares) / (expected.freedom + spare))))


NOTHING = Shown()


@dataclass(frozen=True)
class Learned:
    """All tasks of a table."""

    tasks: Sequence[Measured] = ()
    prior: Prior = PRIOR
    _found: dict[Any, Finding | None] = field(default_factory=dict, repr=False)

    def of(self, measured: Measured) -> Shown:
        """Return what the other tasks show of this one."""
        found = (self._finding(one, measured) for one in self.tasks if one.task != measured.task)
        return Shown(tuple(one for one in found if one is not None))

    def _finding(self, other: Measured, measured: Measured) -> Finding | None:
        key = other.task, measured.setting.tobytes(), measured.workers.tobytes()
        if key not in self._found:
            self._found[key] = _finding(other, measured, self.prior)
        return self._found[key]


@dataclass(frozen=True)
class Fits:
    """The law of a task, fitted to its time and its power; `weight` are the shapes' log probabilities after both."""

    law: Law
    time: Fit
    power: Fit
    weight: Floats


def fitted(measured: Measured, law: Law, kernel: Floats, prior: Prior, shown: Shown = NOTHING) -> Fits:
    """Fit a law whose first points are those of `measured`; `kernel` is their `similarity` and that of the others."""
    misfits = [shown.misfit(place, one) for place, one in enumerate(_expected(measured, law, prior))]
    noises = Noise(measured.time_noise, measured.time_freedom), Noise(measured.energy_noise, measured.energy_freedom)
    time = Fit(law.time, measured.time_s, noises[0], misfits[0], _waiting_row(law, measured))
    power_w = measured.energy_j / time.through(kernel)
    power = Fit(law.powers(np.arange(len(law.weight)), time.best), power_w, noises[1], misfits[1], None)
    weight = shown.shapes(law.weight) - 0.5 * (time.squares + power.squares)
    return Fits(law, time, power, np.asarray(weight))


def _finding(other: Measured, measured: Measured, prior: Prior) -> Finding | None:
    """Return what a task shows of another one; None if nothing, or if it was not run at all of its points."""
    places = other.places(measured.setting, measured.workers)
    if other.unit != measured.unit or None in places or len(set(places)) < 2:
        return None
    left_out = [place for place in range(len(other.time_s)) if place not in places]
    order = np.array([*places, *left_out], int)
    given, setting, workers = _at(other, order[: len(places)]), other.setting[order], other.workers[order]
    law = law_of(given, setting, workers, prior)
    found = fitted(given, law, similarity(setting, workers, rough=law.rough), prior)
    if left_out:
        return _predicting(other, order, found, _expected(given, law, prior))
    if not (found.time.spare and found.power.spare):
        return None
    spare = float(min(found.time.spare, found.power.spare))
    expected = _expected(given, law, prior)
    time, power = (fit.beyond / one.value**2 for fit, one in zip((found.time, found.power), expected, strict=True))
    return Finding(_normalised(found.weight), (time, power), spare)


def _predicting(other: Measured, order: NDArray[np.int64], found: Fits, expected: tuple[Scale, Scale]) -> Finding:
    """Return how each shape, fitted to the first points of an order, predicts the others."""
    count = found.time.count
    left_out = order[count:]
    part = min(INDEPENDENT / len(left_out), 1.0)
    time_s, power_w = (
        np.maximum(np.einsum("smc,sc->sm", columns[:, count:], fit.best), 1e-300)
        for columns, fit in (
            (found.law.time, found.time),
            (found.law.powers(np.arange(len(found.weight)), found.time.best), found.power),
        )
    )
    # Energy, not power: what a law errs in time it may make up for in power, and energy is what is chosen by.
    squares = [
        part * (np.log(curve / values[left_out]) ** 2).sum(axis=1)
        for curve, values in ((time_s, other.time_s), (time_s * power_w, other.energy_j))
    ]
    variance = [float((fit.sd**2).mean()) for fit in (found.time, found.power)]
    variances = variance[0], sum(variance)
    # Student's t, not normal: if no shape predicts a quantity, it does not choose between them.
    freedom = expected[0].freedom
    weight = found.weight - 0.5 * (freedom + part * len(left_out)) * sum(
        np.log1p(square / (freedom * variance)) for square, variance in zip(squares, variances, strict=True)
    )
    best = int(np.argmax(weight))
    noises = other.time_noise, other.energy_noise
    time, power = (
        max(float(square[best] - part * (noise[left_out] ** 2).sum()), 0.0) / one.value**2
        for square, noise, one in zip(squares, noises, expected, strict=True)
    )
    return Finding(_normalised(weight), (time, power), part * len(left_out))


def _at(measured: Measured, places: NDArray[np.int64]) -> Measured:
    """Return only some points of a task."""
    names = "setting", "workers", "time_s", "energy_j", "time_noise", "energy_noise"
    return replace(measured, **{name: getattr(measured, name)[places] for name in names}, runs=())


def _normalised(weight: Floats) -> Floats:
    part = np.exp(weight - weight.max())
    return np.asarray(part / part.sum())


def _expected(measured: Measured, law: Law, prior: Prior) -> tuple[Scale, Scale]:
    """Return the misfits of time and power before residuals are seen."""
    time, power = (
        Scale(float(np.hypot(law.least_misfit, rate * np.ptp(np.log(values)))), prior.freedom)
        for rate, values in zip(law.misfit, (measured.time_s, measured.power_w), strict=True)
    )
    return time, power


def _waiting_row(law: Law, measured: Measured) -> tuple[Floats, float] | None:
    """Return the counters' constraint on the coefficients: the share of waiting, within its deviation."""
    if measured.waiting is None or not law.waiting.any() or law.waiting.all():
        return None
    return np.where(law.waiting, 1 - measured.waiting, -measured.waiting), measured.waiting_sd
