"""Which executions of an algorithm are possible, and which stay within limits: the region of figure 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .limits import Limits
from .run import Floats, evaluate

if TYPE_CHECKING:
    from .algorithms import Algorithm
    from .machine import Machine


def figure_4(
    algorithm: Algorithm, machine: Machine, n: float, limits: Limits | None = None, *,
    p: Floats | None = None, memory_words: Floats | None = None, points: int = 160,
) -> dict[str, Any]:  # fmt: skip
    """Return energy and time over processors and memory, with the possible ones marked.

    Parameters
    ----------
    algorithm, machine, n
        As in `evaluate`.
    limits
        For each that is given the region that keeps it.
    p, memory_words
        The axes; without them p up to n, and memory from the least of the most processors to the most of one.

    Returns
    -------
    dict
        `p` (k,), `memory_words` (j,), `least_words` and `most_words` (k,) the two thick lines, and (j, k) arrays
        `energy_j` and `time_s`, NaN where the algorithm cannot run, and `within`: a bool array for each limit.
    """
    count = np.geomspace(1.0, n, points) if p is None else np.asarray(p, float)
    least, most = algorithm.memory_range(n, count)
    if memory_words is None:
        memory_words = np.geomspace(least.min(), most.max(), points)
    memory = np.asarray(memory_words, float)
    run = evaluate(algorithm, machine, n, count, memory[:, None])
    slack = 1 + 1e-9
    possible = (memory[:, None] * slack >= least) & (memory[:, None] <= most * slack)
    given = (limits or Limits()).given()
    return {
        "p": count,
        "memory_words": memory,
        "least_words": least,
        "most_words": most,
        "energy_j": np.where(possible, run.energy_j, np.nan),
        "time_s": np.where(possible, run.time_s, np.nan),
        "within": {name: possible & (getattr(run, name) <= value) for name, value in given.items()},
    }
