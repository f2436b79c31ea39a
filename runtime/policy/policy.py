"""Policies by name or made with options, as `Runtime(policy=…)` takes them."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

from tprof.analysis.operating_points.curves import for_workers, read_knowledge
from tprof.analysis.operating_points.goals import Edp, Energy, Goal, MaxSlowdown, PowerCap

from tprof.errors import SensorError, UsageError
from tprof.trace.plain_values import HERTZ, shown, with_unit

from .controls import spread
from .decision import Decision, Thresholds
from .power_limiter import Capped, PowerLimiter
from .strategy import FixedFrequencies, FromTable, Voting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tprof.analysis.operating_points.curves import Knowledge

    from .controls import Cpufreq
    from .power_estimator import Meter
    from .strategy import Strategy

    MakeStrategy = Callable[[Cpufreq], Strategy]
    OpenMeter = Callable[[], Meter]

TRANSITION_S = 10e-6
NAMES = "fixed(2.4GHz), energy, edp, max_slowdown(5%), power_cap(35W)"
_FORM = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*")
_UNITS = {"fixed": HERTZ, "max_slowdown": {"%": 0.01, "": 1.0}, "power_cap": {"w": 1.0, "": 1.0}}


@dataclass(frozen=True)
class Plan:
    """What a policy needs of a machine.

    Attributes
    ----------
    prepare : is given what opens the sensor, and calls it if the policy reads one; returns what makes the strategy.
        Raises SensorError if there is no sensor and the policy cannot do without; what it returns raises UsageError if
        the machine has none of the policy's frequencies.
    tasks : the tasks that the policy knows by name; empty if it takes any.
    """

    prepare: Callable[[OpenMeter], MakeStrategy]
    tasks: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """How a runtime decides, whatever its goal.

    Attributes
    ----------
    profile : the table of a sweep (its folder or `sweep.csv`) to decide from; None: learn while running.
    frequencies : how many frequencies learning tries, both ends included.
    instances, span_s : the least number of each task's instances at each of these, and their least time together.
    transition_s : the least duration of a change of the frequency; shorter tasks never change it.
    gain, learnt_gain : part of the cost that a change has to save, and that a newly learnt frequency has to save.
    adapt_workers : whether fewer workers may be active if the table or a try while running favours that.
    """

    profile: str | Path | None = None
    frequencies: int = 3
    instances: int = 3
    span_s: float = 0.01
    transition_s: float = TRANSITION_S
    gain: float = 0.01
    learnt_gain: float = 0.03
    adapt_workers: bool = True

    def __post_init__(self) -> None:
        """Check. Raises UsageError."""
        for name, least in (("frequencies", 2), ("instances", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise UsageError(f"{name} of a policy is a whole number of {least} or more, got {value!r}")
        for name in ("span_s", "transition_s", "gain", "learnt_gain"):
            value = getattr(self, name)
            if not 0 <= _as_float(value) < math.inf:
                raise UsageError(f"{name} of a policy is a number of 0 or more, got {shown(value)}")
        if not isinstance(self.adapt_workers, bool):
            raise UsageError(f"adapt_workers of a policy is True or False, got {self.adapt_workers!r}")

    @property
    @abstractmethod
    def name(self) -> str:
        """The policy's name."""

    @abstractmethod
    def plan(self, workers: int) -> Plan:
        """Return what the policy needs of a machine on so many workers. Raises UsageError if its table is wrong."""

    @property
    def _thresholds(self) -> Thresholds:
        return Thresholds(self.gain, self.learnt_gain)


