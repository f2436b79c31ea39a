"""The three questions of energy scalability: which number of cores, at which frequency, is best for what.

- Iso-performance: within a time, the least energy. Each number of cores runs just fast enough.
- Energy-bounded: within an energy, the least time. Energy rises with frequency, so each number of cores runs as fast as
  the energy allows: a root of a quadratic.
- Energy-efficient: the least energy times time to a power, by default 1, that is the most performance per energy. For
  each number of cores the best frequency is the one positive root of a cubic, found by bisection.

Every number of cores up to 4096 is tried; beyond it numbers a thousandth apart, then all near the best of them. What is
found there is the best where energy and time change smoothly with the number of cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import UsageError

from .multicore import Multicore, Run, checked, evaluate, fixed_s, isoperformance, normalised
from .parallel_algorithms import ALGORITHMS, Algorithm, Floats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

MOST_CORES = 2**20
_EVERY = 4096
_STEP = 1.001
_BISECTIONS = 64
SIZES = (1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9)
CORES = tuple(float(2**power) for power in range(13))
RATIOS = (1.0, 10.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)


@dataclass(frozen=True)
class Best:
    """The best number of cores within a bound.

    Attributes
    ----------
    feasible : whether any number of cores keeps the bound.
    cores, frequency_hz, time_s, energy_j : of the best; NaN where there is none.
    nearest : the least value of the bound that some number of cores keeps; NaN where the bound can be kept.
    """

    feasible: bool
    cores: float = math.nan
    frequency_hz: float = math.nan
    time_s: float = math.nan
    energy_j: float = math.nan
    nearest: float = math.nan


def least_energy(
    algorithm: Algorithm, machine: Multicore, n: float, time_s: float | None = None, cores: ArrayLike | None = None
) -> Best:
    """Return the number of cores that needs the least energy within a time; by default the sequential program's."""
    _check_bound("time", time_s)
    found = _best(
        lambda count: isoperformance(algorithm, machine, n, count, time_s),
        lambda run: run.energy_j,
        _candidates(algorithm, n, cores),
        refine=cores is None,
    )
    if found.feasible:
        return found
    fastest = _best(
        lambda count: evaluate(algorithm, machine, n, count, machine.max_hz),
        lambda run: run.time_s,
        _candidates(algorithm, n, cores),
        refine=cores is None,
    )
    return Best(feasible=False, nearest=fastest.time_s)


