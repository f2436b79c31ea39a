"""A machine with messages between processors, and time, energy and power of an algorithm on it.

The model is that of "Perfect strong scaling using no additional energy" (Demmel, Gearhart, Lipshitz and Schwartz,
2013), equations (1) and (2): linear in flops, words and messages, with nothing overlapped.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.theory.machine_files import check_range

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from .communication import Algorithm

_ABOVE_ZERO = ("gamma_t", "memory_words", "message_words")
Floats = NDArray[np.float64]


class Links:
    """What is charged for words and messages, per word; `beta` and `alpha` as in `Machine`."""

    beta_t: float
    alpha_t: float
    beta_e: float
    alpha_e: float
    message_words: float

    @property
    def word_s(self) -> float:
        """Seconds per word with its part of a full message's latency: beta_t + alpha_t/m."""
        return self.beta_t + self.alpha_t / self.message_words

    @property
    def word_j(self) -> float:
        """Joules per word with its part of a full message: beta_e + alpha_e/m."""
        return self.beta_e + self.alpha_e / self.message_words


@dataclass(frozen=True)
class Machine(Links):
    """One level: processors with a memory each, linked by a network.

    Attributes
    ----------
    name : what it is called.
    gamma_t : s per flop.
    beta_t : s per word sent, the reciprocal of the bandwidth.
    alpha_t : s per message, the latency.
    gamma_e : J per flop.
    beta_e : J per word sent.
    alpha_e : J per message.
    delta_e : J per word of memory in use and second.
    epsilon_e : W a processor outside its memory, busy or not.
    memory_words : words of memory of a processor; what an algorithm uses of it is its M.
    message_words : words of the longest message, m.
    source : where the constants come from.

    Raises
    ------
    UsageError
        If a constant is negative or not finite, or one that must be above 0 is not.
    """

    name: str
    gamma_t: float
    beta_t: float
    alpha_t: float
    gamma_e: float
    beta_e: float
    alpha_e: float
    delta_e: float
    epsilon_e: float
    memory_words: float
    message_words: float
    source: str = ""

    def __post_init__(self) -> None:
        check_constants(self.name, constants(self))

    def scaled(self, **factors: float) -> Self:
        """Return a machine whose named constants are multiplied: ``scaled(gamma_e=0.5)``."""
        known = constants(self)
        for name in factors:
            if name not in known:
                raise UsageError(f"a machine has no constant {name!r}: take {', '.join(known)}")
        changed: dict[str, Any] = {name: known[name] * factor for name, factor in factors.items()}
        return dataclasses.replace(self, **changed)


@dataclass(frozen=True)
class Level(Links):
    """One level of a machine of two levels: its links and its memory.

    Attributes
    ----------
    beta_t, alpha_t, beta_e, alpha_e, delta_e, memory_words, message_words
        As in `Machine`, for one node, or for one core within a node.
    """

    beta_t: float
    beta_e: float
    delta_e: float
    memory_words: float
    alpha_t: float = 0.0
    alpha_e: float = 0.0
    message_words: float = 1.0

    def __post_init__(self) -> None:
        check_constants("a level", constants(self))


@dataclass(frozen=True)
class TwoLevelMachine:
    """Nodes linked by a network, and in each node cores linked by another (figure 2 of the paper).

    Attributes
    ----------
    name : what it is called.
    gamma_t, gamma_e, epsilon_e : as in `Machine`, of a core.
    cores_per_node : p_l.
    node : links between nodes, charged once a node, and the node's memory.
    core : links between a node's cores and each core's own memory.
    source : where the constants come from.
    """

    name: str
    gamma_t: float
    gamma_e: float
    epsilon_e: float
    cores_per_node: float
    node: Level
    core: Level
    source: str = ""

    def __post_init__(self) -> None:
        check_constants(self.name, constants(self))


def constants(machine: object) -> dict[str, float]:
    """Return the numbers of a machine or level by their names."""
    fields = dataclasses.fields(machine)  # type: ignore[arg-type]
    return {field.name: getattr(machine, field.name) for field in fields if field.type == "float"}


def check_constants(name: str, values: Mapping[str, float]) -> None:
    """Reject impossible constants. Raises UsageError."""
    for key, value in values.items():
        if not math.isfinite(value) or value < 0:
            raise UsageError(f"machine {name!r}: {key} must be a finite number of 0 or more, got {value!r}")
        if value == 0 and (key in _ABOVE_ZERO or key == "cores_per_node"):
            raise UsageError(f"machine {name!r}: {key} must be above 0, got {value!r}")
        check_range(f"machine {name!r}: {key}", value)


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
            raise UsageError(f"{name} must be {bound} and finite, got {np.extract(~good, values)[0]:g}")
