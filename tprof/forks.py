"""What this package does around a fork of the program, so that it neither loses nor prints anything by it.

Where Python calls the hooks of a fork, it drops what a signal's handler raises, and it has yet to count the threads of
which it warns. So the core holds signals and does what takes time when the fork has returned (csrc/binding_forks.c).
Threads of our own end before a fork and begin again after it.
"""

from __future__ import annotations

import os

from tprof import _core

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Pausing(Protocol):
        """What has a thread."""

        def pause(self) -> None:
            """End the thread."""

        def go_on(self) -> None:
            """Begin it again, if it was paused and is still wanted."""


_pausing: list[Pausing] = []
_resets: list[Callable[[], object]] = []
_joins: list[Callable[[], object]] = []


def pause_around(pausing: Pausing) -> None:
    """Let it have no thread while a process forks."""
    _pausing.append(pausing)


def pause_no_more(pausing: Pausing) -> None:
    """Leave it alone."""
    if pausing in _pausing:
        _pausing.remove(pausing)


def reset_in_child(reset: Callable[[], object]) -> None:
    """Call this in each forked child before anything else of ours is used there: locks may have been held."""
    _resets.append(reset)


def join_in_child(join: Callable[[], object]) -> None:
    """Call this in a forked child of a process that records, when the fork has returned."""
    _joins.append(join)


def _pause() -> None:
    for pausing in _pausing.copy():
        pausing.pause()


def _go_on() -> None:
    for pausing in _pausing.copy():
        pausing.go_on()


def _reset() -> None:
    _pausing.clear()
    for reset in _resets:
        reset()


def _join() -> None:
    for join in _joins:
        join()


_core.set_fork_work((_pause, _go_on, _reset, _join))
if _core.is_main_interpreter():  # no other one can fork
    os.register_at_fork(
        before=_core.fork_before, after_in_parent=_core.fork_in_parent, after_in_child=_core.fork_in_child
    )
