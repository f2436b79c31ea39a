"""Makes tasks of the functions that patterns mean where their code stands, on Python 3.12 and newer.

A module's code is seen when the import system or runpy is about to execute it, so every function is selected before it
can be called, whoever holds it. What has no code there (methods that dataclass writes, loaders that compile for
themselves) is found in the module when it stands, and functions that cloudpickle brings along when it makes them. All
of it is told by the tool that records, through events of a handful of Python's own functions.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import registry

from .adopt import replace_callables
from .codes import functions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tprof.monitored import Monitored

    from .matches import Matches

SPAWNED_MAIN = "__mp_main__"


class Selection:
    """What is selected in this process."""

    def __init__(self, tool: Monitored, matches: Matches, main_names: Sequence[str], main_file: str) -> None:
        """Take the tool that records, the patterns, and under which names the main program is meant."""
        self._tool = tool
        self._matches = matches
        self._main_names = list(main_names)
        self._main_file = main_file
        self._executed: set[int] = set()
        self._places: dict[str, list[str]] = {main_file: self._main_names}
        self._observed: dict[tuple[str, str], Callable[[Any], object]] = {
            ("runpy", "_run_code"): self._tell_start(self._run_code),
            ("dataclasses", "_process_class"): self._tell_return(self._class_made),
        }

    def begin(self) -> None:
        """Select in what is imported already, and from now on whatever is imported."""
        self._tool.unseen(Selection._begin, self)

    def _begin(self) -> None:
        import importlib._bootstrap as bootstrap

        self._tell_start(self._execute)(bootstrap._call_with_frames_removed)  # type: ignore[attr-defined]  # noqa: SLF001
        self._tell_return(self._module_made)(bootstrap._load_unlocked)  # type: ignore[attr-defined]  # noqa: SLF001
        for module in list(sys.modules.values()):
            if isinstance(module, types.ModuleType):
                self._observe_in(module)
        self._select_alive()

    def select_main(self, code: types.CodeType) -> None:
        """Select in the main program, before it runs."""
        self._tool.unseen(lambda main: self._select_in(main, self._main_names), code)

    def _select_in(self, code: types.CodeType, names: Sequence[str]) -> None:
        if not code.co_filename.startswith("<"):
            self._places.setdefault(code.co_filename, list(names))
        for function in self._matches.choose(code.co_filename, functions_in(code), names):
            self._tool.select(function)

    def _select_alive(self) -> None:
        """Select functions of modules that were imported before, whoever holds them."""
        found: dict[int, tuple[types.ModuleType, list[types.FunctionType]]] = {
            id(vars(module)): (module, []) for name, module in modules_meant(self._matches, self._main_names)
        }
        if not found:
            return
        for value in gc.get_objects():
            if type(value) is types.FunctionType and id(value.__globals__) in found:
                found[id(value.__globals__)][1].append(value)
        for module, functions in found.values():
            self._select_functions(module, functions)

    def _select_functions(self, module: types.ModuleType, functions: Iterable[types.FunctionType]) -> None:
        """Select these of a module that stands, and what it has under names that are given in full."""
        tasks = registry.codes()
        codes = {id(one.__code__): one.__code__ for one in functions if id(one.__code__) not in tasks}
        written = [one for one in functions if _is_written(one)]
        for one in written:
            codes.pop(id(one.__code__), None)
            self._select_as(one)
        by_file: dict[str, list[types.CodeType]] = {}
        for code in codes.values():
            by_file.setdefault(code.co_filename, []).extend([code, *functions_in(code)])
        names = self._names(vars(module))
        for file, all_of_file in by_file.items():
            for chosen in self._matches.choose(file, all_of_file, names):
                self._tool.select(chosen)
        replace_callables(module, self._matches, names)

    def _select_as(self, function: types.FunctionType) -> None:
        """Select a function that a program wrote, under the name that it was given."""
        names, code = self._names(function.__globals__), function.__code__
        which = self._matches.which(names, None, function.__qualname__)
        if which:
            number = registry.define(function.__qualname__, file=code.co_filename, line=code.co_firstlineno, code=code)
            self._tool.select_as(code, number)
            self._matches.note(names, code.co_filename, [(function.__qualname__, code.co_firstlineno, which)])

    def _names(self, namespace: dict[str, Any]) -> list[str]:
        """Return under which names what runs in this namespace is meant."""
        name = namespace.get("__name__")
        spec = namespace.get("__spec__")
        if name == SPAWNED_MAIN or (name == "__main__" and self._is_main(namespace.get("__file__"))):
            return self._main_names
        if name == "__main__":
            return [spec.name] if spec is not None else []
        return [name] if isinstance(name, str) else []

    def _is_main(self, file: object) -> bool:
        return isinstance(file, str) and os.path.realpath(file) == os.path.realpath(self._main_file)

    # What is observed: the frame of one of Python's functions, and what it returns.

    def _tell_start(self, observer: Callable[[types.FrameType, Any], object]) -> Callable[[Any], object]:
        return lambda function: self._tool.on_start(function.__code__, observer)

    def _tell_return(self, observer: Callable[[types.FrameType, Any], object]) -> Callable[[Any], object]:
        return lambda function: self._tool.on_return(function.__code__, observer)

    def _observe_in(self, module: types.ModuleType) -> None:
        name = getattr(module, "__name__", "")
        for (where, function), observe in self._observed.items():
            if name == where and hasattr(module, function):
                observe(getattr(module, function))
        make = vars(module).get("_make_function")
        if isinstance(make, types.FunctionType) and str(name).rpartition(".")[2] == "cloudpickle":
            self._tell_start(self._function_made)(make)

    def _execute(self, frame: types.FrameType, _: Any) -> None:
        """See importlib, which is about to execute a module."""
        call = frame.f_locals
        arguments = call.get("args", ())
        if call.get("f") is exec and len(arguments) == 2 and isinstance(arguments[0], types.CodeType):
            self._executed.add(id(arguments[1]))
            self._select_in(arguments[0], self._names(arguments[1]))

    def _run_code(self, frame: types.FrameType, _: Any) -> None:
        """See runpy, which is about to execute a module or script as another name."""
        call = frame.f_locals
        code, name = call.get("code"), call.get("mod_name")
        if isinstance(code, types.CodeType):
            namespace = {"__name__": name, "__spec__": call.get("mod_spec"), "__file__": code.co_filename}
            self._select_in(code, self._names(namespace))

    def _module_made(self, _: types.FrameType, module: Any) -> None:
        """See a module that stands."""
        if not isinstance(module, types.ModuleType):
            return
        self._observe_in(module)
        seen = id(vars(module)) in self._executed
        self._executed.discard(id(vars(module)))
        if self._matches.means(self._names(vars(module)), getattr(module, "__file__", None)):
            own = _defined_in(module)
            self._select_functions(module, [one for one in own if _is_written(one)] if seen else own)

    def _class_made(self, _: types.FrameType, made: Any) -> None:
        """See a class for which dataclass has written methods."""
        for value in vars(made).values() if isinstance(made, type) else ():
            if isinstance(value, types.FunctionType) and _is_written(value):
                self._select_as(value)

    def _function_made(self, frame: types.FrameType, _: Any) -> None:
        """See cloudpickle, which makes a function that came by value."""
        code = frame.f_locals.get("code")
        if not isinstance(code, types.CodeType):
            return
        names = self._places.get(code.co_filename) or _names_of(code.co_filename)
        for function in self._matches.choose(code.co_filename, [code, *functions_in(code)], names):
            self._tool.select(function)


def modules_meant(matches: Matches, main_names: Sequence[str]) -> list[tuple[str, types.ModuleType]]:
    """Return the imported modules in which patterns can mean functions, the main program and tprof left out."""
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and module.__name__ == name
        and name not in main_names
        and not name.startswith("tprof")
        and matches.means([name], getattr(module, "__file__", None))
    ]


def _is_written(function: types.FunctionType) -> bool:
    """Whether a program wrote its source, as dataclass does: its code tells neither its name nor its file."""
    return function.__code__.co_filename.startswith("<string")


def _defined_in(module: types.ModuleType) -> list[types.FunctionType]:
    """Return the functions and methods that a module's names lead to and that are its own."""
    found: list[types.FunctionType] = []
    waiting: list[Any] = list(vars(module).values())
    classes = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, type):
            if value.__module__ == module.__name__ and value not in classes:
                classes.add(value)
                waiting += vars(value).values()
        elif isinstance(value, property):
            waiting += [value.fget, value.fset, value.fdel]
        elif isinstance(value, staticmethod | classmethod):
            waiting.append(value.__func__)
        elif type(value) is types.FunctionType:
            if value.__globals__ is vars(module):
                found.append(value)
            waiting.append(vars(value).get("__wrapped__"))
    return found


def _names_of(file: str) -> list[str]:
    """Return what modules a file may be: nobody can tell where its import path begins."""
    parts = Path(file).with_suffix("").parts[1:] if file.endswith(".py") else ()
    return [".".join(parts[at:]) for at in reversed(range(len(parts)))]
