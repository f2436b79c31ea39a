"""Applies a policy to this machine: the guard that restores frequencies, the controls, the sensor, and the loop."""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from tprof.runtime.operating.control import Control, MachineInterface
from tprof.runtime.operating.controls import Cpufreq, spread
from tprof.runtime.operating.decision import Thresholds
from tprof.runtime.operating.exploring import ExplorationBudget
from tprof.runtime.operating.goals import Fixed, PowerCap
from tprof.runtime.operating.power_estimator import Meter, PowerEstimator
from tprof.runtime.operating.power_limiter import PowerLimiter
from tprof.runtime.operating.table import for_workers, read_table

from tprof import _core
from tprof.errors import SensorError, UsageError
from tprof.frequency import Guard, find_policies, refusal
from tprof.sensors.choose import sysroot
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.runtime.operating.control import Log
    from tprof.runtime.operating.points import Knowledge
    from tprof.runtime.operating.policy import Policy


SPREAD = 16
"""Frequencies that represent a processor which accepts any in a range."""
NAMED = 5
CHECK_PERIOD_NS = 1_000_000_000
BEGINS, ENDS, PAUSES, RESUMES = range(4)


class Operator:
    """Sets the processor's frequencies from `start` to `stop`; the scheduler calls `on_task`."""

    def __init__(
        self,
        policy: Policy,
        workers: int,
        cpus: Sequence[int] | None,
        *,
        clock_ns: Callable[[], int] = _core.now_ns,
        log: Log | None = None,
    ) -> None:
        """Read the policy's table. Raises UsageError.

        `clock_ns` is the clock of all decisions. `log` is called with each; by default the current recording keeps it.
        """
        self._policy, self._workers, self._cpus = policy, workers, cpus
        self._clock_ns, self._log = clock_ns, log or _log_to_recording
        self._known: dict[int, Knowledge] | None = None
        if policy.profile is not None and not isinstance(policy.goal, Fixed):
            self._known = for_workers(read_table(policy.profile), workers)
            if not policy.adapt_workers:
                self._known = {workers: self._known[max(self._known)]}
        self._control: Control | None = None
        self._held = ExitStack()
        self._guard: Guard | None = None
        self._ended = threading.Lock()
        self._next_check_ns = 0
        self._warned_of_others = False
        self._logged_to: object = None
        self._seen: set[int] = set()

    def start(self, set_active: Callable[[int], object]) -> None:
        """Begin to set frequencies.

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
            self._check_frequencies(controls)
            controls.check()
            self._control = self._make_control(controls, meter, set_active)
            self._held = self._held.pop_all()
        self._log_to_new_recording()

    def _check_frequencies(self, controls: Cpufreq) -> None:
        """Check that the given frequencies are in this machine's range. Raises UsageError if not."""
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
        """Open the package's sensor if the policy learns from it or keeps a cap by it. Raises SensorError."""
        caps = isinstance(self._policy.goal, PowerCap)
        if isinstance(self._policy.goal, Fixed) or (self._known is not None and not caps):
            return None
        try:
            return self._held.enter_context(closing(Meter(sysroot())))
        except SensorError:
            if self._known is None:
                raise
            return None  # the cap is kept by the table's watts alone

    def _make_control(self, controls: Cpufreq, meter: Meter | None, set_active: Callable[[int], object]) -> Control:
        policy, goal = self._policy, self._policy.goal
        estimator = limiter = None
        if meter is not None and isinstance(goal, PowerCap):
            begins_hz = controls.frequencies_hz[0 if self._known is None else -1]
            limiter = PowerLimiter(
                controls.frequencies_hz, goal.watts, self._workers, meter.read_j, begins_hz, meter.quality
            )
        elif meter is not None:
            estimator = PowerEstimator(meter.read_j, meter.quality)
        explored_hz = spread(controls.frequencies_hz, policy.frequencies)
        machine = MachineInterface(controls, self._clock_ns, self._log, set_active, estimator, explored_hz, limiter)
        budget = ExplorationBudget(policy.instances, policy.span_s)
        thresholds = Thresholds(policy.gain, policy.learnt_gain)
        control = Control(
            policy.goal,
            machine,
            self._workers,
            budget=budget,
            thresholds=thresholds,
            adapt_workers=policy.adapt_workers,
        )
        if self._known is not None:
            control.use_table(self._known)
        return control

    def on_task(self, moment: int, task: Any, slot: int) -> None:
        """Pass an event of a task on; called by the thread that runs it. A failure ends the policy with one warning."""
        control = self._control
        if control is None:
            return
        thread = threading.get_ident()
        self._log_to_new_recording()
        try:
            self._check(control)
            if moment == BEGINS:
                self._seen.add(task.number)
                control.begin(thread, this_process.tasks.name_of(task.number), slot)
            elif moment == ENDS:
                control.end(thread, this_process.tasks.name_of(task.number))
            elif moment == PAUSES:
                control.pause(thread)
            else:
                control.resume(thread, slot)
        except (SensorError, OSError) as error:
            self._control = None
            if self._ended.acquire(blocking=False):  # several threads may fail; one warns
                message = f"policy {self._policy.goal.name} sets no frequency any more: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _check(self, control: Control) -> None:
        """Check periodically that no other program sets the frequency and that the guard runs. Raises SensorError."""
        now_ns = self._clock_ns()
        if now_ns < self._next_check_ns:
            return
        self._next_check_ns = now_ns + CHECK_PERIOD_NS
        if self._guard is not None and not self._guard.is_alive:
            message = (
                "the process that would restore the frequencies was killed: they are put back at the runtime's end"
            )
            raise SensorError(message)
        if control.reapply() and not self._warned_of_others:
            self._warned_of_others = True
            message = (
                "another program changes the processor's frequency, which a policy holds: stop it (a power daemon such "
                "as tuned or power-profiles-daemon), or leave policy= out"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def on_workers_set(self, workers: int) -> None:
        """Take over the number of active workers that the program itself has set."""
        self._log_to_new_recording()
        if self._control is not None:
            self._control.on_workers_set(workers)

    def _log_to_new_recording(self) -> None:
        """Log the present state to a recording that has begun since the last call."""
        member = this_process.membership
        if member is self._logged_to:
            return
        self._logged_to, control = member, self._control
        if member is not None and control is not None:
            control.log_all()

    def stop(self) -> None:
        """Restore the former frequencies, even if tasks still run. Raises SensorError."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
            self._warn_if_unused()
        self._held.close()

    def _warn_if_unused(self) -> None:
        """Warn if the policy knows none of the tasks that ran."""
        goal, named = self._policy.goal, set[str]()
        if isinstance(goal, Fixed) and goal.frequency_hz is None:
            named = set(goal.tasks_hz)
        elif self._known is not None:
            named = {task for known in self._known.values() for task in known.curves}
        ran = {this_process.tasks.name_of(number) for number in self._seen}
        if named and ran and not named & ran:
            message = (
                f"policy {goal.name} had nothing to choose: it knows of {_listed(named)}, and the program's tasks are "
                f"{_listed(ran)}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def forget(self) -> None:
        """Leave the frequencies to the parent, in a forked child."""
        self._control = None
        self._held = ExitStack()
        if self._guard is not None:
            self._guard.forget()


def _listed(names: set[str]) -> str:
    some = sorted(names)
    return ", ".join(some[:NAMED]) + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")


def _log_to_recording(decision: dict[str, Any]) -> None:
    member = this_process.membership
    if member is not None:
        member.decide(decision)
