"""Applies patterns to imported modules, in this process and in its children."""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.session.process_state import TASKS

from .default_tasks import DefaultTasks
from .matches import Matches
from .monitored import monitored
from .pattern import parse_patterns
from .rewrite import compile_with_tasks

if TYPE_CHECKING:
    import types
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

    from .selection import Selection

_INSTALL = "__import__('tprof.launch.hook', fromlist=['hook']).install_from_environment()"
_installed = False
SITE = Path(__file__).parent / "site"
_MULTIPROCESSING = re.compile(r"(?:import sys; )?from (multiprocessing\.\w+) import")


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
                meant = self.matches.means(self._names(name), spec.origin)
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
        exact = [one for one in self.matches.patterns if one.exact and one.means_module(self._names(name), file)]
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
        if not self.matches.means(names, file):
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
            _in_new_interpreters(_INSTALL)

    def compile_main(self, source: bytes | types.CodeType, file: str) -> types.CodeType:
        """Return the code of the main program."""
        if self._rewriting is not None:
            return self._rewriting.compile_main(source, file)
        code: types.CodeType = compile(source, file, "exec", dont_inherit=True) if isinstance(source, bytes) else source
        if self._selection is not None:
            self._selection.know_main(code)
        return code


def hand_to_children(texts: Sequence[str], main_names: Sequence[str], main_file: str, program: str) -> None:
    """Pass the patterns to Python child processes of this one, called `program`, by the environment."""
    given = [pattern.text for pattern in parse_patterns(texts)]
    handed = {"tasks": given, "main": list(main_names), "file": main_file, "program": program}
    os.environ[TASKS] = json.dumps(handed)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), others] if others else [str(SITE)])


def hand_to_interpreters() -> None:
    """Pass the program's arguments and search path to other interpreters, which begin with those of `tprof run`."""
    _in_new_interpreters(
        f"import sys; sys.argv[:] = {sys.argv!r}; sys.orig_argv[:] = {sys.orig_argv!r}; sys.path[:] = {sys.path!r}"
    )


def _in_new_interpreters(code: str) -> None:
    """Execute code in each interpreter that this one creates."""
    try:
        import _interpreters  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return  # before Python 3.13 no library creates any
    create, execute = _interpreters.create, _interpreters.exec

    @functools.wraps(create)
    def create_prepared(*arguments: Any, **options: Any) -> Any:
        made = create(*arguments, **options)
        execute(made, code)
        return made

    _interpreters.create = create_prepared


def install_from_environment() -> None:
    """Apply the parent's patterns in a child process or in another interpreter."""
    global _installed  # noqa: PLW0603 - once in each interpreter
    if _installed:
        return
    _installed = True
    handed = json.loads(os.environ[TASKS])
    if handed["tasks"]:
        Tasks(handed["tasks"], handed["main"], handed["file"]).begin(is_child=True)
    elif _core.is_main_interpreter():
        default = DefaultTasks(_name_of_child(sys.orig_argv, handed["program"]), None)
        default.begin()
        atexit.register(default.end_program)


def interpreter_words(words: Sequence[str]) -> Sequence[str]:
    """Return the interpreter and its own options, which come before the program in a command line."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-c", "-m", "-"):
        at += 2 if words[at] in ("-W", "-X") else 1
    return words[:at]


def _name_of_child(words: Sequence[str], program: str) -> str:
    """Return the name of a Python process: its script or module, or the program that spawned it."""
    if "--multiprocessing-fork" in words:
        return f"{program} (spawned)"
    what, *after = [*words[len(interpreter_words(words)) :], ""]
    if what == "-m":
        return after[0]
    helper = _MULTIPROCESSING.match(after[0]) if what == "-c" else None
    if helper is not None:
        return helper[1]
    return Path(what).name if what and not what.startswith("-") else f"python {what}".rstrip()
