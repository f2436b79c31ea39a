"""Makes tasks of a notebook's functions while a cell is recorded; afterwards they are what they were.

Functions that exist are replaced in their modules and classes, and in the notebook's own names for them. Those that the
cell defines are decorated as it is compiled, by a call that leaves them alone once the cell has ended.
"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from tprof.launch.adopt import members
from tprof.launch.hook import FunctionVisitor
from tprof.launch.matches import Matches
from tprof.launch.pattern import parse_patterns
from tprof.launch.selection import modules_meant
from tprof.task import make_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import ModuleType

_MARK = "__import__('tprof.notebook.marking', fromlist=['mark']).mark"
_WRAPPERS = (staticmethod, classmethod)

_running: list[Marking] = []


class Marking:
    """The tasks of one recorded cell."""

    def __init__(self, patterns: Sequence[str], module: ModuleType) -> None:
        """Take the patterns and the notebook's module. Raises UsageError."""
        self.matches = Matches(parse_patterns(patterns))
        self._module = module
        self._names = [module.__name__]
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._originals: dict[int, tuple[Any, Any]] = {}

    def rewrite(self, tree: ast.Module) -> ast.Module:
        """Decorate the functions of a cell that match."""
        rewriter = _Decorating(self.matches, self._names)
        rewriter.visit(tree)
        self.matches.note(self._names, "", rewriter.functions)
        return ast.fix_missing_locations(tree)

    def begin(self) -> None:
        """Replace functions by tasks."""
        others = [module for _, module in modules_meant(self.matches, self._names) if module is not self._module]
        for module in (*others, self._module):
            self._replace_in(module)
        by_original = {id(original): task for _, _, original, task in self._replaced}
        for name, value in list(vars(self._module).items()):
            if id(value) in by_original:
                self._set(self._module, name, value, by_original[id(value)])
        _running.append(self)

    def end(self) -> None:
        """Put the functions back, unless the program has replaced them meanwhile."""
        _running.remove(self)
        self.matches.close()
        for owner, name, original, task in reversed(self._replaced):
            if vars(owner).get(name) is task:
                setattr(owner, name, original)
        for owner in (self._module, *_classes(self._module)):
            for name, value in list(vars(owner).items()):
                inner = value.__func__ if isinstance(value, _WRAPPERS) else value
                task, original = self._originals.get(id(inner), (None, None))
                if task is inner and task is not None:
                    setattr(owner, name, type(value)(original) if inner is not value else original)

    def task_of(self, function: Callable[..., Any]) -> Any:
        """Return the task of a function that the cell defines."""
        task = make_task(function)
        self._originals[id(task)] = task, function
        return task

    def unmet(self, session: Path) -> list[str]:
        """Return a sentence for each pattern that matched no function."""
        gathered = self.matches.gathered(session)
        modules = ["__main__", *(name for name in sys.modules if not name.startswith("_"))]
        return [_unmet_text(str(one), gathered.near(one, modules)) for one in gathered.unmet()]

    def _replace_in(self, module: ModuleType) -> None:
        found = []
        for owner, qualified, value in list(members(module, module, "")):
            file = getattr(module, "__file__", None)
            which = self.matches.which([module.__name__], file, qualified)
            found.append((qualified, _line_of(value), which))
            if which:
                self._set(owner, qualified.rpartition(".")[2], value, make_task(value))
        self.matches.note([module.__name__], getattr(module, "__file__", None) or "", found)

    def _set(self, owner: Any, name: str, original: Any, task: Any) -> None:
        setattr(owner, name, task)
        self._replaced.append((owner, name, original, task))


def mark(function: Callable[..., Any]) -> Any:
    """Return the function as a task of the cell that is recorded; itself if none is."""
    return _running[-1].task_of(function) if _running else function


class _Decorating(FunctionVisitor):
    """Adds the innermost decorator to functions that match, except those that are tasks already."""

    def _visit(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        qualname = self._qualname(node)
        self._visit_inside(node)
        which = self._matches.which(self._names, None, qualname)
        self.functions.append((qualname, node.lineno, which))
        if which and not any("tprof" in ast.unparse(one) for one in node.decorator_list):
            node.decorator_list.append(ast.copy_location(ast.parse(_MARK, mode="eval").body, node))


def _classes(module: ModuleType) -> list[type]:
    return [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]


def _line_of(value: Any) -> int:
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    return 0 if code is None else code.co_firstlineno


def _unmet_text(pattern: str, near: Sequence[str]) -> str:
    if near:
        return f"--task {pattern} met no function; did you mean {' or '.join(near)}?"
    return f"--task {pattern} met no function: the functions of a notebook are in the module __main__"
