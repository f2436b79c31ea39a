"""Throttling: lowers a program's power by a lower frequency, fewer workers or pauses between tasks, in steps.

The first way that the machine and the program allow is used. A throttle is released when its budget's block ends. If
several budgets throttle the same thing, the strictest request applies; a value that others set meanwhile stays.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tprof import _core
from tprof.errors import SensorError, UsageError
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.frequency import Policy
    from tprof.session.runtimes import Runs

    Runtimes = Callable[[], Sequence[Runs]]

HZ_PER_GHZ = 1e9
STEPS = 4
PAUSES = (1.0, 3.0, 7.0)
"""Relative to the task before the pause: tasks keep a half, a quarter, an eighth of the time."""


class Throttle(Protocol):
    """A way to lower a program's power."""

    def tighten(self) -> str | None:
        """Tighten by one step; returns a description, or None at the last step. Raises SensorError."""

    def release(self) -> None:
        """Restore the former state. Raises SensorError."""


class Frequency:
    """The processor's frequency, a quarter of its range per step; a guard restores it however the process ends."""

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        """Start the guard; its start is slower than the reaction of a budget may be. Raises SensorError."""
        from tprof.frequency import Guard, read_bounds  # noqa: PLC0415 - loaded when used

        self._step = 0
        self._resources = ExitStack()
        self._guard = self._resources.enter_context(Guard(policies))
        # Read after the guard started: an earlier holder of the frequency may just have restored it.
        self._policies = [(policy, read_bounds(policy).highest_hz) for policy in policies]
        this_process.budgets.guards.add(self._guard)

    def tighten(self) -> str | None:
        """Lower the frequency of each policy."""
        from tprof.frequency import hold  # noqa: PLC0415 - see above

        if self._step == STEPS:
            return None
        self._step += 1
        held_hz = [hold(policy, _at_step(policy, top_hz, self._step)).highest_hz for policy, top_hz in self._policies]
        return f"the processor's frequency is held at {max(held_hz) / HZ_PER_GHZ:.2f} GHz"

    def release(self) -> None:
        """End the guard, which restores the frequency."""
        this_process.budgets.guards.discard(self._guard)
        self._resources.close()


@dataclass
class WorkerLimit:
    """The number of workers of a runtime that may take tasks, and the requests for it."""

    former: int
    set_to: int
    requested: dict[Workers, int] = field(default_factory=dict)


class Workers:
    """The workers of the runtimes that a budget may throttle, halved at each step."""

    def __init__(self, runtimes: Runtimes) -> None:
        """Begin without a limit; `runtimes` is called at each step."""
        self._runtimes = runtimes
        self._limited: list[Runs] = []

    def tighten(self) -> str | None:
        """Let fewer workers take tasks."""
        with this_process.budgets.throttle_lock:
            tightened = [runtime for runtime in self._runtimes() if self._tighten(runtime)]
            active = sum(runtime.active_workers for runtime in tightened)
        if not tightened:
            return None
        return f"{active} of {sum(runtime.workers for runtime in tightened)} workers go on taking tasks"

    def _tighten(self, runtime: Runs) -> bool:
        limits = this_process.budgets.worker_limits
        limit = limits.get(runtime)
        if limit is None:
            limit = limits[runtime] = WorkerLimit(runtime.active_workers, runtime.active_workers)
        before = limit.requested.get(self, runtime.active_workers)
        limit.requested[self] = (before + 1) // 2
        self._limited.append(runtime)
        _set_workers(runtime, limit)
        return before > 1

    def release(self) -> None:
        """Let the former number of workers take tasks."""
        shared = this_process.budgets
        with shared.throttle_lock:
            for runtime in self._limited:
                limit = shared.worker_limits.get(runtime)
                if limit is None or limit.requested.pop(self, None) is None:
                    continue
                _set_workers(runtime, limit)
                if not limit.requested:
                    del shared.worker_limits[runtime]
            self._limited = []


def _set_workers(runtime: Runs, limit: WorkerLimit) -> None:
    """Apply the lowest request, or without one the number that the program or a policy set."""
    now = runtime.active_workers
    if now != limit.set_to:
        limit.former = now
    limit.set_to = min((limit.former, *limit.requested.values()))
    if limit.set_to != now:
        with suppress(UsageError):  # it has ended meanwhile
            runtime.active_workers = limit.set_to


class Pauses:
    """Pauses after each outermost task, in proportion to the task's duration."""

    def __init__(self) -> None:
        """Begin without pauses."""
        self._left = list(PAUSES)

    def tighten(self) -> str | None:
        """Make the pauses longer."""
        if not self._left:
            return None
        share = self._left.pop(0)
        shared = this_process.budgets
        with shared.throttle_lock:
            shared.pauses[self] = share
            longest = max(shared.pauses.values())
            _core.set_pause(longest)
        return f"each thread pauses after a task, {longest:g} times as long as the task took"

    def release(self) -> None:
        """End the pauses that this throttle requests."""
        shared = this_process.budgets
        with shared.throttle_lock:
            if shared.pauses.pop(self, None) is not None:
                _core.set_pause(max(shared.pauses.values(), default=0))


def frequency_throttle() -> tuple[Frequency | None, str]:
    """Return the throttle, or None and the reason if this process may not set the frequency."""
    from tprof.frequency import find_policies, refusal  # noqa: PLC0415 - loaded when used
    from tprof.sensors import sysroot  # noqa: PLC0415 - see above

    try:
        policies = find_policies(sysroot())
        why = refusal(policies)
        return (Frequency(policies), "") if why is None else (None, why)
    except SensorError as error:
        return None, str(error)


def other_throttle(runtimes: Runtimes) -> Throttle:
    """Return a throttle of these runtimes' workers, or of all tasks if no runtime has several workers."""
    if any(runtime.workers > 1 for runtime in runtimes()):
        return Workers(runtimes)
    return Pauses()


def _at_step(policy: Policy, top_hz: int, step: int) -> int:
    return top_hz - (top_hz - policy.range.lowest_hz) * step // STEPS
