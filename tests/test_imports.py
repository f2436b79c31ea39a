"""Imports point one way, and `import tprof` brings little."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("analysis", "runtime", "benchmarks")
FORBIDDEN = {"tprof": FOLDERS, "analysis": ("runtime", "benchmarks", "cli", "recording", "sensors", "task", "counters")}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_load(tree):
    """Leave out functions and what only type checkers read: doors are opened inside functions."""
    kept = [
        node
        for node in tree.body
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.Module(kept, [])


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_a_package_imports_only_what_it_may(package):
    wrong = []
    for path in (ROOT / package).rglob("*.py"):
        for name in imported(at_load(ast.parse(path.read_text(encoding="utf-8")))):
            parts = name.split(".")
            if parts[0] == "tprof" and len(parts) > 1 and parts[1] in FORBIDDEN[package]:
                wrong.append(f"{path.relative_to(ROOT)}: {name}")

    assert wrong == []


def test_import_tprof_loads_nothing_heavy():
    heavy = ("pandas", "sklearn", "plotly", "typer", "rich", "scipy")
    code = f"import sys, tprof; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"


def test_the_source_folder_says_that_it_is_not_installed():
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import tprof"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stderr.splitlines()[-1] == (
        "ImportError: tprof was imported from its source folder, which has no compiled core: "
        "install it, or leave the folder"
    )
