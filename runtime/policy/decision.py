"""The present decision: each task's frequency, and a common one for tasks that share it, changed only if it pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.analysis.operating_points.curves import Knowledge, nearest
from tprof.analysis.operating_points.goals import best_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.operating_points.goals import Costs


@dataclass(frozen=True)
class Thresholds:
    """Savings that justify a change.

    Attributes
    ----------
    gain : part of the cost that a change of the frequency has to save.
    learnt_gain : part of the cost that a newly learnt frequency has to save over the former one.
    """

    gain: float = 0.01
    learnt_gain: float = 0.03


class RequestedFrequencies:
    """Finds the frequency that tasks which run at the same time on one control agree on, from their costs."""

    def __init__(self, costs: Costs) -> None:
        """Take the costs; a task without costs requests no frequency."""
        self._costs = costs
        self._agreed: dict[tuple[str, ...], int | None] = {}

    def cost(self, tasks: Sequence[str], hz: int) -> float:
        """Return the total cost of one instance of each."""
        total = 0.0
        for task in tasks:
            curve = self._costs.get(task)
            if curve:
                total += curve[hz] if hz in curve else curve[nearest(curve, hz)]
        return total

    def vote(self, tasks: Sequence[str]) -> int | None:
        """Return the frequency of the least total cost; None if none of them has costs."""
        key = tuple(sorted(tasks))
        if key not in self._agreed:
            self._agreed[key] = self._find(key)
        return self._agreed[key]

    def _find(self, tasks: tuple[str, ...]) -> int | None:
        frequencies = {hz for task in tasks for hz in self._costs.get(task, ())}
        if not frequencies:
            return None
        return min(frequencies, key=lambda hz: (self.cost(tasks, hz), -hz))

    def gain(self, tasks: Sequence[str], held_hz: int, requested_hz: int) -> float:
        """Return the excess of the cost at `held_hz` over that at `requested_hz`, relative to the latter."""
        requested = self.cost(tasks, requested_hz)
        return (self.cost(tasks, held_hz) - requested) / requested if requested > 0 else self.cost(tasks, held_hz)


class Decision:
    """The best frequencies as far as is known; a later decision is another object.

    Attributes
    ----------
    known : the knowledge that they were chosen from.
    best : frequencies in Hz by task.
    means_s : mean duration of each task's instances at its best frequency.
    short : tasks that are shorter than a change: they never change the frequency and have no vote.
    """

    def __init__(
        self,
        thresholds: Thresholds,
        costs: Costs | None = None,
        known: Knowledge | None = None,
        best: Mapping[str, int] | None = None,
        short: frozenset[str] = frozenset(),
    ) -> None:
        """Decide on these; by default on nothing."""
        self.known, self.best, self.short = known or Knowledge({}), best or {}, short
        curves = self.known.curves
        self.means_s = {task: curves[task][hz].time_s for task, hz in self.best.items() if task in curves}
        self._thresholds, self._requested = thresholds, RequestedFrequencies(costs or {})

    def updated(
        self, costs: Costs, known: Knowledge, transition_s: float, short: frozenset[str] = frozenset()
    ) -> tuple[Decision, list[str]]:
        """Return the decision by new costs, and the tasks whose best frequency has changed."""
        costs = self._with_threshold(costs)
        slowest_s = {task: max(point.time_s for point in curve.values()) for task, curve in known.curves.items()}
        short = short | {task for task, longest_s in slowest_s.items() if longest_s < transition_s}
        best = {task: hz for task, hz in best_of(costs).items() if task not in short}
        changed = [task for task, hz in best.items() if self.best.get(task) != hz]
        return Decision(self._thresholds, costs, known, {**self.best, **best}, short), changed

    def frequency_for(self, tasks: Sequence[str], held_hz: int, transition_s: float) -> tuple[int | None, str]:
        """Return the frequency for these tasks and why, None if none of them has costs.

        It is the present one unless the one they agree on saves enough.
        """
        voting = [task for task in tasks if task not in self.short]
        requested_hz = self._requested.vote(voting)
        if requested_hz is None:
            return None, "unknown" if voting else "short"
        known = self.known.curves  # a task may have been known once and not now
        least_s = min((self._lasts_s(task, requested_hz) for task in voting if task in known), default=1.0)
        least_gain = max(self._thresholds.gain, transition_s / least_s)
        if requested_hz != held_hz and self._requested.gain(voting, held_hz, requested_hz) <= least_gain:
            return held_hz, "kept"
        return requested_hz, "vote" if len(voting) > 1 else "best"

    def _lasts_s(self, task: str, hz: int) -> float:
        curve = self.known.curves[task]
        return max(curve[hz].time_s if hz in curve else max(p.time_s for p in curve.values()), 1e-9)

    def _with_threshold(self, costs: Costs) -> Costs:
        """Make the former choice the cheapest where another would save less than the threshold."""
        adjusted = {task: dict(curve) for task, curve in costs.items()}
        for task, hz in best_of(costs).items():
            former_hz = self.best.get(task, hz)
            curve = adjusted[task]
            if curve.get(former_hz, curve[hz] * 2) <= curve[hz] * (1 + self._thresholds.learnt_gain):
                curve[hz], curve[former_hz] = max(curve[hz], curve[former_hz]), min(curve[hz], curve[former_hz])
        return adjusted
