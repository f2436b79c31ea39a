"""The future of a task: `concurrent.futures.Future` to look at, the native scheduler's work inside.

The base class's own state is never made, since a lock and a list a task would cost more than the task's whole way
through the scheduler. What `concurrent.futures.wait` and `as_completed` look at is shown to them as they expect it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tprof.runtime._scheduler import Work

from tprof import forks, registry

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
    """The task did not run: it was cancelled, or one that it depends on failed (which is its `__cause__`)."""


class Task(Work, concurrent.futures.Future[Any]):
    """A spawned task; awaitable. Made by calling a task inside a runtime, or by `Runtime.submit`.

    Passed to another task as an argument, it is waited for and replaced by its result.
    """

    @property
    def name(self) -> str:
        """What the task is called."""
        return name_of(self.callable)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception that it raised, None if it did not.

        Raises
        ------
        TaskCancelledError
            If it was cancelled.
        TimeoutError
            If it has not ended in that many seconds.
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
        """Return whether it runs, or what it spawned does."""
        return self.state == "running"

    def cancelled(self) -> bool:
        """Return whether it was cancelled, itself or with what it depends on."""
        return self.state == "cancelled"

    def _raise(self) -> NoReturn:
        self.acknowledge()
        if self.error is not None:
            raise self.error
        cause = self.cause
        if cause is None or cause is self:
            message = f"task {self.name} was cancelled before it ran"
            raise TaskCancelledError(message)
        reason = "was cancelled" if cause.error is None else f"failed: {cause.error!r}"
        message = f"task {self.name} did not run, since it needs what task {name_of(cause.callable)} {reason}"
        raise TaskCancelledError(message) from cause.error

    @property
    def _state(self) -> str:  # type: ignore[override]
        return _held.get(self) or _STATES[self.state]

    @property
    def _condition(self) -> _Hold:  # type: ignore[override]
        return _Hold(self)

    @property
    def _waiters(self) -> _Waiters:  # type: ignore[override]
        return _Waiters(self)

    def set_result(self, result: object) -> NoReturn:  # noqa: ARG002 - as the base class has it
        """Refuse: only the runtime says how a task ended."""
        self._refuse()

    def set_exception(self, exception: BaseException | None) -> NoReturn:  # noqa: ARG002
        """Refuse: only the runtime says how a task ended."""
        self._refuse()

    def set_running_or_notify_cancel(self) -> NoReturn:
        """Refuse: only the runtime runs a task."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        message = f"task {self.name} belongs to its runtime, which alone says how it ends"
        raise RuntimeError(message)

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        return f"<Task {self.name} #{self.number} {self.state}>"


_lock = threading.RLock()
_held: dict[Task, str] = {}


def _forget_in_child() -> None:
    _lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
    _held.clear()


forks.reset_in_child(_forget_in_child)


class _Hold:
    """What `concurrent.futures` takes for a future's condition: while it is held, `_state` stays what it was.

    A task ends without asking for it; nobody who looks at several futures at once may see that halfway.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def acquire(self) -> None:
        _lock.acquire()
        _held.setdefault(self._task, _STATES[self._task.state])

    def release(self) -> None:
        _held.pop(self._task, None)
        _lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Waiters:
    """What `concurrent.futures` takes for the list of those who want to be told of the end, while it holds the task."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def append(self, waiter: Any) -> None:
        if self._task._state in {FINISHED, CANCELLED_AND_NOTIFIED}:  # noqa: SLF001 - the same module
            return
        first = "watchers" not in vars(self._task)
        vars(self._task).setdefault("watchers", []).append(waiter)
        if first:
            self._task.add_done_callback(_tell_watchers)

    def remove(self, waiter: Any) -> None:
        watchers = vars(self._task).get("watchers", ())
        if waiter in watchers:
            watchers.remove(waiter)


def _tell_watchers(task: Task) -> None:
    with _lock:
        for waiter in vars(task)["watchers"]:
            if task.state == "cancelled":
                waiter.add_cancelled(task)
            elif task.error is not None:
                waiter.add_exception(task)
            else:
                waiter.add_result(task)


def name_of(task: Callable[..., Any]) -> str:
    """Return what messages and graphs call the task, as tables do."""
    return registry.name_of(cast("_core.Task", task).number)
