"""The runtimes whose blocks are entered: which one receives a call, and what a fork or the program's end does.

A call inside a task is its own runtime's. Any other call is the innermost one's that takes such calls.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from tprof.runtime import _scheduler

from tprof import _core
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Callable

END_TIMEOUT_S = 5.0
"""Longest wait for running tasks of a program that ends inside the block."""


class Enterable(ABC):
    """A runtime, as this module sees it.

    Attributes
    ----------
    takes_calls : whether a call of a task outside all tasks spawns here while the block is entered
    """

    takes_calls = True

    @property
    @abstractmethod
    def native(self) -> _scheduler.Scheduler | None:
        """The native scheduler; None for a runtime of a cluster."""

    @property
    @abstractmethod
    def spawner(self) -> Callable[..., Any]:
        """What takes a task and its arguments over, outside tasks."""

    @abstractmethod
    def end_with_program(self, deadline_s: float) -> None:
        """End, since the program ends inside the block; running tasks have until then (`time.monotonic`)."""

    @abstractmethod
    def abandon(self) -> None:
        """Forget the threads, in a forked child."""


def receiver() -> Enterable | None:
    """Return the runtime that would receive a call of a task here."""
    innermost = _innermost()
    if innermost is not None and innermost.native is None and _scheduler.current_slot() is None:
        return innermost
    here = _scheduler.current_scheduler()
    return next((runtime for runtime in _entered() if here is not None and runtime.native is here), None)


def _innermost() -> Enterable | None:
    """Return the innermost runtime that takes calls from outside tasks."""
    return next((runtime for runtime in reversed(_entered()) if runtime.takes_calls), None)


def _entered() -> list[Enterable]:
    return [runtime for runtime in this_process.runtimes.entered if isinstance(runtime, Enterable)]


_default_lock = threading.RLock()
"""Reentrant, since a signal's handler may enter a runtime too."""


def set_default() -> None:
    """Set the default runtime of other threads; called after each change, so that the last call sets the right one."""
    with _default_lock:
        innermost = _innermost()
        _scheduler.set_default(None if innermost is None else innermost.native)
        spawner = _scheduler.spawn if _entered() else None
        _core.set_spawner(spawner if innermost is None else innermost.spawner)


def _forget_in_child() -> None:
    _default_lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
    for runtime in _entered():
        runtime.abandon()
    this_process.runtimes.entered.clear()
    _scheduler.forget_thread()
    set_default()


def _end_with_program() -> None:
    """End runtimes whose blocks were never left, in a program that ends: cancel tasks that have not begun.

    Running tasks have some time to end. The interpreter stops threads anywhere, and a numerical library in the middle
    of a product may hang when the process unloads it.
    """
    deadline_s = time.monotonic() + END_TIMEOUT_S
    for runtime in reversed(_entered()):
        with contextlib.suppress(KeyboardInterrupt):
            runtime.end_with_program(deadline_s)


this_process.reset_in_child(_forget_in_child)
atexit.register(_end_with_program)
