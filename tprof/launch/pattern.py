"""What ``--task MODULE:FUNCTION`` names, with wildcards."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class Pattern:
    """One MODULE:FUNCTION; both halves may hold the shell's wildcards."""

    module: str
    function: str

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read MODULE:FUNCTION. Raises UsageError."""
        module, colon, function = text.partition(":")
        if not (module and colon and function) or ":" in function:
            message = f"--task must be MODULE:FUNCTION such as mymodule:blur or __main__:*, got {text!r}"
            raise UsageError(message)
        return cls(module, function)

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"

    @property
    def exact(self) -> bool:
        """Whether the function is named in full, so that any callable may be meant."""
        return not _WILDCARDS & set(self.function)

    def names_module(self, names: Iterable[str]) -> bool:
        """Whether one of the names under which a module is known is meant."""
        return any(fnmatchcase(name, self.module) for name in names)


def parse_patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Read several. Raises UsageError."""
    return tuple(Pattern.parse(text) for text in texts)
