"""Makes tasks of the functions of a module that patterns name, once its definitions stand."""

from __future__ import annotations

import ast
import types
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tprof.task import make_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .pattern import Pattern

# Under this name the rewritten main program finds `adopter`.
ADOPT = "__tprof_adopt__"
_fulfilled: set[str] = set()
_PLAIN = (types.FunctionType, staticmethod, classmethod)


def patch_module(module: types.ModuleType, patterns: Sequence[Pattern], names: Iterable[str]) -> None:
    """Replace the named functions and methods that the module itself defines by tasks."""
    meant = [pattern for pattern in patterns if pattern.names_module(names)]
    if meant:
        _patch_namespace(module, "", module.__name__, meant)


def _patch_namespace(owner: Any, prefix: str, module: str, patterns: Sequence[Pattern]) -> None:
    for name, value in list(vars(owner).items()):
        qualified = f"{prefix}{name}"
        if isinstance(value, type):
            own = value.__module__ == module and value.__qualname__ == qualified
            if own:
                _patch_namespace(value, f"{qualified}.", module, patterns)
        elif _is_defined_in(value, module):
            adopted = adopt(value, qualified, patterns)
            if adopted is not value:
                setattr(owner, name, adopted)


def _is_defined_in(value: object, module: str) -> bool:
    inner = getattr(value, "__func__", value)
    return getattr(inner, "__module__", None) == module


def adopt(value: Any, qualified: str, patterns: Sequence[Pattern]) -> Any:
    """Return a task where the name is meant and the object can be one, else the object itself."""
    for pattern in patterns:
        if not fnmatchcase(qualified, pattern.function):
            continue
        if isinstance(value, _PLAIN) or (pattern.exact and callable(value) and not isinstance(value, type)):
            _fulfilled.add(str(pattern))
            return make_task(value)
    return value


def unfulfilled(patterns: Iterable[Pattern]) -> list[Pattern]:
    """Return the patterns that no function of this process has met."""
    return [pattern for pattern in patterns if str(pattern) not in _fulfilled]


class MainRewriter(ast.NodeTransformer):
    """Puts a decorator on the functions of the main program, since its calls begin before its end.

    Other modules are patched after their definitions; the main program's last lines call what they define,
    so its functions become tasks as they are defined. The decorator is the outermost: it sees what the
    name will stand for. Functions inside functions are left alone, as in other modules.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        """Take the patterns that mean the main program."""
        self._patterns = patterns
        self._scope: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Go into methods."""
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Decorate a function."""
        self._decorate(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        """Decorate a coroutine function."""
        self._decorate(node)
        return node

    def _decorate(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        qualified = ".".join([*self._scope, node.name])
        if not any(fnmatchcase(qualified, pattern.function) for pattern in self._patterns):
            return
        where = node.decorator_list[0] if node.decorator_list else node
        call = ast.Call(
            func=ast.Name(ADOPT, ast.Load()),
            args=[ast.Constant(qualified)],
            keywords=[],
        )
        for part in ast.walk(call):
            if isinstance(part, ast.expr):
                ast.copy_location(part, where)
        node.decorator_list.insert(0, call)
