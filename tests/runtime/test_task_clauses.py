"""What a decorator says is checked when it is said, and priorities decide who goes first."""

import functools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.runtime import Runtime

import tprof
from tprof.declarations import NOTHING, READS, UPDATES, WRITES


def matrix(a, b, /, c=1, *rest, d, e=2, **others):
    pass


def said(**clauses):
    return tprof.task(**clauses)(matrix).access


def test_clauses_are_kept_parameter_by_parameter():
    modes, names, defaults, positional, rest, priority = said(
        reads=("a", "d"), writes="b", updates=["c", "rest"], priority=5
    )

    assert names == ("a", "b", "c", "d", "e")
    assert list(modes) == [READS, WRITES, UPDATES, READS, 0]
    assert defaults == (..., ..., 1, ..., 2)
    assert (positional, rest, priority) == (3, UPDATES, 5)


def test_what_is_read_and_written_is_updated():
    assert said(reads="a", writes="a")[0][0] == UPDATES
    assert said(reads="a", updates="a")[0][0] == UPDATES
    assert said(writes="b", reads=("a", "b"))[0][:2] == bytes([READS, UPDATES])


def test_a_task_that_says_nothing_waits_for_nobody():
    assert tprof.task(matrix).access is NOTHING
    assert tprof.task(name="other")(matrix).access is NOTHING


@pytest.mark.parametrize("clause", ["reads", "writes", "updates"])
@pytest.mark.parametrize("names", ["z", ("a", "z"), ["z"], "others", "matrix", ""])
def test_a_name_that_is_no_parameters_is_refused(clause, names):
    wrong = names if isinstance(names, str) else names[-1]
    with pytest.raises(TypeError) as caught:
        said(**{clause: names or ("",)})
    assert str(caught.value) == (f"task matrix has no parameter {wrong!r} to read or write: it has a, b, c, d, e, rest")


@pytest.mark.parametrize("names", [5, 1.5, object])
def test_names_that_are_no_names_are_refused(names):
    with pytest.raises(TypeError, match="reads says which parameters by name: one name or several, got"):
        said(reads=names)


def test_a_function_without_parameters_has_none_to_name():
    with pytest.raises(TypeError, match="task nothing has no parameter 'x' to read or write: it has none"):

        @tprof.task(reads="x")
        def nothing():
            pass


@pytest.mark.parametrize("priority", [-33, 32, 1.5, "high", None, 10**30])
def test_a_priority_out_of_range_is_refused(priority):
    with pytest.raises(ValueError, match="a priority is a whole number from -32 to 31, or a function of the arguments"):
        said(priority=priority)


@pytest.mark.parametrize("body", ["async def f(x): pass", "def f(x): yield", "async def f(x): yield"])
@pytest.mark.parametrize("clauses", [{"reads": "x"}, {"priority": 1}])
def test_what_is_no_plain_function_can_say_nothing(body, clauses):
    names = {}
    exec(body, names)  # noqa: S102 - three kinds of one function
    with pytest.raises(TypeError, match=r"a runtime runs plain functions: .* gives back a coroutine or generator"):
        tprof.task(**clauses)(names["f"])


@pytest.mark.parametrize("function", [print, len, max])
def test_functions_that_do_not_tell_their_parameters_can_say_nothing(function):
    with pytest.raises(TypeError, match="their names are not known"):
        tprof.task(reads="x")(function)
    with Runtime(workers=1) as runtime:
        assert runtime.submit(max, [1, 3, 2]).result() == 3


def order_of(priorities, spawn):
    """Return in which order one worker runs tasks that are all ready before it begins."""
    order, gate = [], threading.Event()
    with Runtime(workers=1, library_threads=None) as runtime:
        held = runtime.submit(gate.wait, 30)
        while not held.running():
            pass
        try:
            for number, priority in enumerate(priorities):
                spawn(runtime, order, number, priority)
        finally:
            gate.set()
    return order


PRIORITIES = st.lists(st.integers(-32, 31), max_size=20)


@given(PRIORITIES)
def test_the_highest_priority_goes_first_and_among_equals_the_oldest(priorities):
    def spawn(runtime, order, number, priority):
        runtime.submit(order.append, number, priority=priority)

    expected = sorted(range(len(priorities)), key=lambda number: -priorities[number])
    assert order_of(priorities, spawn) == expected


@given(PRIORITIES)
def test_a_priority_may_be_a_function_of_the_arguments(priorities):
    @tprof.task(priority=lambda *_, priority: priority)
    def note(order, number, priority):
        order.append(number)

    def spawn(runtime, order, number, priority):
        note(order, number, priority=priority)

    expected = sorted(range(len(priorities)), key=lambda number: -priorities[number])
    assert order_of(priorities, spawn) == expected


