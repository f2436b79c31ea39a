"""An algorithm on cores of one frequency: rows over cores, the three best numbers of them, and its figures."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.theory.model_page import Axis, Figure, curve, figure

from .best_cores import (
    MOST_CORES,
    RATIOS,
    Best,
    efficient,
    figure_2,
    figure_3,
    least_energy,
    least_time,
    most_efficient,
)
from .multicore import evaluate, isoperformance, sequential_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .multicore import Multicore, Run
    from .parallel_algorithms import Algorithm, Floats

DEFAULT_N = {"product": 1e4}
OTHER_N = 1e8
_CORES = Axis("cores")
QUESTIONS = {"energy": "iso-performance", "time": "energy-bounded", "edp": "energy-efficient"}


@dataclass(frozen=True)
class Overview:
    """One size of an algorithm on a machine, within a time and an energy.

    Attributes
    ----------
    algorithm, machine, n : what runs where.
    max_time_s : for iso-performance; without it the sequential program's time at the highest frequency.
    max_energy_j : for energy-bounded scalability; without it the sequential program's energy.
    cores : numbers of cores to show and to choose from, or None for all.
    """

    algorithm: Algorithm
    machine: Multicore
    n: float
    max_time_s: float | None = None
    max_energy_j: float | None = None
    cores: Sequence[float] | None = None

    @property
    def time_s(self) -> float:
        """The time that is kept."""
        if self.max_time_s is not None:
            return self.max_time_s
        return float(sequential_s(self.algorithm, self.machine, self.n))

    @property
    def energy_j(self) -> float:
        """The energy that is kept."""
        if self.max_energy_j is not None:
            return self.max_energy_j
        return float(evaluate(self.algorithm, self.machine, self.n, 1, self.machine.max_hz).energy_j)

    def best(self, minimise: str) -> Best:
        """Return the best number of cores for one of `QUESTIONS`."""
        if minimise == "energy":
            return least_energy(self.algorithm, self.machine, self.n, self.time_s, self.cores)
        if minimise == "time":
            return least_time(self.algorithm, self.machine, self.n, self.energy_j, self.cores)
        return most_efficient(self.algorithm, self.machine, self.n, cores=self.cores)

    def as_plain(self) -> dict[str, Any]:
        """Return `n`, what is kept, the best for each question, and a row for each number of cores shown."""
        cores = self._shown()
        slowed = isoperformance(self.algorithm, self.machine, self.n, cores, self.time_s)
        balanced = efficient(self.algorithm, self.machine, self.n, cores)
        columns: dict[str, Floats] = {
            "cores": cores,
            "frequency": slowed.frequency_hz / self.machine.max_hz,
            "time_s": slowed.time_s,
            "energy_j": slowed.energy_j,
            "compute_j": slowed.compute_j,
            "memory_j": slowed.memory_j,
            "message_j": slowed.message_j,
            "leakage_j": slowed.leakage_j,
            "edp_frequency": balanced.frequency_hz / self.machine.max_hz,
            "edp_time_s": balanced.time_s,
            "edp_energy_j": balanced.energy_j,
        }
        return {
            "n": self.n,
            "max_time_s": self.time_s,
            "max_energy_j": self.energy_j,
            "best": {question: asdict(self.best(minimise)) for minimise, question in QUESTIONS.items()},
            "rows": [{name: float(column[at]) for name, column in columns.items()} for at in range(len(cores))],
        }

    def _shown(self) -> Floats:
        if self.cores is not None:
            return np.asarray(self.cores, float)
        most = max(min(self.algorithm.most_cores(self.n), MOST_CORES, 4096), 1)
        return np.asarray(2.0 ** np.arange(math.floor(math.log2(most)) + 1))


def units(machine: Multicore) -> tuple[str, str]:
    """Return the units of time and energy: SI, or those of a machine whose constants are ratios."""
    return ("cycles at F", "E_l") if machine.max_hz == 1 else ("s", "J")


def describe(best: Best, minimise: str, overview: Overview) -> str:
    """Return a sentence on the best execution, or on the limits that would allow one."""
    seconds, joules = units(overview.machine)
    bound = {
        "energy": f" within {overview.time_s:.6g} {seconds}",
        "time": f" within {overview.energy_j:.6g} {joules}",
    }.get(minimise, "")
    if not best.feasible:
        nearest = f"{best.nearest:.6g} {seconds if minimise == 'energy' else joules}"
        return f"{QUESTIONS[minimise].capitalize()}: infeasible{bound}; at least {nearest} must be allowed."
    last = (
        " (the most that were tried)" if best.cores in (MOST_CORES, overview.algorithm.most_cores(overview.n)) else ""
    )
    what = "energy times time" if minimise == "edp" else minimise
    frequency = f"{best.frequency_hz / overview.machine.max_hz:.4g} F"
    return (
        f"{QUESTIONS[minimise].capitalize()}: least {what}{bound} on {best.cores:.6g} cores{last} at "
        f"{frequency}: {best.time_s:.6g} {seconds}, {best.energy_j:.6g} {joules}."
    )


def overview_notes(machine: Multicore) -> list[str]:
    """Return notes for reading the rows."""
    notes = ["Calculated from constants of the machine; nothing was measured. n/p need not be whole."]
    if machine.max_hz == 1:
        notes.append(
            "The machine's constants are ratios: time in cycles at the highest frequency F, energy in units of the "
            "leakage constant E_l."
        )
    return notes


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
    return figure(
        "How much more energy than the best number of cores takes", _CORES, Axis("energy above the least, part of 1"),
        [curve("each slowed down to the same time", cores.tolist(), np.where(part > 0, part, np.nan).tolist())],
        f"Iso-performance within {overview.time_s:.6g} {units(overview.machine)[0]}: few cores need a higher "
        "frequency, many make more accesses and messages.",
    )  # fmt: skip


def _frequencies(overview: Overview, cores: Floats, slowed: Run) -> Figure:
    machine = overview.machine
    balanced = efficient(overview.algorithm, machine, overview.n, cores)
    return figure(
        "Frequency over cores", _CORES, Axis("frequency over the highest"),
        [
            curve("iso-performance", cores.tolist(), (slowed.frequency_hz / machine.max_hz).tolist()),
            curve("least energy times time", cores.tolist(), (balanced.frequency_hz / machine.max_hz).tolist(), "dash"),
        ],
    )  # fmt: skip


def _parts(overview: Overview, cores: Floats, slowed: Run) -> Figure:
    joules = units(overview.machine)[1]
    parts = {"computing": slowed.compute_j, "memory": slowed.memory_j, "messages": slowed.message_j,
             "leakage": slowed.leakage_j}  # fmt: skip
    return figure(
        "What energy is made of, each number of cores slowed down to the same time", _CORES, Axis(f"energy, {joules}"),
        [curve(name, cores.tolist(), part.tolist()) for name, part in parts.items() if np.nansum(part) > 0],
    )  # fmt: skip


def _papers(overview: Overview) -> list[Figure]:
    algorithm, machine = overview.algorithm, overview.machine
    sizes = np.geomspace(overview.n / 10, overview.n * 10, 13).tolist()
    by_size = figure_2(machine, algorithm, sizes)
    within = "within the sequential program's time"
    found = [
        figure(
            "Best number of cores over the size", Axis("size n"), _CORES,
            [curve(f"least energy {within}", sizes, by_size["best_cores"].tolist())],
            "The black curve of the paper's figure 2.",
        )
    ]  # fmt: skip
    if machine.max_hz == 1:
        by_price = figure_3(overview.n, algorithm, RATIOS, machine.block_words)
        line = curve(f"least energy {within}", list(RATIOS), by_price["best_cores"].tolist())
        price = Axis("k, energy of an access over that of a cycle")
        found.append(figure("Best number of cores over the price of an access", price, _CORES, [line],
                            "The paper's figure 3."))  # fmt: skip
    return found
