"""How long a million evaluations of each analytic model take, as whole arrays."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory import strong_scaling as scaling
from tprof.benchmarks.measured_figures import Figure, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MILLION = 1_000_000
LEVEL = scaling.Level(beta_t=1e-9, beta_e=1e-9, delta_e=1e-9, memory_words=1e15)
TWO_LEVELS = scaling.TwoLevelMachine("two levels", 1e-11, 1e-10, 0.1, 8, LEVEL, LEVEL)


@dataclass(frozen=True)
class Extent:
    """How much is measured: evaluations, and rounds of each figure."""

    evaluations: int = MILLION
    rounds: int = 5


FULL = Extent()
QUICK = Extent(evaluations=1000, rounds=1)


def measure(extent: Extent = FULL) -> dict[str, Any]:
    """Measure every model, in turn in each round.

    Returns
    -------
    dict
        `machine` (as `describe_machine`), `effort`, and `figures`: plain values as `Figure.as_plain`.
    """
    models = dict(_models(extent.evaluations))
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(extent.rounds):
        for name, work in models.items():
            begin_s = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin_s)
    target = extent.evaluations / MILLION
    figures = [
        Figure(f"{name}, {extent.evaluations:,} evaluations", tuple(values), "s", target)
        for name, values in seconds.items()
    ]
    return result_of(extent, figures)


def _models(count: int) -> Iterator[tuple[str, Callable[[], object]]]:
    random = np.random.default_rng(0)
    n, p = 10 ** random.uniform(4, 6, count), 10 ** random.uniform(0, 4, count)
    machine, multicore = scaling.machines()["jaketown"], cores.normalised()
    for algorithm in scaling.ALGORITHMS.values():
        yield f"{algorithm.name}: time and energy", partial(scaling.evaluate, algorithm, machine, n, p)
    for two_levels in scaling.TWO_LEVEL_ALGORITHMS.values():
        yield (
            f"{two_levels.name}: time and energy",
            partial(scaling.evaluate_two_levels, two_levels, TWO_LEVELS, n, p),
        )
    for parallel in cores.ALGORITHMS.values():
        yield (
            f"{parallel.name}: frequency and energy at the sequential time",
            partial(cores.isoperformance, parallel, multicore, n, p),
        )
