"""Groups of tasks: a with-block that waits for the tasks it spawned."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Protocol, Self

from tprof.runtime import _scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tprof.runtime._scheduler import Scheduler

GROUP: ContextVar[object] = ContextVar("tprof_group")
"""The innermost group whose block the running code is in; each coroutine has its own."""


class Group(_scheduler.Group):
    """Waits at the end of its block for the tasks that the block spawned, and raises the first exception.

    A task that fails cancels those that depend on it; the others go on. An exception in the block itself cancels all
    tasks that have not begun. ``async with`` works too and does not block the event loop.

    Examples
    --------
    >>> import tprof
    >>> from tprof.runtime import Runtime
    >>> @tprof.task
    ... def double(x):
    ...     return 2 * x
    >>> with Runtime(workers=2) as runtime, runtime.group():
    ...     four = double(2)
    >>> four.result()
    4
    """

    _token: Token[object] | None = None

    def __new__(cls, scheduler: Scheduler) -> Self:
        """Make one; programs call `Runtime.group`."""
        return super().__new__(cls, scheduler)

    def __enter__(self) -> Self:
        """Add tasks that are spawned from here on to the group."""
        self.open(GROUP.get(None), True)  # noqa: FBT003 - native, without names
        self._token = GROUP.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its tasks."""
        self._leave()
        self._finish(error)

    async def __aenter__(self) -> Self:
        """Add tasks that are spawned from here on to the group."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its tasks without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - most programs have none

        self._leave()
        if error is not None:
            self.cancel()
        await asyncio.to_thread(self.wait)
        self._finish(error)

    def _leave(self) -> None:
        if self._token is not None:
            GROUP.reset(self._token)
            self.close()

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            self.cancel()
        self.wait()
        raise_first(self.take_failures(), error)


class Part(_scheduler.Group):
    """The tasks that a block of the program spawns, to be cancelled alone.

    Groups inside and around the block wait for their tasks, and collect failures, as if there were no such part.

    Attributes
    ----------
    error : raised where the block waits for the runtime; None: nothing
    """

    error: Exception | None = None

    def __new__(cls, scheduler: Scheduler) -> Self:
        """Make one; budgets call `Runtime.part`."""
        return super().__new__(cls, scheduler)

    def __init__(self, scheduler: Scheduler) -> None:
        """Begin without tasks."""
        self.scheduler = scheduler

    def begin(self) -> None:
        """Add the tasks that this thread or coroutine spawns from here on, and their descendants."""
        self.open(GROUP.get(None), False)  # noqa: FBT003 - native, without names
        GROUP.set(self)

    def end(self) -> None:
        """Add no more tasks; a coroutine may end it in another context than it began in."""
        self.close()
        if GROUP.get(None) is self:
            GROUP.set(self.outer)

    def refuse(self, error: Exception) -> None:
        """Cancel tasks that have not begun, and raise the error where the block waits.

        Tasks that are spawned later are not cancelled: call it again.
        """
        self.error = error
        self.cancel()


def raise_refusal(scheduler: Scheduler) -> None:
    """Raise the error of the innermost part of this runtime around the running code that has one."""
    group = GROUP.get(None)
    while isinstance(group, _scheduler.Group):
        if isinstance(group, Part) and group.scheduler is scheduler and group.error is not None and group.is_around():
            raise group.error
        group = group.outer


class Failed(Protocol):
    """A task that failed."""

    @property
    def error(self) -> BaseException | None:
        """Its exception."""


def raise_first(failures: Sequence[Failed], instead: BaseException | None = None) -> None:
    """Raise the first exception with a note on the others; if `instead` is raised, add notes to that alone."""
    if instead is not None:
        for failed in failures:
            instead.add_note(f"meanwhile {failed!r} raised {failed.error!r}")
        return
    if not failures:
        return
    first = failures[0].error
    if first is None:
        return
    if len(failures) > 1:
        others = "one other task" if len(failures) == 2 else f"{len(failures) - 1} other tasks"
        first.add_note(f"{others} failed too: {', '.join(repr(failed) for failed in failures[1:6])}")
    raise first
