"""A policy at work on this machine: the guard that restores, the controls, the sensor, and the loop that they serve."""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from tprof.runtime.operating.ceiling import Ceiling
from tprof.runtime.operating.control import Control, Means
from tprof.runtime.operating.controls import Cpufreq, spread
from tprof.runtime.operating.exploring import Effort
from tprof.runtime.operating.goals import Fixed, PowerCap
from tprof.runtime.operating.ledger import Ledger, Meter
from tprof.runtime.operating.table import for_workers, read_table
from tprof.runtime.operating.verdict import Caution

from tprof import _core, membership, registry
from tprof.errors import SensorError, UsageError
from tprof.frequency import Guard, find_policies, refusal
from tprof.sensors.choose import sysroot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.runtime.operating.control import Say
    from tprof.runtime.operating.points import Knowledge
    from tprof.runtime.operating.policy import Policy


SPREAD = 16
"""Frequencies that stand for a processor which takes any in a range."""
NAMED = 5
EACH_NS = 1_000_000_000
BEGINS, ENDS, PAUSES, RESUMES = range(4)


class Operator:
    """Holds the processor's frequencies from `start` to `stop`; the scheduler calls `hear`."""

    def __init__(
        self,
        policy: Policy,
        workers: int,
        cpus: Sequence[int] | None,
        *,
        clock_ns: Callable[[], int] = _core.now_ns,
        say: Say | None = None,
    ) -> None:
        """Read the policy's table. Raises UsageError.

        `clock_ns` tells the time by which everything is decided; `say` is told of decisions, by default the recording
        that is on.
        """
        self._policy, self._workers, self._cpus = policy, workers, cpus
        self._clock_ns, self._say = clock_ns, say or _say
        self._known: dict[int, Knowledge] | None = None
        if policy.profile is not None and not isinstance(policy.goal, Fixed):
            self._known = for_workers(read_table(policy.profile), workers)
            if not policy.adapt_workers:
                self._known = {workers: self._known[max(self._known)]}
        self._control: Control | None = None
        self._held = ExitStack()
        self._guard: Guard | None = None
        self._ended = threading.Lock()
        self._looks_at_ns = 0
        self._told_of_others = False
        self._told: object = None
        self._seen: set[int] = set()

    def start(self, set_active: Callable[[int], object]) -> None:
        """Take the frequencies over.

        Raises
        ------
        SensorError
            If they cannot be set here, or there is nothing to learn from.
        """
        try:
            policies = find_policies(sysroot())
        except SensorError as error:
            name = self._policy.goal.name
            message = f"Runtime(policy={name!r}) has no frequency to choose: {error}; leave policy= out to run without"
            raise SensorError(message) from None
        why = refusal(policies)
        if why is not None:
            message = f"policy {self._policy.goal.name} cannot set the processor's frequency: {why}"
            raise SensorError(message)
        with self._held:
            meter = self._open_meter()
            self._guard = self._held.enter_context(Guard(policies))
            transition_s = self._policy.transition_s
            controls = Cpufreq(
                policies, self._cpus, self._workers, points=SPREAD, transition_s=transition_s, clock_ns=self._clock_ns
            )
            self._fit(controls)
            controls.check()
            self._control = self._make(controls, meter, set_active)
            self._held = self._held.pop_all()
        self._introduce()

    def _fit(self, controls: Cpufreq) -> None:
        """See that the frequencies that were given are this machine's. Raises UsageError."""
        goal = self._policy.goal
        if isinstance(goal, Fixed):
            for hz in filter(None, (goal.frequency_hz, *goal.tasks_hz.values())):
                if not controls.covers(hz):
                    message = (
                        f"fixed() was given {hz:g} Hz, and this machine runs at {controls.range}: frequencies are in "
                        "Hz, as 2.4e9, or a text with its unit, as 'fixed(2.4GHz)'"
                    )
                    raise UsageError(message)
        if self._known is not None:
            fitting = {workers: known.only(controls.takes) for workers, known in self._known.items()}
            self._known = {workers: known for workers, known in fitting.items() if known.curves}
            if not self._known:
                message = (
                    f"{self._policy.profile} has no frequency of this machine, which runs at {controls.range}: sweep "
                    "this machine"
                )
                raise UsageError(message)

    def _open_meter(self) -> Meter | None:
        """Open the package's sensor where the policy learns from it or keeps a cap by it. Raises SensorError."""
        caps = isinstance(self._policy.goal, PowerCap)
        if isinstance(self._policy.goal, Fixed) or (self._known is not None and not caps):
            return None
        try:
            return self._held.enter_context(closing(Meter(sysroot())))
        except SensorError:
            if self._known is None:
                raise
            return None  # the table's watts are all there is to keep the cap by

    def _make(self, controls: Cpufreq, meter: Meter | None, set_active: Callable[[int], object]) -> Control:
        policy, goal = self._policy, self._policy.goal
        ledger = ceiling = None
        if meter is not None and isinstance(goal, PowerCap):
            begins_hz = controls.frequencies_hz[0 if self._known is None else -1]
            ceiling = Ceiling(
                controls.frequencies_hz, goal.watts, self._workers, meter.read_j, begins_hz, meter.quality
            )
        elif meter is not None:
            ledger = Ledger(meter.read_j, meter.quality)
        explored_hz = spread(controls.frequencies_hz, policy.frequencies)
        means = Means(controls, self._clock_ns, self._say, set_active, ledger, explored_hz, ceiling)
        effort = Effort(policy.instances, policy.span_s)
        caution = Caution(policy.gain, policy.learnt_gain)
        control = Control(
            policy.goal, means, self._workers, effort=effort, caution=caution, adapt_workers=policy.adapt_workers
        )
        if self._known is not None:
            control.know(self._known)
        return control

    def hear(self, moment: int, task: Any, seat: int) -> None:
        """Hear of a task from the thread that runs it. The first failure ends the policy with a warning."""
        control = self._control
        if control is None:
            return
        who = threading.get_ident()
        self._introduce()
        try:
            self._look_after(control)
            if moment == BEGINS:
                self._seen.add(task.number)
                control.begin(who, registry.name_of(task.number), seat)
            elif moment == ENDS:
                control.end(who, registry.name_of(task.number))
            elif moment == PAUSES:
                control.pause(who)
            else:
                control.resume(who, seat)
        except (SensorError, OSError) as error:
            self._control = None
            if self._ended.acquire(blocking=False):  # of several threads that find out one says so
                message = f"policy {self._policy.goal.name} sets no frequency any more: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _look_after(self, control: Control) -> None:
        """See now and then that nobody else sets the frequency, and that it would be restored. Raises SensorError."""
        now_ns = self._clock_ns()
        if now_ns < self._looks_at_ns:
            return
        self._looks_at_ns = now_ns + EACH_NS
        if self._guard is not None and not self._guard.is_alive:
            message = (
                "the process that would restore the frequencies was killed: they are put back at the runtime's end"
            )
            raise SensorError(message)
        if control.hold_again() and not self._told_of_others:
            self._told_of_others = True
            message = (
                "another program changes the processor's frequency, which a policy holds: stop it (a power daemon such "
                "as tuned or power-profiles-daemon), or leave policy= out"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def activated(self, workers: int) -> None:
        """Hear that the program itself has set the number of active workers."""
        self._introduce()
        if self._control is not None:
            self._control.activated(workers)

    def _introduce(self) -> None:
        """Tell a recording that has begun what holds already."""
        member = membership.current()
        if member is self._told:
            return
        self._told, control = member, self._control
        if member is not None and control is not None:
            control.tell_all()

    def stop(self) -> None:
        """Give back what was before, whatever still runs. Raises SensorError."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
            self._tell_what_nobody_heard()
        self._held.close()

    def _tell_what_nobody_heard(self) -> None:
        """Warn where no task ran that the policy knows anything of."""
        goal, named = self._policy.goal, set[str]()
        if isinstance(goal, Fixed) and goal.frequency_hz is None:
            named = set(goal.tasks_hz)
        elif self._known is not None:
            named = {task for known in self._known.values() for task in known.curves}
        ran = {registry.name_of(number) for number in self._seen}
        if named and ran and not named & ran:
            message = (
                f"policy {goal.name} had nothing to choose: it knows of {_listed(named)}, and the program's tasks are "
                f"{_listed(ran)}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def forget(self) -> None:
        """Leave all to the parent, in a forked child."""
        self._control = None
        self._held = ExitStack()
        if self._guard is not None:
            self._guard.forget()


def _listed(names: set[str]) -> str:
    some = sorted(names)
    return ", ".join(some[:NAMED]) + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")


def _say(decision: dict[str, Any]) -> None:
    member = membership.current()
    if member is not None:
        member.decide(decision)
