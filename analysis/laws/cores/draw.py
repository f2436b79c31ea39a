"""The figures of an algorithm on cores of one frequency, for its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.laws.page import Axis, Curve, Figure

from .figures import RATIOS, figure_2, figure_3
from .metrics import efficient
from .overview import units
from .run import isoperformance

if TYPE_CHECKING:
    from .algorithms import Floats
    from .overview import Overview
    from .run import Run

_CORES = Axis("cores")


def figures(overview: Overview) -> list[Figure]:
    """Return energy and frequency over cores, and the best number of cores over size and the price of an access."""
    best = overview.best("energy")
    most = 16 * best.cores if best.feasible else 1024.0
    cores = np.unique(np.round(np.geomspace(1, min(most, overview.algorithm.most_cores(overview.n)), 200)))
    slowed = isoperformance(overview.algorithm, overview.machine, overview.n, cores, overview.time_s)
    shown = [_frequencies(overview, cores, slowed), _parts(overview, cores, slowed)]
    if best.feasible:
        shown.insert(0, _above(overview, cores, slowed, best.energy_j))
    if overview.max_time_s is None:
        shown += _papers(overview)
    return shown


def _above(overview: Overview, cores: Floats, slowed: Run, least_j: float) -> Figure:
    part = slowed.energy_j / least_j - 1
    return Figure(
        "How much more energy than the best number of cores takes", _CORES, Axis("energy above the least, part of 1"),
        [Curve("each slowed down to the same time", cores.tolist(), np.where(part > 0, part, np.nan).tolist())],
        f"Iso-performance within {overview.time_s:.6g} {units(overview.machine)[0]}: few cores need a higher "
        "frequency, many make more accesses and messages.",
    )  # fmt: skip


def _frequencies(overview: Overview, cores: Floats, slowed: Run) -> Figure:
    machine = overview.machine
    balanced = efficient(overview.algorithm, machine, overview.n, cores)
    return Figure(
        "Frequency over cores", _CORES, Axis("frequency over the highest"),
        [
            Curve("iso-performance", cores.tolist(), (slowed.frequency_hz / machine.max_hz).tolist()),
            Curve("least energy times time", cores.tolist(), (balanced.frequency_hz / machine.max_hz).tolist(), "dash"),
        ],
    )  # fmt: skip


def _parts(overview: Overview, cores: Floats, slowed: Run) -> Figure:
    joules = units(overview.machine)[1]
    parts = {"computing": slowed.compute_j, "memory": slowed.memory_j, "messages": slowed.message_j,
             "leakage": slowed.leakage_j}  # fmt: skip
    return Figure(
        "What energy is made of, each number of cores slowed down to the same time", _CORES, Axis(f"energy, {joules}"),
        [Curve(name, cores.tolist(), part.tolist()) for name, part in parts.items() if np.nansum(part) > 0],
    )  # fmt: skip


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
