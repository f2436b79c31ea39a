"""Averages over models: which groups of further columns the readings support, and how large their effects are.

The base columns are in every model. Further columns come in groups (drift, contention, …). The effects of a group are
normally distributed around zero with a scale relative to the task's power. The scale is 0 with probability 0.9, else
one of four sizes ("spike and slab"). With the scales given all is linear and Gaussian, so the marginal likelihood of a
model is closed; base columns are eliminated once. Models are found by coordinate ascent over scales and by exchange of
courses, then all combinations of the groups that have a chance. Estimates are averaged over them by posterior
probability (Hoeting et al., 1999).

The covariance is that between the models and within them, widened where the residuals of neighbouring rows show more
(Newey and West, 1987), never narrowed. Effects too small to be found (a scale of `UNSEEN` in each group that is off)
are added to it, so every interval has a floor.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .products import crossed, times

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

Floats = NDArray[np.float64]
SCALES = np.array([0.0, 0.01, 0.03, 0.1, 0.3])
LIKELY = 0.1
"""Prior probability that an effect exists; the forms of a family and the scales have equal parts of it."""
UNSEEN = 0.005
"""Scale of effects that are too small to be found; the forms of a family share it."""
SWEEPS = 6
KEPT, CHANCE = 3, 0.02
"""Most groups whose combinations are all tried, and their least probability."""
NOTED = 0.2
"""Least probability of a group that a long recording's other rows are fitted with."""
NEGLIGIBLE = 1e-4
ALIKE = 6
"""Digits after the point of probabilities, and of their logarithms, that are compared.

Columns may be the same, such as those of two forms of contention on two cores. Then the first is taken, whatever
rounding makes of the others.
"""
COURSES, EITHER = frozenset({"drift", "static"}), "drift or static"
"""Families that readings may not tell apart while all cores are busy."""
LAGS = 8


@dataclass(frozen=True)
class Group:
    """Further columns with a common scale.

    Attributes
    ----------
    name : unique.
    family : of the effect; several groups may be forms of one.
    columns : indices.
    tried : the columns as a part of those from which they were selected; the group is less likely by it.
    excludes : names of groups that cannot be on at the same time.
    """

    name: str
    family: str
    columns: NDArray[np.intp]
    tried: float = 1.0
    excludes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Prior:
    """Prior of the base columns' powers: (k,) means and standard deviations."""

    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class Average:
    """The averaged estimates.

    Attributes
    ----------
    power : (k,) of the base columns.
    effect : (p,) of all columns in units of their size; 0 for base columns.
    covariance : (p, p) of the powers and the effects.
    chance : by family, the posterior probability that it has an effect; `EITHER` for any of `COURSES`.
    groups : those with a probability above `NOTED`.
    floor : (k, k) the part of the powers' covariance for effects that are too small to be found.
    residual : (n,) white residual of the most likely model.
    """

    power: Floats
    effect: Floats
    covariance: Floats
    chance: dict[str, float]
    groups: frozenset[str]
    floor: Floats
    residual: Floats


