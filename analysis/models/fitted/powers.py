"""Fits the power of each task, what else it depends on, and the uncertainty of both.

1. **Lateness and noise**: on at most `SAMPLE` rows, fits of the base columns for several latenesses of the sensor; the
   most likely one is taken if it is clearly better than none.
2. **Columns** of all rows: the base (tasks, the program between its tasks, CPU time without samples, static power), and
   the groups of `extensions`.
3. **Averaging** over models (`averaging`), then the noise again with what was found, and a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import Segments, task_of
from tprof.analysis.names import places

from .averaging import Average, Prior, average, not_negative
from .contention import likely_pairs
from .equations import LEAST_ROWS, Edges, Rows, Spread, Work, base_columns, instance_spread, worked_in
from .extensions import FAMILIES, Effects, Extensions, Known, extension_columns, static_courses
from .findings import Evidence, findings
from .noise import SCALE_BOUNDS, UNTIMED_BOUNDS, WIDE_BOUNDS, Noise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.native_time import NativeSegments
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segment_energy import LocatedSegments

    from .findings import Finding

Floats = NDArray[np.float64]
SAMPLE, SAMPLE_SEGMENTS, LATE_ROWS = 5000, 300_000, 2000
"""Most rows on which all effects are tried, about how many segments these may have, and rows on which lateness is."""
LEAST_SAMPLE = 2000
LATE_S = (0.0, 5e-5, 1e-4, 2e-4, 3.5e-4, 5e-4, 7e-4, 1e-3)
ROUNDS, REFINED = 3, 4
CLOSELY = 0.5
"""Windows shorter than this part of the time between updates show how late these are."""
HOPELESS = 60.0
IDLE = 0.02
"""Busy cores up to which a row counts as idle."""
FLOOR = 0.05
"""Least power of a task in the noise, as a part of the largest."""
UNCERTAIN = 0.2  # standard error along a direction, as a part of the mean power
MEMBER = 0.15
COLLINEAR = 0.05
NORMAL_95 = 1.96
LIKELY = 0.5


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
class Fit:
    """Powers of one domain, in watts per unit of modelled power (watts per busy core for `cputime`).

    Attributes
    ----------
    power : (tasks + 1,) of each task, then of threads between tasks.
    factors : for each thread, by how much the power of each segment differs from its task's; None: not at all.
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
    factors: tuple[NDArray[np.float32], ...] | None
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


@dataclass(frozen=True)
class _Base:
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
class _Equations:
    """Rows with their base columns and all that their noise consists of."""

    rows: Rows
    time: Floats
    edges: Edges
    spread: Spread

    @classmethod
    def of(
        cls, rows: Rows, work: Sequence[Work], tasks: int, late_s: float, spread: Spread | None = None
    ) -> _Equations:
        time, edges = base_columns(rows, work, tasks, late_s)
        hidden, length = rows.hidden_s[rows.at], rows.length_s
        spread = instance_spread(rows, work, tasks, late_s) if spread is None else spread
        return cls(rows, np.column_stack([time, hidden, length]), edges, spread)

    @property
    def tasks(self) -> int:
        return self.time.shape[1] - 3

    @property
    def energy_j(self) -> Floats:
        return self.rows.energy_j[self.rows.at]

    def joined(self) -> _Equations:
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
        found = Noise(
            variance[at], variance[at + 1], self.rows.linked, self.spread.own @ squares, self.spread.across @ squares,
            np.where(busy < IDLE, self.rows.length_s, 0.0), _scale_bounds(self.rows), np.zeros(len(at)),
        )  # fmt: skip
        if sizes is None:
            return found
        outlier = sizes.outlier if len(sizes.outlier) == len(at) else found.outlier
        return replace(
            found, edge_scale=sizes.edge_scale, spread2=sizes.spread2, idle_rate=sizes.idle_rate, outlier=outlier
        )


def fit_powers(
    quanta: Quanta,
    located: Sequence[LocatedSegments],
    segments: Sequence[Segments | NativeSegments],
    hidden_s: Floats,
    *,
    names: Sequence[str],
    belief: Belief,
) -> Fit | None:
    """Find the power of each task from the quanta of one domain.

    Parameters
    ----------
    quanta : of the domain
    located : of all threads, with modelled energy
    segments : the same threads
    hidden_s : (k,) CPU seconds without samples
    names : of the tasks
    belief : prior knowledge

    Returns
    -------
    None with fewer than 30 valid quanta, or fewer than three per column.
    """
    tasks = len(names)
    rows = Rows.of(quanta, hidden_s, tasks + 3)
    if len(rows) < max(LEAST_ROWS, 3 * (tasks + 3)):
        return None
    work = _work(located, segments, tasks)
    prior = _prior(rows, work, tasks, belief)
    late = _lateness(rows.part(LATE_ROWS), work, prior, tasks)
    segments_each = sum(len(one.modelled) for one in work) / len(rows)
    sample = rows.part(int(np.clip(SAMPLE_SEGMENTS / max(segments_each, 1.0), LEAST_SAMPLE, SAMPLE)))
    found = _explored(sample, worked_in(sample, work, late.late_s), prior, late)
    gain = _gain(found.equations, prior, found.base)
    if len(sample) < len(rows):
        found = _completed(rows, work, prior, found)
    return replace(_fit(quanta, work, found, late, names), gain=gain)


