r"""How a task's time and power go with the frequency: laws through the two ends that the TProf paper prints.

With ``x = f / f_max``, a task takes ``t(f) = t_max ((1 - m) / x + m)``: a part m of its time waits for memory, which no
frequency changes, the rest goes with it. It draws ``P(f) = P_max x^n``. The paper prints time and energy at 1.6 GHz
against those at 3.61 GHz, which gives m and n exactly; between the two ends the law is an assumption, chosen so that
the energy of none of these tasks has a minimum in between, as in the paper's figure.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from importlib.resources import files

LOWEST_HZ, HIGHEST_HZ = 1_600_000_000, 3_610_000_000
POWER_W = 10.0
"""Of each task at the highest frequency. Invented: the paper prints ratios."""
_SLOWEST = LOWEST_HZ / HIGHEST_HZ


@dataclass(frozen=True)
class Response:
    """A task of the paper; the ratios are those of the lowest frequency against the highest."""

    benchmark: str
    task: str
    energy_ratio: float
    time_ratio: float

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


def _published() -> dict[str, Response]:
    text = (files(__package__) / "published" / "dvfs.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    found = (
        Response(
            row["benchmark"],
            row["task"],
            1 + float(row["energy_change_pct"]) / 100,
            1 + float(row["time_change_pct"]) / 100,
        )
        for row in rows
    )
    return {one.task: one for one in found}


RESPONSES = _published()
"""By the task's name."""


def response(task: str) -> Response:
    """Return the response of a task of the paper."""
    return RESPONSES[task]
