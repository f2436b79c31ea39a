"""Blocks that are done whole: the handlers of signals, Ctrl-C's too, run at their end."""

from __future__ import annotations

from tprof import _core


class Uninterrupted:
    """Lets no handler of a signal run between the begin and the end of its block, which is to be short.

    What a handler raises is raised where the block ends. Blocks may lie in one another.
    """

    def __enter__(self) -> None:
        _core.hold_signals()

    def __exit__(self, *_: object) -> None:
        _core.release_signals()
