"""Which tasks have a series of their own: databases keep each label for good, so there are only so many.

A task keeps its series once it has one, because a counter must not end. What it counted before stays with the other
tasks, because their counter must not fall. So the sum over all series is that of all tasks at any time.
"""

from __future__ import annotations

from tprof.trace.metric_names import OTHER_TASKS

Count = tuple[float, int]
"""Joules and instances."""
ALL_FIRST = 0.5
"""Part of the series that go to any task; the rest is for tasks with a share of the energy worth a series."""


class TaskSeries:
    """Series of the joules and instances of tasks."""

    def __init__(self, most: int) -> None:
        """Begin without tasks; at most so many have a series of their own."""
        self._most = most
        self._before: dict[str, Count] = {}  # of tasks with a series: what the others' series had of them
        self._others: set[str] = set()

    def of(self, tasks: dict[str, Count], last: dict[str, Count]) -> dict[str, Count]:
        """Return joules and instances by label.

        Parameters
        ----------
        tasks : joules and instances of all tasks by name, which never fall
        last : those of the call before
        """
        total_j = sum(energy_j for energy_j, _ in tasks.values())
        for name in sorted(tasks.keys() - self._before.keys(), key=lambda name: (-tasks[name][0], name)):
            if len(self._before) >= self._most:
                break
            if len(self._before) < ALL_FIRST * self._most or tasks[name][0] * self._most >= total_j > 0:
                self._before[name] = last[name] if name in self._others else (0.0, 0)
        self._others |= tasks.keys() - self._before.keys()
        return self._shown(tasks)

    def _shown(self, tasks: dict[str, Count]) -> dict[str, Count]:
        shown = {}
        other_j, others = 0.0, 0
        for name, (energy_j, instances) in tasks.items():
            before_j, before = self._before.get(name, (energy_j, instances))
            other_j, others = other_j + before_j, others + before
            if name in self._before:
                shown[name] = energy_j - before_j, instances - before
        if self._others:
            shown[OTHER_TASKS] = other_j, others
        return shown
