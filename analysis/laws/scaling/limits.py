"""Limits of an execution, and the best execution within them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .run import Run

# Quantities to bound or minimise, by the names of their values in `Run`.
QUANTITIES = {"energy": "energy_j", "time": "time_s", "edp": "edp_js", "power": "power_w",
              "processor_power": "processor_power_w"}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Upper bounds; None is none.

    Attributes
    ----------
    time_s, energy_j : of the run.
    power_w : mean power of all processors together.
    processor_power_w : mean power of one processor.

    Raises
    ------
    UsageError
        If a bound is not above 0.
    """

    time_s: float | None = None
    energy_j: float | None = None
    power_w: float | None = None
    processor_power_w: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if not (math.isfinite(value) and value > 0):
                message = f"a bound on {name} must be above 0 and finite, got {value:g}"
                raise UsageError(message)

    def given(self) -> dict[str, float]:
        """Return the bounds there are."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def without(self, name: str) -> Limits:
        """Return the other bounds."""
        return dataclasses.replace(self, **{name: None})


@dataclass(frozen=True)
class Optimum:
    """The best execution within limits, or the limits that would allow one.

    Attributes
    ----------
    feasible : whether any execution keeps the limits.
    p, memory_words, time_s, energy_j, power_w, gflops_per_w : of the best one; NaN where there is none.
    p_from, p_to : processors that reach the same optimum at this memory; both are `p` where only `p` does.
    nearest : for each limit that was given, the least value of it that the other limits leave possible; without the
        others where they contradict each other. Empty where the limits are feasible.
    """

    feasible: bool
    p: float = math.nan
    memory_words: float = math.nan
    time_s: float = math.nan
    energy_j: float = math.nan
    power_w: float = math.nan
    gflops_per_w: float = math.nan
    p_from: float = math.nan
    p_to: float = math.nan
    nearest: Mapping[str, float] = field(default_factory=dict)

    @property
    def processor_power_w(self) -> float:
        """Mean power of one processor."""
        return self.power_w / self.p

    @property
    def edp_js(self) -> float:
        """Energy times time."""
        return self.energy_j * self.time_s

    def as_plain(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return dataclasses.asdict(self)


def optimum_of(run: Run, p_from: float | None = None, p_to: float | None = None) -> Optimum:
    """Return a single execution as an optimum."""
    p = float(run.p)
    return Optimum(
        feasible=True, p=p, memory_words=float(run.memory_words), time_s=float(run.time_s),
        energy_j=float(run.energy_j), power_w=float(run.power_w), gflops_per_w=float(run.gflops_per_w),
        p_from=p if p_from is None else p_from, p_to=p if p_to is None else p_to,
    )  # fmt: skip
