"""Replaces callables by tasks where code objects cannot be tasks: non-Python functions, and modules without source."""

from __future__ import annotations

import gc
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.task import NUMBER_ATTRIBUTE, make_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .matches import Matches

_PLAIN = (types.FunctionType, staticmethod, classmethod)
_IMMUTABLE = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE: the attributes of such a type, as Cython and C define them, cannot be set."""


def replace_callables(namespace: dict[str, Any], matches: Matches, names: Sequence[str]) -> None:
    """Replace callables without Python code, such as C functions, by tasks if a pattern names them in full."""
    file, name = namespace.get("__file__"), namespace.get("__name__")
    for pattern in matches.patterns:
        if not pattern.exact or pattern.function is None or not pattern.matches_module(names, file):
            continue
        owner, value = _find(namespace, pattern.function)
        if not _is_defined_in(value, name) or _has_code(value) or not callable(value):
            continue
        if isinstance(owner, dict):
            owner[pattern.function] = make_task(value)
        else:
            setattr(owner, pattern.function.rpartition(".")[2], make_task(value))
        matches.note(names, file or "", [(pattern.function, 0, matches.which(names, file, pattern.function))])


def _find(namespace: dict[str, Any], qualified: str) -> tuple[Any, Any]:
    first, *others = qualified.split(".")
    owner: Any = namespace
    value: Any = namespace.get(first)
    for name in others:
        owner, value = value, vars(value).get(name) if hasattr(value, "__dict__") else None
    return owner, value


def _has_code(value: Any) -> bool:
    inner = value.func if isinstance(value, partial) else getattr(value, "__wrapped__", value)
    return isinstance(inner, _PLAIN) or hasattr(inner, NUMBER_ATTRIBUTE) or hasattr(inner, "__code__")


def patch_module(module: types.ModuleType, matches: Matches, names: Sequence[str]) -> None:
    """Replace the functions and methods of a loaded module by tasks: one without source, or imported before.

    A function that something else holds too stays: pickle compares it with what stands in the module.
    """
    file = getattr(module, "__file__", None)
    if not matches.may_match(names, file):
        return
    found = []
    for owner, qualified in [(owner, qualified) for owner, qualified, _ in members(module, module, "")]:
        name = qualified.rpartition(".")[2]
        code = getattr(getattr(vars(owner)[name], "__func__", vars(owner)[name]), "__code__", None)
        which = matches.which(names, file, qualified)
        if which and not has_task(code):
            if len(gc.get_referrers(vars(owner)[name])) > 1:
                which = []
            else:
                setattr(owner, name, make_task(vars(owner)[name]))
        found.append((qualified, code.co_firstlineno if code is not None else 0, which))
    matches.note(names, file or "", found)
    replace_callables(vars(module), matches, names)


def has_task(code: types.CodeType | None) -> bool:
    """Return whether the body of a function is a task by a block in its code."""
    return code is not None and any(isinstance(constant, _core.Region) for constant in code.co_consts)


def members(module: types.ModuleType, owner: Any, prefix: str) -> Iterator[tuple[Any, str, Any]]:
    """Yield the functions and methods that a module defines: where each is, its qualified name, and itself."""
    for name, value in list(vars(owner).items()):
        qualified = f"{prefix}{name}"
        if isinstance(value, type):
            is_own = value.__module__ == module.__name__ and value.__qualname__ == qualified
            if is_own and not value.__flags__ & _IMMUTABLE:
                yield from members(module, value, f"{qualified}.")
        elif isinstance(value, _PLAIN) and _is_defined_in(value, module.__name__) and "." not in name:
            yield owner, qualified, value


def _is_defined_in(value: object, module: str | None) -> bool:
    inner = getattr(value, "__func__", value)
    is_class = isinstance(inner, type)  # classmethod(GenericAlias)
    return not is_class and getattr(inner, "__module__", None) == module
