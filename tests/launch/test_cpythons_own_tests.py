"""CPython's tests of generators, coroutines and functions come out the same where every function is a task."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = ["coroutines", "generators", "asyncgen", "contextlib", "contextlib_async", "functools", "traceback"]
# What docs/limits.md lists. What stands for a generator in a recording has another type in C ...
TYPE_IN_C = {
    "test_raise_and_yield_from",  # a C function that takes exactly CPython's generators
    "test_await_12",  # an __await__ that returns a coroutine, which Python refuses
    "test_stack_in_coroutine_throw",  # frames of those that wait, while an exception is thrown in
    "test_throw_with_yield_from",
}
DECORATED = {
    "test_invalid_registrations",  # the representation of a decorated function
    "test_recursive_traceback_cpython_internal",  # on Python 3.12, how deep functions that C calls may recurse
    "test_recursive_traceback_python",
}
BY_PATTERN = TYPE_IN_C if sys.version_info < (3, 12) else set()
PERMITTED = {"decorated": DECORATED, "recorded": DECORATED | TYPE_IN_C, "pattern": BY_PATTERN}


def came_of(module, way, folder):
    words = ["-m", "support.cpython_tests", module, "plain" if way == "pattern" else way, str(folder / f"{way}.json")]
    if way == "pattern":
        words = ["-m", "tprof", "run", "--task", f"{module}:*", "-o", str(folder / "x.tprof"), *words]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "TPROF_ENERGY": "estimate"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / f"{way}.json").read_text("utf-8"))


@pytest.mark.skipif(
    importlib.util.find_spec("test.test_generators") is None, reason="CPython's tests are not installed"
)
@pytest.mark.parametrize(
    "name", [MODULES[0], *(pytest.param(name, marks=pytest.mark.thorough) for name in MODULES[1:])]
)
def test_tests_of_cpython_come_out_the_same_as_tasks(tmp_path, name):
    module = f"test.test_{name}"
    plain = came_of(module, "plain", tmp_path)

    for way, permitted in PERMITTED.items():
        came = came_of(module, way, tmp_path)
        others = {test: text for test, text in came["failed"].items() if test.rpartition(".")[2] not in permitted}
        assert (way, came["ran"], others) == (way, plain["ran"], plain["failed"])
