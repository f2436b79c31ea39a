"""Whoever takes functions takes what `tprof.task` makes of one, too."""

import copy
import functools
import inspect
import pickle
import subprocess
import sys
import types
import typing

import pytest

import tprof


def plain(a: int, b: "float" = 2.0, *, c: int = 3) -> float:
    return a + b + c


@tprof.task
def decorated(a: int, b: "float" = 2.0, *, c: int = 3) -> float:
    return a + b + c


class Shape:
    def bare(self):
        return 1

    @tprof.task
    def area(self):
        return 2


def test_it_is_a_function_to_who_asks():
    assert inspect.isfunction(decorated)
    assert inspect.isroutine(decorated)
    assert isinstance(decorated, types.FunctionType)
    assert [name for name, _ in inspect.getmembers(Shape, inspect.isfunction)] == ["area", "bare"]
    assert inspect.ismethod(Shape().area)


@pytest.mark.parametrize("name", ["__defaults__", "__kwdefaults__", "__closure__", "__globals__", "__builtins__"])
def test_it_has_the_parts_of_its_function(name):
    assert getattr(decorated, name) == getattr(plain, name)
    assert decorated.__code__ is decorated.__wrapped__.__code__


def test_parts_that_are_set_are_its_functions():
    @tprof.task
    def f(a=1):
        return a

    f.__defaults__ = (5,)

    assert f() == 5


def test_it_is_inspected_wrapped_and_annotated_like_its_function():
    @functools.wraps(decorated)
    def wrapper(*args):
        return decorated(*args)

    assert inspect.signature(decorated) == inspect.signature(plain)
    assert inspect.signature(decorated, follow_wrapped=False) == inspect.signature(plain)
    assert typing.get_type_hints(decorated) == typing.get_type_hints(plain)
    assert (wrapper.__name__, wrapper.__doc__, wrapper(1)) == ("decorated", None, 6.0)
    assert inspect.getsource(decorated).startswith("@tprof.task\ndef decorated")


def test_it_is_copied_and_pickled_as_a_function_is():
    assert copy.copy(decorated) is decorated
    assert copy.deepcopy(decorated) is decorated
    assert pickle.loads(pickle.dumps(decorated)) is decorated  # noqa: S301 - what was just made
    assert repr(decorated).startswith("<tprof.task <function decorated at ")


def test_a_task_of_something_else_is_no_function():
    task = tprof.task(functools.partial(plain, 1))

    assert not inspect.isfunction(task)
    assert task() == 6.0


def test_cloudpickle_sends_it_by_value_and_its_generators_too():
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed: pip install cloudpickle")

    @tprof.task
    def inside(n):
        return n + 1

    @tprof.task
    def steps(n):
        yield from range(n)

    arrived, arrived_steps = pickle.loads(cloudpickle.dumps((inside, steps)))  # noqa: S301 - what was just made

    assert arrived is not inside
    assert type(arrived) is type(inside)
    assert (arrived(1), list(arrived_steps(2))) == (2, [0, 1])


def test_dask_delays_it():
    dask = pytest.importorskip("dask", reason="dask is not installed: pip install dask")

    assert dask.delayed(decorated)(1).compute(scheduler="sync") == 6.0
    assert dask.delayed(decorated, pure=True)(1).key == dask.delayed(decorated, pure=True)(1).key


def test_fastapi_serves_it():
    fastapi = pytest.importorskip("fastapi", reason="fastapi is not installed: pip install fastapi")
    testclient = pytest.importorskip("fastapi.testclient", reason="httpx is not installed: pip install httpx")
    app = fastapi.FastAPI()

    @app.get("/sum/{a}")
    @tprof.task
    def add(a: int, b: int = 2):
        return {"sum": a + b}

    assert testclient.TestClient(app).get("/sum/4?b=5").json() == {"sum": 9}


def test_pytest_takes_it_for_a_fixture_and_for_a_test(pytester_folder):
    result = pytester_folder(
        "import pytest, tprof\n"
        "@pytest.fixture\n@tprof.task\ndef given(): return 4\n"
        "@tprof.task\ndef test_it(given): assert given == 4\n"
        "class TestClass:\n    @tprof.task\n    def test_method(self, given): assert given == 4\n"
    )

    assert "2 passed" in result


@pytest.fixture
def pytester_folder(tmp_path):
    def run(source):
        (tmp_path / "test_given.py").write_text(source)
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_given.py"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False).stdout

    return run
