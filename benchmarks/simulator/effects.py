"""What makes a task's power change although it is the same task: neighbours, time, the core, and load without samples.

Each effect is data of the package. All are off by default, so that a task draws the same whatever else happens; a model
that assumes so is right then, and wrong where an effect is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .virtual_processor import Run

Floats = NDArray[np.float64]
STEP_S = 2e-3
"""While powers drift they are constant for this long."""


@dataclass(frozen=True)
class Beside:
    """`task` draws `more` (a part of its power) while `other` runs on another core, on however many."""

    task: int
    other: int
    more: float


@dataclass(frozen=True)
class Drift:
    """How powers of tasks change over the run, as parts of their mean.

    Attributes
    ----------
    linear : from the begin of the run to its end.
    step : at the middle of the run.
    walk : standard deviation, at the end of the run, of a random walk that each task has of its own.
    """

    linear: float = 0.0
    step: float = 0.0
    walk: float = 0.0

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return bool(self.linear or self.step or self.walk)

    def factor(self, tasks: int, part: Floats, random: np.random.Generator) -> Floats:
        """Return the factor of each task's power, around 1: (tasks, n); `part` of the run that has passed, (n,)."""
        plain = 1 + self.linear * (part - 0.5) + self.step * ((part >= 0.5) - 0.5)
        moves = random.normal(0.0, np.sqrt(np.diff(part, prepend=0.0)), (tasks, len(part)))
        walks = self.walk * np.cumsum(moves, axis=1)
        return np.asarray(np.maximum(plain + walks - walks.mean(axis=1, keepdims=True), 0.1))


@dataclass(frozen=True)
class Hidden:
    """Bursts of a load that no sample shows: watts, mean length, mean gap (both exponential)."""

    power_w: float
    length_s: float
    gap_s: float

    def between(self, begin_s: float, end_s: float, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Return when bursts begin and end, whole nanoseconds."""
        count = int(3 * (end_s - begin_s) / (self.length_s + self.gap_s)) + 20
        length_s, gap_s = random.exponential(self.length_s, count), random.exponential(self.gap_s, count)
        ends_s = begin_s + np.cumsum(length_s + gap_s)
        kept = ends_s < end_s
        return np.round((ends_s - length_s)[kept], 9), np.round(ends_s[kept], 9)


@dataclass(frozen=True)
class Effects:
    """What changes the power of tasks, or of the package.

    Attributes
    ----------
    beside : who draws more beside whom.
    drift : of the tasks' powers over the time in which something runs.
    cores : factor of what each core draws; 1 for cores beyond the last.
    hidden : load without samples.
    """

    beside: tuple[Beside, ...] = ()
    drift: Drift = Drift()
    cores: tuple[float, ...] = ()
    hidden: Hidden | None = None

    @property
    def changes_tasks(self) -> bool:
        """Whether a task's power changes."""
        return bool(self.beside or self.drift or self.cores)

    def grid_s(self, begin_s: float, end_s: float) -> Floats:
        """Return the times at which powers that drift change."""
        return np.round(np.arange(begin_s, end_s, STEP_S), 9) if self.drift else np.empty(0)

    def factor(self, run: Run, place: int, number: NDArray[np.int64]) -> Floats:
        """Return the factor of a core's power from each moment on: (m - 1,).

        Parameters
        ----------
        run, place : the schedule, and which of its cores
        number : (m - 1,) task that runs on it, -1 none
        """
        found = np.ones(len(number))
        if place < len(self.cores):
            found *= self.cores[place]
        if self.beside:
            others = [run.task_at(other) for other in range(len(run.cores)) if other != place]
            for one in self.beside:
                there = np.any([other == one.other for other in others], axis=0)
                found *= 1 + one.more * (there & (number == one.task))
        if self.drift:
            at = np.searchsorted(run.drift_s, run.moments_s[:-1], side="right") - 1
            found *= np.where(at >= 0, run.drift_factor[number, np.maximum(at, 0)], 1.0)
        return found


NO_EFFECTS = Effects()