@dataclass(frozen=True, kw_only=True)
class FixedPolicy(Policy):
    """Sets given frequencies: one for all tasks, or by task; other tasks keep the present one."""

    frequency_hz: int | None
    tasks_hz: Mapping[str, int]
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        """Check. Raises UsageError."""
        super().__post_init__()
        if self.profile is not None:
            raise UsageError(
                "fixed() takes frequencies and no profile: leave it out, or take edp, energy, … with the profile"
            )

    def plan(self, workers: int) -> Plan:
        """Return that it needs the frequencies."""
        tasks = frozenset(self.tasks_hz) if self.frequency_hz is None else frozenset[str]()
        return Plan(lambda _: partial(self._strategy, workers), tasks)

    def _strategy(self, workers: int, controls: Cpufreq) -> Strategy:
        for hz in filter(None, (self.frequency_hz, *self.tasks_hz.values())):
            if not controls.covers(hz):
                raise UsageError(
                    f"fixed() was given {hz:g} Hz, and this machine runs at {controls.range}: frequencies are in Hz, "
                    "as 2.4e9, or a text with its unit, as 'fixed(2.4GHz)'"
                )
        return FixedFrequencies(self.frequency_hz, self.tasks_hz, workers)


@dataclass(frozen=True, kw_only=True)
class GoalPolicy(Policy):
    """Minimises the costs of a goal, by a table or by what it learns."""

    goal: Goal

    @property
    def name(self) -> str:
        """The goal's name."""
        return self.goal.name

    def plan(self, workers: int) -> Plan:
        """Return that it needs frequencies of its table, or a sensor to learn from."""
        if self.profile is None:
            return Plan(lambda open_meter: partial(self._without_table, workers, open_meter()))
        known = for_workers(read_knowledge(self.profile), workers)
        if not self.adapt_workers:
            known = {workers: known[max(known)]}
        tasks = frozenset(task for one in known.values() for task in one.curves)
        return Plan(partial(self._with_table, known, workers), tasks)

    def _with_table(self, known: Mapping[int, Knowledge], workers: int, open_meter: OpenMeter) -> MakeStrategy:  # noqa: ARG002 - no sensor
        return partial(self._from_table, known)

    def _from_table(self, known: Mapping[int, Knowledge], controls: Cpufreq) -> Strategy:
        fitting = {workers: one.only(controls.takes) for workers, one in known.items()}
        fitting = {workers: one for workers, one in fitting.items() if one.curves}
        if not fitting:
            raise UsageError(
                f"{self.profile} has no frequency of this machine, which runs at {controls.range}: sweep this machine"
            )
        return FromTable(self.goal, fitting, controls, self._thresholds)

    def _without_table(self, workers: int, meter: Meter, controls: Cpufreq) -> Strategy:
        from .exploration import ExplorationBudget  # noqa: PLC0415 - NumPy, which other policies do without
        from .learning import Learning  # noqa: PLC0415 - as above
        from .power_estimator import PowerEstimator  # noqa: PLC0415 - as above

        return Learning(
            self.goal,
            controls,
            spread(controls.frequencies_hz, self.frequencies),
            PowerEstimator(meter.read, meter.quality),
            workers=workers,
            budget=ExplorationBudget(self.instances, self.span_s),
            thresholds=self._thresholds,
            adapt_workers=self.adapt_workers,
        )


@dataclass(frozen=True, kw_only=True)
class CapPolicy(GoalPolicy):
    """Keeps a cap on the power, by the sensor and by a table if there is one."""

    goal: PowerCap

    def _with_table(self, known: Mapping[int, Knowledge], workers: int, open_meter: OpenMeter) -> MakeStrategy:
        try:
            meter = open_meter()
        except SensorError:
            return super()._with_table(known, workers, open_meter)  # the cap is kept by the table's watts alone
        return lambda controls: self._capped(workers, meter, controls, self._from_table(known, controls), place=-1)

    def _without_table(self, workers: int, meter: Meter, controls: Cpufreq) -> Strategy:
        highest = Voting(self.name, controls, Decision(self._thresholds), workers)
        return self._capped(workers, meter, controls, highest, place=0)

    def _capped(self, workers: int, meter: Meter, controls: Cpufreq, inner: Strategy, *, place: int) -> Strategy:
        """Return the strategy within the cap; it begins at the frequency at a place."""
        all_hz = controls.frequencies_hz
        limiter = PowerLimiter(all_hz, self.goal.watts, workers, meter.read, all_hz[place], meter.quality)
        return Capped(limiter, inner)


