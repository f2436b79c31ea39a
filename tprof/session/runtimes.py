"""The running task runtimes of this process, and the parts of them that a block of the program can throttle or cancel.

Runtimes register themselves, since this package does not know them.
"""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Part(Protocol):
        """The tasks that a block spawns into the runtime around it."""

        def begin(self) -> None:
            """Include all tasks that this thread or coroutine spawns from now on, with their descendants."""

        def end(self) -> None:
            """Include no more tasks."""

        def refuse(self, error: Exception) -> None:
            """Cancel pending tasks, and raise the error in waits for the runtime inside the block."""

    class Runs(Protocol):
        """The interface of a runtime, callable from any thread."""

        workers: int
        active_workers: int
        """Number of workers that take tasks."""

        def part(self) -> Part:
            """Return an empty part."""

        def refuse(self, error: Exception, *, once: bool = False) -> None:
            """Cancel pending tasks, and raise the error in waits; once, or until `accept`."""

        def accept(self, error: Exception) -> None:
            """Stop raising the error."""


def _nowhere() -> Runs | None:
    return None


_blocks: ContextVar[tuple[Block, ...]] = ContextVar("tprof_blocks", default=())


class Runtimes:
    """All running runtimes of this process.

    Attributes
    ----------
    entered : those whose blocks are entered, the innermost last.
    current : returns the one into which a call of a task would spawn here; set by the package of runtimes.
    """

    def __init__(self) -> None:
        """Begin without runtimes."""
        self.entered: list[Runs] = []
        self.current: Callable[[], Runs | None] = _nowhere

    def enter(self, runtime: Runs) -> None:
        """Register a runtime whose block this thread or coroutine enters."""
        self.entered.append(runtime)
        for block in _blocks.get():
            block.begun.append(runtime)

    def runtimes(self) -> list[Runs]:
        """Return the runtimes to throttle."""
        return self.entered.copy()

    def refuse(self, error: Exception) -> None:
        """Cancel pending tasks; each runtime raises the error once, in the next wait."""
        for runtime in self.runtimes():
            runtime.refuse(error, once=True)

    def accept(self, error: Exception) -> None:
        """Stop raising the error."""
        for runtime in self.runtimes():
            runtime.accept(error)


class Block:
    """The scope of a block: tasks that it spawns into the runtime around it, and runtimes begun inside.

    Threads that the block starts are not included: their context is unknown here.
    """

    def __init__(self, runtimes: Runtimes, *, cancels: bool) -> None:
        """Create the scope at the start of the block; `cancels`: it may have to refuse spawned tasks."""
        self.begun: list[Runs] = []
        self._all = runtimes
        self._around = runtimes.current()
        self._part = self._around.part() if cancels and self._around is not None else None
        if self._part is not None:
            self._part.begin()
        _blocks.set((*_blocks.get(), self))

    def runtimes(self) -> list[Runs]:
        """Return the runtimes to throttle: those begun inside, or else the one around."""
        inside = [runtime for runtime in self.begun if runtime in self._all.entered]
        return inside or [runtime for runtime in self._all.entered if runtime is self._around]

    def refuse(self, error: Exception) -> None:
        """Cancel pending tasks that were spawned inside, and raise the error in waits for them."""
        if self._part is not None:
            self._part.refuse(error)
        for runtime in self.begun:
            if runtime in self._all.entered:
                runtime.refuse(error)

    def accept(self, error: Exception) -> None:
        """Stop raising the error."""
        for runtime in self.begun:
            runtime.accept(error)

    def end(self) -> None:
        """End the scope; a coroutine may end in another context than it began in."""
        if self._part is not None:
            self._part.end()
        _blocks.set(tuple(block for block in _blocks.get() if block is not self))
