"""Tasks that belong together: a with-block that ends when they have."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Self

from tprof.runtime import _scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tprof.runtime._scheduler import Scheduler, Work

GROUP: ContextVar[object] = ContextVar("tprof_group")
"""The innermost group whose block the running code is in; a coroutine's own, not its thread's."""


class Group(_scheduler.Group):
    """Waits, at the end of its block, for the tasks that the block spawned, and raises the first exception.

    A task that failed cancels those that depend on it; the others go on. An exception of the block itself cancels
    all that have not begun. Also ``async with``, which lets the event loop go on meanwhile.

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
        """Make one; `Runtime.group` does."""
        return super().__new__(cls, scheduler)

    def __enter__(self) -> Self:
        """Let what is spawned from here on belong to the group."""
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
        """Let what is spawned from here on belong to the group."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its tasks without holding up the event loop."""
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
    """What a block of the program spawns, to be cancelled alone; whoever waits around it hears of failures.

    A group inside the block, or around it, waits for what is its own as if there were no such part.

    Attributes
    ----------
    error : raised to whoever waits for the runtime inside the block; None: nothing
    """

    error: Exception | None = None

    def __new__(cls, scheduler: Scheduler) -> Self:
        """Make one; `Runtime.part` does."""
        return super().__new__(cls, scheduler)

    def __init__(self, scheduler: Scheduler) -> None:
        """Begin with nothing."""
        self.scheduler = scheduler

    def begin(self) -> None:
        """Let what this thread or coroutine spawns from here on, and what that spawns, belong to it."""
        self.open(GROUP.get(None), False)  # noqa: FBT003 - native, without names
        GROUP.set(self)

    def end(self) -> None:
        """Let nothing more belong to it; a coroutine may end it in another context than it began in."""
        self.close()
        if GROUP.get(None) is self:
            GROUP.set(self.outer)

    def refuse(self, error: Exception) -> None:
        """Cancel what has not begun, and raise this to whoever waits; what comes later is not: ask again."""
        self.error = error
        self.cancel()


def raise_refusal(scheduler: Scheduler) -> None:
    """Raise what the innermost part of this runtime around the running code refuses its tasks with, if any does."""
    group = GROUP.get(None)
    while isinstance(group, _scheduler.Group):
        if isinstance(group, Part) and group.scheduler is scheduler and group.error is not None and group.is_around():
            raise group.error
        group = group.outer


def raise_first(failures: Sequence[Work], instead: BaseException | None = None) -> None:
    """Raise the first exception, saying how many others there were; note them on `instead` where that is raised."""
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