def fixed(frequency_hz: float | None = None, tasks: Mapping[str, float] | None = None, **options: Any) -> Policy:
    """Return a policy that runs tasks at given frequencies.

    Parameters
    ----------
    frequency_hz
        For all tasks; None: only for those in `tasks`, and the others keep the present one.
    tasks
        Frequencies by the task's name.
    **options
        Of `Policy`.
    """
    if tasks is not None and not isinstance(tasks, Mapping):
        raise UsageError(f"fixed() takes frequencies by the task's name, as tasks={{'sort': 3.6e9}}, got {tasks!r}")
    given = {str(name): _positive("a frequency in Hz", hz) for name, hz in (tasks or {}).items()}
    if frequency_hz is None and not given:
        raise UsageError(
            "fixed() needs a frequency in Hz, or frequencies by task: fixed(2.4e9), fixed(tasks={'sort': 3.6e9})"
        )
    given_hz = None if frequency_hz is None else round(_positive("a frequency in Hz", frequency_hz))
    tasks_hz = {name: round(hz) for name, hz in given.items()}
    return FixedPolicy(frequency_hz=given_hz, tasks_hz=tasks_hz, **options)


def energy(profile: str | Path | None = None, **options: Any) -> Policy:
    """Return a policy for the least energy; options of `Policy`."""
    return GoalPolicy(goal=Energy(), profile=profile, **options)


def edp(profile: str | Path | None = None, **options: Any) -> Policy:
    """Return a policy for the least product of the program's energy and time; options of `Policy`."""
    return GoalPolicy(goal=Edp(), profile=profile, **options)


def max_slowdown(share: float, profile: str | Path | None = None, **options: Any) -> Policy:
    """Return a policy for the least energy with no task slower by more than a share (0.05); options of `Policy`."""
    share = _positive("a share such as 0.05", share)
    if share > 1:
        raise UsageError(
            f"max_slowdown takes a share from 0 to 1, got {share:g}: for {share:g} % write {share / 100:g}"
        )
    return GoalPolicy(goal=MaxSlowdown(share), profile=profile, **options)


def power_cap(watts: float, profile: str | Path | None = None, **options: Any) -> Policy:
    """Return a policy for the least time with the package below so many watts; options of `Policy`."""
    return CapPolicy(goal=PowerCap(_positive("a number of watts", watts)), profile=profile, **options)


def policy_of(asked: str | Policy) -> Policy:
    """Return the policy of a name such as ``"edp"`` or ``"max_slowdown(5%)"``, or the policy itself.

    Raises
    ------
    UsageError
        If there is none of that name.
    """
    if isinstance(asked, Policy):
        return asked
    found = _FORM.fullmatch(asked) if isinstance(asked, str) else None
    name = found[1] if found else ""
    if found and found[2] is None and name in ("energy", "edp"):
        return energy() if name == "energy" else edp()
    value = with_unit(found[2], _UNITS[name]) if found and found[2] is not None and name in _UNITS else None
    if value is None or math.isinf(value):
        raise UsageError(f"a policy is one of {NAMES}, or an object of tprof.runtime.policy; got {shown(asked)}")
    return _BOUNDED[name](value)


_BOUNDED: dict[str, Callable[[float], Policy]] = {
    "fixed": fixed,
    "max_slowdown": max_slowdown,
    "power_cap": power_cap,
}


def _positive(what: str, value: Any) -> float:
    if not 0 < _as_float(value) < math.inf:
        raise UsageError(f"{what} is above 0, got {shown(value)}")
    return float(value)


def _as_float(value: Any) -> float:
    """Return a number as a float, NaN for what is none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
