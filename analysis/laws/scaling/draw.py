"""The figures of an algorithm on a machine whose processors send messages, for its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.laws.page import Axis, Curve, Figure, Surface

from .overview import curves
from .regions import figure_4
from .target import generations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .limits import Limits, Optimum
    from .overview import Overview

_P = Axis("processors p")


def figures(overview: Overview, best: Optimum, limits: Limits) -> list[Figure]:
    """Return time, energy, words, the region of figure 4 and figures 6 and 7 for one size."""
    problem, found = overview.problem, curves(overview)
    p = found["p"].tolist()
    perfect = problem.algorithm.scales and found["p_to"] > found["p_from"]
    band = (found["p_from"], found["p_to"], "perfect strong scaling") if perfect else None
    shown = []
    for column, name, unit in (("time_s", "time", "s"), ("energy_j", "energy", "J")):
        pair = (
            Curve("memory of least energy wherever it can be used", p, found[column].tolist()),
            Curve("as much memory as is of use", p, found[f"most_memory_{column}"].tolist(), "dot"),
        )
        title = f"{name.capitalize()} over processors"
        shown.append(Figure(title, _P, Axis(f"{name}, {unit}", unit), pair, band=band))
    if "words" in found:
        curve = Curve("words of all processors together", p, found["words"].tolist())
        note = "The least that must be sent (figure 3 of the paper): flat while scaling is perfect, then rising."
        shown.append(Figure("Words sent, times processors", _P, Axis("words"), (curve,), note, band))
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
        Curve("one copy of the data", p, found["least_words"].tolist()),
        Curve("as many copies as are of use", p, found["most_words"].tolist(), "dash"),
    ]
    if best.feasible:
        ends, words = [best.p_from, best.p_to], [best.memory_words] * 2
        lines.append(Curve("best executions", ends, words, "dot", points=best.p_from == best.p_to))
    surface = Surface(
        "energy over the least shown",
        p,
        found["memory_words"].tolist(),
        (energy / np.nanmin(energy)).tolist(),
    )
    note = "Where the algorithm can run (figure 4 of the paper). Energy changes from bottom to top, not along p."
    if not problem.algorithm.scales:
        note = "Where the algorithm can run."
    return Figure(
        "Energy over processors and memory", _P, Axis("memory in use of a processor, words"), lines, note,
        surface=surface,
    )  # fmt: skip


def _generations(overview: Overview, best: Optimum) -> Figure:
    problem = overview.problem
    found = generations(problem.machine, problem.algorithm, problem.n, best.p, best.memory_words)
    steps = found["generation"].tolist()
    names = {"gamma_e": "energy of a flop", "beta_e": "of a word sent", "delta_e": "of memory", "all": "all three"}
    return Figure(
        "Efficiency when energies halve with each generation",
        Axis("generation", log=False),
        Axis("GFLOPS/W"),
        [Curve(name, steps, found[key].tolist()) for key, name in names.items()],
        f"At {best.p:.4g} processors with {best.memory_words:.4g} words each (figures 6 and 7 of the paper).",
    )
