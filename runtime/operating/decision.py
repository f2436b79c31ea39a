"""The present decision: each task's frequency, and a common one for tasks that share it, changed only if it pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.runtime.operating.goals import best_of
from tprof.runtime.operating.points import Knowledge
from tprof.runtime.operating.requested_frequency import RequestedFrequencies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.runtime.operating.goals import Costs


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


class Decision:
    """The best frequencies as far as is known.

    Attributes
    ----------
    known : the knowledge that they were chosen from.
    best : frequencies in Hz by task.
    means_s : mean duration of each task's instances at its best frequency.
    short : tasks that are shorter than a change: they never change the frequency and have no vote.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        """Begin with nothing known."""
        self.known = Knowledge({})
        self.best: dict[str, int] = {}
        self.means_s: dict[str, float] = {}
        self.short: frozenset[str] = frozenset()
        self._thresholds = thresholds
        self._requested = RequestedFrequencies({})

    def update(
        self, costs: Costs, known: Knowledge, transition_s: float, short: frozenset[str] = frozenset()
    ) -> list[str]:
        """Take new costs; returns the tasks whose best frequency has changed."""
        self.known = known
        self._requested = RequestedFrequencies(self._with_threshold(costs))
        slowest_s = {task: max(point.time_s for point in curve.values()) for task, curve in known.curves.items()}
        self.short = short | {task for task, longest_s in slowest_s.items() if longest_s < transition_s}
        best = {task: hz for task, hz in self._requested.best().items() if task not in self.short}
        changed = [task for task, hz in best.items() if self.best.get(task) != hz]
        self.best |= best
        self.means_s = {task: known.curves[task][hz].time_s for task, hz in self.best.items() if task in known.curves}
        return changed

    def frequency_for(self, tasks: Sequence[str], held_hz: int, transition_s: float) -> tuple[int | None, str]:
        """Return the frequency for these tasks and why, None if none of them has costs.

        It is the present one unless the one they agree on saves enough.
        """
        voting = [task for task in tasks if task not in self.short]
        requested_hz = self._requested.vote(voting)
        if requested_hz is None:
            return None, "unknown" if voting else "short"
        least_s = min((self._lasts_s(task, requested_hz) for task in voting if task in self.best), default=1.0)
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
