"""Knowledge of a program's tasks: the mean energy and time of an instance at each frequency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Point:
    """A task at a frequency: means over its instances."""

    energy_j: float
    time_s: float

    @property
    def power_w(self) -> float:
        """Return its share of the package's watts while it runs."""
        return self.energy_j / self.time_s


Curve = Mapping[int, Point]
"""A task's points by frequency in Hz."""


@dataclass(frozen=True)
class Knowledge:
    """A program on a number of workers.

    Attributes
    ----------
    curves : by task.
    instances : number of each task's instances in the program, or so far.
    outside_w : power of the package while the program runs, beyond its tasks' energies.
    stretch : wall time over the tasks' time divided by workers; above 1 if workers starve.
    quality : of the joules: "measured", "estimated", …
    """

    curves: Mapping[str, Curve]
    instances: Mapping[str, float] = field(default_factory=dict)
    outside_w: float = 0.0
    stretch: float = 1.0
    quality: str = ""

    def weight(self, task: str) -> float:
        """Return the weight of a task in the program's totals."""
        return max(self.instances.get(task, 1.0), 1.0)

    def only(self, takes: Callable[[int], bool]) -> Knowledge:
        """Return the knowledge at some frequencies only."""
        kept = {task: {hz: point for hz, point in curve.items() if takes(hz)} for task, curve in self.curves.items()}
        return replace(self, curves={task: curve for task, curve in kept.items() if curve})

    def totals(self, chosen: Mapping[str, int], workers: int) -> tuple[float, float]:
        """Return the joules and the wall seconds of the program with its tasks at these frequencies."""
        points = [(self.weight(task), self.curves[task][hz]) for task, hz in chosen.items()]
        wall_s = sum(weight * point.time_s for weight, point in points) / workers * self.stretch
        return sum(weight * point.energy_j for weight, point in points) + self.outside_w * wall_s, wall_s


def nearest(curve: Mapping[int, object], hz: int) -> int:
    """Return the frequency of a curve that is nearest, the higher of two."""
    return min(curve, key=lambda known: (abs(known - hz), -known))
