"""Figures 2 and 3: the best number of cores over the size of the input and over the cost of an access."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .algorithms import ALGORITHMS, Algorithm, Floats
from .machine import Multicore, normalised
from .metrics import least_energy
from .run import isoperformance

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9)
CORES = tuple(float(2**power) for power in range(13))
RATIOS = (1.0, 10.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)


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
