"""Sums over the segments of a pool of native threads, part after part of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .native_rates import IDLE
from .native_time import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED

if TYPE_CHECKING:
    from .native_time import NativeSegments

Floats = NDArray[np.float64]


def distinct_tasks(task: NDArray[np.int64]) -> list[int]:
    """Return the different tasks among some, without -1."""
    top = int(task.max(initial=-1))
    return np.flatnonzero(np.bincount(task[task >= 0], minlength=top + 1)).tolist()


class CutSums:
    """Sums over the segments of a pool.

    Attributes
    ----------
    cpu_s, counted_s, missing_s : CPU seconds, those that were counted, and those that calls do not explain
    by_task : (3, tasks + 1) modelled energy by counters, CPU seconds that were counted, and all, by task
    beside_s : (tasks,) CPU seconds while each task ran
    served, spins_after : tasks that got CPU time, and that the pool span after
    is_unidentified : whether any segment may be one of several tasks'
    """

    def __init__(self, tasks: int, grid_ns: NDArray[np.int64]) -> None:
        """Begin without segments; `grid_ns` are the times up to which CPU seconds are asked."""
        self.cpu_s = self.counted_s = self.missing_s = 0.0
        self.by_task, self.beside_s = np.zeros((3, tasks + 1)), np.zeros(tasks)
        self.served: set[int] = set()
        self.spins_after: set[int] = set()
        self._used_s, self._known = np.zeros(len(grid_ns)), 0
        self.is_unidentified = False
        self.low_s = self.length_s = 0.0
        self.outside, self.on = np.zeros(2), np.zeros(2)
        self.begins, self._works = 0, False
        self._tasks, self._grid_ns = tasks, grid_ns

    def used_s(self) -> Floats:
        """Return the CPU seconds from the first of the times to each of them."""
        used_s = self._used_s.copy()
        used_s[self._known :] = self.cpu_s
        return used_s - used_s[0] if len(used_s) else used_s

    def add(self, cut: NativeSegments, missing_s: float) -> None:
        """Add segments that follow those before."""
        length_s = np.diff(cut.t_ns) * 1e-9
        until_s = np.concatenate(([self.cpu_s], self.cpu_s + np.cumsum(cut.cpu_s)))
        first, last = np.searchsorted(self._grid_ns, (cut.t_ns[0], cut.t_ns[-1]))
        self._used_s[first:last] = np.interp(self._grid_ns[first:last], cut.t_ns, until_s)
        self._known = int(last)
        self.cpu_s = float(until_s[-1])
        self.counted_s += float(cut.counted_s.sum())
        self.missing_s += missing_s
        self.by_task += cut.by_task((cut.counted, cut.counted_s, cut.cpu_s), self._tasks)
        self.beside_s += cut.beside(cut.cpu_s, self._tasks)
        self.served |= set(distinct_tasks(cut.task[(cut.kind == OF_TASK) & (cut.cpu_s > 0)]))
        self.spins_after |= set(distinct_tasks(cut.after[(cut.kind == SPINNING) & (cut.cpu_s > 0)]))
        self.is_unidentified |= bool((cut.kind == UNIDENTIFIED).any())
        low = cut.cpu_s < IDLE * length_s
        on, outside = cut.running > 0, cut.kind == OUTSIDE
        self.low_s += float(length_s[low].sum())
        self.length_s += float(length_s.sum())
        for target, which in ((self.outside, outside), (self.on, on)):
            target[:] += length_s[which].sum(), cut.cpu_s[which].sum()
        works = outside & ~low
        self.begins += int((works & ~np.concatenate(([self._works], works[:-1]))).sum())
        self._works = bool(works[-1])
