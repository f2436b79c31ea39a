"""Imports point one way, and `import tprof` brings little."""

import ast
import functools
import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support import traces
from support.programs import TPROF

ROOT = Path(__file__).resolve().parent.parent
TOP = ("tprof", "analysis", "runtime", "benchmarks")
CORE = "_core"
PACKAGES = ("tprof", "benchmarks")
HEAVY = ("pandas", "psutil", "sklearn", "plotly", "typer", "rich", "scipy")
CHECKOUT_ONLY = ("__main__", "overhead", "peers", "published", "simulator", "validation")
"""Of benchmarks: imported as `benchmarks.…` from the checkout, the part `bench`; all else is `tprof.benchmarks.…`."""
# What each part may import, wherever in its files the import stands. A part is a folder or module of tprof/, or a
# whole other folder, but for the folders in APART. "tprof" is the package's own face, `_core` its C.
APART = ("analysis.attribution", "analysis.engine", "analysis.operating_points", "analysis.theory")
ALLOWED = {
    "__main__": "cli",
    "analysis": "attribution errors lazy_names log operating_points trace",
    "attribution": "engine errors trace",
    "benchmarks": (
        "analysis counters errors frequency lazy_names operating_points runtime sensors session theory tprof trace"
    ),
    "bench": (
        "analysis attribution benchmarks cli counters cuda dask errors frequency lazy_names operating_points runtime "
        "sensors session theory tprof trace"
    ),
    "budgets": "_core declarations errors frequency live sensors session",
    "cli": (
        "_core analysis benchmarks comparison configuration distribution doctor errors launch live log "
        "metrics mpi notebook operating_points sensors session theory trace"
    ),
    "comparison": "analysis errors trace",
    "configuration": "errors trace",
    "conflicts": "distribution",
    "counters": "_core errors processors sensors trace",
    "cuda": "_core errors session",
    "dask": "_core analysis errors live sensors session task trace",
    "declarations": "errors",
    "distribution": "_core conflicts",
    "engine": "",
    "doctor": "_core conflicts counters distribution errors frequency sensors session tprof trace",
    "frequency": "errors sensors session trace",
    "launch": "_core dask errors mpi otel ray session task trace",
    "live": "_core analysis attribution engine errors trace",
    "log": "",
    "metrics": "errors lazy_names live otel session trace",
    "mpi": "_core session",
    "notebook": "_core analysis cli configuration errors launch log session task",
    "operating_points": "errors theory trace",
    "otel": "_core errors live metrics session",
    "processors": "",
    "ray": "_core errors lazy_names sensors session task trace",
    "runtime": "_core declarations distribution errors frequency operating_points sensors session task trace",
    "sensors": "_core errors processors trace",
    "session": (
        "_core analysis budgets counters cuda declarations distribution errors launch live log sensors trace work"
    ),
    "task": "_core cuda declarations distribution session work",
    "testing": "_core analysis errors lazy_names session task trace",
    "theory": "analysis errors trace",
    "tprof": "_core budgets comparison cuda distribution errors lazy_names session task trace",
    "trace": "_core analysis errors lazy_names live sensors",
}


def name_of(path):
    """Return the module's full name."""
    parts = [*path.relative_to(ROOT).with_suffix("").parts]
    is_ours = parts[0] == "tprof" or (parts[0] == "benchmarks" and parts[1] in CHECKOUT_ONLY)
    parts = parts if is_ours else ["tprof", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for top in TOP for path in sorted((ROOT / top).rglob("*.py"))}


def part_of(module):
    if module.split(".")[0] == "benchmarks":
        return "bench"
    folder = ".".join(module.split(".")[1:3])
    if folder in APART:
        return folder.split(".")[1]
    return module.split(".")[1] if "." in module else "tprof"


def known(name):
    """Return the module in which a dotted name is found; `tprof._core` is one, though it is not Python."""
    assert not name.startswith("benchmarks.") or ".".join(name.split(".")[:2]) in MODULES, f"{name} is in the wheel"
    while name != f"tprof.{CORE}" and name not in MODULES and "." in name:
        name = name.rpartition(".")[0]
    return name


def nodes(body, *, lazy):
    """Yield the statements of a file; without the lazy ones those that run as it is imported."""
    for node in body:
        if not lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if not lazy and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from nodes(node.orelse, lazy=lazy)
            continue
        yield node
        yield from nodes(ast.iter_child_nodes(node), lazy=lazy)


