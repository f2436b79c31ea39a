"""The future of a task: a `concurrent.futures.Future` on top of the native scheduler's work.

The base class's own state is never made, since a lock and a list for each task would cost more than the whole
scheduler. Properties emulate the state that `concurrent.futures.wait` and `as_completed` read.
"""

from __future__ import annotations

import concurrent.futures
import threading
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tprof.runtime._scheduler import Work

from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tprof import _core

_STATES = {
    "pending": PENDING,
    "queued": PENDING,
    "running": RUNNING,
    "finished": FINISHED,
    "failed": FINISHED,
    "cancelled": CANCELLED_AND_NOTIFIED,
}
_ENDED = ("finished", "failed", "cancelled")


class TaskCancelledError(concurrent.futures.CancelledError):
    """The task did not run: it was cancelled, or a task that it depends on failed (`__cause__` is its exception)."""


class Task(Work, concurrent.futures.Future[Any]):
    """A spawned task; awaitable. A call of a task inside a runtime makes one, or `Runtime.submit`.

    If it is an argument of another task, that task waits for it and gets its result.
    """

    @property
    def name(self) -> str:
        """The task's name."""
        return name_of(self.callable)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception that it raised, or None.

        Raises
        ------
        TaskCancelledError
            If it was cancelled.
        TimeoutError
            If it has not ended within `timeout` seconds.
        """
        if not self.wait(timeout):
            raise TimeoutError
        if self.state == "cancelled":
            self._raise()
        self.acknowledge()
        return self.error

    def done(self) -> bool:
        """Return whether it has ended or was cancelled."""
        return self.state in _ENDED

    def running(self) -> bool:
        """Return whether it or a task that it spawned runs."""
        return self.state == "running"

    def cancelled(self) -> bool:
        """Return whether it was cancelled, itself or because of a task that it depends on."""
        return self.state == "cancelled"

    def _raise(self) -> NoReturn:
        self.acknowledge()
        if self.error is not None:
            raise self.error
        cause = self.cause
        if cause is None or cause is self:
            raise TaskCancelledError(f"task {self.name} was cancelled before it ran")
        reason = "was cancelled" if cause.error is None else f"failed: {cause.error!r}"
        raise TaskCancelledError(
            f"task {self.name} did not run, since it needs what task {name_of(cause.callable)} {reason}"
        ) from cause.error

    @property
    def _state(self) -> str:  # type: ignore[override]
        return _frozen.get(self) or _STATES[self.state]

    @property
    def _condition(self) -> _Condition:  # type: ignore[override]
        return _Condition(self)

    @property
    def _waiters(self) -> _Waiters:  # type: ignore[override]
        return _Waiters(self)

    def set_result(self, result: object) -> NoReturn:  # noqa: ARG002 - as the base class has it
        """Raise RuntimeError: only the runtime sets how a task ends."""
        self._refuse()

    def set_exception(self, exception: BaseException | None) -> NoReturn:  # noqa: ARG002
        """Raise RuntimeError: only the runtime sets how a task ends."""
        self._refuse()

    def set_running_or_notify_cancel(self) -> NoReturn:
        """Raise RuntimeError: only the runtime runs a task."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RuntimeError(f"task {self.name} belongs to its runtime, which alone says how it ends")

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # noqa: PLC0415 - who awaits has loaded it; all others would wait for it

        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        return f"<Task {self.name} #{self.number} {self.state}>"


_lock = threading.RLock()
_frozen: dict[Task, str] = {}


def _forget_in_child() -> None:
    _lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
    _frozen.clear()


this_process.reset_in_child(_forget_in_child)


class _Condition:
    """Stands in for the future's condition in `concurrent.futures`: `_state` does not change while it is held.

    A task ends without acquiring it, and a caller that reads several futures must see one consistent state.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def acquire(self) -> None:
        _lock.acquire()
        _frozen.setdefault(self._task, _STATES[self._task.state])

    def release(self) -> None:
        _frozen.pop(self._task, None)
        _lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Waiters:
    """Stands in for the future's list of waiters in `concurrent.futures`, which holds the condition to use it."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def append(self, waiter: Any) -> None:
        if self._task._state in {FINISHED, CANCELLED_AND_NOTIFIED}:  # noqa: SLF001 - the same module
            return
        first = "waiters" not in vars(self._task)
        vars(self._task).setdefault("waiters", []).append(waiter)
        if first:
            self._task.add_done_callback(_notify_waiters)

    def remove(self, waiter: Any) -> None:
        waiters = vars(self._task).get("waiters", ())
        if waiter in waiters:
            waiters.remove(waiter)


def _notify_waiters(task: Task) -> None:
    with _lock:
        for waiter in vars(task)["waiters"]:
            if task.state == "cancelled":
                waiter.add_cancelled(task)
            elif task.error is not None:
                waiter.add_exception(task)
            else:
                waiter.add_result(task)


def name_of(task: Callable[..., Any]) -> str:
    """Return the task's name in messages, graphs and tables."""
    return this_process.tasks.name_of(cast("_core.Task", task).number)
