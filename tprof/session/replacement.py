"""Calls back before another program takes this one's place in its process (`os.execv`), which ends all threads."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = ("execv", "execve")
"""All other functions of the kind call one of these."""


class Replacement:
    """Watches `os.exec*` of this process, not of its forked children, until it is closed."""

    def __init__(self, call_back: Callable[[str], None]) -> None:
        """Call back with the name of the new program, once, just before it takes this one's place."""
        self._call_back: Callable[[str], None] | None = call_back
        self._pid = os.getpid()
        self._genuine = {name: getattr(os, name) for name in _NAMES}
        self._ours = {name: self._watched(genuine) for name, genuine in self._genuine.items()}
        for name, ours in self._ours.items():
            setattr(os, name, ours)
            if self._genuine[name] in os.supports_fd:
                os.supports_fd.add(ours)

    def close(self) -> None:
        """Put the functions back, unless another has replaced them meanwhile."""
        self._call_back = None
        for name, ours in self._ours.items():
            os.supports_fd.discard(ours)
            if getattr(os, name) is ours:
                setattr(os, name, self._genuine[name])

    def _watched(self, genuine: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(genuine)
        def execute(path: Any, argv: Any, *others: Any, **named: Any) -> Any:
            environment = others[0] if others else named.get("env", {})
            call_back = self._call_back if os.getpid() == self._pid else None
            if call_back is not None and _can_be_executed(path, argv, environment):
                self._call_back = None
                call_back(os.fsdecode(path) if not isinstance(path, int) else "an open file")
            return genuine(path, argv, *others, **named)

        return execute


def _can_be_executed(path: Any, argv: Any, environment: Any) -> bool:
    """Return whether a call will most likely succeed: `os.execvp` tries each folder of PATH."""
    try:
        names = [os.fsencode(name) for name in environment]
        words = [*names, *(os.fsencode(word) for word in (*argv, *environment.values()))]
        if not argv or not argv[0] or any(b"\0" in word for word in words) or any(b"=" in name for name in names):
            return False
        return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
    except (AttributeError, TypeError, ValueError):
        return False
