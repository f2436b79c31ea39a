"""Blocks without interruption: signal handlers, including that of Ctrl-C, run at their end."""

from __future__ import annotations

from tprof import _core


class Uninterrupted:
    """Defers the handlers of signals to the end of its block, which must be short.

    An exception of a handler is raised at the end of the block. Blocks may be nested.
    """

    def __enter__(self) -> None:
        _core.hold_signals()

    def __exit__(self, *_: object) -> None:
        _core.release_signals()
