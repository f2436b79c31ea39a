"""The task runtimes that run in this process, and what of them a block of the program can hold back or cancel.

They enter themselves, since this package knows nothing of runtimes.
"""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Part(Protocol):
        """What a block spawns into the runtime around it."""

        def begin(self) -> None:
            """Let it hold what this thread or coroutine spawns from here on, and what that spawns."""

        def end(self) -> None:
            """Let it hold nothing more."""

        def refuse(self, error: Exception) -> None:
            """Cancel what has not begun, and raise this to whoever waits for the runtime inside the block."""

    class Runs(Protocol):
        """What a runtime can be asked for, from any thread."""

        workers: int
        active_workers: int
        """How many of them take tasks."""

        def part(self) -> Part:
            """Return what holds nothing yet."""

        def refuse(self, error: Exception, *, once: bool = False) -> None:
            """Cancel what has not begun, and raise this to whoever waits; once, or until `accept`."""

        def accept(self, error: Exception) -> None:
            """Raise it no longer."""


def _nowhere() -> Runs | None:
    return None


runtimes: list[Runs] = []
"""Those whose blocks were entered and not left, the innermost last."""

here: Callable[[], Runs | None] = _nowhere
"""Returns the runtime that a call of a task here would spawn into; set by who has runtimes."""

_blocks: ContextVar[tuple[Block, ...]] = ContextVar("tprof_blocks", default=())


def enter(runtime: Runs) -> None:
    """Take note of a runtime whose block this thread or coroutine enters."""
    runtimes.append(runtime)
    for block in _blocks.get():
        block.begun.append(runtime)


class Everything:
    """All that runs in this process, whoever began it."""

    def runtimes(self) -> list[Runs]:
        """Return the runtimes to hold back."""
        return runtimes.copy()

    def refuse(self, error: Exception) -> None:
        """Cancel what has not begun; each runtime raises this once, to the next that waits."""
        for runtime in self.runtimes():
            runtime.refuse(error, once=True)

    def accept(self, error: Exception) -> None:
        """Raise it no longer."""
        for runtime in self.runtimes():
            runtime.accept(error)


class Block:
    """What a block of the program has a say in: what it spawns into the runtime around it, and runtimes begun inside.

    Threads that the block starts are not followed: what is current in them is not known here.
    """

    def __init__(self, *, cancels: bool) -> None:
        """Begin where the block does; `cancels`: it may have to refuse what is spawned."""
        self.begun: list[Runs] = []
        self._around = here()
        self._part = self._around.part() if cancels and self._around is not None else None
        if self._part is not None:
            self._part.begin()
        _blocks.set((*_blocks.get(), self))

    def runtimes(self) -> list[Runs]:
        """Return the runtimes to hold back: those begun inside, or else the one around."""
        inside = [runtime for runtime in self.begun if runtime in runtimes]
        return inside or [runtime for runtime in runtimes if runtime is self._around]

    def refuse(self, error: Exception) -> None:
        """Cancel what was spawned inside and has not begun, and raise this to whoever waits for it."""
        if self._part is not None:
            self._part.refuse(error)
        for runtime in self.begun:
            if runtime in runtimes:
                runtime.refuse(error)

    def accept(self, error: Exception) -> None:
        """Raise it no longer."""
        for runtime in self.begun:
            runtime.accept(error)

    def end(self) -> None:
        """Follow nothing more; a coroutine may end in another context than it began in."""
        if self._part is not None:
            self._part.end()
        _blocks.set(tuple(block for block in _blocks.get() if block is not self))
