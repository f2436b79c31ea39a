"""Makes tasks of the functions that match patterns without changing their code, on Python 3.12 and newer.

An observer sees code at its first start, by the import system, runpy, coverage, pytest or `exec`. The code of a module
contains all its functions, which are selected before their first call; a function seen by itself was sent by value,
for example by cloudpickle. Code that started earlier is found among the live functions. Only the methods that
dataclass writes have no name in their code: they are selected when dataclass returns their class.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.session.process_state import this_process

from .adopt import replace_callables
from .codes import FUNCTION, functions_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .matches import Matches
    from .monitored import Monitored

SPAWNED_MAIN = "__mp_main__"
_COPIED_MAIN = frozenset({SPAWNED_MAIN, "<fake __main__>"})
"""Names of the main program when it is loaded again: in a spawned process, and in another interpreter."""
_WRITTEN = "<string>"


class Selection:
    """The selection of code in this process."""

    def __init__(
        self, tool: Monitored, matches: Matches, main_names: Sequence[str], main_file: str, *, is_child: bool
    ) -> None:
        """Store the recording tool, the patterns, and the names and file of the main program."""
        self._tool = tool
        self._matches = matches
        self._main_names = list(main_names)
        self._main_file = os.path.realpath(main_file)
        self._is_child = is_child

    def begin(self) -> None:
        """Select in imported modules, and from now on in all code at its first start."""
        self._tool.unseen(Selection._select_alive, self)
        self._tool.files[_WRITTEN] = True
        self._tool.begin(self._classify)

    def select_in_main(self, code: types.CodeType) -> None:
        """Select in the main program if it is a text, since generated code has the same file name."""
        if code.co_filename == _WRITTEN:
            self._tool.unseen(self._choose_in_main, code)

    def _choose_in_main(self, code: types.CodeType) -> None:
        if self._matches.may_match(self._main_names, _WRITTEN):
            self._choose(_WRITTEN, list(functions_in(code)), self._main_names)

    def selects(self, function: Any, code: types.CodeType) -> bool:
        """Return whether a pattern matches a function, which may not have started yet."""
        names = self._names(function.__globals__, code.co_filename)
        return bool(self._matches.which(names, code.co_filename, code.co_qualname))

    def _select_alive(self) -> None:
        """Select live functions of modules that were imported before."""
        for code in this_process.tasks.codes():
            self._tool.release(code)
        if "dataclasses" in sys.modules:
            self._observe_dataclass(vars(sys.modules["dataclasses"]))
        for module, functions in live_functions(self._matches, self._main_names):
            self._select_functions(module, functions)

    def _select_functions(self, module: types.ModuleType, functions: Sequence[types.FunctionType]) -> None:
        codes = {id(one.__code__): one.__code__ for one in functions if not _is_written(one)}
        by_file: dict[str, list[types.CodeType]] = {}
        for code in codes.values():
            by_file.setdefault(code.co_filename, []).extend([code, *functions_in(code)])
        for file, all_of_file in by_file.items():
            self._choose(file, all_of_file, self._names(vars(module), file))
        for function in filter(_is_written, functions):
            self._select_written(function)
        replace_callables(vars(module), self._matches, [module.__name__])

    def _choose(self, file: str, codes: Sequence[types.CodeType], names: Sequence[str]) -> None:
        for code in self._matches.choose(file, codes, names):
            self._tool.select(code)

    def _select_written(self, function: types.FunctionType) -> None:
        """Select a generated function, under the name that it was given."""
        code, module = function.__code__, function.__globals__
        names = self._names(module, module.get("__file__"))
        which = self._matches.which(names, None, function.__qualname__)
        if which:
            number = this_process.tasks.define(
                function.__qualname__, file=code.co_filename, line=code.co_firstlineno, code=code
            )
            self._tool.select_as(code, number)
            self._matches.note(names, code.co_filename, [(function.__qualname__, code.co_firstlineno, which)])

    def _names(self, namespace: dict[str, Any], file: object) -> list[str]:
        """Return the module names for code of this file that runs in this namespace."""
        name, spec = namespace.get("__name__"), namespace.get("__spec__")
        if name != "__main__" and name not in _COPIED_MAIN:
            return [name] if isinstance(name, str) else []
        if name in _COPIED_MAIN or (isinstance(file, str) and os.path.realpath(file) == self._main_file):
            return self._main_names
        own = [spec.name] if spec is not None else [Path(file).stem] if isinstance(file, str) else []
        # A tool such as coverage runs the program as __main__; another process runs another program.
        return own if self._is_child else ["__main__", *own]

    def _classify(self, frame: types.FrameType) -> None:
        """Handle the first start of code."""
        code = frame.f_code
        file = code.co_filename
        names = self._names(frame.f_globals, file)
        is_module = code.co_name == "<module>" and not code.co_flags & FUNCTION
        if is_module and names == ["dataclasses"]:
            self._tool.on_return(code, lambda ended, _: self._observe_dataclass(ended.f_globals))
        elif not self._matches.may_match(names, file):
            self._tool.files[file] = True
        elif is_module:
            self._choose(file, list(functions_in(code)), names)
            if any(pattern.exact for pattern in self._matches.patterns):
                self._tool.on_return(code, lambda ended, _: replace_callables(ended.f_globals, self._matches, names))
        elif code.co_flags & FUNCTION:
            self._choose(file, [code, *functions_in(code)], names)

    def _observe_dataclass(self, namespace: dict[str, Any]) -> None:
        process = namespace.get("_process_class")
        if isinstance(process, types.FunctionType):
            self._tool.on_return(process.__code__, lambda _, made: self._class_made(made))

    def _class_made(self, made: Any) -> None:
        """Handle a class for which dataclass has written methods."""
        for value in vars(made).values() if isinstance(made, type) else ():
            if isinstance(value, types.FunctionType) and _is_written(value):
                self._select_written(value)


def modules_meant(matches: Matches, main_names: Sequence[str]) -> list[tuple[str, types.ModuleType]]:
    """Return the imported modules with possible matches, without the main program and tprof."""
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and module.__name__ == name
        and name not in main_names
        and name.partition(".")[0] != "tprof"
        and matches.may_match([name], getattr(module, "__file__", None))
    ]


def live_functions(
    matches: Matches, main_names: Sequence[str]
) -> list[tuple[types.ModuleType, list[types.FunctionType]]]:
    """Return the imported modules with possible matches, each with its functions, whatever holds these."""
    found: dict[int, tuple[types.ModuleType, list[types.FunctionType]]] = {
        id(vars(module)): (module, []) for _, module in modules_meant(matches, main_names)
    }
    for value in gc.get_objects() if found else ():
        if type(value) is types.FunctionType and id(value.__globals__) in found:
            found[id(value.__globals__)][1].append(value)
    return list(found.values())


def _is_written(function: types.FunctionType) -> bool:
    """Whether its source was generated, as by dataclass: its code has neither its name nor its file."""
    return function.__code__.co_filename == _WRITTEN
