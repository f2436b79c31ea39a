r"""How a task's time and power go with the frequency: laws through the two ends that the TProf paper prints.

With ``x = f / f_max``, a task takes ``t(f) = t_max ((1 - m) / x + m)``: a part m of its time waits for memory, which no
frequency changes, the rest goes with it. It draws ``P(f) = P_max x^n``. The paper prints time and energy at 1.6 GHz
against those at 3.61 GHz, which gives m and n exactly; between the two ends the law is an assumption, chosen so that
the energy of none of these tasks has a minimum in between, as in the paper's figure.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from tprof.benchmarks.published import FREQUENCIES, HIGHEST_HZ, LOWEST_HZ, Ratios, ratios

_STEP_HZ = 1_000_000
FREQUENCIES_HZ = tuple(
    (LOWEST_HZ + (HIGHEST_HZ - LOWEST_HZ) * place // (FREQUENCIES - 1)) // _STEP_HZ * _STEP_HZ
    for place in range(FREQUENCIES)
)
"""The paper prints both ends and how many there are; the rest is spread evenly."""
POWER_W = 10.0
"""Of each task at the highest frequency. Invented: the paper prints ratios."""
_SLOWEST = LOWEST_HZ / HIGHEST_HZ


@dataclass(frozen=True)
class Response(Ratios):
    """A task of the paper with its law between the two frequencies at which the paper gives it."""

    @property
    def waiting(self) -> float:
        """Part of its time at the highest frequency that no frequency changes."""
        return (1 / _SLOWEST - self.time_ratio) / (1 / _SLOWEST - 1)

    @property
    def exponent(self) -> float:
        """Of the frequency in its power."""
        return math.log(self.energy_ratio / self.time_ratio) / math.log(_SLOWEST)

    def time(self, hz: float) -> float:
        """Return its time against that at the highest frequency."""
        return (1 - self.waiting) * HIGHEST_HZ / hz + self.waiting

    def power_w(self, hz: float) -> float:
        """Return its watts."""
        return float(POWER_W * (hz / HIGHEST_HZ) ** self.exponent)

    def energy(self, hz: float) -> float:
        """Return its energy against that at the highest frequency."""
        return self.power_w(hz) / POWER_W * self.time(hz)


RESPONSES = {one.task: Response(**asdict(one)) for one in ratios()}
"""By the task's name."""


def response(task: str) -> Response:
    """Return the response of a task of the paper."""
    return RESPONSES[task]