@dataclass
class _Models:
    """Marginal likelihoods, the base columns being eliminated.

    Attributes
    ----------
    gram : (e, e) of the further columns, in units of their sizes, projected off the base.
    target : (e,) likewise.
    groups : their columns are indices into these.
    """

    gram: Floats
    target: Floats
    groups: Sequence[Group]
    known: dict[tuple[int, ...], float] = field(default_factory=dict)

    @cached_property
    def forms(self) -> list[int]:
        """For each group, how many there are in its family."""
        families = [group.family for group in self.groups]
        return [families.count(family) for family in families]

    def allowed(self, choice: tuple[int, ...]) -> bool:
        on = {group.name for group, scale in zip(self.groups, choice, strict=True) if scale}
        return not any(group.excludes & on for group in self.groups if group.name in on)

    def active(self, choice: tuple[int, ...]) -> tuple[NDArray[np.intp], Floats]:
        """Return the columns that are on, and their scales."""
        on = [(group.columns, SCALES[scale]) for group, scale in zip(self.groups, choice, strict=True) if scale]
        if not on:
            return np.empty(0, np.intp), np.empty(0)
        columns = np.concatenate([columns for columns, _ in on])
        return columns, np.concatenate([np.full(len(columns), scale) for columns, scale in on])

    def score(self, choice: tuple[int, ...]) -> float:
        """Return the logarithm of the posterior probability, up to a constant; -inf if excluded."""
        if choice not in self.known:
            self.known[choice] = self._score(choice) if self.allowed(choice) else -np.inf
        return self.known[choice]

    def _score(self, choice: tuple[int, ...]) -> float:
        likely = [LIKELY * group.tried / count for group, count in zip(self.groups, self.forms, strict=True)]
        prior = sum(
            float(np.log(part / (len(SCALES) - 1) if scale else 1 - part))
            for scale, part in zip(choice, likely, strict=True)
        )
        columns, scale = self.active(choice)
        if not len(columns):
            return prior
        from scipy.linalg import solve_triangular  # noqa: PLC0415 - half a second, few profiles are fitted

        inner = self.gram[np.ix_(columns, columns)] * np.outer(scale, scale)
        inner[np.diag_indices(len(columns))] += 1.0
        factor = np.linalg.cholesky(inner)
        solved = solve_triangular(factor, self.target[columns] * scale, lower=True, check_finite=False)
        return prior + 0.5 * float(solved @ solved) - float(np.log(np.diag(factor)).sum())

    def search(self) -> None:
        """Score the models that matter."""
        current = (0,) * len(self.groups)
        for _ in range(SWEEPS):
            best = current
            for place in range(len(self.groups)):
                best = max((self._with(best, place, scale) for scale in range(len(SCALES))), key=self._rank)
            # Another course may explain as much, though not beside the one that was found first.
            best = max([best, *self._exchanged(best)], key=self._rank)
            if best == current:
                break
            current = best
        chance = np.array([self._chance(current, place) for place in range(len(self.groups))])
        order = np.argsort(-np.round(chance, ALIKE), kind="stable")
        kept = [int(place) for place in order[:KEPT] if chance[place] > CHANCE]
        for scales in product(range(len(SCALES)), repeat=len(kept)):
            choice = list(current)
            for place, scale in zip(kept, scales, strict=True):
                choice[place] = scale
            self.score(tuple(choice))

    def _rank(self, choice: tuple[int, ...]) -> float:
        return round(self.score(choice), ALIKE)

    def _exchanged(self, choice: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the models with a course replaced by one that is off.

        Of the forms of contention the first that explains enough is kept: who pays for it is a convention.
        """
        courses = [place for place, group in enumerate(self.groups) if group.family in COURSES]
        for place, other in product(courses, courses):
            if choice[place] and not choice[other]:
                without = self._with(choice, place, 0)
                yield from (self._with(without, other, scale) for scale in range(1, len(SCALES)))

    def _with(self, choice: tuple[int, ...], place: int, scale: int) -> tuple[int, ...]:
        return (*choice[:place], scale, *choice[place + 1 :])

    def _chance(self, choice: tuple[int, ...], place: int) -> float:
        scores = np.array([self.score(self._with(choice, place, scale)) for scale in range(len(SCALES))])
        parts = np.exp(scores - scores.max())
        return float(parts[1:].sum() / parts.sum())

    def posterior(self) -> dict[tuple[int, ...], float]:
        scores = np.array(list(self.known.values()))
        parts = np.exp(scores - scores.max())
        parts[parts < NEGLIGIBLE * parts.sum()] = 0.0
        parts /= parts.sum()
        return {choice: float(part) for choice, part in zip(self.known, parts, strict=True) if part}


def average(white: Floats, target: Floats, prior: Prior, groups: Sequence[Group], size: Floats) -> Average:
    """Average the estimates over models.

    Parameters
    ----------
    white : (n, p) columns with unit noise; the first k = len(prior.mean) are the base
    target : (n,) joules with unit noise
    prior : of the base columns
    groups : of the further columns
    size : (p,) of the effects of further columns, in watts: scales are relative to it
    """
    base = len(prior.mean)
    own = size[base:]
    orthogonal, triangle = orthonormal(np.vstack([white[:, :base], np.diag(1 / prior.deviation)]))
    known = np.concatenate((target, prior.mean / prior.deviation))
    along = crossed(orthogonal, known)
    further = np.vstack([white[:, base:] * own, np.zeros((base, len(own)))])
    coupling = crossed(orthogonal, further)
    # What the base leaves, before products: a difference of products would keep few digits of it.
    further -= times(orthogonal, coupling)
    inverse_root = np.linalg.inv(triangle)
    inverse, shift, plain = inverse_root @ inverse_root.T, inverse_root @ coupling, inverse_root @ along
    models = _Models(
        crossed(further, further),
        crossed(further, known - times(orthogonal, along)),
        [replace(group, columns=group.columns - base) for group in groups],
    )
    models.search()
    posterior = models.posterior()
    top = max(posterior, key=lambda choice: round(posterior[choice], ALIKE))
    likeliest, spread_of_it = _model(models, top, plain, inverse, shift)
    # Around the most likely model: squares of whole powers would leave few digits of how far models differ.
    beyond, second = np.zeros(len(size)), np.zeros((len(size), len(size)))
    for choice, part in posterior.items():
        found, spread = _model(models, choice, plain, inverse, shift)
        beyond += part * (found - likeliest)
        second += part * (spread + np.outer(found - likeliest, found - likeliest))
    mean = likeliest + beyond
    units = np.concatenate((np.ones(base), own))
    residual = target - times(white, likeliest * units)
    covariance = second - np.outer(beyond, beyond)
    covariance = covariance * _widening(white * units, residual, spread_of_it)
    floor = _unseen(models, top, inverse, shift) - _within(models, top, inverse, shift)
    covariance[:base, :base] += floor
    chance = {family: _chance(posterior, groups, {family}) for family in dict.fromkeys(one.family for one in groups)}
    chance[EITHER] = _chance(posterior, groups, COURSES)
    effect = mean.copy()
    effect[:base] = 0.0
    likely = frozenset(
        group.name
        for place, group in enumerate(groups)
        if sum(part for choice, part in posterior.items() if choice[place]) > NOTED
    )
    return Average(mean[:base], effect, (covariance + covariance.T) / 2, chance, likely, floor, residual)


def orthonormal(columns: Floats) -> tuple[Floats, Floats]:
    """Return orthonormal columns and the triangle that makes the given ones of them.

    By two Cholesky factors, which is many times as fast as Householder's way and as exact unless columns are nearly the
    same; of tasks that always ran together they differ in the last digits only.
    """
    size = np.sqrt((columns**2).sum(axis=0))
    try:
        scaled = columns / size
        first = np.linalg.cholesky(crossed(scaled, scaled)).T * size
        once = times(columns, np.linalg.inv(first))
        second = np.linalg.cholesky(crossed(once, once)).T
    except np.linalg.LinAlgError:
        found = np.linalg.qr(columns)
        return found.Q, found.R
    return times(once, np.linalg.inv(second)), second @ first


def _chance(posterior: dict[tuple[int, ...], float], groups: Sequence[Group], families: Collection[str]) -> float:
    members = [place for place, group in enumerate(groups) if group.family in families]
    return sum(part for choice, part in posterior.items() if any(choice[place] for place in members))


def _model(
    models: _Models, choice: tuple[int, ...], plain: Floats, inverse: Floats, shift: Floats
) -> tuple[Floats, Floats]:
    """Return the mean and the covariance of all columns under one model."""
    base = len(plain)
    size = base + shift.shape[1]
    mean, covariance = np.zeros(size), np.zeros((size, size))
    mean[:base], covariance[:base, :base] = plain, inverse
    columns, scale = models.active(choice)
    if len(columns):
        inner = models.gram[np.ix_(columns, columns)] + np.diag(scale**-2.0)
        spread = np.linalg.inv(inner)
        effect = spread @ models.target[columns]
        part = shift[:, columns]
        at = base + columns
        mean[at], mean[:base] = effect, plain - part @ effect
        covariance[np.ix_(at, at)] = spread
        cross = -part @ spread
        covariance[:base, at], covariance[at, :base] = cross, cross.T
        covariance[:base, :base] += part @ spread @ part.T
    return mean, covariance


def _within(models: _Models, choice: tuple[int, ...], inverse: Floats, shift: Floats) -> Floats:
    return _model(models, choice, np.zeros(len(inverse)), inverse, shift)[1][: len(inverse), : len(inverse)]


def _unseen(models: _Models, choice: tuple[int, ...], inverse: Floats, shift: Floats) -> Floats:
    """Return the base columns' covariance if groups that are off had effects of a size that cannot be seen."""
    scale = np.empty(len(models.target))
    for group, forms in zip(models.groups, models.forms, strict=True):
        scale[group.columns] = UNSEEN / np.sqrt(forms)
    columns, on = models.active(choice)
    scale[columns] = on
    if not len(scale):
        return inverse
    spread = np.linalg.inv(models.gram + np.diag(scale**-2.0))
    return np.asarray(inverse + shift @ spread @ shift.T)


def _widening(white: Floats, residual: Floats, spread: Floats) -> Floats:
    """Return the factors, (p, p), by which residuals that go with their neighbours widen a model's covariance."""
    on = np.flatnonzero(np.diag(spread) > 0)
    part = times(white[:, on], spread[np.ix_(on, on)]) * residual[:, None]
    seen = (part**2).sum(axis=0)
    for lag in range(1, min(LAGS, len(part) - 1) + 1):
        seen += 2 * (1 - lag / (LAGS + 1)) * (part[lag:] * part[:-lag]).sum(axis=0)
    # What the prior contributes: it is no part of what the readings scatter.
    gram = crossed(white[:, on], white[:, on])
    held = spread[np.ix_(on, on)]
    prior = np.diag(held) - ((held @ gram) * held).sum(axis=1)
    wider = np.ones(len(spread))
    wider[on] = np.sqrt(np.maximum((seen + prior) / np.maximum(np.diag(held), 1e-300), 1.0))
    return np.asarray(np.outer(wider, wider))


def not_negative(power: Floats, covariance: Floats) -> Floats:
    """Return the most likely powers that are not negative, for a normal posterior."""
    if (power >= 0).all():
        return power
    from scipy.optimize import nnls  # noqa: PLC0415 - half a second, and few powers are negative

    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(size, size)
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    root = (vectors / np.sqrt(np.maximum(values, 1e-9))).T
    found, _ = nnls(root, root @ (power / size), maxiter=50 * len(power))
    return np.asarray(found * size)
