"""The task runtimes that run in this process, the innermost last: what a budget can hold back or cancel.

They enter themselves, since this package knows nothing of runtimes.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from typing import Protocol

    class Runs(Protocol):
        """What a runtime can be asked for, from any thread."""

        workers: int
        active_workers: int
        """How many of them take tasks."""

        def refuse(self, error: Exception | None) -> None:
            """Cancel what has not begun, and raise this to whoever waits; None: no longer."""


runtimes: list[Runs] = []
