"""A program: runs tests of CPython's own, as they are or with every function a task, and writes what came of each.

Arguments: the module, `plain`, `decorated` or `recorded`, and the file for the results.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import json
import sys
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tprof

if TYPE_CHECKING:
    from types import ModuleType

_TASK = "__tprof_task__"


class _Decorating(ast.NodeTransformer):
    """Decorates every function of a module, below its other decorators."""

    def _visit(self, node: Any) -> Any:
        self.generic_visit(node)
        node.decorator_list.append(ast.copy_location(ast.Name(_TASK, ast.Load()), node))
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _visit  # noqa: N815 - names that ast asks for


def _decorated(name: str) -> ModuleType:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    file = spec.loader.path
    tree = _Decorating().visit(ast.parse(spec.loader.get_data(file), file))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    vars(module)[_TASK] = tprof.task
    exec(compile(tree, file, "exec", dont_inherit=True), vars(module))  # noqa: S102 - CPython's tests
    return module


class _Results(unittest.TextTestResult):
    def came(self) -> dict[str, str]:
        """Return the last line of each test that did not pass."""
        return {test.id(): text.strip().rpartition("\n")[2] for test, text in [*self.failures, *self.errors]}


def run(name: str, way: str) -> dict[str, Any]:
    """Run the tests of a module, and return their number and what came of those that did not pass."""
    module = importlib.import_module(name) if way == "plain" else _decorated(name)
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    recording = tprof.record(energy="estimate", counters="none") if way == "recorded" else contextlib.nullcontext()
    with recording:
        results = unittest.TextTestRunner(resultclass=_Results, verbosity=2).run(tests)
    assert isinstance(results, _Results)
    return {"ran": results.testsRun, "failed": results.came()}


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(run(sys.argv[1], sys.argv[2])), "utf-8")
