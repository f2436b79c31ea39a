"""Fits the power of each task, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import task_of
from tprof.analysis.names import places

from .equations import LEAST_ROWS, TRENDS, Equations, equations
from .least_squares import Noise, Prior, Solution, edge_variance, solve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segment_energy import LocatedSegments
    from tprof.analysis.attribution.segments import Segments

    from .findings import Finding

Floats = NDArray[np.float64]
SMOOTHED_S = 0.02
UNCERTAIN = 0.2  # standard error along a direction, as a part of the mean power
MEMBER = 0.15
COLLINEAR = 0.05
NORMAL_95 = 1.96
CONCURRENCY_EFFECT = 0.5
"""Prior deviation of the change of a core's power when twice as many cores are busy, relative to that power."""


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
    other : of CPU time without samples.
    covariance : (tasks, tasks) of the tasks' powers.
    static_w : (k,) of each quantum.
    static_error_w : standard error of the level.
    together : groups of tasks that always ran together: only their sum is known.
    unresolved : (tasks,) bool; the interval of the power reaches zero.
    own_w : variance of a quantum's own noise, joules squared per second.
    gain : by how much the fit is better than one power for all (Bayesian information criterion); above 10: much better.
    findings : what powers depend on, and what the readings cannot decide.
    """

    power: Floats
    other: float
    covariance: Floats
    static_w: Floats
    static_error_w: float
    together: tuple[tuple[int, ...], ...]
    unresolved: NDArray[np.bool_]
    own_w: float
    gain: float
    findings: tuple[Finding, ...] = ()


def fit_powers(
    quanta: Quanta,
    located: Sequence[LocatedSegments],
    segments: Sequence[Segments],
    hidden_s: Floats,
    *,
    tasks: int,
    belief: Belief,
) -> Fit | None:
    """Find the power of each task from the quanta of one domain.

    Parameters
    ----------
    quanta : of the domain
    located : of all threads, with modelled energy
    segments : the same threads
    hidden_s : (k,) CPU seconds without samples
    tasks : their number
    belief : prior knowledge

    Returns
    -------
    None with fewer than 30 valid quanta, or fewer than three per column.
    """
    rows = equations(quanta, located, segments, hidden_s, tasks)
    if len(rows.energy_j) < max(LEAST_ROWS, 3 * rows.time.shape[1]):
        return None
    noise = _expected_noise(rows, quanta.unit_j)
    prior, bounded = _prior(rows, belief)
    solution = solve(rows.time, rows.energy_j, noise, prior, bounded)
    error = np.sqrt(np.maximum(np.diag(solution.covariance), 0.0))
    ran = rows.time[:, :tasks].sum(axis=0) > 0
    return Fit(
        power=_positive(solution.power[: tasks + 1], prior.mean[: tasks + 1]),
        other=float(max(solution.power[tasks + 1], 1e-6 * prior.mean[tasks + 1])),
        covariance=solution.covariance[:tasks, :tasks],
        static_w=_static(quanta, rows, solution),
        static_error_w=float(error[tasks + 2]),
        together=_together(rows, solution),
        unresolved=ran & (solution.power[:tasks] < NORMAL_95 * error[:tasks]),
        own_w=float(np.median(solution.own / np.maximum(rows.length_s, 1e-12))),
        gain=_gain(rows, noise, prior, bounded, solution),
    )


def _expected_noise(rows: Equations, unit_j: float) -> Noise:
    power_w = rows.energy_j / np.maximum(rows.length_s, 1e-12)
    # Short rows are noisy; long ones may each be a phase of their own.
    half = int(np.clip(SMOOTHED_S / np.median(rows.length_s) / 2, 0, len(power_w) // 2))
    kernel = np.ones(2 * half + 1) / (2 * half + 1)
    around = np.convolve(np.pad(power_w, half, mode="edge"), kernel, mode="valid")
    at_edges = np.concatenate((around[:1], (around[1:] + around[:-1]) / 2, around[-1:]))
    # If the windows are unknown, the scale of the noise gives their size, so any constant will do.
    window_s = rows.window_s if (rows.window_s > 0).any() else np.full(len(at_edges), 1e-6)
    variance = edge_variance(at_edges, window_s, unit_j)
    typical = np.full(len(power_w), variance.mean())
    return Noise(variance[:-1], variance[1:], rows.linked, typical)


def _prior(rows: Equations, belief: Belief) -> tuple[Prior, NDArray[np.bool_]]:
    """Return the prior of the columns, and which of them cannot be negative.

    The prior mean of a task is the mean power of a busy second. Unknown static power lies anywhere between zero and
    the lowest power observed; idle quanta determine it far better.
    """
    columns, level = rows.time.shape[1], rows.tasks + 2
    watts = rows.energy_j / np.maximum(rows.length_s, 1e-12)
    unknown = belief.static_w is None
    floor_w = float(np.percentile(watts, 2)) / 2 if belief.static_w is None else belief.static_w
    busy = rows.time[:, :level].sum()
    above_j = max(float(rows.energy_j.sum() - floor_w * rows.length_s.sum()), 0.05 * float(rows.energy_j.sum()))
    mean = np.full(columns, above_j / busy if busy > 0 else 1.0)
    deviation = mean * belief.power_share
    # The model was not calibrated for what runs between tasks and without samples.
    deviation[rows.tasks : level] = mean[rows.tasks : level]
    mean[level], deviation[level] = floor_w, floor_w if unknown else belief.static_share * floor_w + 1e-9
    mean[level + 1 :], deviation[level + 1 :] = 0.0, 0.1 * max(float(watts.mean()), 1e-9)
    deviation[-1] = CONCURRENCY_EFFECT * mean[0]
    bounded = np.ones(columns, bool)
    bounded[level + 1 :] = False
    return Prior(mean, deviation), bounded


def _positive(power: Floats, mean: Floats) -> Floats:
    """Raise each power above zero, so that a task alone in a quantum gets its joules."""
    return np.asarray(np.maximum(power, 1e-6 * mean))


def _static(quanta: Quanta, rows: Equations, solution: Solution) -> Floats:
    """Static watts of every quantum, including those that were left out or merged."""
    level = rows.tasks + 2
    middle_s = (quanta.edges_ns[1:] + quanta.edges_ns[:-1] - 2 * quanta.edges_ns[0]) * 0.5e-9
    place = 2 * middle_s / max(float(quanta.edges_ns[-1] - quanta.edges_ns[0]) * 1e-9, 1e-9) - 1
    linear, bent = solution.power[level + 1 : level + 1 + TRENDS]
    return np.asarray(np.maximum(solution.power[level] + linear * place + bent * (place**2 - 1 / 3), 0.0))


def _together(rows: Equations, solution: Solution) -> tuple[tuple[int, ...], ...]:
    """Groups of tasks whose powers cannot be separated: directions of large variance in the covariance.

    A direction in which all powers rise together is excluded: it is confounded with static power.
    """
    ran = rows.time[:, : rows.tasks].sum(axis=0)
    seen = np.flatnonzero(ran > 0)
    if len(seen) < 2:
        return ()
    typical = max(float(ran[seen] @ solution.power[seen] / ran[seen].sum()), 1e-12)
    covariance = solution.covariance[np.ix_(seen, seen)] / typical**2
    sizes, directions = np.linalg.eigh((covariance + covariance.T) / 2)
    part = rows.time[:, seen] / np.maximum(rows.length_s, 1e-12)[:, None]
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


def _gain(rows: Equations, noise: Noise, prior: Prior, bounded: NDArray[np.bool_], full: Solution) -> float:
    """Compare with a fit of one power for everything that runs; a single task has no gain."""
    level = rows.tasks + 2
    if (rows.time[:, : rows.tasks].sum(axis=0) > 0).sum() < 2:
        return -np.inf
    joined = np.column_stack([rows.time[:, :level].sum(axis=1), rows.time[:, level:]])
    kept = np.r_[0, level : len(prior.mean)]
    few = solve(joined, rows.energy_j, noise, Prior(prior.mean[kept], prior.deviation[kept]), bounded[kept])
    count = len(rows.energy_j)
    more = int((rows.time[:, :level].sum(axis=0) > 0).sum()) - 1
    return 2 * (few.negative_log_likelihood - full.negative_log_likelihood) - more * float(np.log(count))


def mean_errors(
    fits: Mapping[str, Fit], segments: Sequence[Segments], rows: InstanceRows, names: Sequence[str]
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
