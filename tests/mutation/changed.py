"""Puts a mutant into a process: into functions that are loaded, or where the module is loaded."""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from inspect import CO_NEWLOCALS
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

import pytest
from forked import BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.machinery import ModuleSpec

    from mutants import Mutant


def module_of(path: str) -> str:
    """Return the name under which a file of the checkout is installed."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("tprof") else f"tprof.{name}"


class LoadedFunctions:
    """The functions of modules that are loaded, wherever they are referred to."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Load the modules of these files, and find their functions."""
        files = {path: importlib.import_module(module_of(path)).__file__ for path in paths}
        self._functions: dict[str, list[FunctionType]] = {path: [] for path in files}
        by_file = {file: path for path, file in files.items()}
        gc.unfreeze()
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename in by_file:
                self._functions[by_file[one.__code__.co_filename]].append(one)
        gc.freeze()

    def changes(self, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
        """Return the functions that a mutant changes, with their code; nothing if it changes what runs at load."""
        before, after = (compile(source, mutant.path, "exec") for source in (mutant.original, mutant.source))
        if [_plain(one) for one in _at_load(before)] != [_plain(one) for one in _at_load(after)]:
            return []
        olds, news = _codes(before), _codes(after)
        if [one.co_qualname for one in olds] != [one.co_qualname for one in news]:
            return []
        changed = [(old, new) for old, new in zip(olds, news, strict=True) if not _same(old, new)]
        return [
            (function, new.replace(co_filename=function.__code__.co_filename))
            for function in self._functions[mutant.path]
            for old, new in changed
            if old.co_firstlineno == function.__code__.co_firstlineno and _same(old, function.__code__)
        ]


COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _at_load(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module, of its classes, and of comprehensions in these."""
    yield code
    for one in _inner(code):
        if not one.co_flags & CO_NEWLOCALS or one.co_name in COMPREHENSIONS:
            yield from _at_load(one)


def _codes(code: CodeType) -> list[CodeType]:
    """Return all code, in the order of the source."""
    return [code, *(inner for one in _inner(code) for inner in _codes(one))]


def _plain(code: CodeType) -> tuple[object, ...]:
    """Return what code does, without that of code inside it and without its lines."""
    consts = [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable


def _same(one: CodeType, other: CodeType) -> bool:
    inner, others = _inner(one), _inner(other)
    return _plain(one) == _plain(other) and len(inner) == len(others) and all(map(_same, inner, others))


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a module from another source; a plugin of pytest, whose own loader takes all modules of tprof otherwise."""

    def __init__(self, path: str, source: str) -> None:
        self._name, self._path, self._source = module_of(path), path, source
        self._is_loaded = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Come before pytest's loader, which exists now, and before the tests load tprof."""
        assert self._name not in sys.modules
        sys.meta_path.insert(0, self)

    def pytest_sessionfinish(self) -> None:
        """End the run as broken if its tests did not meet the other source."""
        if not self._is_loaded:
            os.write(2, f"{self._name} was not loaded from the other source\n".encode())
            os._exit(BROKEN)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the module's own place, with this as its loader."""
        del target
        if name != self._name:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        assert found is not None
        assert found.origin is not None
        return importlib.util.spec_from_file_location(
            name, found.origin, loader=self, submodule_search_locations=found.submodule_search_locations
        )

    def get_code(self, _: str) -> CodeType:
        """Compile the other source."""
        return compile(self._source, self._path, "exec")

    def exec_module(self, module: object) -> None:
        """Run the other source as the module."""
        self._is_loaded = True
        exec(self.get_code(self._name), vars(module))  # noqa: S102 - that is what a loader does
