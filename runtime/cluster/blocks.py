"""Blocks of a program whose tasks are waited for together (`Runtime.group`) or cancelled together (budgets)."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Self

from tprof.runtime.group import raise_first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from .cluster_task import ClusterTask
    from .graph import TaskGraph

_INNERMOST: ContextVar[Block | None] = ContextVar("tprof_cluster_block", default=None)


class Block:
    """The tasks that a block of the program spawns on one cluster.

    Attributes
    ----------
    tasks : those that were spawned, until they are waited for.
    outer : the block around it.
    """

    def __init__(self, graph: TaskGraph) -> None:
        """Begin without tasks."""
        self.graph = graph
        self.tasks: list[ClusterTask] = []
        self.outer: Block | None = None
        self._is_open = False

    def open(self) -> Token[Block | None]:
        """Add the tasks that this thread or coroutine spawns from here on."""
        self.outer = _INNERMOST.get()
        self._is_open = True
        return _INNERMOST.set(self)

    def close(self, token: Token[Block | None] | None = None) -> None:
        """Add no more tasks."""
        self._is_open = False
        if token is not None:
            _INNERMOST.reset(token)
        elif _INNERMOST.get() is self:
            _INNERMOST.set(self.outer)

    def add(self, task: ClusterTask) -> None:
        """Add a task; those that have ended without a failure need no wait."""
        if not self._is_open:
            return
        if len(self.tasks) % 1024 == 1023:
            self.tasks = [one for one in self.tasks if one.cause is not None or not one.done()]
        self.tasks.append(task)


def around(graph: TaskGraph) -> Iterator[Block]:
    """Yield the blocks of this graph around the running code, the innermost first."""
    block = _INNERMOST.get()
    while block is not None:
        if block.graph is graph:
            yield block
        block = block.outer


class ClusterGroup(Block):
    """Waits at the end of its block for the tasks that the block spawned, and raises the first exception."""

    _token: Token[Block | None] | None = None

    def __enter__(self) -> Self:
        """Add tasks that are spawned from here on to the group."""
        self._token = self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its tasks."""
        self.close(self._token)
        self._finish(error)

    async def __aenter__(self) -> Self:
        """Add tasks that are spawned from here on to the group."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for its tasks without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - most programs have none

        self.close(self._token)
        if error is not None:
            self.cancel()
        await asyncio.to_thread(self.wait)
        self._finish(error)

    def wait(self) -> None:
        """Wait for its tasks."""
        self.graph.wait(self.tasks)

    def cancel(self) -> None:
        """Cancel its tasks that have not ended."""
        self.graph.cancel(self.tasks)

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            self.cancel()
        self.wait()
        self.graph.fetch_written()
        raise_first(self.graph.take_failures(self.tasks), error)


class ClusterPart(Block):
    """The tasks of a block, which a budget may cancel alone.

    Attributes
    ----------
    error : raised where the block waits for the runtime; None: nothing
    """

    error: Exception | None = None

    def begin(self) -> None:
        """Add the tasks that this thread or coroutine spawns from here on."""
        self.open()

    def end(self) -> None:
        """Add no more tasks; a coroutine may end it in another context than it began in."""
        self.close()

    def refuse(self, error: Exception) -> None:
        """Cancel tasks that have not ended, and raise the error where the block waits."""
        self.error = error
        self.graph.cancel(self.tasks)


def raise_refusal(graph: TaskGraph) -> None:
    """Raise the error of the innermost part around the running code that has one."""
    for block in around(graph):
        if isinstance(block, ClusterPart) and block.error is not None:
            raise block.error