def bounded(algorithm: Algorithm, machine: Multicore, n: ArrayLike, cores: ArrayLike, energy_j: ArrayLike) -> Run:
    """Run each number of cores as fast as an energy allows; NaN if it allows no frequency."""
    size, count, _ = checked(n, cores, machine.max_hz)
    total = algorithm.total(size, count, machine)
    square = machine.dynamic_j * np.asarray(total.cycles)
    linear = machine.leakage_j * fixed_s(total, machine)
    spare = np.asarray(energy_j, float) - _least_j(algorithm, machine, size, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Twice the constant over the sum avoids a difference of nearly equal numbers, and works if a term is 0.
        hz = 2 * spare / (linear + np.sqrt(linear**2 + 4 * square * spare))
    hz = np.where(spare > 0, np.minimum(np.where(np.isnan(hz), np.inf, hz), machine.max_hz), np.nan)
    return evaluate(algorithm, machine, size, count, hz)


def least_time(
    algorithm: Algorithm, machine: Multicore, n: float, energy_j: float, cores: ArrayLike | None = None
) -> Best:
    """Return the number of cores that is fastest within an energy."""
    _check_bound("energy", energy_j)
    candidates = _candidates(algorithm, n, cores)
    found = _best(
        lambda count: bounded(algorithm, machine, n, count, energy_j),
        lambda run: run.time_s,
        candidates,
        refine=cores is None,
    )
    if found.feasible:
        return found
    return Best(feasible=False, nearest=float(np.min(_least_j(algorithm, machine, np.asarray(n, float), candidates))))


def efficient(algorithm: Algorithm, machine: Multicore, n: ArrayLike, cores: ArrayLike, exponent: float = 1.0) -> Run:
    """Run each number of cores at the frequency where energy times time^exponent is least."""
    if not (math.isfinite(exponent) and exponent > 0):
        raise UsageError(
            f"the exponent of time must be above 0, got {exponent:g}: with 0 the slowest run is always best"
        )
    size, count, _ = checked(n, cores, machine.max_hz)
    path, total = algorithm.path(size, count, machine), algorithm.total(size, count, machine)
    square, linear = machine.dynamic_j * np.asarray(total.cycles), machine.leakage_j * fixed_s(total, machine)
    constant = _least_j(algorithm, machine, size, count)
    moving, still = np.asarray(path.cycles), fixed_s(path, machine)
    square, linear, constant, moving, still = np.broadcast_arrays(square, linear, constant, moving, still)

    def rising(hz: Floats) -> Floats:
        """Return whether log(energy · time^exponent) no longer falls with frequency."""
        gained = (2 * square * hz + linear) * (moving + still * hz) * hz
        lost = exponent * moving * (square * hz**2 + linear * hz + constant)
        return np.asarray(gained >= lost)

    low, high = np.full(square.shape, math.log(machine.max_hz) - 100), np.full(square.shape, math.log(machine.max_hz))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = rising(np.exp(middle))
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return evaluate(algorithm, machine, size, count, np.minimum(np.exp(high), machine.max_hz))


def most_efficient(
    algorithm: Algorithm, machine: Multicore, n: float, exponent: float = 1.0, cores: ArrayLike | None = None
) -> Best:
    """Return number of cores and frequency where energy times time^exponent is least."""
    return _best(
        lambda count: efficient(algorithm, machine, n, count, exponent),
        lambda run: np.log(run.energy_j) + exponent * np.log(run.time_s),
        _candidates(algorithm, n, cores),
        refine=cores is None,
    )


def _least_j(algorithm: Algorithm, machine: Multicore, n: Floats, cores: Floats) -> Floats:
    """Return the energy that is left when frequency goes to 0: accesses, messages, and computing's own leakage."""
    total = algorithm.total(n, cores, machine)
    moved_j = machine.access_j * total.accesses + machine.message_j * total.messages
    return np.asarray(moved_j + machine.leakage_j * total.cycles)


def _candidates(algorithm: Algorithm, n: float, cores: ArrayLike | None) -> Floats:
    if cores is not None:
        return np.atleast_1d(np.asarray(cores, float))
    most = math.floor(max(min(algorithm.most_cores(n), MOST_CORES), 1))
    every = np.arange(1.0, min(most, _EVERY) + 1)
    if most <= _EVERY:
        return every
    steps = math.ceil(math.log(most / _EVERY) / math.log(_STEP))
    return np.unique(np.concatenate([every, np.round(np.geomspace(_EVERY, most, steps))]))


def _best(run_of: Callable[[Floats], Run], score_of: Callable[[Run], Floats], cores: Floats, *, refine: bool) -> Best:
    """Return the best of these numbers of cores, or of those between its neighbours where they are far apart."""
    chosen = cores
    for _ in range(2):
        run = run_of(chosen)
        score = np.ravel(score_of(run))
        if np.all(np.isnan(score)):
            return Best(feasible=False)
        at = int(np.nanargmin(score))
        low, high = chosen[max(at - 1, 0)], chosen[min(at + 1, len(chosen) - 1)]
        if not refine or low < _EVERY:
            break
        chosen = np.arange(low, high + 1)
    kept = {field.name for field in fields(Best)} - {"feasible", "nearest"}
    return Best(feasible=True, **{name: float(np.ravel(getattr(run, name))[at]) for name in kept})


def _check_bound(what: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"a bound on {what} must be above 0 and finite, got {value:g}")


def figure_2(
    machine: Multicore | None = None, algorithm: Algorithm = ALGORITHMS["addition"],
    sizes: Sequence[float] = SIZES, cores: Sequence[float] = CORES,
) -> dict[str, Floats]:  # fmt: skip
    """Return energy over sizes and cores within the sequential program's time, and the best number of cores.

    Parameters
    ----------
    machine
        Without it the paper's with B = 1, which the paper does not say.

    Returns
    -------
    dict
        `n` (s,), `cores` (c,), `energy_j` (s, c), NaN where too slow, and of all whole numbers of cores `best_cores`
        and `best_energy_j` (s,); NaN where none is fast enough.
    """
    machine = machine or normalised()
    size, count = np.asarray(sizes, float), np.asarray(cores, float)
    best = [least_energy(algorithm, machine, n) for n in size]
    return {
        "n": size,
        "cores": count,
        "energy_j": isoperformance(algorithm, machine, size[:, None], count).energy_j,
        "best_cores": np.array([one.cores for one in best]),
        "best_energy_j": np.array([one.energy_j for one in best]),
    }


def figure_3(
    n: float = 1e8, algorithm: Algorithm = ALGORITHMS["addition"], ratios: Sequence[float] = RATIOS,
    block_words: float = 1.0,
) -> dict[str, Floats]:  # fmt: skip
    """Return the best number of cores of the paper's machine over k, energy of an access over that of a cycle.

    Returns
    -------
    dict
        `k`, `best_cores`, `best_energy_j`, each of the length of `ratios`.
    """
    best = [least_energy(algorithm, normalised(k, block_words=block_words), n) for k in ratios]
    return {
        "k": np.asarray(ratios, float),
        "best_cores": np.array([one.cores for one in best]),
        "best_energy_j": np.array([one.energy_j for one in best]),
    }