def _is_close(rows: Rows) -> bool:
    """Return whether updates are timed closely: in a window as long as the time between them not each moment is alike."""
    return rows.timed and bool(np.median(rows.window_ns) * 1e-9 < CLOSELY * np.median(rows.length_s))


def _scale_bounds(rows: Rows) -> tuple[float, float]:
    return SCALE_BOUNDS if _is_close(rows) else WIDE_BOUNDS if rows.timed else UNTIMED_BOUNDS


def _work(located: Sequence[LocatedSegments], segments: Sequence[Segments | NativeSegments], tasks: int) -> list[Work]:
    """Return what threads did; pools of native threads are on no core, and as long as their tasks' mean instance."""
    own = [one for one in segments if isinstance(one, Segments)]
    cores = np.unique(np.concatenate([np.unique(one.cpu) for one in own])) if own else np.empty(0)
    work = [_of_thread(thread, one, cores, tasks) for thread, one in zip(located, segments, strict=True)]
    ran, lengths = np.zeros((2, tasks + 1))
    for one in work[: len(own)]:
        ran += np.bincount(one.task, weights=one.modelled, minlength=tasks + 1)
        lengths += np.bincount(one.task, weights=one.modelled * one.log_length, minlength=tasks + 1)
    mean = (lengths / np.maximum(ran, 1e-300)).astype(np.float32)
    return [*work[: len(own)], *(replace(one, log_length=mean[one.task]) for one in work[len(own) :])]


def _of_thread(
    thread: LocatedSegments, segment: Segments | NativeSegments, cores: NDArray[np.int64], tasks: int
) -> Work:
    task, count = task_of(segment, tasks), len(thread.modelled)
    if not isinstance(segment, Segments):
        return Work(thread.t_ns, thread.modelled, task, np.full(count, -1, np.int32), np.zeros(count, np.float32))
    length = np.concatenate(([0.0], np.log(np.maximum(segment.rows.own_s * 1e9, 1.0))))
    core = np.searchsorted(cores, segment.cpu).astype(np.int32)
    return Work(thread.t_ns, thread.modelled, task, core, length[segment.slot].astype(np.float32))


def _prior(rows: Rows, work: Sequence[Work], tasks: int, belief: Belief) -> Prior:
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
class _Lateness:
    """The most likely lateness, by how much it is better than none, and the base fit with it."""

    late_s: float
    gain: float
    base: _Base


def _lateness(rows: Rows, work: Sequence[Work], prior: Prior, tasks: int) -> _Lateness:
    """Find how late the sensor shows its updates."""
    ran = worked_in(rows, work, LATE_S[-1])
    spread = instance_spread(rows, ran, tasks, 0.0, most_lags=1)
    found: dict[float, _Base] = {}
    for late_s in LATE_S if _is_close(rows) else LATE_S[:1]:
        start = found[max(found)] if found else None
        found[late_s] = _fit_base(_Equations.of(rows, ran, tasks, late_s, spread), prior, start, scaled=not rows.timed)
        least = min(base.misfit for base in found.values())
        if late_s >= LATE_S[2] and found[late_s].misfit > least + HOPELESS:
            break
    penalty = 2 * float(np.log(len(rows)))
    late_s = min(found, key=lambda late: found[late].misfit + (penalty if late else 0.0))
    return _Lateness(late_s, found[0.0].misfit - found[late_s].misfit, found[late_s])


@dataclass(frozen=True)
class _Found:
    """The averaged fit of some rows, and what it was made from."""

    equations: _Equations
    prior: Prior
    base: _Base
    pairs: list[tuple[int, int]]
    extended: Extensions
    average: Average
    noise: Noise
    late_s: float


def _explored(rows: Rows, work: Sequence[Work], prior: Prior, late: _Lateness) -> _Found:
    """Average over models with all groups of further columns."""
    tasks = len(prior.mean) - 3
    equations = _Equations.of(rows, work, tasks, late.late_s)
    base = _fit_base(equations, prior, late.base, scaled=True)
    known = _known(equations, work, base, late.late_s)
    pairs = likely_pairs(known.time, rows.length_s, known.watts, _scores(equations, base))
    extended = extension_columns(known, pairs)
    return _Found(equations, prior, base, pairs, extended, *_averaged(equations, base, extended, prior), late.late_s)


