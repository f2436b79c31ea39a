"""The future of a task on a cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any, NoReturn

from tprof.runtime.future import TaskCancelledError, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

    from .data import Outcome


class ClusterTask(concurrent.futures.Future[Any]):
    """A task that a worker of a cluster runs; awaitable. A call of a task inside a `ClusterRuntime` makes one.

    If it is an argument of another task, that task waits for it and gets its result. The arrays that it wrote arrive
    when the program waits for them (`Runtime.wait`), not with its result.

    Attributes
    ----------
    number : counted by its runtime, from 1.
    outcome : what it leaves on a worker.
    cause : the task that failed or was cancelled first, if this one failed or was cancelled; itself if it did.
    acknowledged : whether the program has taken the failure.
    """

    def __init__(
        self, number: int, function: Callable[..., Any], cancel: Callable[[Collection[ClusterTask]], None]
    ) -> None:
        """Begin as a task that waits; `cancel` cancels unfinished tasks."""
        super().__init__()
        self.number = number
        self.callable = function
        self.outcome: Outcome | None = None
        self.cause: ClusterTask | None = None
        self.acknowledged = False
        self._cancel = cancel

    @property
    def name(self) -> str:
        """The task's name."""
        return name_of(self.callable)

    @property
    def state(self) -> str:
        """`pending`, `finished`, `failed` or `cancelled`; whether a worker runs it already is not known here."""
        if not self.done():
            return "pending"
        return "cancelled" if self.cancelled() else "finished" if self.cause is None else "failed"

    @property
    def error(self) -> BaseException | None:
        """The exception that it raised, once it has ended."""
        return super().exception(0) if self.state == "failed" else None

    @property
    def is_lost(self) -> bool:
        """Whether what it was to write does not exist, and the program knows."""
        return self.cause is not None and self.cause.acknowledged

    def finish(self, fetch: Callable[[], Any]) -> None:
        """End it; `fetch` returns its result."""
        self.set_result(fetch)

    def fail(self, cause: ClusterTask, error: BaseException | None) -> None:
        """End it by its exception; without one it is cancelled."""
        self.cause = cause
        if error is not None:
            _number(error, self)
            self.set_exception(error)
        else:
            super().cancel()
            self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Any:
        """Return what it returned, which comes from the worker then.

        Raises
        ------
        TaskCancelledError
            If it was cancelled, or a task failed that it depends on.
        TimeoutError
            If it has not ended within `timeout` seconds.
        """
        self._wait(timeout)
        return super().result(0)()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception that it raised, or None; raises like `result` otherwise."""
        self._wait(timeout)
        return super().exception(0)

    def cancel(self) -> bool:
        """Cancel it if it has not ended; returns whether it is cancelled.

        A worker that runs it already goes on, and what it writes is dropped.
        """
        if not self.done():
            self._cancel([self])
        return self.cancelled()

    def _wait(self, timeout: float | None) -> None:
        if not concurrent.futures.wait([self], timeout).done:
            raise TimeoutError
        if self.cause is not None:
            self.cause.acknowledged = True
        if self.cancelled():
            self._raise()

    def _raise(self) -> NoReturn:
        cause = self.cause
        if cause is None or cause is self:
            raise TaskCancelledError(f"task {self.name} was cancelled before it ran")
        reason = "was cancelled" if cause.error is None else f"failed: {cause.error!r}"
        raise TaskCancelledError(
            f"task {self.name} did not run, since it needs what task {cause.name} {reason}"
        ) from cause.error

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.result).__await__()

    def __repr__(self) -> str:
        return f"<ClusterTask {self.name} #{self.number} {self.state}>"


def _number(error: BaseException, task: ClusterTask) -> None:
    """Note the number that the task has here instead of the one that its worker gave it."""
    notes = getattr(error, "__notes__", [])
    if notes and notes[-1].startswith(f"raised in task {task.name} "):
        notes.pop()
    error.add_note(f"raised in task {task.name} (#{task.number})")
