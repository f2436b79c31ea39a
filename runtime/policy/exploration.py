"""Exploration while a program runs: a few instances of each task at a few frequencies, before a decision."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tprof.analysis.operating_points.curves import Knowledge, Point
from tprof.analysis.operating_points.fit import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    Uncertainties = Callable[[Iterable[Hashable]], Mapping[Hashable, float]]

MAX_UNCERTAINTY = 0.3
"""No frequency is chosen for a task whose energy has a larger relative standard deviation."""
UNCOUNTED = 1
"""First instances of a task that are ignored: they load code and fill caches."""
TIMED = 5
"""Instances after these, at most, that find out whether a task is shorter than a change of the frequency."""
SURELY_LONGER = 10.0
"""One that lasts so many times a change needs no other: what timing itself takes is far less."""


class Tried(NamedTuple):
    """Instances of a task at a frequency: their number, and the sums of their times and of the squares of these."""

    instances: int = 0
    time_s: float = 0.0
    squares_s2: float = 0.0

    def plus(self, time_s: float) -> Tried:
        """Return these and one more."""
        return Tried(self.instances + 1, self.time_s + time_s, self.squares_s2 + time_s**2)

    @property
    def uncertainty(self) -> float:
        """Relative standard deviation of the mean time."""
        if self.instances < 2 or self.time_s <= 0:
            return math.inf
        mean_s = self.time_s / self.instances
        variance = max(self.squares_s2 / self.instances - mean_s**2, 0.0) / (self.instances - 1)
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

    def suffices(self, tried: Tried, times: int = 1) -> bool:
        """Return whether instances at a frequency are enough, or this many times enough."""
        long = tried.time_s >= times * self.span_s or tried.instances >= self.most_instances
        return tried.instances >= times * self.instances and long


class Exploration:
    """Times of each task at each frequency so far, and the frequencies still to be explored.

    Frequencies take turns, so that instances which grow or shrink over the run do not favour one of them.

    Attributes
    ----------
    short : tasks that are shorter than a change of the frequency; they are not explored.
    pending : tasks with enough instances, for which `Explored` has to find out whether their powers are known.
    """

    def __init__(
        self, frequencies_hz: Sequence[int], budget: ExplorationBudget, transition_s: float, *, at_once: int = 1
    ) -> None:
        """Begin without instances; a turn has `at_once` of them."""
        self._at_once = min(at_once, budget.instances)
        self._frequencies_hz = tuple(sorted(frequencies_hz, reverse=True))
        self._budget = budget
        self._transition_s = transition_s
        self._tried: dict[str, dict[int, Tried]] = defaultdict(lambda: dict.fromkeys(self._frequencies_hz, Tried()))
        self._instances: dict[str, int] = defaultdict(int)
        self._timed: dict[str, int] = defaultdict(int)
        self._long: set[str] = set()
        self._explored: dict[str, None] = {}
        self.short: set[str] = set()
        self.pending: dict[str, None] = {}

    def explores(self, task: str) -> bool:
        """Return whether a task is being explored, which begins once its length is known."""
        return self.is_open(task) and task in self._long

    def is_due(self, task: str, hz: int) -> bool:
        """Return whether the frequency is due for the task; several may be."""
        if not self.explores(task):
            return False
        tried = self._tried[task]
        turns = min(one.instances for one in tried.values()) // self._at_once
        return hz in tried and tried[hz].instances < (turns + 1) * self._at_once

    def next_hz(self, task: str) -> int:
        """Return the highest frequency that is due."""
        tried = self._tried[task]
        return min(tried, key=lambda hz: (tried[hz].instances, -hz))

    def is_open(self, task: str) -> bool:
        """Return whether instances of a task may still be added."""
        return task not in self._explored and task not in self.short

    def count(self, task: str, instances: int) -> None:
        """Count instances."""
        self._instances[task] += instances

    def add(self, task: str, hz: int, time_s: float) -> None:
        """Add an instance that ran at one frequency from begin to end."""
        if self.explores(task):
            tried = self._tried[task]
            if hz in tried:
                tried[hz] = tried[hz].plus(time_s)
                if all(map(self._budget.suffices, tried.values())):
                    self.pending[task] = None
        elif self.is_open(task):
            self._find_length(task, time_s)

    def _find_length(self, task: str, time_s: float) -> None:
        """Call a task short if any of its first counted instances was: they include what an interruption took."""
        self._timed[task] += 1
        if self._timed[task] <= UNCOUNTED:
            return
        if time_s < self._transition_s:
            self.short.add(task)
        elif time_s >= SURELY_LONGER * self._transition_s or self._timed[task] == UNCOUNTED + TIMED:
            self._long.add(task)

    def explored(self, all_hz: Sequence[int]) -> Explored:
        """Return a copy of what a decision needs; `all_hz` are the frequencies to choose from."""
        pending, self.pending = tuple(self.pending), {}
        tried = {task: dict(self._tried[task]) for task in (*self._explored, *pending)}
        return Explored(self._budget, all_hz, tried, tuple(self._explored), pending, dict(self._instances))

    def finish(self, tasks: Iterable[str]) -> None:
        """Stop the exploration of tasks."""
        self._explored |= dict.fromkeys(tasks)


@dataclass(frozen=True)
class Explored:
    """What exploration has found so far; later instances do not change it.

    Attributes
    ----------
    budget, all_hz : of the exploration; the frequencies to choose from.
    tried : by task and frequency.
    tasks, pending : those that are explored, and those that may be.
    instances : of all tasks.
    """

    budget: ExplorationBudget
    all_hz: Sequence[int]
    tried: Mapping[str, Mapping[int, Tried]]
    tasks: tuple[str, ...]
    pending: tuple[str, ...]
    instances: Mapping[str, int]

    def finished(self, uncertainties: Uncertainties) -> tuple[str, ...]:
        """Return the pending tasks whose exploration ends: their powers are known, or the budget is used up.

        `uncertainties` returns the relative standard deviations of the powers of (task, frequency).
        """
        return tuple(task for task in self.pending if self._is_finished(task, uncertainties))

    def _is_finished(self, task: str, uncertainties: Uncertainties) -> bool:
        tried, budget = self.tried[task], self.budget
        if all(budget.suffices(one, budget.most_times) for one in tried.values()):
            return True
        return max(uncertainties((task, hz) for hz in tried).values(), default=0.0) <= budget.uncertainty

    def uncertainties(self, tasks: Sequence[str], powers: Uncertainties) -> dict[str, float]:
        """Return the relative standard deviation of each task's energy, the largest over frequencies."""
        found = powers((task, hz) for task in tasks for hz in self.tried[task])
        return {
            task: max(math.hypot(one.uncertainty, found[task, hz]) for hz, one in self.tried[task].items())
            for task in tasks
        }

    def knowledge(
        self, powers_w: Mapping[Hashable, float], uncertainties: Mapping[str, float], quality: str
    ) -> Knowledge:
        """Return the tasks that are known well enough for a choice.

        `powers_w` has the watts of each (task, frequency), `uncertainties` is the result of `uncertainties()`.
        """
        curves = {
            task: {
                hz: Point(powers_w.get((task, hz), math.nan) * one.time_s / one.instances, one.time_s / one.instances)
                for hz, one in self.tried[task].items()
            }
            for task, uncertainty in uncertainties.items()
            if uncertainty <= MAX_UNCERTAINTY
        }
        sound = {task: curve for task, curve in curves.items() if all(point.energy_j > 0 for point in curve.values())}
        complete = {task: filled(curve, self.all_hz) for task, curve in sound.items()}
        return Knowledge(complete, {task: float(self.instances[task]) for task in sound}, quality=quality)
