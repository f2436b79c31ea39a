"""Time, energy and power of an algorithm on a machine, whole arrays at once: equations (1) and (2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .algorithms import Algorithm
    from .machine import Machine

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """Executions of an algorithm; all are arrays of one broadcast shape.

    Attributes
    ----------
    n, p, memory_words : size, processors, words in use a processor.
    flops : of all processors together.
    time_s, energy_j : of the whole run.
    """

    n: Floats
    p: Floats
    memory_words: Floats
    flops: Floats
    time_s: Floats
    energy_j: Floats

    @property
    def power_w(self) -> Floats:
        """Mean power of all processors, E/T."""
        return self.energy_j / self.time_s

    @property
    def processor_power_w(self) -> Floats:
        """Mean power of one processor."""
        return self.power_w / self.p

    @property
    def edp_js(self) -> Floats:
        """Energy times time."""
        return self.energy_j * self.time_s

    @property
    def gflops_per_w(self) -> Floats:
        """Flops per joule, 10⁹."""
        return self.flops / self.energy_j * 1e-9


def evaluate(
    algorithm: Algorithm, machine: Machine, n: ArrayLike, p: ArrayLike, memory_words: ArrayLike | None = None
) -> Run:
    """Evaluate the model.

    Parameters
    ----------
    algorithm, machine
        What runs where.
    n, p, memory_words
        Sizes, processors and words in use a processor, of shapes that broadcast. Without `memory_words` as much as
        the algorithm can use and the machine has. Nothing checks that an algorithm can run with them: see `can_run`.

    Raises
    ------
    UsageError
        If a size or number of processors is below 1, or memory is not above 0.
    """
    size, count = np.asarray(n, float), np.asarray(p, float)
    if memory_words is None:
        memory_words = np.minimum(algorithm.memory_range(size, count)[1], machine.memory_words)
    used = np.asarray(memory_words, float)
    check_sizes(n=size, p=count, memory_words=used)
    flops, words, messages = algorithm.costs(size, count, used, machine.message_words)
    time_s = machine.gamma_t * flops + machine.beta_t * words + machine.alpha_t * messages
    processor_j = machine.gamma_e * flops + machine.beta_e * words + machine.alpha_e * messages
    energy_j = count * (processor_j + (machine.delta_e * used + machine.epsilon_e) * time_s)
    return Run(*np.broadcast_arrays(size, count, used, flops * count, time_s, energy_j))


def can_run(algorithm: Algorithm, machine: Machine, run: Run) -> NDArray[np.bool_]:
    """Mark the possible executions: the data fits, and the algorithm can use all of the memory."""
    least, most = algorithm.memory_range(run.n, run.p)
    slack = 1 + 1e-12  # an end of the range is rounded when it is computed from the other side
    inside = (run.memory_words * slack >= least) & (run.memory_words <= most * slack)
    return inside & (run.memory_words <= machine.memory_words * slack)


def check_sizes(**arrays: Floats) -> None:
    """Reject values that are not finite, words that are not above 0, and counts below 1. Raises UsageError."""
    for name, values in arrays.items():
        of_words = name.endswith("words")
        good = np.isfinite(values) & ((values > 0) if of_words else (values >= 1))
        if not np.all(good):
            bound = "above 0" if of_words else "1 or more"
            message = f"{name} must be {bound} and finite, got {np.extract(~good, values)[0]:g}"
            raise UsageError(message)
