"""What policies come to on a mix beside every fixed assignment of frequencies, all on the same simulated processor."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tprof.analysis.operating_points.curves import Knowledge, Point
from tprof.analysis.operating_points.goals import PowerCap
from tprof.benchmarks.virtual.machine import FREQUENCIES_HZ
from tprof.runtime.policy.control import Control, MachineInterface
from tprof.runtime.policy.controls import spread
from tprof.runtime.policy.decision import Decision, Thresholds
from tprof.runtime.policy.learning import Learning
from tprof.runtime.policy.power_estimator import PowerEstimator
from tprof.runtime.policy.power_limiter import Capped, PowerLimiter
from tprof.runtime.policy.strategy import FixedFrequencies, FromTable, Voting

from .processor import Outcome, Processor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.analysis.operating_points.goals import Goal
    from tprof.runtime.policy.strategy import Strategy

    from .mixes import Mix

    Log = Callable[[dict[str, Any]], object]

EXPLORED = 3


def discard(decision: dict[str, Any]) -> None:
    """Discard a decision."""


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
        return self._run(lambda _: FixedFrequencies(None, tasks_hz, self.workers))

    def from_table(self, goal: Goal, log: Log = discard) -> Outcome:
        """Run under a policy that knows the sweep."""
        return self._run(lambda processor: self._from_table(goal, processor), log)

    def learning(self, goal: Goal, log: Log = discard) -> Outcome:
        """Run under a policy that knows nothing; what trying costs is in the outcome."""

        def strategy(processor: Processor) -> Strategy:
            explored_hz = spread(FREQUENCIES_HZ, EXPLORED)
            return Learning(goal, processor, explored_hz, PowerEstimator(processor.read_j), workers=self.workers)

        return self._run(strategy, log)

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

        def strategy(processor: Processor) -> Strategy:
            begins_hz = FREQUENCIES_HZ[-1 if knows else 0]
            limiter = PowerLimiter(FREQUENCIES_HZ, watts, self.workers, processor.read_j, begins_hz)
            goal, nothing = PowerCap(watts), Decision(Thresholds())
            if knows:
                return Capped(limiter, self._from_table(goal, processor))
            return Capped(limiter, Voting(goal.name, processor, nothing, self.workers))

        return self._run(strategy, log)

    def _from_table(self, goal: Goal, processor: Processor) -> Strategy:
        return FromTable(goal, {self.workers: self.sweep}, processor, Thresholds())

    def _run(self, strategy: Callable[[Processor], Strategy], log: Log = discard) -> Outcome:
        def make(processor: Processor) -> Control:
            machine = MachineInterface(processor, processor.now_ns, log, processor.set_active)
            return Control(strategy(processor), machine, self.workers)

        return Processor(self.mix, self.workers, shared=self.shared, static_w=self.static_w).run(make)
