"""An algorithm on a machine at a glance: over processors, over sizes, and its best execution, as plain rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .algorithms import OMEGA, Floats
from .bounds import matmul_words
from .run import Run, evaluate
from .search import Problem, optimise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .algorithms import Algorithm
    from .limits import Limits, Optimum
    from .machine import Machine

ROWS = 14
_WORDS = {"time_s": ("", "s"), "energy_j": ("", "J"), "power_w": ("", "W"), "processor_power_w": (" a processor", "W")}
DEFAULT_N = {"nbody": 1e6, "fft-tree": 1e9, "fft-naive": 1e9}
OTHER_N = 35000.0  # of the paper's case study


@dataclass(frozen=True)
class Overview:
    """One size of an algorithm on a machine.

    Attributes
    ----------
    problem : what runs where.
    memory_words : what a processor uses wherever the algorithm can; without it what makes energy least.
    p : numbers of processors to show, or None for some on both sides of the range.
    """

    problem: Problem
    memory_words: float | None = None
    p: Sequence[float] | None = None

    def words(self) -> float:
        """Return the words that a processor uses wherever the algorithm can."""
        if self.memory_words is not None:
            return self.memory_words
        return optimise(self.problem).memory_words

    def run(self, p: Floats, words: float) -> Run:
        """Evaluate, with more memory where the data needs it and less where more is of no use."""
        problem = self.problem
        least, most = problem.algorithm.memory_range(problem.n, p)
        return evaluate(problem.algorithm, problem.machine, problem.n, p, np.clip(words, least, most))

    def as_plain(self) -> dict[str, Any]:
        """Return `n`, `memory_words`, the `range` of processors that use it, and a row for each number of them.

        Numbers too small to hold the data have none; `left_out` is then the fewest that do.
        """
        problem, words = self.problem, self.words()
        fewest, most = (float(end) for end in problem.algorithm.processor_range(problem.n, words))
        p = self._processors(fewest, most)
        run = self.run(p, words)
        fits = run.memory_words <= problem.machine.memory_words * (1 + 1e-12)
        inside = (p >= fewest * (1 - 1e-9)) & (p <= most * (1 + 1e-9)) & problem.algorithm.scales
        return {
            "n": problem.n,
            "memory_words": words,
            "range": {"p_from": max(fewest, 1.0), "p_to": max(most, 1.0), "perfect": problem.algorithm.scales},
            "left_out": None if fits.all() else problem.ends()[0],
            "rows": [
                {
                    "p": float(p[at]),
                    "memory_words": float(run.memory_words[at]),
                    "time_s": float(run.time_s[at]),
                    "energy_j": float(run.energy_j[at]),
                    "power_w": float(run.power_w[at]),
                    "gflops_per_w": float(run.gflops_per_w[at]),
                    "perfect": bool(inside[at]),
                }
                for at in np.flatnonzero(fits)
            ],
        }

    def ends(self, fewest: float, most: float) -> tuple[float, float]:
        """Return the fewest and the most processors to show around a range."""
        low, high = self.problem.ends()
        if self.p is not None:
            return low, high
        if self.problem.algorithm.least == self.problem.algorithm.most:
            return low, min(high, max(4096 * low, 16 * most))
        return max(low, fewest / 4), min(high, max(most, 1.0) * 16)

    def _processors(self, fewest: float, most: float) -> Floats:
        return powers(*self.ends(fewest, most)) if self.p is None else np.asarray(self.p, float)


def powers(low: float, high: float, most: int = ROWS) -> Floats:
    """Return powers of two between two ends, or of four, eight … where there would be too many; at least one number."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    if last < first:
        return np.array([low])
    step = -(-(last - first + 1) // most)
    return np.asarray(2.0 ** np.arange(first, last + 1, step))


def overview_notes(algorithm: Algorithm, machine: Machine, memory_words: float) -> list[str]:
    """Return notes for reading the rows."""
    notes = ["Calculated from constants of the machine by a model without constant factors; nothing was measured."]
    if algorithm.least == algorithm.most:
        notes.append(f"{algorithm.name} uses one amount of memory for each number of processors: no perfect scaling.")
    elif not algorithm.scales:
        notes.append(f"Flops and words of {algorithm.name} scale perfectly in this range, its messages do not.")
    if machine.message_words > memory_words and machine.alpha_t * machine.message_words > 0:
        notes.append(
            f"The model's longest message ({machine.message_words:.4g} words) is longer than the memory in use "
            f"({memory_words:.4g}): latency is underestimated."
        )
    return notes


def describe(optimum: Optimum, minimise: str, limits: Limits) -> str:
    """Return a sentence on the best execution, or on the limits that would allow one."""
    if optimum.feasible:
        wide = optimum.p_to > optimum.p_from * (1 + 1e-6)
        many = f"; the same energy on {optimum.p_from:.6g} to {optimum.p_to:.6g}" if wide else ""
        what = "energy times time" if minimise == "edp" else minimise
        return (
            f"Least {what}: {optimum.p:.6g} processors with {optimum.memory_words:.4g} words each take "
            f"{optimum.time_s:.4g} s, {optimum.energy_j:.4g} J, {optimum.power_w:.4g} W{many}."
        )
    asked = " and ".join(_amount(name, value) for name, value in limits.given().items())
    nearest = " or ".join(_amount(name, value) for name, value in optimum.nearest.items())
    rest = ", all else unchanged" if len(optimum.nearest) > 1 else ""
    return f"Infeasible: no execution keeps to {asked}; the least that one can keep to is {nearest}{rest}."


def _amount(name: str, value: float) -> str:
    what, unit = _WORDS[name]
    return f"{value:.6g} {unit}{what}"


def curves(overview: Overview, points: int = 200) -> dict[str, Any]:
    """Return figures over processors: time, energy and, for products of matrices, words of all processors together."""
    problem, words = overview.problem, overview.words()
    fewest, most = (float(end) for end in problem.algorithm.processor_range(problem.n, words))
    low, high = overview.ends(fewest, most)
    p = np.geomspace(low, high, points)
    run, widest = overview.run(p, words), evaluate(problem.algorithm, problem.machine, problem.n, p)
    found = {
        "p": p,
        "time_s": run.time_s,
        "energy_j": run.energy_j,
        "most_memory_time_s": widest.time_s,
        "most_memory_energy_j": widest.energy_j,
        "p_from": max(fewest, 1.0),
        "p_to": max(most, 1.0),
    }
    exponent = {"matmul": 3.0, "strassen": OMEGA}.get(problem.algorithm.name)
    if exponent is not None:
        found["words"] = matmul_words(problem.n, p, words, exponent) * p
    return found
