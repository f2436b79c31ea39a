"""Which frequency the tasks that run at the same time on one control of it agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.runtime.operating.goals import Costs, best_of
from tprof.runtime.operating.points import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


class Wishes:
    """Costs of the tasks at each frequency, to be asked in the midst of a run."""

    def __init__(self, costs: Costs) -> None:
        """Take the costs; a task that is not among them wishes nothing."""
        self._costs = costs
        self._agreed: dict[tuple[str, ...], int | None] = {}

    def cost(self, tasks: Sequence[str], hz: int) -> float:
        """Return what one instance of each comes to."""
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
        """Return the frequency at which they lose least together; None if none of them wishes anything."""
        key = tuple(sorted(tasks))
        if key not in self._agreed:
            self._agreed[key] = self._find(key)
        return self._agreed[key]

    def _find(self, tasks: tuple[str, ...]) -> int | None:
        frequencies = {hz for task in tasks for hz in self._costs.get(task, ())}
        if not frequencies:
            return None
        return min(frequencies, key=lambda hz: (self.cost(tasks, hz), -hz))

    def gain(self, tasks: Sequence[str], held_hz: int, wanted_hz: int) -> float:
        """Return by which part of the cost at `wanted_hz` that at `held_hz` is more."""
        wanted = self.cost(tasks, wanted_hz)
        return (self.cost(tasks, held_hz) - wanted) / wanted if wanted > 0 else self.cost(tasks, held_hz)
