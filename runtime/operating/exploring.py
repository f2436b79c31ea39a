"""Exploration while a program runs: a few instances of each task at a few frequencies, before a decision."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.runtime.operating.curves import filled
from tprof.runtime.operating.points import Knowledge, Point

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    Uncertainties = Callable[[Iterable[Hashable]], Mapping[Hashable, float]]

MAX_UNCERTAINTY = 0.3
"""No frequency is chosen for a task whose energy has a larger relative standard deviation."""
UNCOUNTED = 1
"""First instances of a task that are ignored: they load code and fill caches."""


@dataclass
class _Seen:
    count: int = 0
    time_s: float = 0.0
    squares_s2: float = 0.0

    @property
    def uncertainty(self) -> float:
        """Relative standard deviation of the mean time."""
        if self.count < 2 or self.time_s <= 0:
            return math.inf
        mean_s = self.time_s / self.count
        variance = max(self.squares_s2 / self.count - mean_s**2, 0.0) / (self.count - 1)
        return math.sqrt(variance) / mean_s


@dataclass(frozen=True)
class ExplorationBudget:
    """How many instances are explored.

    Attributes
    ----------
    instances : the least number of each task at each frequency.
    span_s : the least time of these together, since a sensor resolves joules over some milliseconds only.
    most_instances : a number at each frequency that suffices even if their time does not.
    uncertainty, most_times : exploration goes on until the powers have this relative standard deviation, or until it
        has taken this many times the least number and time.
    """

    instances: int = 3
    span_s: float = 0.01
    most_instances: int = 1000
    uncertainty: float = 0.2
    most_times: int = 3


class Exploration:
    """Times of each task at each frequency so far, and the frequencies still to be explored.

    Frequencies take turns, so that instances which grow or shrink over the run do not favour one of them.
    """

    def __init__(
        self,
        frequencies_hz: Sequence[int],
        budget: ExplorationBudget,
        transition_s: float,
        *,
        at_once: int = 1,
        all_hz: Sequence[int] = (),
        uncertainties: Uncertainties | None = None,
    ) -> None:
        """Begin without instances.

        A turn has `at_once` instances, `all_hz` are the frequencies to choose from in the end, and `uncertainties`
        returns the relative standard deviations of the powers of (task, frequency).
        """
        self._all_hz = all_hz
        self._uncertainties = uncertainties
        self._at_once = min(at_once, budget.instances)
        self._frequencies_hz = tuple(sorted(frequencies_hz, reverse=True))
        self._budget = budget
        self._transition_s = transition_s
        self._seen: dict[str, dict[int, _Seen]] = defaultdict(lambda: {hz: _Seen() for hz in self._frequencies_hz})
        self._instances: dict[str, int] = defaultdict(int)
        self._timed: dict[str, int] = defaultdict(int)
        self._explored: set[str] = set()
        self.short: set[str] = set()

    def explores(self, task: str) -> bool:
        """Return whether a task is being explored, which begins once its length is known."""
        return task not in self._explored and self._timed[task] > UNCOUNTED

    def is_due(self, task: str, hz: int) -> bool:
        """Return whether the frequency is due for the task; several may be."""
        if not self.explores(task):
            return False
        seen = self._seen[task]
        turns = min(one.count for one in seen.values()) // self._at_once
        return hz in seen and seen[hz].count < (turns + 1) * self._at_once

    def next_hz(self, task: str) -> int:
        """Return the highest frequency that is due."""
        seen = self._seen[task]
        return min(seen, key=lambda hz: (seen[hz].count, -hz))

    def count(self, task: str) -> None:
        """Count an instance that begins."""
        self._instances[task] += 1

    def add(self, task: str, hz: int, time_s: float) -> bool:
        """Add an instance that ran at one frequency from begin to end; returns whether the task is explored now."""
        if task in self._explored:
            return False
        if self._timed[task] <= UNCOUNTED:
            self._begin(task, time_s)
        elif hz in self._seen[task]:
            seen = self._seen[task][hz]
            seen.count += 1
            seen.time_s += time_s
            seen.squares_s2 += time_s**2
            if self._is_explored(task):
                self._explored.add(task)
        return task in self._explored

    def _begin(self, task: str, time_s: float) -> None:
        """Find out whether the task is long enough for a change."""
        self._timed[task] += 1
        if self._timed[task] > UNCOUNTED and time_s < self._transition_s:
            self.short.add(task)
            self._explored.add(task)

    def _is_explored(self, task: str) -> bool:
        tried, times = self._seen[task].values(), self._budget.most_times
        if not all(map(self._is_enough, tried)):
            return False
        uncertainties = self._power_uncertainties(task).values()
        return max(uncertainties, default=0.0) <= self._budget.uncertainty or all(
            self._is_enough(seen, times) for seen in tried
        )

    def _is_enough(self, seen: _Seen, times: int = 1) -> bool:
        budget = self._budget
        long = seen.time_s >= times * budget.span_s or seen.count >= budget.most_instances
        return seen.count >= times * budget.instances and long

    def uncertainties(self) -> dict[str, float]:
        """Return the relative standard deviation of each explored task's energy, the largest over frequencies."""
        explored = self._explored - self.short
        powers = self._power_uncertainties(*explored)
        return {
            task: max(
                math.hypot(seen.uncertainty, powers.get((task, hz), 0.0)) for hz, seen in self._seen[task].items()
            )
            for task in explored
        }

    def _power_uncertainties(self, *tasks: str) -> Mapping[Hashable, float]:
        return (
            {}
            if self._uncertainties is None
            else self._uncertainties([(task, hz) for task in tasks for hz in self._seen[task]])
        )

    def knowledge(self, powers_w: Mapping[Hashable, float], uncertainties: Mapping[str, float]) -> Knowledge:
        """Return the explored tasks that are long enough and known well enough for a choice.

        `powers_w` has the watts of each (task, frequency), `uncertainties` is the result of `uncertainties()`.
        """
        curves = {
            task: {
                hz: Point(powers_w.get((task, hz), math.nan) * one.time_s / one.count, one.time_s / one.count)
                for hz, one in self._seen[task].items()
            }
            for task, uncertainty in uncertainties.items()
            if uncertainty <= MAX_UNCERTAINTY
        }
        sound = {task: curve for task, curve in curves.items() if all(point.energy_j > 0 for point in curve.values())}
        complete = {task: filled(curve, self._all_hz) for task, curve in sound.items()}
        return Knowledge(complete, {task: float(self._instances[task]) for task in sound})
