"""Applies a policy to this machine: the guard that restores frequencies, the controls, the sensor, and the loop."""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import SensorError
from tprof.frequency import Guard, find_policies, refusal
from tprof.sensors.choose import sysroot
from tprof.session.process_state import this_process

from .control import Control, MachineInterface
from .controls import Cpufreq

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from tprof.runtime._scheduler import Gate

    from .control import Log
    from .policy import Policy
    from .power_estimator import Meter
    from .power_limiter import PowerLimiter

SPREAD = 16
"""Frequencies that represent a processor which accepts any in a range."""
NAMED = 5
CHECK_PERIOD_NS = 1_000_000_000


class Operator:
    """Sets the processor's frequencies from `start` to `stop`; the scheduler's threads report to its gate."""

    def __init__(
        self,
        policy: Policy,
        workers: int,
        cpus: Sequence[int] | None,
        *,
        clock_ns: Callable[[], int] = _core.now_ns,
        meter: Meter | None = None,
        log: Log | None = None,
    ) -> None:
        """Read the policy's table. Raises UsageError.

        `clock_ns` is the clock of all decisions. `meter` is what learning and caps read; by default this machine's
        sensor. `log` is called with each decision; by default the current recording keeps it.
        """
        self._policy, self._workers, self._cpus = policy, workers, cpus
        self._clock_ns, self._meter, self._log = clock_ns, meter, log or _log_to_recording
        self._plan = policy.plan(workers)
        self._control: Control | None = None
        self._held = ExitStack()
        self._guard: Guard | None = None
        self._ended = threading.Lock()
        self._next_check_ns = 0
        self._warned_of_others = False
        self._logged_to: object = None

    def start(self, set_active: Callable[[int], object]) -> Gate:
        """Begin to set frequencies; returns the gate to which threads report their tasks.

        Raises
        ------
        SensorError
            If they cannot be set here, or there is nothing to learn from.
        """
        try:
            policies = find_policies(sysroot())
        except SensorError as error:
            name = self._policy.name
            raise SensorError(
                f"Runtime(policy={name!r}) has no frequency to choose: {error}; leave policy= out to run without"
            ) from None
        why = refusal(policies)
        if why is not None:
            raise SensorError(f"policy {self._policy.name} cannot set the processor's frequency: {why}")
        with self._held:
            make_strategy = self._plan.prepare(self._open_meter)
            self._guard = self._held.enter_context(Guard(policies))
            transition_s = self._policy.transition_s
            controls = Cpufreq(
                policies, self._cpus, self._workers, points=SPREAD, transition_s=transition_s, clock_ns=self._clock_ns
            )
            strategy = make_strategy(controls)
            controls.check()
            machine = MachineInterface(controls, self._clock_ns, self._log, set_active, this_process.tasks.name_of)
            control = self._control = Control(strategy, machine, self._workers, on_event=self.on_event)
            self._held = self._held.pop_all()
        self._log_to_new_recording()
        return control.gate

    @property
    def limiter(self) -> PowerLimiter | None:
        """What keeps a cap on the power, while the policy runs and if it has one."""
        return None if self._control is None else self._control.limiter

    def _open_meter(self) -> Meter:
        """Return the meter, until the policy ends. Raises SensorError."""
        from .power_estimator import Meter  # noqa: PLC0415 - NumPy, which policies without a sensor do without

        return self._meter or self._held.enter_context(closing(Meter(sysroot())))

    def on_event(self, moment: int, place: int, task: int, slot: int) -> None:
        """Pass on what the gate asks on the thread that runs the task. A failure ends the policy with one warning."""
        control = self._control
        if control is None:
            return
        self._log_to_new_recording()
        try:
            self._check(control)
            control.on_event(moment, place, task, slot)
        except (SensorError, OSError) as error:
            self._control = None
            control.gate.close()
            if self._ended.acquire(blocking=False):  # several threads may fail; one warns
                message = f"policy {self._policy.name} sets no frequency any more: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _check(self, control: Control) -> None:
        """Check periodically that no other program sets the frequency and that the guard runs. Raises SensorError."""
        now_ns = self._clock_ns()
        if now_ns < self._next_check_ns:
            return
        self._next_check_ns = now_ns + CHECK_PERIOD_NS
        if self._guard is not None and not self._guard.is_alive:
            raise SensorError(
                "the process that would restore the frequencies was killed: they are put back at the runtime's end"
            )
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
            self._warn_if_unused(control.ran())
        self._held.close()

    def _warn_if_unused(self, ran: AbstractSet[str]) -> None:
        """Warn if the policy knows none of the tasks that ran."""
        named = self._plan.tasks
        if named and ran and not named & ran:
            message = (
                f"policy {self._policy.name} had nothing to choose: it knows of {_listed(named)}, and the program's "
                f"tasks are {_listed(ran)}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def forget(self) -> None:
        """Leave the frequencies to the parent, in a forked child."""
        if self._control is not None:
            self._control.gate.close()
        self._control = None
        self._held = ExitStack()
        if self._guard is not None:
            self._guard.forget()


def _listed(names: AbstractSet[str]) -> str:
    some = sorted(names)
    return ", ".join(some[:NAMED]) + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")


def _log_to_recording(decision: dict[str, Any]) -> None:
    member = this_process.membership
    if member is not None:
        member.decide(decision)
