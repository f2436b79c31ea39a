"""The frequency that tasks which run at the same time on one control agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.runtime.operating.goals import Costs, best_of
from tprof.runtime.operating.points import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


class RequestedFrequencies:
    """Finds common frequencies from the tasks' costs at each frequency."""

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

    def best(self) -> dict[str, int]:
        """Return each task's cheapest frequency."""
        return best_of(self._costs)

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