@functools.cache
def tree_of(module):
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imported(module, *, lazy):
    """Return the modules of ours that a module imports."""
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in nodes(tree_of(module).body, lazy=lazy):
        if isinstance(node, ast.Import):
            found |= {known(alias.name) for alias in node.names if alias.name.split(".")[0] in PACKAGES}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            if start.split(".")[0] in PACKAGES:
                found |= {known(f"{start}.{alias.name}") for alias in node.names}
    return found - {module}


def test_each_part_imports_only_what_it_may():
    edges = {}
    for module in MODULES:
        for other in imported(module, lazy=True):
            if part_of(module) != part_of(other):
                edges.setdefault(part_of(module), {}).setdefault(part_of(other), module)

    wrong = [
        f"{module} imports tprof.{other}: use what {part} may, or add it to ALLOWED with a reason in the commit"
        for part, others in sorted(edges.items())
        for other, module in sorted(others.items())
        if other not in ALLOWED.get(part, "").split()
    ]
    unused = [
        f"{part} does not import {other}: take it out of ALLOWED"
        for part, others in ALLOWED.items()
        for other in others.split()
        if other not in edges.get(part, {})
    ]
    assert [*wrong, *unused] == [], "\n".join(wrong + unused)


def test_no_modules_import_each_other_as_they_load():
    graph = {
        module: {
            other
            for other in imported(module, lazy=False)
            # A package is there while its own modules load.
            if not module.startswith(f"{other}.")
        }
        for module in MODULES
    }

    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}")


def places_of(text, *suffixes):
    """Return the sources that contain the text."""
    sources = [path for top in ("tprof", "runtime") for path in (ROOT / top).rglob("*") if path.suffix in suffixes]
    return {str(path.relative_to(ROOT)) for path in sources if text in path.read_text(encoding="utf-8")}


def test_only_bindings_include_python():
    files = places_of("#include <Python.h>", ".c", ".h")

    assert files == {"tprof/csrc/binding.h", "runtime/csrc/binding.h"}


def test_files_without_python_do_not_include_bindings():
    files = places_of('#include "binding', ".c", ".h")

    assert {file for file in files if not Path(file).name.startswith("binding_")} == {
        "tprof/csrc/module.c",
        "runtime/csrc/module.c",
    }


def test_the_scheduler_writes_no_events_under_its_mutex():
    """The graph, the queues and the slots run under the mutex: they only collect events."""
    files = places_of("tprof_api->tell(", ".c", ".h") | places_of("tprof_api->join(", ".c", ".h")

    assert files
    assert all(Path(file).name.startswith("binding_") for file in files)


def test_a_process_follows_forks_in_one_place_in_python_and_in_one_in_c():
    assert places_of("os.register_at_fork(", ".py") == {"tprof/session/process_state.py"}
    assert places_of("pthread_atfork(", ".c", ".h") == {"tprof/csrc/process.c"}


@pytest.mark.parametrize(("module", "heavy"), [("tprof", ("numpy", *HEAVY)), ("tprof.live", HEAVY)])
def test_imports_of_a_recorded_program_load_nothing_heavy(module, heavy):
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["summary"], ["report", "--output", "page.html"]])
def test_a_short_recording_is_shown_without_the_libraries_that_fits_need(words, tmp_path):
    traces.write(tmp_path / "a.tprof")
    code = (
        f"import sys; sys.argv[1:] = [*{words}, 'a.tprof']; from tprof.cli import main\n"
        "try: main()\nfinally: print([name for name in ('scipy', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )  # fmt: skip

    assert done.stdout.splitlines()[-1] == "[]"


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


def test_a_program_that_is_recorded_begins_without_modules_that_take_long(tmp_path):
    """Each of them is easily loaded for little: a version, a table, a base class."""
    slow = {"asyncio", "email", "importlib.metadata", "importlib.resources", "numpy", "tempfile", "zipfile"}
    words = [
        "run",
        "--energy",
        "estimate",
        "--no-summary",
        "-c",
        f"import sys; print(sorted({slow} & set(sys.modules)))",
    ]

    done = subprocess.run([TPROF, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout == "[]\n", done.stderr
