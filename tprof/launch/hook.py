"""Applies patterns to a program and to the modules that it imports.

Without sys.monitoring (before Python 3.12) functions become tasks when a module is compiled. A plain function's body is
wrapped in a with-block of its task, so the function object stays the same for decorators, registries, pickles and
tracebacks. Generators and coroutines, whose suspensions are visible only from outside, get an innermost decorator.
Functions of modules that were imported before get the code that they would have if they were compiled now.
Neither adds a name to the module: the objects are among the constants of the compiled code, which therefore cannot be
cached.
"""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.session.process_state import this_process
from tprof.task import make_task

from .adopt import has_task, patch_module, replace_callables
from .codes import functions_in
from .descendants import install_in_new_interpreters
from .matches import Matches
from .monitored import monitored
from .pattern import parse_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

    from .selection import Selection

_MARK = "\0tprof task "
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class _Rewriting:
    """Delegates to the other finders, and compiles modules that match a pattern with tasks."""

    def __init__(self, matches: Matches, main_names: Sequence[str]) -> None:
        self.matches = matches
        self.main_names = main_names

    def begin(self) -> None:
        """Make tasks in modules that are imported already, and in later ones."""
        from .selection import live_functions

        for module, functions in live_functions(self.matches, self.main_names):
            self._change_code(module, functions)
            patch_module(module, self.matches, [module.__name__])
        self._rewrite_runs()
        sys.meta_path.insert(0, self)

    def _change_code(self, module: types.ModuleType, functions: Sequence[types.FunctionType]) -> None:
        """Give functions their code with tasks: each stays the object that others hold or look up by its name."""
        file, names = getattr(module, "__file__", None) or "", [module.__name__]
        known = (code for one in functions for code in (one.__code__, *functions_in(one.__code__)))
        if not file.endswith(".py") or not any(self.matches.which(names, file, code.co_qualname) for code in known):
            return
        try:
            compiled = compile_with_tasks(Path(file).read_bytes(), file, self.matches, names)
        except (OSError, SyntaxError):
            return
        codes = {(one.co_qualname, one.co_firstlineno): one for one in functions_in(compiled) if _has_tasks(one)}
        for function in functions:
            old = function.__code__
            new = codes.get((old.co_qualname, old.co_firstlineno))
            if new is not None and (new.co_varnames, new.co_freevars) == (old.co_varnames, old.co_freevars):
                function.__code__ = new.replace(co_filename=old.co_filename)

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
        this_process.selects = self.selects
        tool = monitored()
        if tool is None:
            self._rewriting = _Rewriting(self.matches, self._main_names)
            self._rewriting.begin()
        else:
            from .selection import Selection

            self._selection = Selection(tool, self.matches, self._main_names, self._main_file, is_child=is_child)
            self._selection.begin()
            install_in_new_interpreters()

    def selects(self, function: Any) -> bool:
        """Return whether calls of a function are instances because a pattern matches it."""
        code = getattr(function, "__code__", None)
        if not isinstance(code, types.CodeType):
            return False
        if self._selection is not None:
            return self._selection.selects(function, code)
        return has_task(code)

    def compile_main(self, source: bytes | types.CodeType, file: str) -> types.CodeType:
        """Return the code of the main program."""
        if self._rewriting is not None:
            return self._rewriting.compile_main(source, file)
        code: types.CodeType = compile(source, file, "exec", dont_inherit=True) if isinstance(source, bytes) else source
        if self._selection is not None:
            self._selection.select_in_main(code)
        return code


def compile_with_tasks(
    source: bytes | str | ast.Module, file: str, matches: Matches, names: Sequence[str]
) -> types.CodeType:
    """Return the code of a module with its matching functions as tasks."""
    tree = source if isinstance(source, ast.Module) else ast.parse(source, file)
    rewriter = _Rewriter(matches, names, file, _CompiledByNumba(tree))
    if matches.may_match(names, file):
        tree = rewriter.visit(tree)
        matches.note(names, file, rewriter.functions)
    code: types.CodeType = compile(tree, file, "exec", dont_inherit=True)
    return _put_tasks(code, rewriter.decorated)


class _CompiledByNumba:
    """Functions of a module whose bytecode numba compiles: it knows no task there, so they stay as they are."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._of_numba = {
            one.asname or one.name.partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for one in node.names
            if (one.name if isinstance(node, ast.Import) else node.module or "").partition(".")[0] == "numba"
        }
        self._arguments = {
            given.id
            for node in nodes
            if isinstance(node, ast.Call) and self._is_numbas(node.func)
            for given in node.args
            if isinstance(given, ast.Name)
        }

    def __contains__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        return node.name in self._arguments or any(self._is_numbas(one) for one in node.decorator_list)

    def _is_numbas(self, node: ast.expr) -> bool:
        """Return whether an expression is a name of numba's, an attribute of one, or a call of one."""
        while isinstance(node, ast.Attribute | ast.Call):
            node = node.value if isinstance(node, ast.Attribute) else node.func
        return isinstance(node, ast.Name) and node.id in self._of_numba


class FunctionVisitor(ast.NodeTransformer):
    """Visits the functions of a module, each with its qualified name; a subclass says what is done with one."""

    def __init__(self, matches: Matches, names: Sequence[str]) -> None:
        """Begin outside all functions, in a module of these names."""
        self._matches, self._names = matches, names
        self._scope: list[str] = []
        self.functions: list[tuple[str, int, list[int]]] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Visit the methods of a class."""
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Visit a function."""
        self._visit(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        """Visit a coroutine."""
        self._visit(node)
        return node

    def _qualname(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        return ".".join([*self._scope, node.name])

    def _visit_inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scope += [node.name, "<locals>"]
        self.generic_visit(node)
        del self._scope[-2:]

    def _visit(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        raise NotImplementedError


class _Rewriter(FunctionVisitor):
    """Marks the places of tasks by strings that no program contains."""

    def __init__(self, matches: Matches, names: Sequence[str], file: str, compiled: _CompiledByNumba) -> None:
        super().__init__(matches, names)
        self._file, self._compiled = file, compiled
        self.decorated: set[str] = set()

    def _visit(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        qualname = self._qualname(node)
        if node not in self._compiled:
            self._visit_inside(node)
        line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        which = self._matches.which(self._names, self._file, qualname)
        self.functions.append((qualname, line, which))
        if which and node not in self._compiled:
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


def _has_tasks(code: types.CodeType) -> bool:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return has_task(code) or make_task in code.co_consts or any(map(_has_tasks, inner))


def _region(code: types.CodeType) -> _core.Region:
    name = code.co_qualname.rpartition("<locals>.")[2]
    return _core.Region(this_process.tasks.define(name, file=code.co_filename, line=code.co_firstlineno, code=code))