def _completed(rows: Rows, work: Sequence[Work], prior: Prior, sample: _Found) -> _Found:
    """Fit all rows of a long recording, with the groups that had a chance in the sample."""
    equations = _Equations.of(rows, work, sample.equations.tasks, sample.late_s)
    base = _fit_base(equations, prior, sample.base, scaled=True)
    known = _known(equations, work, base, sample.late_s)
    extended = extension_columns(known, sample.pairs, sample.average.groups)
    found, noise = _averaged(equations, base, extended, prior)
    count = len(prior.mean)
    covariance = found.covariance.copy()
    covariance[:count, :count] += sample.average.floor - found.floor
    chance = sample.average.chance | found.chance
    found = replace(found, covariance=covariance, floor=sample.average.floor, chance=chance)
    return _Found(equations, prior, base, sample.pairs, extended, found, noise, sample.late_s)


def _known(equations: _Equations, work: Sequence[Work], base: _Base, late_s: float) -> Known:
    tasks = equations.tasks
    power = np.append(_watts(base.power[:tasks]), max(base.power[tasks], 0.0))
    return Known(equations.rows, work, late_s, equations.time[:, :tasks], power, float(base.power[-1]))


def _fit_base(equations: _Equations, prior: Prior, start: _Base | None, *, scaled: bool) -> _Base:
    """Fit the base columns alone, with the sizes of the noise."""
    time, energy_j = equations.time, equations.energy_j
    power, noise = (prior.mean, None) if start is None else (start.power, start.noise)
    for number in range(ROUNDS if start is None else ROUNDS - 1):
        noise = equations.noise(power, noise)
        # The very first powers are guesses, of which the noise cannot be told.
        if start is not None or number > 0:
            noise = noise.sized(energy_j - time @ power, scaled=scaled, near=number > (start is None))
        power = _least_squares(noise, time, energy_j, prior)
        if scaled:
            noise = noise.with_outliers(energy_j - time @ power)
    residual = energy_j - time @ power
    return _Base(time, power, noise, noise.misfit(residual))


def _least_squares(noise: Noise, time: Floats, energy_j: Floats, prior: Prior) -> Floats:
    white, _ = noise.whiten(np.column_stack([time, energy_j]))
    columns, target = white[:, :-1], white[:, -1]
    precise = columns.T @ columns + np.diag(prior.deviation**-2.0)
    power = np.zeros(len(prior.mean))
    # Tasks that always ran together differ in the last digits only: each step gains some of those that a sum loses.
    for _ in range(REFINED):
        along = columns.T @ (target - columns @ power) + (prior.mean - power) / prior.deviation**2
        power = power + np.linalg.solve(precise, along)
    return np.asarray(power)


def _watts(power: Floats) -> Floats:
    return np.asarray(np.maximum(power, FLOOR * max(float(power.max(initial=0.0)), 1e-12)))


def _scores(equations: _Equations, base: _Base) -> Callable[[Floats], Floats]:
    """Return what says how significant further columns are for the residual."""
    white, _ = base.noise.whiten(np.column_stack([base.time, equations.energy_j]))
    orthogonal = np.linalg.qr(white[:, :-1])[0]
    residual = white[:, -1] - orthogonal @ (orthogonal.T @ white[:, -1])

    def scores(columns: Floats) -> Floats:
        found, _ = base.noise.whiten(columns)
        found -= orthogonal @ (orthogonal.T @ found)
        return np.asarray(residual @ found / np.maximum(np.sqrt((found**2).sum(axis=0)), 1e-300))

    return scores


def _averaged(equations: _Equations, base: _Base, extended: Extensions, prior: Prior) -> tuple[Average, Noise]:
    """Average over models; if an effect was found, once more with the noise that is left."""
    count = len(prior.mean)
    columns = np.column_stack([equations.time, extended.columns, equations.energy_j])
    size = np.concatenate((np.ones(count), extended.size))
    groups = extended.groups(count)
    noise = base.noise
    for last in (False, True):
        white, _ = noise.whiten(columns)
        found = average(white[:, :-1], white[:, -1], prior, groups, size)
        if last or max(found.chance.values(), default=0.0) < LIKELY:
            return found, noise
        residual = equations.energy_j - equations.time @ found.power - extended.columns @ (found.effect * size)[count:]
        noise = equations.noise(found.power, replace(noise, outlier=np.zeros(len(residual))))
        noise = noise.sized(residual, scaled=True).with_outliers(residual)
    raise AssertionError


