"""Fits the power of each task, what else it depends on, and the uncertainty of both.

1. **Lateness and noise**: on at most `SAMPLE` rows, fits of the base columns for several latenesses of the sensor; the
   most likely one is taken if it is clearly better than none.
2. **Columns** of all rows: the base (tasks, the program between its tasks, CPU time without samples, static power), and
   the groups of `extensions`.
3. **Averaging** over models (`averaging`), then the noise again with what was found, and a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.names import places
from tprof.analysis.operating_points.scales import NORMAL_95

from .absent_tasks import fitted_tasks, renumbered, with_absent
from .averaging import Average, Prior, average, not_negative, orthonormal
from .base_fit import (
    FLOOR,
    BaseFit,
    Belief,
    Equations,
    Lateness,
    find_lateness,
    fit_base,
    gain_over_one_power,
    prior_of,
)
from .contention import likely_pairs
from .equations import LEAST_ROWS, Rows, segments_each, worked_in
from .extensions import FAMILIES, Effects, Extensions, Known, extension_columns, static_courses
from .findings import Evidence, disorder, findings
from .products import crossed, times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.attribution.quanta import Quanta

    from .equations import Work
    from .findings import Finding
    from .noise import Noise

Floats = NDArray[np.float64]
SAMPLE, SAMPLE_SEGMENTS, LATE_ROWS = 5000, 300_000, 2000
"""Most rows on which all effects are tried, about how many segments these may have, and rows on which lateness is."""
LEAST_SAMPLE = 2000
UNCERTAIN = 0.2  # standard error along a direction, as a part of the mean power
MEMBER = 0.15
ALIKE = 1e-6
"""Relative difference of uncertainties that are the same."""
COLLINEAR = 0.05
LIKELY = 0.5


@dataclass(frozen=True)
class Fit:
    """Powers of one domain, in watts per unit of modelled power (watts per busy core for `cputime`).

    Attributes
    ----------
    power : (tasks + 1,) of each task, then of threads between tasks.
    effects : what a segment's power depends on beside its task; None: nothing.
    other : of CPU time without samples.
    covariance : (tasks, tasks) of the tasks' powers.
    floor : (tasks, tasks) the part of it for effects that are too small to be found.
    static_w : (k,) of each quantum.
    static_error_w : standard error of the level.
    late_s : the joules shown are those of up to so long before.
    together : groups of tasks that always ran together: only their sum is known.
    unresolved : (tasks,) bool; the interval of the power reaches zero.
    own_w : variance of a quantum's own noise, joules squared per second.
    gain : by how much the fit is better than one power for all (Bayesian information criterion); above 10: much better.
    findings : what else was found.
    """

    power: Floats
    effects: Effects | None
    other: float
    covariance: Floats
    floor: Floats
    static_w: Floats
    static_error_w: float
    late_s: float
    together: tuple[tuple[int, ...], ...]
    unresolved: NDArray[np.bool_]
    own_w: float
    gain: float
    findings: tuple[Finding, ...]

    @cached_property
    def level_w(self) -> float:
        """Mean static watts."""
        return float(self.static_w.sum()) / max(len(self.static_w), 1)


def fit_powers(
    quanta: Quanta,
    work: Sequence[Work],
    hidden_s: Floats,
    *,
    names: Sequence[str],
    belief: Belief,
) -> Fit | None:
    """Find the power of each task from the quanta of one domain.

    Parameters
    ----------
    quanta : of the domain
    work : of all threads, with modelled energy
    hidden_s : (k,) CPU seconds without samples
    names : of the tasks
    belief : prior knowledge

    Returns
    -------
    The fit; None with fewer than 30 valid quanta, or fewer than three per column.
    """
    kept = fitted_tasks(work, len(names))
    work, tasks = renumbered(work, kept, len(names)), len(kept)
    rows = Rows.of(quanta, hidden_s, tasks + 3)
    if len(rows) < max(LEAST_ROWS, 3 * (tasks + 3)):
        return None
    prior = prior_of(rows, work, tasks, belief)
    late = find_lateness(rows.part(LATE_ROWS), work, prior, tasks)
    sample = rows.part(int(np.clip(SAMPLE_SEGMENTS / max(segments_each(rows, work), 1.0), LEAST_SAMPLE, SAMPLE)))
    found = _explored(sample, worked_in(sample, work, late.late_s), prior, late)
    gain = gain_over_one_power(found.equations, prior, found.base)
    if len(sample) < len(rows):
        found = _completed(rows, work, prior, found)
    fit = _fit(quanta, found, late, names=[names[task] for task in kept], gain=gain)
    return with_absent(fit, kept, len(names), prior)


@dataclass(frozen=True)
class _Found:
    """The averaged fit of some rows, and what it was made from."""

    equations: Equations
    prior: Prior
    base: BaseFit
    pairs: list[tuple[int, int]]
    extended: Extensions
    average: Average
    noise: Noise
    late_s: float


def _explored(rows: Rows, work: Sequence[Work], prior: Prior, late: Lateness) -> _Found:
    """Average over models with all groups of further columns."""
    tasks = len(prior.mean) - 3
    equations = Equations.of(rows, work, tasks, late.late_s)
    base = fit_base(equations, prior, late.base, scaled=True)
    known = _known(equations, work, base, late.late_s)
    pairs = likely_pairs(known.time, rows.length_s, known.watts, _scores(equations, base, prior))
    extended = extension_columns(known, pairs)
    return _Found(equations, prior, base, pairs, extended, *_averaged(equations, base, extended, prior), late.late_s)


def _completed(rows: Rows, work: Sequence[Work], prior: Prior, sample: _Found) -> _Found:
    """Fit all rows of a long recording, with the groups that had a chance in the sample."""
    equations = Equations.of(rows, work, sample.equations.tasks, sample.late_s)
    base = fit_base(equations, prior, sample.base, scaled=True)
    known = _known(equations, work, base, sample.late_s)
    extended = extension_columns(known, sample.pairs, sample.average.groups)
    found, noise = _averaged(equations, base, extended, prior)
    count = len(prior.mean)
    covariance = found.covariance.copy()
    covariance[:count, :count] += sample.average.floor - found.floor
    chance = sample.average.chance | found.chance
    found = replace(found, covariance=covariance, floor=sample.average.floor, chance=chance)
    return _Found(equations, prior, base, sample.pairs, extended, found, noise, sample.late_s)


def _known(equations: Equations, work: Sequence[Work], base: BaseFit, late_s: float) -> Known:
    tasks = equations.tasks
    power = np.append(_watts(base.power[:tasks]), max(base.power[tasks], 0.0))
    return Known(equations.rows, work, late_s, equations.time[:, :tasks], power, float(base.power[-1]))


def _watts(power: Floats) -> Floats:
    return np.asarray(np.maximum(power, FLOOR * max(float(power.max(initial=0.0)), 1e-12)))


def _scores(equations: Equations, base: BaseFit, prior: Prior) -> Callable[[Floats], Floats]:
    """Return what says how significant further columns are for the residual."""
    white, _ = base.noise.whiten(np.column_stack([base.time, equations.energy_j]))
    orthogonal, _ = orthonormal(np.vstack([white[:, :-1], np.diag(1 / prior.deviation)]))
    orthogonal = orthogonal[: len(white)]
    residual = white[:, -1] - times(orthogonal, crossed(orthogonal, white[:, -1]))

    def scores(columns: Floats) -> Floats:
        found, _ = base.noise.whiten(columns)
        found -= times(orthogonal, crossed(orthogonal, found))
        return np.asarray(crossed(found, residual) / np.maximum(np.sqrt((found**2).sum(axis=0)), 1e-300))

    return scores


def _averaged(equations: Equations, base: BaseFit, extended: Extensions, prior: Prior) -> tuple[Average, Noise]:
    """Average over models; if an effect was found, once more with the noise that is left."""
    count = len(prior.mean)
    columns = np.column_stack([equations.time, extended.columns, equations.energy_j])
    size = np.concatenate((np.ones(count), extended.size))
    groups = extended.groups(count)

    def averaged(noise: Noise) -> Average:
        white, _ = noise.whiten(columns)
        return average(white[:, :-1], white[:, -1], prior, groups, size)

    found = averaged(base.noise)
    if max(found.chance.values(), default=0.0) < LIKELY:
        return found, base.noise
    residual = equations.energy_j - times(columns[:, :-1], np.append(found.power, (found.effect * size)[count:]))
    noise = equations.noise(found.power, base.noise).with_outliers(residual).sized(residual, scaled=True)
    noise = noise.with_outliers(residual)
    return averaged(noise), noise


def _fit(quanta: Quanta, found: _Found, late: Lateness, *, names: Sequence[str], gain: float) -> Fit:
    """Put together what was found."""
    tasks, rows, average = len(names), found.equations.rows, found.average
    count, mean_w = len(found.prior.mean), found.prior.mean
    covariance = average.covariance[:count, :count]
    power = not_negative(average.power, covariance)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    ran = found.equations.time[:, :tasks].sum(axis=0)
    together = _together(found.equations.time, covariance, power, tasks)
    busy = found.equations.time[:, :tasks].sum(axis=1) > 0
    evidence = Evidence(
        names, ran, power, error, average, found.extended.about, count, late.late_s, late.gain,
        float(np.median(np.diff(rows.edges_ns)) * 1e-9), together, float((found.noise.outlier > 0).mean()),
        _static_change(found, rows), float(np.ptp(rows.middle_s[busy])) / max(rows.span_s, 1e-9) if busy.any() else 0.0,
        disorder(found.equations.time[:, :tasks], found.equations.spread.own),
    )  # fmt: skip
    residual = found.equations.energy_j - times(found.equations.time, found.base.power)
    own = found.noise.clear_spread2(residual) * found.noise.instances + found.noise.own
    return Fit(
        power=np.maximum(power[: tasks + 1], 1e-6 * mean_w[: tasks + 1]),
        effects=_effects(found),
        other=float(max(power[tasks + 1], 1e-6 * mean_w[tasks + 1])),
        covariance=covariance[:tasks, :tasks],
        floor=average.floor[:tasks, :tasks],
        static_w=_static(quanta, found, float(power[-1])),
        static_error_w=float(error[-1]),
        late_s=late.late_s,
        together=together,
        unresolved=(ran > 0) & (power[:tasks] < NORMAL_95 * error[:tasks]),
        own_w=float(np.median(own / np.maximum(rows.length_s, 1e-12))),
        gain=gain,
        findings=findings(evidence),
    )


def _static(quanta: Quanta, found: _Found, level_w: float) -> Floats:
    """Return the static watts of every quantum, of those that were left out or merged too."""
    rows = found.equations.rows
    intervals_s = (rows.edges_ns[1:] + rows.edges_ns[:-1] - 2 * rows.edges_ns[0]) * 0.5e-9
    warmth = rows.warmth(float(found.base.power[-1]))
    effect = found.average.effect[len(found.prior.mean) :]
    middle_s = (quanta.edges_ns[1:] + quanta.edges_ns[:-1] - 2 * rows.edges_ns[0]) * 0.5e-9
    place = np.clip(middle_s / max(rows.span_s, 1e-9), 0.0, 1.0)
    courses = static_courses(place, np.array([np.interp(middle_s, intervals_s, one) for one in warmth]))
    watts = np.full(len(place), level_w)
    for column, size, part in zip(found.extended.about, found.extended.size, effect, strict=True):
        if column.group.startswith("static"):
            watts += part * size * courses[column.other][1]
    return np.asarray(np.maximum(watts, 0.0))


def _static_change(found: _Found, rows: Rows) -> Floats:
    """Return for each further column by how much its static power rises from the first row to the last."""
    ends = np.array([0.0, 1.0])
    courses = static_courses(ends, rows.warmth(float(found.base.power[-1]))[:, [0, -1]])
    return np.array(
        [
            float(np.diff(courses[column.other][1])[0]) if column.group.startswith("static") else 0.0
            for column in found.extended.about
        ]
    )


def _effects(found: _Found) -> Effects | None:
    """Return the effects on the power of segments; None without any."""
    effect, rows = found.average.effect[len(found.prior.mean) :], found.equations.rows
    on = [
        number
        for number, column in enumerate(found.extended.about)
        if not column.group.startswith("static")
        and effect[number]
        and found.average.chance[FAMILIES[column.group.partition(" ")[0]]] > LIKELY
    ]
    about = [found.extended.about[number] for number in on]
    return Effects(about, effect[on], found.equations.tasks, int(rows.edges_ns[0]), rows.span_s) if on else None


def _together(time: Floats, covariance: Floats, power: Floats, tasks: int) -> tuple[tuple[int, ...], ...]:
    """Groups of tasks whose powers cannot be separated: directions of large variance in the covariance.

    A direction in which all powers rise together is excluded: it is confounded with static power.
    """
    ran = time[:, :tasks].sum(axis=0)
    seen = np.flatnonzero(ran > 0)
    if len(seen) < 2:
        return ()
    typical = max(float(ran[seen] @ power[seen] / ran[seen].sum()), 1e-12)
    sizes, directions = np.linalg.eigh(covariance[np.ix_(seen, seen)] / typical**2)
    part = time[:, seen] / np.maximum(time[:, -1], 1e-12)[:, None]
    found = []
    # Of directions that are as uncertain as each other rounding decides which are found, but not what they span.
    firsts = np.flatnonzero(np.diff(sizes, prepend=-np.inf) > ALIKE * np.abs(sizes))
    for which in np.split(np.arange(len(sizes)), firsts[1:]):
        projection = directions[:, which] @ directions[:, which].T
        members = np.flatnonzero(np.diag(projection) > MEMBER**2)
        trades = (projection[np.ix_(members, members)] < -(MEMBER**2) / 2).any()
        if sizes[which[0]] > UNCERTAIN**2 and trades and _collinear(part[:, members]):
            found.append(tuple(int(seen[member]) for member in members))
    return tuple(found)


def _collinear(part: Floats) -> bool:
    """Return whether the tasks' columns are collinear; if not, the recording was merely too short."""
    centred = part - part.mean(axis=0)
    deviation = np.sqrt((centred**2).mean(axis=0))
    if (deviation <= 1e-9 * np.abs(part).max()).all():
        return True
    correlation = np.corrcoef(centred[:, deviation > 0], rowvar=False)
    return bool(np.ndim(correlation) == 0 or np.linalg.eigvalsh(correlation)[0] < COLLINEAR)


def mean_errors(
    fits: Mapping[str, Fit], ran: Floats, instances: NDArray[np.floating | np.integer], names: Sequence[str]
) -> Floats:
    """Return joules for each distinct name, in order: the error of its instances' mean.

    Parameters
    ----------
    fits : by domain; their errors are independent
    ran : (tasks,) modelled energy of each task
    instances : (distinct names,) how many there are
    names : of the tasks; places of one name count as one
    """
    unique, code = places(names)
    # One column per name: the modelled energy of each of its places.
    of_name = np.zeros((len(names), len(unique)))
    of_name[np.arange(len(names)), code] = ran
    variance = sum(
        (np.einsum("tn,ts,sn->n", of_name, fit.covariance, of_name) for fit in fits.values()), np.zeros(len(unique))
    )
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / np.maximum(instances, 1))
