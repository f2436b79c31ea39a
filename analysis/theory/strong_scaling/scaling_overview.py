"""An algorithm on a machine: rows over processors, its best execution, and the figures of its page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.theory.model_page import Axis, Figure, curve, figure, surface

from .communication import OMEGA, Floats, matmul_words
from .distributed_machine import Run, evaluate
from .optimum import Problem, figure_4, optimise
from .target import generations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .communication import Algorithm
    from .distributed_machine import Machine
    from .optimum import Limits, Optimum

ROWS = 14
_WORDS = {"time_s": ("", "s"), "energy_j": ("", "J"), "power_w": ("", "W"), "processor_power_w": (" a processor", "W")}
DEFAULT_N = {"nbody": 1e6, "fft-tree": 1e9, "fft-naive": 1e9}
OTHER_N = 35000.0  # of the paper's case study
_P = Axis("processors p")


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


def figures(overview: Overview, best: Optimum, limits: Limits) -> list[Figure]:
    """Return time, energy, words, the region of figure 4 and figures 6 and 7 for one size."""
    problem, found = overview.problem, curves(overview)
    p = found["p"].tolist()
    perfect = problem.algorithm.scales and found["p_to"] > found["p_from"]
    band = (found["p_from"], found["p_to"], "perfect strong scaling") if perfect else None
    shown = []
    for column, name, unit in (("time_s", "time", "s"), ("energy_j", "energy", "J")):
        pair = (
            curve("memory of least energy wherever it can be used", p, found[column].tolist()),
            curve("as much memory as is of use", p, found[f"most_memory_{column}"].tolist(), "dot"),
        )
        title = f"{name.capitalize()} over processors"
        shown.append(figure(title, _P, Axis(f"{name}, {unit}", unit), pair, band=band))
    if "words" in found:
        line = curve("words of all processors together", p, found["words"].tolist())
        note = "The least that must be sent (figure 3 of the paper): flat while scaling is perfect, then rising."
        shown.append(figure("Words sent, times processors", _P, Axis("words"), (line,), note, band))
    if problem.algorithm.least != problem.algorithm.most:
        shown.append(_region(overview, best, limits, p))
    if best.feasible:
        shown.append(_generations(overview, best))
    return shown


def _region(overview: Overview, best: Optimum, limits: Limits, p: Sequence[float]) -> Figure:
    problem = overview.problem
    found = figure_4(problem.algorithm, problem.machine, problem.n, limits, p=np.asarray(p))
    energy = found["energy_j"]
    lines = [
        curve("one copy of the data", p, found["least_words"].tolist()),
        curve("as many copies as are of use", p, found["most_words"].tolist(), "dash"),
    ]
    if best.feasible:
        ends, words = [best.p_from, best.p_to], [best.memory_words] * 2
        lines.append(curve("best executions", ends, words, "dot", points=best.p_from == best.p_to))
    energies = surface(
        "energy over the least shown",
        p,
        found["memory_words"].tolist(),
        (energy / np.nanmin(energy)).tolist(),
    )
    note = "Where the algorithm can run (figure 4 of the paper). Energy changes from bottom to top, not along p."
    if not problem.algorithm.scales:
        note = "Where the algorithm can run."
    return figure(
        "Energy over processors and memory", _P, Axis("memory in use of a processor, words"), [energies, *lines], note,
    )  # fmt: skip


def _generations(overview: Overview, best: Optimum) -> Figure:
    problem = overview.problem
    found = generations(problem.machine, problem.algorithm, problem.n, best.p, best.memory_words)
    steps = found["generation"].tolist()
    names = {"gamma_e": "energy of a flop", "beta_e": "of a word sent", "delta_e": "of memory", "all": "all three"}
    return figure(
        "Efficiency when energies halve with each generation",
        Axis("generation", log=False),
        Axis("GFLOPS/W"),
        [curve(name, steps, found[key].tolist()) for key, name in names.items()],
        f"At {best.p:.4g} processors with {best.memory_words:.4g} words each (figures 6 and 7 of the paper).",
    )
