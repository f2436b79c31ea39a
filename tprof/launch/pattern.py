"""Patterns of ``--task``: functions by module, file, package or regular expression."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_WILDCARDS = frozenset("*?[")
_FORMS = (
    "MODULE:FUNCTION such as mymodule:blur or __main__:*, a package such as mypackage.*, "
    "a file such as blur.py or blur.py:load, or re:EXPRESSION"
)


@dataclass(frozen=True)
class Pattern:
    """One ``--task``.

    Attributes
    ----------
    text : as given, with absolute files, for child processes.
    shown : as given.
    module : wildcard for names of modules; None for the other forms.
    file : wildcard for absolute paths; None for the other forms.
    function : wildcard for functions; None for an expression.
    expression : must match the whole of ``module:function``; None for the other forms.
    """

    text: str
    shown: str
    module: str | None = None
    file: str | None = None
    function: str | None = None
    expression: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Parse a pattern. Raises UsageError."""
        if text.startswith("re:"):
            return cls(text, text, expression=_compile(text))
        where, colon, function = text.rpartition(":")
        if not colon:
            where, function = text, "*"
        if where.endswith(".py") and function:
            file = os.path.abspath(where)  # noqa: PTH100 - links stay, as in the names of code
            return cls(f"{file}:{function}", text, file=file, function=function)
        if not colon and text.endswith(".*") and len(text) > 2:
            return cls(text, text, module=text[:-2], function="*")
        if not (colon and where and function) or ":" in where:
            raise UsageError(f"--task must be {_FORMS}, got {text!r}")
        return cls(text, text, module=where, function=function)

    @property
    def is_package(self) -> bool:
        """Whether it stands for a package with all its modules."""
        return self.module is not None and ":" not in self.text

    @property
    def exact(self) -> bool:
        """Whether it names module and function in full, so that it can match any callable."""
        return self.module is not None and not _WILDCARDS & set(self.text)

    def __str__(self) -> str:
        return self.shown

    def matches_module(self, names: Iterable[str], file: str | None) -> bool:
        """Whether it can match functions of a module with these names, or of this file."""
        if self.expression is not None:
            return True
        if self.file is not None:
            return file is not None and _is_file(file, self.file)
        return any(self._names_module(name) for name in names)

    def matches(self, names: Iterable[str], file: str | None, qualname: str) -> bool:
        """Whether it matches the function by its qualified name; an inner function also by shorter names."""
        if not self.matches_module(names, file) or (_is_nameless(qualname) and not self._spells(qualname)):
            return False
        if self.expression is not None:
            return any(self.expression.fullmatch(f"{name}:{one}") for name in names for one in _called(qualname))
        return any(fnmatchcase(one, self.function or "") for one in _called(qualname))

    def _names_module(self, name: str) -> bool:
        module = self.module or ""
        if self.is_package and (name == module or name.startswith(f"{module}.")):
            return True
        return fnmatchcase(name, module) or (self.is_package and fnmatchcase(name, f"{module}.*"))

    def _spells(self, qualname: str) -> bool:
        return qualname.rpartition(".")[2] in self.text


def _compile(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text[3:])
    except re.error as error:
        raise UsageError(
            f"--task {text} is no regular expression: {error}; it is matched against module:function"
        ) from None


def _is_file(file: str, wildcard: str) -> bool:
    if file.startswith("<"):
        return False
    # runpy names its code as given.
    return any(fnmatchcase(one, wildcard) for one in (os.path.abspath(file), os.path.realpath(file)))  # noqa: PTH100


def _is_nameless(qualname: str) -> bool:
    """Whether it is a lambda, a comprehension, or a compiler-generated function for annotations."""
    last = qualname.rpartition(".")[2]
    return last.startswith("<") or last in {"__annotate__", "__annotate_func__"}


def _called(qualname: str) -> set[str]:
    return {qualname, qualname.replace("<locals>.", ""), qualname.rpartition("<locals>.")[2]}


def parse_patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Parse several patterns. Raises UsageError."""
    return tuple(Pattern.parse(text) for text in texts)
