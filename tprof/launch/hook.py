"""Applies patterns to a program and to the modules that it imports."""

from __future__ import annotations

import importlib.abc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .descendants import install_in_new_interpreters
from .matches import Matches
from .monitored import monitored
from .pattern import parse_patterns
from .rewrite import compile_with_tasks

if TYPE_CHECKING:
    import types
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

    from .selection import Selection


class _Rewriting(importlib.abc.MetaPathFinder):
    """Delegates to the other finders, and compiles modules that match a pattern with tasks."""

    def __init__(self, matches: Matches, main_names: Sequence[str]) -> None:
        self.matches = matches
        self.main_names = main_names

    def begin(self) -> None:
        """Make tasks in modules that are imported already, and in later ones."""
        from .adopt import patch_module
        from .selection import modules_meant

        for name, module in modules_meant(self.matches, self.main_names):
            patch_module(module, self.matches, [name])
        self._rewrite_runs()
        sys.meta_path.insert(0, self)

    def compile_main(self, source: bytes | types.CodeType, file: str) -> types.CodeType:
        """Return the code of the main program."""
        if not isinstance(source, bytes):
            return source
        return compile_with_tasks(source, file, self.matches, self.main_names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module; its loader compiles it with tasks if a pattern can match."""
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                meant = self.matches.may_match(self._names(name), spec.origin)
                if meant and spec.loader is not None and not isinstance(spec.loader, type):
                    self._extend(spec.loader, name)
                return spec
        return None

    def _names(self, name: str) -> Sequence[str]:
        return self.main_names if name in self.main_names else [name]

    def _extend(self, loader: Any, name: str) -> None:
        compiled = hasattr(loader, "source_to_code") and hasattr(loader, "get_data")

        def get_code(_: str) -> types.CodeType:
            file = loader.get_filename(name)
            return compile_with_tasks(loader.get_data(file), file, self.matches, self._names(name))

        if compiled:
            loader.get_code = get_code
        if not compiled or self._names_more(name, loader):
            self._adopt_after(loader, compiled=compiled)

    def _names_more(self, name: str, loader: Any) -> bool:
        """Whether a pattern names in full an object that the module's source does not define as a function."""
        file = loader.get_filename(name)
        source: bytes = loader.get_data(file)
        exact = [one for one in self.matches.patterns if one.exact and one.matches_module(self._names(name), file)]
        return any(f"def {(one.function or '').rpartition('.')[2]}".encode() not in source for one in exact)

    def _adopt_after(self, loader: Any, *, compiled: bool) -> None:
        from .adopt import patch_module, replace_callables

        execute = loader.exec_module

        def execute_and_adopt(module: types.ModuleType) -> None:
            execute(module)
            names = self._names(module.__name__)
            if compiled:
                replace_callables(vars(module), self.matches, names)
            else:
                patch_module(module, self.matches, names)

        loader.exec_module = execute_and_adopt

    def _rewrite_runs(self) -> None:
        """Make tasks in code run by runpy: finders do not see scripts, such as the main program in a spawned child."""
        import runpy

        from .selection import SPAWNED_MAIN

        run_code = runpy._run_code  # type: ignore[attr-defined]  # noqa: SLF001

        def run_with_tasks(
            code: types.CodeType,
            namespace: Any,
            given: Any = None,
            name: str | None = None,
            spec: Any = None,
            *others: Any,
        ) -> Any:
            if name == SPAWNED_MAIN or spec is None:
                code = self._with_tasks(code, self.main_names if name == SPAWNED_MAIN else [])
            return run_code(code, namespace, given, name, spec, *others)

        runpy._run_code = run_with_tasks  # type: ignore[attr-defined]  # noqa: SLF001

    def _with_tasks(self, code: types.CodeType, names: Sequence[str]) -> types.CodeType:
        file = code.co_filename
        if not self.matches.may_match(names, file):
            return code
        try:
            return compile_with_tasks(Path(file).read_bytes(), file, self.matches, names)
        except (OSError, SyntaxError):
            return code  # compiled by another loader from another source


class Tasks:
    """The mechanism that makes tasks in this process, with the matches."""

    def __init__(self, texts: Sequence[str], main_names: Sequence[str], main_file: str) -> None:
        """Store patterns, the names that match the main program, and its file. Raises UsageError."""
        self.matches = Matches(parse_patterns(texts))
        self._main_names, self._main_file = main_names, main_file
        self._rewriting: _Rewriting | None = None
        self._selection: Selection | None = None

    def begin(self, *, is_child: bool = False) -> None:
        """Make tasks of functions that match, in modules that are imported already and in later ones."""
        tool = monitored()
        if tool is None:
            self._rewriting = _Rewriting(self.matches, self._main_names)
            self._rewriting.begin()
        else:
            from .selection import Selection

            self._selection = Selection(tool, self.matches, self._main_names, self._main_file, is_child=is_child)
            self._selection.begin()
            install_in_new_interpreters()

    def compile_main(self, source: bytes | types.CodeType, file: str) -> types.CodeType:
        """Return the code of the main program."""
        if self._rewriting is not None:
            return self._rewriting.compile_main(source, file)
        code: types.CodeType = compile(source, file, "exec", dont_inherit=True) if isinstance(source, bytes) else source
        if self._selection is not None:
            self._selection.select_in_main(code)
        return code
