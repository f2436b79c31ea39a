"""What was given to whom so far, by task and by process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .sums import added

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .share import Shared
    from .thread import Stretch


def _none() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass
class Accounts:
    """Joules so far.

    Attributes
    ----------
    task_j, starts : by index in the task table; joules, and instances that have begun
    process_tasks_j, process_runtime_j : by the process's ordinal
    unseen_j, other_j, idle_j, measured_j : of all
    """

    task_j: NDArray[np.float64] = field(default_factory=_none)
    starts: NDArray[np.float64] = field(default_factory=_none)
    process_tasks_j: NDArray[np.float64] = field(default_factory=_none)
    process_runtime_j: NDArray[np.float64] = field(default_factory=_none)
    unseen_j: float = 0.0
    other_j: float = 0.0
    idle_j: float = 0.0
    measured_j: float = 0.0

    @property
    def runtime_j(self) -> float:
        """Of threads between tasks, and of those that tprof does not see."""
        return float(self.process_runtime_j.sum()) + self.unseen_j

    def count(self, starts: list[tuple[int, int]]) -> None:
        """Add instances that have begun: of which task, how many."""
        if starts:
            index, counts = zip(*starts, strict=True)
            self.starts = added(self.starts, np.array(index, np.int64), np.array(counts, np.float64))

    def settle(self, ran: Stretch, shares: list[Shared]) -> NDArray[np.float64]:
        """Add what all domains gave; returns the joules of each segment."""
        segment_j = sum((shared.segment_j for shared in shares), np.zeros(len(ran.cpu_s)))
        of_task = ran.task >= 0
        self.task_j = added(self.task_j, ran.task[of_task], segment_j[of_task])
        self.process_tasks_j = added(self.process_tasks_j, ran.process[of_task], segment_j[of_task])
        self.process_runtime_j = added(self.process_runtime_j, ran.process[~of_task], segment_j[~of_task])
        for shared in shares:
            self.unseen_j += shared.unseen_j
            self.other_j += shared.other_j
            self.idle_j += shared.idle_j
            self.measured_j += shared.measured_j
        return segment_j
