"""Finds the code of modules and the functions in it, without running it."""

from __future__ import annotations

import importlib.machinery
import os
import pkgutil
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

FUNCTION = 0x1  # the bit of co_flags that is not set for modules and class bodies
_ANNOTATIONS = frozenset({"__annotate__", "__annotate_func__"})


def functions_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code of each function that is defined in this code, at any depth, lambdas and methods too."""
    waiting = [code]
    while waiting:
        for constant in waiting.pop().co_consts:
            if isinstance(constant, types.CodeType):
                if constant.co_flags & FUNCTION and constant.co_name not in _ANNOTATIONS:
                    yield constant
                waiting.append(constant)


def code_of(spec: ModuleSpec) -> types.CodeType | None:
    """Return a module's code without running it; None if it has none or does not compile."""
    loader: Any = spec.loader
    if loader is None or not hasattr(loader, "get_code"):
        return None
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # who only looks leaves no file behind
    try:
        code: types.CodeType | None = loader.get_code(spec.name)
    except (ImportError, SyntaxError, OSError, ValueError):
        return None
    finally:
        sys.dont_write_bytecode = before
    return code


def find_modules(name: str) -> Iterator[ModuleSpec]:
    """Yield the module of this name, and all below it if it is a package, without importing packages."""
    spec = _find(name)
    if spec is None:
        return
    yield spec
    for found in pkgutil.iter_modules(spec.submodule_search_locations or [], f"{name}."):
        yield from find_modules(found.name)


def _find(name: str) -> ModuleSpec | None:
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    for end in [*(at for at, letter in enumerate(name) if letter == "."), len(name)]:
        spec = _find_spec(name[:end], path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return spec


def _find_spec(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec
    return None


def spec_of_file(file: str, name: str) -> ModuleSpec:
    """Return the spec of a script with this name."""
    path = os.path.abspath(file)  # noqa: PTH100 - links stay, as in the names of code
    loader = importlib.machinery.SourceFileLoader(name, path)
    return importlib.machinery.ModuleSpec(name, loader, origin=path)
