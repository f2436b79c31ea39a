"""The work of this package around a fork of the program, so that a fork neither loses nor prints anything.

Python drops exceptions that a signal handler raises inside a fork hook, and counts threads for its warning only after
the hooks. So the core holds signals and defers slow work until the fork has returned (csrc/binding_forks.c). Our own
threads end before a fork and start again after it.
"""

from __future__ import annotations

import os

from tprof import _core

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Pausing(Protocol):
        """An object with a thread."""

        def pause(self) -> None:
            """End the thread."""

        def resume(self) -> None:
            """Start it again, if it was paused and not stopped."""


_pausing: list[Pausing] = []
_resets: list[Callable[[], object]] = []
_joins: list[Callable[[], object]] = []


def pause_around(pausing: Pausing) -> None:
    """Register an object whose thread must not run during a fork."""
    _pausing.append(pausing)


def pause_no_more(pausing: Pausing) -> None:
    """Unregister an object."""
    if pausing in _pausing:
        _pausing.remove(pausing)


def reset_in_child(reset: Callable[[], object]) -> None:
    """Register a function for each forked child, called before other code of ours: locks may have been held."""
    _resets.append(reset)


def join_in_child(join: Callable[[], object]) -> None:
    """Register a function for forked children of a recording process, called when the fork has returned."""
    _joins.append(join)


def _pause() -> None:
    for pausing in _pausing.copy():
        pausing.pause()


def _resume() -> None:
    for pausing in _pausing.copy():
        pausing.resume()


def _reset() -> None:
    _pausing.clear()
    for reset in _resets:
        reset()


def _join() -> None:
    for join in _joins:
        join()


_core.set_fork_work((_pause, _resume, _reset, _join))
if _core.is_main_interpreter():  # no other one can fork
    os.register_at_fork(
        before=_core.fork_before, after_in_parent=_core.fork_in_parent, after_in_child=_core.fork_in_child
    )
