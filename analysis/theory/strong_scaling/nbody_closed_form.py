"""The questions of section V answered in closed form for the direct n-body problem with replicated data.

Energy depends on the memory M alone and time falls as 1/p, so that every question is one about the region
``n/p <= M <= n/√p``. The bounds that a machine's own memory sets are left out here, as in the paper; `optimise` knows
them and answers for any algorithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .communication import FLOPS_PER_PAIR, nbody
from .distributed_machine import evaluate
from .optimum import Optimum, optimum_of

if TYPE_CHECKING:
    from .distributed_machine import Machine


@dataclass(frozen=True)
class NBody:
    """The n-body problem of one size on one machine.

    Attributes
    ----------
    machine : of one level; its delta_e must be above 0, or more memory is always better.
    n : bodies.
    flops_per_pair : f.
    """

    machine: Machine
    n: float
    flops_per_pair: float = FLOPS_PER_PAIR

    @property
    def best_memory_words(self) -> float:
        """M₀, at which energy is least for any p and n; infinite if memory costs nothing."""
        storing = self._storing
        return math.sqrt(self._sending / storing) if storing else math.inf

    @property
    def least_energy_j(self) -> float:
        """E* of (18)."""
        return self.n**2 * (self._fixed + 2 * math.sqrt(self._storing * self._sending))

    @property
    def best_processors(self) -> tuple[float, float]:
        """The fewest and the most processors that reach the least energy."""
        copies = self.n / self.best_memory_words
        return copies, copies**2

    @property
    def gflops_per_w(self) -> float:
        """Section V-F: f·n²/E*, independent of n, p and M."""
        return self.flops_per_pair * self.n**2 / self.least_energy_j * 1e-9

    def at(self, p: float, memory_words: float) -> Optimum:
        """Return one execution."""
        return optimum_of(evaluate(nbody(self.flops_per_pair), self.machine, self.n, p, memory_words))

    def least_energy(self) -> Optimum:
        """Return the execution of least energy that is the fastest of them. Section V-A."""
        fewest, most = self.best_processors
        best = evaluate(nbody(self.flops_per_pair), self.machine, self.n, most, self.best_memory_words)
        return optimum_of(best, fewest, most)

    def processors_within_time(self, max_time_s: float) -> float:
        """Return the fewest processors that keep a time, each with the most memory that is of use. Section V-B."""
        word_s, n = self.machine.word_s, self.n
        root = math.sqrt((word_s * n) ** 2 + 4 * max_time_s * self._pair_s * n**2)
        return ((word_s * n + root) / (2 * max_time_s)) ** 2

    def least_energy_within_time(self, max_time_s: float) -> Optimum:
        """Return the execution of least energy that takes at most a time. Section V-B; any time can be kept."""
        memory = self.best_memory_words
        if max_time_s >= self._pair_s * memory**2 + self.machine.word_s * memory:
            best = self.least_energy()
            fastest_s, most = best.time_s, best.p_to
            return Optimum(**{**vars(best), "p_from": max(best.p_from, most * fastest_s / max_time_s)})
        p = self.processors_within_time(max_time_s)
        return self.at(p, self.n / math.sqrt(p))

    def least_time_within_energy(self, max_energy_j: float) -> Optimum:
        """Return the fastest execution within an energy. Section V-C; the nearest that is possible is E*."""
        spare = max_energy_j - self._fixed * self.n**2
        inside = spare**2 - 4 * self._sending * self.n**4 * self._storing
        if spare < 0 or inside < 0:
            return Optimum(feasible=False, nearest={"energy_j": self.least_energy_j})
        p = ((spare + math.sqrt(inside)) / (2 * self.n * self._sending)) ** 2
        return self.at(p, self.n / math.sqrt(p))

    def processor_power_w(self, memory_words: float) -> float:
        """Return the power of one processor that uses M words: the bracket of (19)."""
        machine, f = self.machine, self.flops_per_pair
        busy_w = (machine.gamma_e * f + machine.word_j / memory_words) / (self._pair_s + machine.word_s / memory_words)
        return busy_w + machine.delta_e * memory_words + machine.epsilon_e

    def processors_within_power(self, max_power_w: float, memory_words: float) -> float:
        """Return the most processors of M words each that keep a total power: (19)."""
        return max_power_w / self.processor_power_w(memory_words)

    def memory_within_processor_power(self, max_power_w: float) -> tuple[float, float]:
        """Return the least and the most words that keep a power per processor: (20); NaN where none do."""
        machine, f = self.machine, self.flops_per_pair
        c = self._pair_s * (max_power_w - machine.epsilon_e) - machine.gamma_e * f - machine.delta_e * machine.word_s
        d = machine.word_j - machine.word_s * (max_power_w - machine.epsilon_e)
        inside = c * c - 4 * self._storing * d
        if inside < 0 or (c <= 0 and d > 0):
            return math.nan, math.nan
        # Of the two ways to write a root take the one that does not subtract nearly equal numbers.
        far = (abs(c) + math.sqrt(inside)) / 2
        upper = far / self._storing if c > 0 else -d / far
        lower = d / far if d > 0 else 0.0
        return lower, upper

    @property
    def _pair_s(self) -> float:
        return self.machine.gamma_t * self.flops_per_pair

    @property
    def _storing(self) -> float:
        """Factor of M in E/n²."""
        return self.machine.delta_e * self._pair_s

    @property
    def _sending(self) -> float:
        """Factor of 1/M in E/n²: B of section V-C."""
        return self.machine.word_j + self.machine.word_s * self.machine.epsilon_e

    @property
    def _fixed(self) -> float:
        """What does not depend on M in E/n²: A of section V-C."""
        machine = self.machine
        computing = machine.gamma_e + machine.gamma_t * machine.epsilon_e
        return self.flops_per_pair * computing + machine.delta_e * machine.word_s