@pytest.mark.parametrize(
    ("given_", "kind", "sentence"),
    [
        (32, ValueError, "a priority is a whole number from -32 to 31, got 32"),
        (-33, ValueError, "a priority is a whole number from -32 to 31, got -33"),
        (10**30, OverflowError, "too large"),
        ("high", TypeError, "integer"),
        (None, TypeError, "integer"),
    ],
)
def test_a_function_that_gives_no_priority_refuses_the_call(given_, kind, sentence):
    @tprof.task(priority=lambda: given_)
    def body():
        pass

    with Runtime(workers=1) as runtime:
        with pytest.raises(kind, match=sentence):
            body()
        assert runtime.counts()["spawned"] == 0


def test_a_priority_function_that_raises_refuses_the_call():
    @tprof.task(priority=lambda x: 1 // x)
    def body(x):
        return x

    with Runtime(workers=1):
        with pytest.raises(ZeroDivisionError):
            body(0)
        assert body(2).result() == 2


def test_functions_under_one_decorator_are_tasks_of_their_own_and_builtin_ones_are_one_each():
    def twice(function):
        @functools.wraps(function)
        def wrapper():
            return function(), function()

        return wrapper

    @twice
    def one():
        return 1

    @twice
    def other():
        return 2

    with Runtime(workers=1) as runtime:
        assert runtime.submit(one).name.endswith("one")
        task = runtime.submit(other)
        assert (task.name, task.result()) == ("other", (2, 2))
        assert runtime.submit(functools.partial(max, 1), 2).name == "max"
        known = {runtime.submit([].append, 1).callable.number for _ in range(10)}
        assert len(known) == 1
        assert runtime.submit([1].pop).callable.number not in known


def test_a_task_is_called_what_its_decorator_calls_it():
    @tprof.task(name="factor")
    def body():
        pass

    with Runtime(workers=1, keep_graph=True) as runtime:
        assert body().name == "factor"
        runtime.wait()
        assert runtime.graph().names == {1: "factor"}


def test_children_run_youngest_first_and_by_priority():
    order = []

    @tprof.task
    def note(number):
        order.append(number)

    @tprof.task
    def parent(runtime):
        for number in range(5):
            note(number)
        runtime.submit(note, "high", priority=1)
        runtime.submit(note, "low", priority=-1)

    with Runtime(workers=1) as runtime:
        parent(runtime)

    assert order == ["high", 4, 3, 2, 1, 0, "low"]


def test_what_submit_says_goes_before_what_the_decorator_says():
    def wait(data, gate):
        gate.wait(30)

    @tprof.task(updates="x")
    def change(x, y):
        pass

    with Runtime(workers=1, keep_graph=True) as runtime:
        gate = threading.Event()
        runtime.submit(wait, "held", gate, updates="data")
        runtime.submit(change, "held", 1)
        runtime.submit(change, 1, "held", reads="y")
        runtime.submit(change, "held", 2, reads="y")
        runtime.submit(change, x="other", y="held", updates=("x", "y"))
        edges = runtime.graph().edges
        gate.set()

    assert edges == ((1, 2), (2, 3), (2, 5), (3, 5))


def test_submit_refuses_what_it_cannot_run():
    async def later():
        pass

    def several():
        yield 1

    with Runtime(workers=1) as runtime:
        for wrong in (3, "name", None, dict):
            with pytest.raises(TypeError, match=r"tprof\.task goes on a function or method, got"):
                runtime.submit(wrong)
        for wrong in (later, several):
            with pytest.raises(
                TypeError, match=r"a runtime runs plain functions: .* gives back a coroutine or generator"
            ):
                runtime.submit(wrong)
        with pytest.raises(TypeError, match="task <lambda> has no parameter 'y'"):
            runtime.submit(lambda x: x, 1, reads="y")
        assert runtime.submit(dict.fromkeys, "a").result() == {"a": None}
        assert runtime.counts()["spawned"] == 1


def test_functions_of_one_code_are_one_task_with_their_own_closures():
    with Runtime(workers=2) as runtime:
        tasks = [
            runtime.submit(lambda number=number, factor=factor: number * factor)
            for factor in (2, 3)
            for number in range(50)
        ]
        names = {task.name for task in tasks}
        results = [task.result() for task in tasks]

    assert {name.rpartition(".")[2] for name in names} == {"<lambda>"}
    assert results == [number * factor for factor in (2, 3) for number in range(50)]
