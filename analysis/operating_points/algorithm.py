"""The law of an algorithm with known counts: time and energy from its critical path and its total work.

The model is that of `analysis.theory`. Time is a sum of the path's cycles over the frequency, of accesses with
synchronisations, and of messages; energy of all cycles times the frequency squared, of the core-seconds at work times
the frequency (leakage), of accesses and of messages. Their factors are a machine's constants, which `fit_sweep` finds
once; here they are drawn at random, so that predictions have intervals. Real machines also draw power when all cores
are idle: one more factor, of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.theory.energy_scalability import ALGORITHMS, Multicore, Work

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .laws import Floats, Law, mean_active

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.theory.energy_scalability import Algorithm

    from .candidates import Candidates
    from .laws import Prior
    from .measured import Measured

Counts = Callable[[Floats, Floats, Multicore], Work]
UNFITTED = {"operation_cycles": 1.0, "access_cycles": 0.0, "dynamic_j": 0.0, "leakage_j": 0.0, "access_j": 0.0}
LARGEST_SIZE = 2.0**53
"""Beyond it a float cannot distinguish n and n + 1, and soon counts times hertz overflow."""


@dataclass(frozen=True)
class SizedAlgorithm:
    """An algorithm and its problem size; build it with `sized_algorithm`."""

    algorithm: Algorithm
    size: float

    def law(self, measured: Measured, hz: Floats, workers: NDArray[np.int64], prior: Prior) -> Law:
        """Return its law at the given operating points, those of `measured` first, as `laws.law_of` does."""
        count, top_hz, most = len(measured.setting), float(hz.max()), float(measured.workers.max())
        path, total = (self._counts(work, workers, top_hz) for work in (self.algorithm.path, self.algorithm.total))
        steps = np.stack([path.cycles * top_hz / hz, path.accesses + path.syncs, path.messages], axis=1)
        worked = np.stack([total.cycles * top_hz / hz, total.accesses + total.syncs, total.messages], axis=1)
        energies = np.stack([total.cycles * (hz / top_hz) ** 2, total.accesses, total.messages], axis=1)
        return _LawOfAlgorithm(
            time=(steps / _largest(steps[:count]))[None],
            power=np.zeros((1, len(hz), 1)),
            weight=np.zeros(1),
            waiting=np.array([False, True, True]),
            misfit=(0.0, 0.0),
            least_misfit=prior.counts_misfit,
            rough=1.0,
            at_work=worked / np.where(steps > 0, steps, 1.0) / most,
            energies=energies / _largest(energies[:count]),
            part=hz / top_hz,
            measured=count,
        )

    def check(self, measured: Measured, among: Candidates) -> None:
        """Raise UsageError if the model does not cover the measurements or the predictions."""
        name = self.algorithm.name
        if measured.unit != "Hz" or len(np.unique(measured.workers)) < 2:
            raise UsageError(
                f"--algorithm {name} needs runs at frequencies and with several numbers of workers; "
                "tprof sweep --frequencies … --workers … makes them"
            )
        most = self.algorithm.most_cores(self.size)
        if among.workers.max() > most:
            raise UsageError(
                f"{name} of size {self.size:g} has work for {most:g} cores only, and "
                f"{counted(among.workers.max(), 'worker was', 'workers were')} run or named; give the size that was run"
            )

    def _counts(self, work: Counts, workers: NDArray[np.int64], top_hz: float) -> Work:
        machine = Multicore(max_hz=top_hz, **UNFITTED)
        p = workers.astype(float)
        counts = work(np.full(len(p), self.size), p, machine)
        return Work(*(np.broadcast_to(np.asarray(part, float), p.shape) for part in counts))


@dataclass(frozen=True, kw_only=True)
class _LawOfAlgorithm(Law):
    """The law of one shape; `energies`, (m, columns), are the terms of the energy without leakage, `part` is f/f0.

    `at_work`, (m, columns of the time): busy cores in each, as a part of the largest number that was run.
    """

    at_work: Floats
    energies: Floats
    part: Floats
    measured: int

    def powers(self, shapes: NDArray[np.int64], parts: Floats) -> Floats:
        """Return the columns of the energy divided by the time, which is given by `parts`."""
        took = parts[:, None, :] * self.time[shapes]
        all_s = took.sum(axis=2)
        rates = self.energies[None] / np.maximum(all_s, 1e-300)[..., None]
        leaks = mean_active(took, self.at_work) * self.part
        columns = np.concatenate([rates, leaks[..., None], np.ones_like(leaks)[..., None]], axis=2)
        return columns / _largest(columns[:, : self.measured])


def sized_algorithm(name: str, size: float) -> SizedAlgorithm:
    """Return an algorithm of a size. Raises UsageError."""
    if name not in ALGORITHMS:
        raise UsageError(f"--algorithm must be one of {', '.join(ALGORITHMS)}, got {name!r}")
    if not size >= 1:
        raise UsageError(f"--size must be 1 or more, got {size:g}")
    if size > LARGEST_SIZE:
        raise UsageError(
            f"--size must be at most {LARGEST_SIZE:.1e}, got {size:g}; beyond it counts are not exact, give the size "
            "that was run"
        )
    return SizedAlgorithm(ALGORITHMS[name], size)


def _largest(columns: Floats) -> Floats:
    """Return the largest of each column, 1 where all are 0."""
    most = columns.max(axis=-2, keepdims=True)
    return np.where(most > 0, most, 1.0)
