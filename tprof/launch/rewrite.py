"""Makes tasks of functions when a module is compiled, for Pythons without sys.monitoring (before 3.12).

A plain function's body is wrapped in a with-block of its task, so the function object stays the same for decorators,
registries, pickles and tracebacks. Generators and coroutines, whose suspensions are visible only from outside, get an
innermost decorator. Neither adds a name to the module: the objects are among the constants of the compiled code, which
therefore cannot be cached.
"""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.session.process_state import this_process
from tprof.task import make_task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .matches import Matches

_MARK = "\0tprof task "
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def compile_with_tasks(
    source: bytes | str | ast.Module, file: str, matches: Matches, names: Sequence[str]
) -> types.CodeType:
    """Return the code of a module with its matching functions as tasks."""
    tree = source if isinstance(source, ast.Module) else ast.parse(source, file)
    rewriter = _Rewriter(matches, names, file)
    if matches.may_match(names, file):
        tree = rewriter.visit(tree)
        matches.note(names, file, rewriter.functions)
    code: types.CodeType = compile(tree, file, "exec", dont_inherit=True)
    return _put_tasks(code, rewriter.decorated)


class _Rewriter(ast.NodeTransformer):
    """Marks the places of tasks by strings that no program contains."""

    def __init__(self, matches: Matches, names: Sequence[str], file: str) -> None:
        self._matches, self._names, self._file = matches, names, file
        self._scope: list[str] = []
        self.functions: list[tuple[str, int, list[int]]] = []
        self.decorated: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._visit(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self._visit(node)
        return node

    def _visit(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        qualname = ".".join([*self._scope, node.name])
        self._scope += [node.name, "<locals>"]
        self.generic_visit(node)
        del self._scope[-2:]
        line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        which = self._matches.which(self._names, self._file, qualname)
        self.functions.append((qualname, line, which))
        if which:
            mark = f"{_MARK}{len(self.functions)} {qualname}"
            if isinstance(node, ast.AsyncFunctionDef) or _yields(node):
                self.decorated.add(mark)
                node.decorator_list.append(ast.copy_location(ast.Constant(mark), node))
            else:
                _wrap_body(node, mark)


def _yields(node: ast.AST) -> bool:
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(one, _SCOPES):
            waiting += ast.iter_child_nodes(one)
    return False


def _wrap_body(node: ast.FunctionDef, mark: str) -> None:
    kept = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
    body = node.body[len(kept) :] or [ast.copy_location(ast.Pass(), node.body[-1])]
    where = ast.copy_location(ast.Constant(mark), body[0])
    block = ast.copy_location(ast.With(items=[ast.withitem(context_expr=where)], body=body), body[0])
    node.body = [*kept, block]


def _put_tasks(code: types.CodeType, decorated: set[str]) -> types.CodeType:
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            constants.append(_put_tasks(constant, decorated))
        elif isinstance(constant, str) and constant.startswith(_MARK):
            constants.append(make_task if constant in decorated else _region(code))
        else:
            constants.append(constant)
    return code.replace(co_consts=tuple(constants))


def _region(code: types.CodeType) -> _core.Region:
    name = code.co_qualname.rpartition("<locals>.")[2]
    return _core.Region(this_process.tasks.define(name, file=code.co_filename, line=code.co_firstlineno, code=code))
