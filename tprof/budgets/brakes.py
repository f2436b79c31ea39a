"""Ways to let a program draw less: a lower frequency, fewer workers, pauses between tasks; each in notches.

The first that this machine and program allow is taken. A brake is let go when its budget's block ends.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from tprof import _core, running
from tprof.errors import SensorError, UsageError

if TYPE_CHECKING:
    from tprof.frequency import Policy
    from tprof.running import Runs

HZ_PER_GHZ = 1e9
NOTCHES = 4
PAUSES = (1.0, 3.0, 7.0)
"""So many times as long as the task before: half, a quarter, an eighth of the time is left."""


class Brake(Protocol):
    """What makes a program draw less."""

    def pull(self) -> str | None:
        """Go one notch further; returns what was done, in words, or None at the last notch. Raises SensorError."""

    def let_go(self) -> None:
        """Put back what was before. Raises SensorError."""


class Frequency:
    """The processor's frequency, a quarter of its range a notch; a guard puts it back however the process ends."""

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        """Start the guard, which takes longer than a budget may react. Raises SensorError."""
        from tprof.frequency import Guard, read_bounds  # noqa: PLC0415 - loaded when used

        self._policies = [(policy, read_bounds(policy).highest_hz) for policy in policies]
        self._notch = 0
        self._guard = ExitStack()
        self._guard.enter_context(Guard(policies))

    def pull(self) -> str | None:
        """Hold each policy lower."""
        from tprof.frequency import hold  # noqa: PLC0415 - see above

        if self._notch == NOTCHES:
            return None
        self._notch += 1
        held = [hold(policy, _at_notch(policy, top_hz, self._notch)).highest_hz for policy, top_hz in self._policies]
        return f"the processor's frequency is held at {max(held) / HZ_PER_GHZ:.2f} GHz"

    def let_go(self) -> None:
        """Let the guard put it back."""
        self._guard.close()


class Workers:
    """The workers of a runtime, half of them a notch."""

    def __init__(self, runtime: Runs) -> None:
        """Begin with those that take tasks now."""
        self._runtime = runtime
        self._former = self._active = runtime.active_workers

    def pull(self) -> str | None:
        """Let fewer workers take tasks."""
        if self._active == 1:
            return None
        self._active = (self._active + 1) // 2
        with suppress(UsageError):  # it has ended meanwhile, and takes no tasks at all
            self._runtime.active_workers = self._active
        return f"{self._active} of {self._runtime.workers} workers go on taking tasks"

    def let_go(self) -> None:
        """Let as many workers take tasks as before."""
        with suppress(UsageError):  # as above
            self._runtime.active_workers = self._former


class Pauses:
    """Pauses after each task that nothing runs around, as long as the task or some times as long."""

    def __init__(self) -> None:
        """Begin without."""
        self._left = list(PAUSES)

    def pull(self) -> str | None:
        """Let threads sleep longer."""
        if not self._left:
            return None
        share = self._left.pop(0)
        _core.set_pause(share)
        return f"each thread pauses after a task, {share:g} times as long as the task took"

    def let_go(self) -> None:
        """Let threads go on at once."""
        _core.set_pause(0)


def frequency_brake() -> tuple[Frequency | None, str]:
    """Return the brake where this process may set the frequency, else why not."""
    from tprof.frequency import find_policies, refusal  # noqa: PLC0415 - loaded when used
    from tprof.sensors import sysroot  # noqa: PLC0415 - see above

    try:
        policies = find_policies(sysroot())
        why = refusal(policies)
        return (Frequency(policies), "") if why is None else (None, why)
    except SensorError as error:
        return None, str(error)


def other_brake() -> Brake:
    """Return what holds back the innermost runtime, or where none with several workers runs, all tasks."""
    if running.runtimes and running.runtimes[-1].workers > 1:
        return Workers(running.runtimes[-1])
    return Pauses()


def _at_notch(policy: Policy, top_hz: int, notch: int) -> int:
    return top_hz - (top_hz - policy.range.lowest_hz) * notch // NOTCHES
