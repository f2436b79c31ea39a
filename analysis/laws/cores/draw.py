"""The figures of an algorithm on cores of one frequency, for its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.laws.page import Axis, Curve, Figure

from .figures import RATIOS, figure_2, figure_3
from .metrics import efficient
from .overview import units
from .run import evaluate, isoperformance

if TYPE_CHECKING:
    from .overview import Overview

_CORES = Axis("cores")


def figures(overview: Overview) -> list[Figure]:
    """Return energy and frequency over cores, and the best number of cores over size and the price of an access."""
    algorithm, machine, n = overview.algorithm, overview.machine, overview.n
    most = 4 * max((overview.best("energy").cores, 64.0), key=np.nan_to_num)
    cores = np.unique(np.round(np.geomspace(1, min(most, algorithm.most_cores(n)), 160)))
    slowed = isoperformance(algorithm, machine, n, cores, overview.time_s)
    balanced = efficient(algorithm, machine, n, cores)
    x, (_, joules) = cores.tolist(), units(machine)
    needed_j = evaluate(algorithm, machine, n, 1, machine.max_hz).memory_j
    extra_j = np.maximum(slowed.memory_j - needed_j, 0)  # most of memory's energy does not depend on the cores
    parts = [("all but one core's accesses", slowed.energy_j - np.minimum(needed_j, slowed.memory_j), "solid"),
             ("computing", slowed.compute_j, "dot"), ("further accesses", extra_j, "dot"),
             ("messages", slowed.message_j, "dot"), ("leakage", slowed.leakage_j, "dot")]  # fmt: skip
    shown = [
        Figure(
            "Energy over cores, each slowed down to the same time", _CORES, Axis(f"energy, {joules}"),
            [Curve(name, x, np.where(part > 0, part, np.nan).tolist(), dash)
             for name, part, dash in parts if np.nansum(part) > 0],
            f"Iso-performance within {overview.time_s:.6g} {units(machine)[0]}, without the {float(needed_j):.4g} "
            f"{joules} of the accesses that one core alone would make.",
        ),
        Figure(
            "Frequency over cores", _CORES, Axis("frequency over the highest"),
            [
                Curve("iso-performance", x, (slowed.frequency_hz / machine.max_hz).tolist()),
                Curve("least energy times time", x, (balanced.frequency_hz / machine.max_hz).tolist(), "dash"),
            ],
        ),
    ]  # fmt: skip
    if overview.max_time_s is None:
        shown += _papers(overview)
    return shown


def _papers(overview: Overview) -> list[Figure]:
    algorithm, machine = overview.algorithm, overview.machine
    sizes = np.geomspace(overview.n / 10, overview.n * 10, 13).tolist()
    by_size = figure_2(machine, algorithm, sizes)
    within = "within the sequential program's time"
    found = [
        Figure(
            "Best number of cores over the size", Axis("size n"), _CORES,
            [Curve(f"least energy {within}", sizes, by_size["best_cores"].tolist())],
            "The black curve of the paper's figure 2.",
        )
    ]  # fmt: skip
    if machine.max_hz == 1:
        by_price = figure_3(overview.n, algorithm, RATIOS, machine.block_words)
        curve = Curve(f"least energy {within}", list(RATIOS), by_price["best_cores"].tolist())
        price = Axis("k, energy of an access over that of a cycle")
        found.append(Figure("Best number of cores over the price of an access", price, _CORES, [curve],
                            "The paper's figure 3."))  # fmt: skip
    return found
