"""Learning while a program runs: a few instances of each task at a few frequencies, before anything is decided."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.runtime.operating.curves import filled
from tprof.runtime.operating.points import Knowledge, Point

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    Doubts = Callable[[Iterable[Hashable]], Mapping[Hashable, float]]

UNSURE = 0.3
"""A task whose energy may be off by such a part is not chosen for."""
UNCOUNTED = 1
"""First instances of a task that say nothing: they load code and fill caches."""


@dataclass
class _Seen:
    count: int = 0
    time_s: float = 0.0
    squares_s2: float = 0.0

    @property
    def doubt(self) -> float:
        """Relative standard deviation of the mean time."""
        if self.count < 2 or self.time_s <= 0:
            return math.inf
        mean_s = self.time_s / self.count
        variance = max(self.squares_s2 / self.count - mean_s**2, 0.0) / (self.count - 1)
        return math.sqrt(variance) / mean_s


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
    ----------
    instances : of each task at each frequency, at the least.
    span_s : of their time together, at the least: a sensor resolves joules over some milliseconds only.
    most_instances : after so many at each frequency it is enough, however short.
    doubt, longest : more are tried until the powers are known to such a part, at most so many times as much.
    """

    instances: int = 3
    span_s: float = 0.01
    most_instances: int = 1000
    doubt: float = 0.2
    longest: int = 3


class Exploration:
    """What was seen of each task at each frequency, and what is still to be tried.

    Frequencies are tried in turn and not one after the other, so that instances which grow or shrink over the run
    do not favour one of them.
    """

    def __init__(
        self,
        frequencies_hz: Sequence[int],
        effort: Effort,
        transition_s: float,
        *,
        at_once: int = 1,
        all_hz: Sequence[int] = (),
        doubts: Doubts | None = None,
    ) -> None:
        """Begin with nothing seen.

        A turn is `at_once` instances, `all_hz` what can be chosen in the end, and `doubts` tells how well the powers
        of tasks at frequencies are known.
        """
        self._all_hz = all_hz
        self._doubts = doubts
        self._at_once = min(at_once, effort.instances)
        self._frequencies_hz = tuple(sorted(frequencies_hz, reverse=True))
        self._effort = effort
        self._transition_s = transition_s
        self._seen: dict[str, dict[int, _Seen]] = defaultdict(lambda: {hz: _Seen() for hz in self._frequencies_hz})
        self._instances: dict[str, int] = defaultdict(int)
        self._begun: dict[str, int] = defaultdict(int)
        self._ended: set[str] = set()
        self.short: set[str] = set()

    def explores(self, task: str) -> bool:
        """Return whether more is to be tried of a task: not before its length is known."""
        return task not in self._ended and self._begun[task] > UNCOUNTED

    def lacks(self, task: str, hz: int) -> bool:
        """Return whether it is this frequency's turn, or one of those whose turn it is."""
        if not self.explores(task):
            return False
        seen = self._seen[task]
        turns = min(one.count for one in seen.values()) // self._at_once
        return hz in seen and seen[hz].count < (turns + 1) * self._at_once

    def next_hz(self, task: str) -> int:
        """Return the highest frequency whose turn it is."""
        seen = self._seen[task]
        return min(seen, key=lambda hz: (seen[hz].count, -hz))

    def count(self, task: str) -> None:
        """Count an instance that begins."""
        self._instances[task] += 1

    def add(self, task: str, hz: int, time_s: float) -> bool:
        """Add an instance that ran at one frequency from begin to end; returns whether the task is explored now."""
        if task in self._ended:
            return False
        if self._begun[task] <= UNCOUNTED:
            self._begin(task, time_s)
        elif hz in self._seen[task]:
            seen = self._seen[task][hz]
            seen.count += 1
            seen.time_s += time_s
            seen.squares_s2 += time_s**2
            if self._is_explored(task):
                self._ended.add(task)
        return task in self._ended

    def _begin(self, task: str, time_s: float) -> None:
        """Find out whether the task is worth a change at all."""
        self._begun[task] += 1
        if self._begun[task] > UNCOUNTED and time_s < self._transition_s:
            self.short.add(task)
            self._ended.add(task)

    def _is_explored(self, task: str) -> bool:
        tried, times = self._seen[task].values(), self._effort.longest
        if not all(map(self._is_enough, tried)):
            return False
        doubts = self._power_doubts(task).values()
        return max(doubts, default=0.0) <= self._effort.doubt or all(self._is_enough(seen, times) for seen in tried)

    def _is_enough(self, seen: _Seen, times: int = 1) -> bool:
        effort = self._effort
        long = seen.time_s >= times * effort.span_s or seen.count >= effort.most_instances
        return seen.count >= times * effort.instances and long

    def doubts(self) -> dict[str, float]:
        """Return the relative standard deviation of each explored task's energy where it is known the least."""
        explored = self._ended - self.short
        powers = self._power_doubts(*explored)
        return {
            task: max(math.hypot(seen.doubt, powers.get((task, hz), 0.0)) for hz, seen in self._seen[task].items())
            for task in explored
        }

    def _power_doubts(self, *tasks: str) -> Mapping[Hashable, float]:
        return {} if self._doubts is None else self._doubts([(task, hz) for task in tasks for hz in self._seen[task]])

    def knowledge(self, powers_w: Mapping[Hashable, float], doubts: Mapping[str, float]) -> Knowledge:
        """Return the explored tasks that are worth a change and known well enough to choose by.

        `powers_w` has the watts of each task at each frequency, `doubts` what `doubts()` gives.
        """
        curves = {
            task: {
                hz: Point(powers_w.get((task, hz), math.nan) * one.time_s / one.count, one.time_s / one.count)
                for hz, one in self._seen[task].items()
            }
            for task, doubt in doubts.items()
            if doubt <= UNSURE
        }
        sound = {task: curve for task, curve in curves.items() if all(point.energy_j > 0 for point in curve.values())}
        complete = {task: filled(curve, self._all_hz) for task, curve in sound.items()}
        return Knowledge(complete, {task: float(self._instances[task]) for task in sound})
