"""What policies come to on a mix beside every fixed assignment of frequencies, all on the same simulated processor."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.virtual.machine import FREQUENCIES_HZ
from tprof.runtime.operating.control import Control, MachineInterface
from tprof.runtime.operating.controls import spread
from tprof.runtime.operating.goals import Fixed, PowerCap
from tprof.runtime.operating.points import Knowledge, Point
from tprof.runtime.operating.power_estimator import PowerEstimator
from tprof.runtime.operating.power_limiter import PowerLimiter

from .processor import Outcome, Processor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.runtime.operating.goals import Goal

    from .mixes import Mix

    Log = Callable[[dict[str, Any]], object]

EXPLORED = 3


def discard(decision: dict[str, Any]) -> None:
    """Discard a decision."""


def unprepared(control: Control) -> None:
    """Let a loop begin as it is."""


@dataclass(frozen=True)
class Trial:
    """A mix on a processor.

    Attributes
    ----------
    mix, workers, shared, static_w : as `Processor` takes them.
    """

    mix: Mix
    workers: int = 4
    shared: bool = False
    static_w: float = 0.0

    def fixed(self, tasks_hz: Mapping[str, int]) -> Outcome:
        """Run with these frequencies."""
        return self._run(Fixed(None, tasks_hz), unprepared)

    def from_table(self, goal: Goal, log: Log = discard) -> Outcome:
        """Run under a policy that knows the sweep."""
        return self._run(goal, self._use_table, log=log)

    def learning(self, goal: Goal, log: Log = discard) -> Outcome:
        """Run under a policy that knows nothing; what trying costs is in the outcome."""
        return self._run(goal, unprepared, log=log, learns=True)

    @cached_property
    def single(self) -> dict[int, Outcome]:
        """Every frequency for all tasks."""
        return {hz: self.fixed(dict.fromkeys(self.mix.tasks, hz)) for hz in FREQUENCIES_HZ}

    @cached_property
    def sweep(self) -> Knowledge:
        """What a sweep over all frequencies finds, without error."""
        counts = Counter(job.task for job in self.mix.jobs)
        curves = {
            task: {hz: Point(one.task_j[task] / count, one.task_s[task] / count) for hz, one in self.single.items()}
            for task, count in counts.items()
        }
        return Knowledge(curves, dict(counts), self.static_w)

    def every_assignment(self, frequencies_hz: tuple[int, ...] = FREQUENCIES_HZ) -> dict[tuple[int, ...], Outcome]:
        """Run every assignment of these frequencies to tasks, in the tasks' order: exponentially many."""
        tasks = self.mix.tasks
        assignments = itertools.product(frequencies_hz, repeat=len(tasks))
        return {chosen: self.fixed(dict(zip(tasks, chosen, strict=True))) for chosen in assignments}

    def capped(self, watts: float, log: Log = discard, *, knows: bool = False) -> Outcome:
        """Run under a cap on the power that the sensor keeps, with the sweep or with nothing known of the tasks."""
        prepare = self._use_table if knows else unprepared
        return self._run(PowerCap(watts), prepare, log=log, begins_hz=FREQUENCIES_HZ[-1 if knows else 0])

    def _use_table(self, control: Control) -> None:
        control.use_table({self.workers: self.sweep})

    def _run(
        self,
        goal: Goal | Fixed,
        prepare: Callable[[Control], object],
        *,
        log: Log = discard,
        learns: bool = False,
        begins_hz: int | None = None,
    ) -> Outcome:
        def make(processor: Processor) -> Control:
            estimator = PowerEstimator(processor.read_j) if learns else None
            explored = spread(FREQUENCIES_HZ, EXPLORED)
            limiter = None
            if isinstance(goal, PowerCap) and begins_hz is not None:
                limiter = PowerLimiter(FREQUENCIES_HZ, goal.watts, self.workers, processor.read_j, begins_hz)
            machine = MachineInterface(
                processor, processor.now_ns, log, processor.set_active, estimator, explored, limiter
            )
            control = Control(goal, machine, self.workers)
            prepare(control)
            return control

        return Processor(self.mix, self.workers, shared=self.shared, static_w=self.static_w).run(make)
