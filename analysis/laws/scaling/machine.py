"""The constants of a machine with messages between processors: the costs of a flop, a word and a message.

The model is that of "Perfect strong scaling using no additional energy" (Demmel, Gearhart, Lipshitz and Schwartz,
2013), equations (1) and (2): linear in flops, words and messages, with nothing overlapped.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tprof.analysis.laws.constants import check_range

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ABOVE_ZERO = ("gamma_t", "memory_words", "message_words")


@dataclass(frozen=True)
class Machine:
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

    @property
    def word_s(self) -> float:
        """Seconds per word with its part of a full message's latency: beta_t + alpha_t/m."""
        return self.beta_t + self.alpha_t / self.message_words

    @property
    def word_j(self) -> float:
        """Joules per word with its part of a full message: beta_e + alpha_e/m."""
        return self.beta_e + self.alpha_e / self.message_words

    def scaled(self, **factors: float) -> Self:
        """Return a machine whose named constants are multiplied: ``scaled(gamma_e=0.5)``."""
        known = constants(self)
        for name in factors:
            if name not in known:
                message = f"a machine has no constant {name!r}: take {', '.join(known)}"
                raise UsageError(message)
        changed: dict[str, Any] = {name: known[name] * factor for name, factor in factors.items()}
        return dataclasses.replace(self, **changed)


@dataclass(frozen=True)
class Level:
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

    @property
    def word_s(self) -> float:
        """Seconds per word with its part of a full message's latency."""
        return self.beta_t + self.alpha_t / self.message_words

    @property
    def word_j(self) -> float:
        """Joules per word with its part of a full message."""
        return self.beta_e + self.alpha_e / self.message_words


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
            message = f"machine {name!r}: {key} must be a finite number of 0 or more, got {value!r}"
            raise UsageError(message)
        if value == 0 and (key in _ABOVE_ZERO or key == "cores_per_node"):
            message = f"machine {name!r}: {key} must be above 0, got {value!r}"
            raise UsageError(message)
        check_range(f"machine {name!r}: {key}", value)