def _fit(quanta: Quanta, work: Sequence[Work], found: _Found, late: _Lateness, names: Sequence[str]) -> Fit:
    """Put together what was found."""
    tasks, rows, average = len(names), found.equations.rows, found.average
    count, mean_w = len(found.prior.mean), found.prior.mean
    covariance = average.covariance[:count, :count]
    power = not_negative(average.power, covariance)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    ran = found.equations.time[:, :tasks].sum(axis=0)
    together = _together(found.equations.time, covariance, power, tasks)
    effects = _effects(found)
    evidence = Evidence(
        names, ran, power, error, average, found.extended.about, count, late.late_s, late.gain,
        float(np.median(np.diff(rows.edges_ns)) * 1e-9), together, float((found.noise.outlier > 0).mean()),
        _static_change(found, rows),
    )  # fmt: skip
    residual = found.equations.energy_j - found.equations.time @ found.base.power
    own = found.noise.clear_spread2(residual) * found.noise.instances + found.noise.idle_rate * found.noise.idle_s
    return Fit(
        power=np.maximum(power[: tasks + 1], 1e-6 * mean_w[: tasks + 1]),
        factors=None if effects is None else effects.factors(work),
        other=float(max(power[tasks + 1], 1e-6 * mean_w[tasks + 1])),
        covariance=covariance[:tasks, :tasks],
        floor=average.floor[:tasks, :tasks],
        static_w=_static(quanta, found, float(power[-1])),
        static_error_w=float(error[-1]),
        late_s=late.late_s,
        together=together,
        unresolved=(ran > 0) & (power[:tasks] < NORMAL_95 * error[:tasks]),
        own_w=float(np.median(own / np.maximum(rows.length_s, 1e-12))),
        gain=-np.inf,
        findings=findings(evidence),
    )


def _static(quanta: Quanta, found: _Found, level_w: float) -> Floats:
    """Return the static watts of every quantum, of those that were left out or merged too."""
    rows = found.equations.rows
    middle_s = (quanta.edges_ns[1:] + quanta.edges_ns[:-1] - 2 * rows.edges_ns[0]) * 0.5e-9
    place = np.clip(middle_s / max(rows.span_s, 1e-9), 0.0, 1.0)
    intervals_s = (rows.edges_ns[1:] + rows.edges_ns[:-1] - 2 * rows.edges_ns[0]) * 0.5e-9
    warmth = [np.interp(middle_s, intervals_s, one) for one in rows.warmth(float(found.base.power[-1]))]
    courses = static_courses(place, np.array(warmth))
    static_w = np.full(len(place), level_w)
    effect = found.average.effect[len(found.prior.mean) :]
    for column, size, part in zip(found.extended.about, found.extended.size, effect, strict=True):
        if column.group.startswith("static"):
            static_w += part * size * courses[column.other][1]
    return np.maximum(static_w, 0.0)


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
    for size, direction in zip(sizes, directions.T, strict=True):
        members = np.flatnonzero(np.abs(direction) > MEMBER)
        trades = (direction[members] > 0).any() and (direction[members] < 0).any()
        if size > UNCERTAIN**2 and trades and _collinear(part[:, members]):
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


def _gain(equations: _Equations, prior: Prior, full: _Base) -> float:
    """Compare with a fit of one power for everything that runs; a single task has no gain."""
    tasks = equations.tasks
    ran = (equations.time[:, : tasks + 2].sum(axis=0) > 0).sum()
    if (equations.time[:, :tasks].sum(axis=0) > 0).sum() < 2:
        return -np.inf
    kept = [0, tasks, tasks + 1, tasks + 2]
    few = Prior(prior.mean[kept], prior.deviation[kept])
    joined = _fit_base(equations.joined(), few, None, scaled=True)
    return joined.misfit - full.misfit - (int(ran) - 1) * float(np.log(len(equations.time)))


def mean_errors(
    fits: Mapping[str, Fit], segments: Sequence[Segments | NativeSegments], rows: InstanceRows, names: Sequence[str]
) -> Floats:
    """Return joules for each distinct name, in order: the error of its instances' mean.

    Parameters
    ----------
    fits : by domain; their errors are independent
    segments : of all threads
    rows : the instances
    names : of the tasks; places of one name count as one
    """
    tasks = len(names)
    unique, code = places(names)
    ran = sum((sum_by(task_of(one, tasks), one.modelled, tasks + 1)[:tasks] for one in segments), np.zeros(tasks))
    count = np.bincount(code[rows.task[rows.task < tasks]], minlength=len(unique))
    # One column per name: the modelled energy of each of its places.
    of_name = np.zeros((tasks, len(unique)))
    of_name[np.arange(tasks), code] = ran
    variance = sum(
        (np.einsum("tn,ts,sn->n", of_name, fit.covariance, of_name) for fit in fits.values()), np.zeros(len(unique))
    )
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / np.maximum(count, 1))
