"""What each kind of policy needs of a machine: a sensor or none, frequencies that it has; and its strategy there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from tprof.analysis.operating_points.curves import for_workers, read_knowledge

from tprof.errors import SensorError, UsageError
from tprof.sensors.choose import sysroot

from .controls import spread
from .decision import Decision, Thresholds
from .power_limiter import Capped, PowerLimiter
from .strategy import FixedFrequencies, FromTable, Voting

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from .controls import Cpufreq
    from .policy import CapPolicy, FixedPolicy, GoalPolicy
    from .power_estimator import Meter
    from .strategy import Strategy

    MakeStrategy = Callable[[Cpufreq], Strategy]


class Plan(ABC):
    """A policy on a number of workers, before the machine is known.

    Attributes
    ----------
    tasks : the tasks that the policy knows by name; empty if it takes any.
    """

    tasks: frozenset[str] = frozenset()

    @abstractmethod
    def open(self, held: ExitStack) -> MakeStrategy:
        """Open the sensor that the policy reads, until the stack ends; returns what makes the strategy.

        Raises
        ------
        SensorError
            If there is no sensor and the policy cannot do without. What is returned raises UsageError if the machine
            has none of the policy's frequencies.
        """


class FixedPlan(Plan):
    """Needs the frequencies only."""

    def __init__(self, policy: FixedPolicy, workers: int) -> None:
        self._policy, self._workers = policy, workers
        if policy.frequency_hz is None:
            self.tasks = frozenset(policy.tasks_hz)

    def open(self, held: ExitStack) -> MakeStrategy:  # noqa: ARG002 - no sensor
        """Return what makes the strategy."""
        return self._strategy

    def _strategy(self, controls: Cpufreq) -> Strategy:
        policy = self._policy
        for hz in filter(None, (policy.frequency_hz, *policy.tasks_hz.values())):
            if not controls.covers(hz):
                message = (
                    f"fixed() was given {hz:g} Hz, and this machine runs at {controls.range}: frequencies are in Hz, "
                    "as 2.4e9, or a text with its unit, as 'fixed(2.4GHz)'"
                )
                raise UsageError(message)
        return FixedFrequencies(policy.frequency_hz, policy.tasks_hz, self._workers)


class LearningPlan(Plan):
    """Needs the package's sensor."""

    def __init__(self, policy: GoalPolicy, workers: int) -> None:
        self._policy, self._workers = policy, workers

    def open(self, held: ExitStack) -> MakeStrategy:
        """Open the sensor."""
        return partial(self._strategy, _open_meter(held))

    def _strategy(self, meter: Meter, controls: Cpufreq) -> Strategy:
        from .exploration import ExplorationBudget  # noqa: PLC0415 - NumPy, which other policies do without
        from .learning import Learning  # noqa: PLC0415 - as above
        from .power_estimator import PowerEstimator  # noqa: PLC0415 - as above

        policy = self._policy
        return Learning(
            policy.goal,
            controls,
            spread(controls.frequencies_hz, policy.frequencies),
            PowerEstimator(meter.read_j, meter.quality),
            workers=self._workers,
            budget=ExplorationBudget(policy.instances, policy.span_s),
            thresholds=Thresholds(policy.gain, policy.learnt_gain),
            adapt_workers=policy.adapt_workers,
        )


class TablePlan(Plan):
    """Needs frequencies that the table has."""

    def __init__(self, policy: GoalPolicy, profile: str | Path, workers: int) -> None:
        """Read the table. Raises UsageError."""
        self._policy, self._profile, self._workers = policy, profile, workers
        self._known = for_workers(read_knowledge(profile), workers)
        if not policy.adapt_workers:
            self._known = {workers: self._known[max(self._known)]}
        self.tasks = frozenset(task for known in self._known.values() for task in known.curves)

    def open(self, held: ExitStack) -> MakeStrategy:  # noqa: ARG002 - no sensor
        """Return what makes the strategy."""
        return self._from_table

    def _from_table(self, controls: Cpufreq) -> Strategy:
        fitting = {workers: known.only(controls.takes) for workers, known in self._known.items()}
        fitting = {workers: known for workers, known in fitting.items() if known.curves}
        if not fitting:
            message = (
                f"{self._profile} has no frequency of this machine, which runs at {controls.range}: sweep this machine"
            )
            raise UsageError(message)
        policy = self._policy
        return FromTable(policy.goal, fitting, controls, Thresholds(policy.gain, policy.learnt_gain))


class CapPlan(Plan):
    """Needs the package's sensor; begins at the lowest frequency, since nothing is known of the tasks."""

    def __init__(self, policy: CapPolicy, workers: int) -> None:
        self._policy, self._workers = policy, workers

    def open(self, held: ExitStack) -> MakeStrategy:
        """Open the sensor."""
        return partial(self._strategy, _open_meter(held))

    def _strategy(self, meter: Meter, controls: Cpufreq) -> Strategy:
        policy = self._policy
        highest = Voting(policy.name, controls, Decision(Thresholds(policy.gain, policy.learnt_gain)), self._workers)
        return _capped(policy, self._workers, meter, controls, controls.frequencies_hz[0], highest)


class CapTablePlan(TablePlan):
    """Needs frequencies that the table has; reads the package's sensor if there is one."""

    def __init__(self, policy: CapPolicy, profile: str | Path, workers: int) -> None:
        """Read the table. Raises UsageError."""
        super().__init__(policy, profile, workers)
        self._cap = policy

    def open(self, held: ExitStack) -> MakeStrategy:
        """Open the sensor; without one the cap is kept by the table's watts alone."""
        try:
            return partial(self._strategy, _open_meter(held))
        except SensorError:
            return self._from_table

    def _strategy(self, meter: Meter, controls: Cpufreq) -> Strategy:
        inner = self._from_table(controls)
        return _capped(self._cap, self._workers, meter, controls, controls.frequencies_hz[-1], inner)


def _open_meter(held: ExitStack) -> Meter:
    from .power_estimator import Meter  # noqa: PLC0415 - policies without a sensor do without it

    return held.enter_context(closing(Meter(sysroot())))


def _capped(
    policy: CapPolicy, workers: int, meter: Meter, controls: Cpufreq, begins_hz: int, inner: Strategy
) -> Strategy:
    limiter = PowerLimiter(controls.frequencies_hz, policy.goal.watts, workers, meter.read_j, begins_hz, meter.quality)
    return Capped(limiter, inner)
