"""What stands in a profile for what it lacks."""

from typing import Any

from tprof.errors import UsageError


class Absent:
    """Stands for what a profile lacks: all that is asked of it raises a UsageError, which says why."""

    def __init__(self, why: str) -> None:
        """Begin with a sentence on why it is not there, and what there is instead."""
        self._why = why

    def __getattr__(self, name: str) -> Any:
        """Raise UsageError."""
        if name.startswith("__"):  # asked by the interpreter and by pickle
            raise AttributeError(name)
        raise UsageError(self._why)
