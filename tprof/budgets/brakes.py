"""Ways to let a program draw less: a lower frequency, fewer workers, pauses between tasks; each in notches.

The first that this machine and program allow is taken. A brake is let go when its budget's block ends. Where several
budgets brake the same, the strictest that is still wanted holds; what somebody else set meanwhile stays.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tprof import _core, forks
from tprof.errors import SensorError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.frequency import Guard, Policy
    from tprof.running import Runs

    Runtimes = Callable[[], Sequence[Runs]]

HZ_PER_GHZ = 1e9
NOTCHES = 4
_guards: set[Guard] = set()
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

        self._notch = 0
        self._held = ExitStack()
        self._guard = self._held.enter_context(Guard(policies))
        # Not before: whoever held the frequency may have put it back just now.
        self._policies = [(policy, read_bounds(policy).highest_hz) for policy in policies]
        _guards.add(self._guard)

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
        _guards.discard(self._guard)
        self._held.close()


@dataclass
class _Held:
    """How many workers of a runtime may take tasks, and who wants so few."""

    former: int
    set_to: int
    wanted: dict[Workers, int] = field(default_factory=dict)


_lock = threading.Lock()
_held: dict[Runs, _Held] = {}
_pauses: dict[Pauses, float] = {}


class Workers:
    """The workers of the runtimes that a budget may hold back, half of them a notch."""

    def __init__(self, runtimes: Runtimes) -> None:
        """Begin with those that take tasks now; the runtimes are asked for at each notch."""
        self._runtimes = runtimes
        self._holds: list[Runs] = []

    def pull(self) -> str | None:
        """Let fewer workers take tasks."""
        with _lock:
            pulled = [runtime for runtime in self._runtimes() if self._pull(runtime)]
            active = sum(runtime.active_workers for runtime in pulled)
        if not pulled:
            return None
        return f"{active} of {sum(runtime.workers for runtime in pulled)} workers go on taking tasks"

    def _pull(self, runtime: Runs) -> bool:
        held = _held.get(runtime)
        if held is None:
            held = _held[runtime] = _Held(runtime.active_workers, runtime.active_workers)
        before = held.wanted.get(self, runtime.active_workers)
        held.wanted[self] = (before + 1) // 2
        self._holds.append(runtime)
        _set_workers(runtime, held)
        return before > 1

    def let_go(self) -> None:
        """Let as many workers take tasks as before."""
        with _lock:
            for runtime in self._holds:
                held = _held.get(runtime)
                if held is None or held.wanted.pop(self, None) is None:
                    continue
                _set_workers(runtime, held)
                if not held.wanted:
                    del _held[runtime]
            self._holds = []


def _set_workers(runtime: Runs, held: _Held) -> None:
    """Let the fewest that anybody wants take tasks, and where nobody does, as many as the program or a policy said."""
    now = runtime.active_workers
    if now != held.set_to:
        held.former = now
    held.set_to = min((held.former, *held.wanted.values()))
    if held.set_to != now:
        with suppress(UsageError):  # it has ended meanwhile, and takes no tasks at all
            runtime.active_workers = held.set_to


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
        with _lock:
            _pauses[self] = share
            longest = max(_pauses.values())
            _core.set_pause(longest)
        return f"each thread pauses after a task, {longest:g} times as long as the task took"

    def let_go(self) -> None:
        """Let threads go on at once, as far as this brake is concerned."""
        with _lock:
            if _pauses.pop(self, None) is not None:
                _core.set_pause(max(_pauses.values(), default=0))


def _forget_in_child() -> None:
    """Whoever slowed the parent down does not watch its child."""
    global _lock  # noqa: PLW0603 - another thread may have held it at the fork
    _lock = threading.Lock()
    _held.clear()
    _pauses.clear()
    for guard in _guards:
        guard.forget()  # else it would wait for the child's end too
    _guards.clear()


forks.reset_in_child(_forget_in_child)


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


def other_brake(runtimes: Runtimes) -> Brake:
    """Return what holds back these runtimes, or where none has several workers, all tasks."""
    if any(runtime.workers > 1 for runtime in runtimes()):
        return Workers(runtimes)
    return Pauses()


def _at_notch(policy: Policy, top_hz: int, notch: int) -> int:
    return top_hz - (top_hz - policy.range.lowest_hz) * notch // NOTCHES
