"""A task behaves as the function it stands for; the trace says who ran."""

import asyncio
import functools
import gc
import inspect
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import failures, instances, record, story

import tprof


@tprof.task
def add(a: int, b: int = 1, *rest: int, key: int = 0, **others: int) -> int:
    """Add what is given."""
    return a + b + sum(rest) + key + sum(others.values())


class Matrix:
    """Methods of all kinds as tasks."""

    def __init__(self, value: int) -> None:
        self.value = value

    @tprof.task
    def scale(self, factor: int) -> int:
        return self.value * factor

    @tprof.task
    @staticmethod
    def zero() -> int:
        return 0

    @staticmethod
    @tprof.task
    def one() -> int:
        return 1

    @tprof.task
    @classmethod
    def of(cls, value: int) -> "Matrix":
        return cls(value)

    @classmethod
    @tprof.task
    def also_of(cls, value: int) -> "Matrix":
        return cls(value)


@tprof.task(name="renamed")
def original() -> None: ...


@tprof.task
async def fetch(value: int) -> int:
    await asyncio.sleep(0)
    return value


@tprof.task
def count(limit: int):
    received = []
    for value in range(limit):
        received.append((yield value))  # noqa: PERF401 - a comprehension cannot yield
    return received


@tprof.task
async def acount(limit: int):
    for value in range(limit):
        await asyncio.sleep(0)
        yield value


@given(st.integers(), st.lists(st.integers(), max_size=4), st.integers())
def test_a_task_returns_what_its_function_returns(a, rest, key):
    assert add(a, 2, *rest, key=key, other=3) == add.__wrapped__(a, 2, *rest, key=key, other=3)


def test_signature_docstring_and_names_are_kept():
    assert inspect.signature(add) == inspect.signature(add.__wrapped__)
    assert add.__doc__ == "Add what is given."
    assert (add.__name__, add.__qualname__, add.__module__) == ("add", "add", __name__)
    assert inspect.iscoroutinefunction(fetch)
    assert inspect.isgeneratorfunction(count)
    assert inspect.isasyncgenfunction(acount)


def test_a_wrong_call_raises_the_functions_own_error():
    with pytest.raises(TypeError, match=r"add\(\) missing 1 required positional argument: 'a'"):
        add()


def test_tasks_are_pickled_by_name_as_functions_are():
    for function in (add, fetch, count, acount, original):
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(Matrix(3).scale))(2) == 6  # noqa: S301


def test_methods_of_all_kinds_are_tasks(tmp_path):
    def body():
        assert Matrix(3).scale(2) == 6
        assert Matrix.scale(Matrix(4), 2) == 8
        assert Matrix.zero() + Matrix(1).zero() == 0
        assert Matrix.one() + Matrix(1).one() == 2
        assert Matrix.of(5).value == Matrix.also_of(5).value == 5

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {
        "Matrix.scale": 2,
        "Matrix.zero": 2,
        "Matrix.one": 2,
        "Matrix.of": 1,
        "Matrix.also_of": 1,
    }


def test_a_given_name_is_the_tasks_name(tmp_path):
    trace = record(tmp_path / "t.tprof", original)

    assert instances(trace) == {"renamed": 1}


def test_a_task_of_a_task_is_one_task(tmp_path):
    trace = record(tmp_path / "t.tprof", lambda: tprof.task(add)(1))

    assert instances(trace) == {"add": 1}


def test_partials_and_callables_are_tasks(tmp_path):
    add_two = tprof.task(functools.partial(add.__wrapped__, 2))

    trace = record(tmp_path / "t.tprof", lambda: add_two(3))

    assert instances(trace) == {"add": 1}


@pytest.mark.parametrize("thing", [Matrix, 3, "name"])
def test_what_is_no_function_is_refused(thing):
    with pytest.raises(TypeError, match="goes on a function"):
        tprof.task(thing)


def test_nested_and_recursive_tasks_return_to_the_enclosing_one(tmp_path):
    @tprof.task
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    @tprof.task
    def outer():
        with tprof.region("inside"):
            return factorial(1)

    trace = record(tmp_path / "t.tprof", outer)

    name = "factorial"
    assert story(trace) == [
        ("start", "outer"),
        ("start", "inside"),
        ("start", name),
        ("start", name),
        ("finish", name),
        ("finish", "inside"),
        ("finish", "outer"),
        ("finish", None),
    ]


def test_an_exception_passes_through_and_marks_the_instance(tmp_path):
    @tprof.task
    def fail():
        raise KeyError("why")

    def body():
        with pytest.raises(KeyError, match="why"):
            fail()
        with pytest.raises(ValueError, match="region"), tprof.region("r"):
            raise ValueError("region")

    trace = record(tmp_path / "t.tprof", body)

    assert failures(trace) == 2
    assert story(trace)[-1] == ("finish", None)


def test_a_suspended_coroutine_runs_nothing(tmp_path):
    async def main():
        return await asyncio.gather(fetch(1), fetch(2))

    trace = record(tmp_path / "t.tprof", lambda: asyncio.run(main()))

    assert story(trace) == [
        ("start", "fetch"),
        ("suspend", None),
        ("start", "fetch"),
        ("suspend", None),
        ("resume", "fetch"),
        ("finish", None),
        ("resume", "fetch"),
        ("finish", None),
    ]


def test_what_a_coroutine_had_open_runs_again_when_it_is_resumed(tmp_path):
    @tprof.task
    async def download():
        with tprof.region("wait"):
            await asyncio.sleep(0)

    trace = record(tmp_path / "t.tprof", lambda: asyncio.run(download()))

    assert story(trace) == [
        ("start", "download"),
        ("start", "wait"),
        ("suspend", None),
        ("resume", "wait"),
        ("finish", "download"),
        ("finish", None),
    ]


def test_a_cancelled_coroutine_is_closed_once(tmp_path):
    @tprof.task
    async def sleep_long():
        await asyncio.sleep(60)

    async def main():
        running = asyncio.create_task(sleep_long())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    trace = record(tmp_path / "t.tprof", lambda: asyncio.run(main()))

    assert [kind for kind, _ in story(trace)] == ["start", "suspend", "resume", "finish"]
    assert failures(trace) == 1


def test_a_generator_keeps_send_throw_close_and_its_return_value(tmp_path):
    def delegate():
        return (yield from count(2))

    def body():
        generator = delegate()
        assert next(generator) == 0
        assert generator.send("first") == 1
        with pytest.raises(StopIteration) as stop:
            generator.send("second")
        assert stop.value.value == ["first", "second"]
        closed = count(5)
        next(closed)
        closed.close()
        thrown = count(5)
        next(thrown)
        with pytest.raises(OSError, match="in"):
            thrown.throw(OSError("in"))
        assert list(count(3)) == [0, 1, 2]

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {"count": 4}
    assert failures(trace) == 1
    assert story(trace)[-1] == ("finish", None)


def test_an_asynchronous_generator_is_one_instance(tmp_path):
    async def main():
        assert [value async for value in acount(3)] == [0, 1, 2]
        left_early = acount(5)
        async for _ in left_early:
            break
        await left_early.aclose()

    trace = record(tmp_path / "t.tprof", lambda: asyncio.run(main()))

    assert instances(trace) == {"acount": 2}
    assert story(trace)[-1] == ("finish", None)


def test_an_asynchronous_generator_hands_on_what_its_consumer_does(tmp_path):
    @tprof.task
    async def echo():
        said = []
        try:
            while True:
                try:
                    said.append((yield len(said)))
                except KeyError:
                    said.append("caught")
        finally:
            said.append("closed")
            record_of_said.extend(said)

    record_of_said: list[object] = []

    async def main():
        generator = echo()
        assert await generator.asend(None) == 0
        assert await generator.asend("a") == 1
        assert await generator.athrow(KeyError("x")) == 2
        await generator.aclose()

    record(tmp_path / "t.tprof", lambda: asyncio.run(main()))

    assert record_of_said == ["a", "caught", "closed"]


def test_what_a_generator_does_while_it_is_dropped_is_its_own(tmp_path):
    @tprof.task
    def steps():
        try:
            yield
        finally:
            with tprof.region("cleanup"):
                pass

    def body():
        dropped = steps()
        next(dropped)
        del dropped
        gc.collect()

    trace = record(tmp_path / "t.tprof", body)

    assert story(trace) == [
        ("start", "steps"),
        ("suspend", None),
        ("resume", "steps"),
        ("start", "cleanup"),
        ("finish", "steps"),
        ("finish", None),
    ]


def refuse_value(generator):
    with pytest.raises(TypeError, match="can't send non-None value to a just-started"):
        generator.send(1)


def throw_at_begin(generator):
    with pytest.raises(KeyError):
        generator.throw(KeyError("thrown"))
    assert list(generator) == []


@pytest.mark.parametrize(
    ("use", "expected"),
    [(refuse_value, {}), (throw_at_begin, {}), (lambda one: one.close(), {}), (list, {"count": 1})],
    ids=["refused", "thrown", "closed", "run"],
)
def test_a_generator_is_an_instance_from_its_first_step(tmp_path, use, expected):
    trace = record(tmp_path / "t.tprof", lambda: use(count(2)))

    assert instances(trace) == expected


def test_a_generator_that_refused_a_value_is_recorded_when_it_runs(tmp_path):
    async def main():
        refused = acount(1)
        refuse_value(refused.asend(1))
        assert [value async for value in refused] == [0]

    def body():
        made = count(1)
        refuse_value(made)
        assert list(made) == [0]
        asyncio.run(main())

    assert instances(record(tmp_path / "t.tprof", body)) == {"count": 1, "acount": 1}


def test_a_generator_that_runs_already_is_not_ended_by_who_asks_again(tmp_path):
    made = []

    @tprof.task
    def asks_itself():
        with pytest.raises(ValueError, match="already executing"):
            next(made[0])
        yield 1

    async def ask_twice():
        generator = acount(2)
        first = generator.asend(None)
        first.send(None)
        with pytest.raises(RuntimeError, match="already running"):
            generator.asend(None).send(None)
        with pytest.raises(StopIteration):
            first.send(None)
        assert [value async for value in generator] == [1]

    def body():
        made.append(asks_itself())
        assert list(made[0]) == [1]
        asyncio.run(ask_twice())

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {"asks_itself": 1, "acount": 1}
    assert failures(trace) == 0
    assert story(trace)[-1] == ("finish", None)


def test_a_generator_made_before_the_recording_is_no_instance_and_one_made_in_an_earlier_one_is(tmp_path):
    before = count(2)
    next(before)
    kept = []

    def first():
        list(before)
        kept.append(count(3))
        next(kept[0])

    assert instances(record(tmp_path / "a.tprof", first)) == {"count": 1}
    assert next(kept[0]) == 1
    assert instances(record(tmp_path / "b.tprof", lambda: list(kept[0]))) == {"count": 1}


def test_a_generator_is_driven_by_many_threads_in_turns(tmp_path):
    made = []

    def take(_):
        return next(made[0])

    def body():
        made.append(count(64))
        with ThreadPoolExecutor(4) as pool:
            assert [pool.submit(take, at).result() for at in range(64)] == list(range(64))
        assert list(made[0]) == []

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {"count": 1}
    kinds = [kind for thread in range(len(trace.threads)) for kind, _ in story(trace, thread)]
    assert (kinds.count("start"), kinds.count("suspend"), kinds.count("resume")) == (1, 64, 64)


def test_without_a_recording_tasks_of_every_kind_just_run():
    assert add(1) == 2
    assert list(count(2)) == [0, 1]
    assert asyncio.run(fetch(3)) == 3
    with tprof.region("nothing") as region:
        assert region is not None


def test_a_region_may_be_entered_again_while_it_is_open(tmp_path):
    def body():
        region = tprof.region("again")
        with region, region, region:
            pass

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {"again": 3}
    assert story(trace)[-1] == ("finish", None)


def test_threads_that_share_a_region_each_leave_their_own_entry(tmp_path):
    region = tprof.region("shared")
    entered, left = threading.Event(), threading.Event()

    def other():
        with region:
            entered.set()
            left.wait(30)

    def body():
        thread = threading.Thread(target=other)
        with region:
            thread.start()
            entered.wait(30)
        left.set()
        thread.join()

    trace = record(tmp_path / "t.tprof", body)

    assert [story(trace, thread)[:2] for thread in range(2)] == [[("start", "shared"), ("finish", None)]] * 2


def test_a_region_holds_whatever_many_threads_do_with_it_at_once():
    region = tprof.region("shared")

    def enter_often():
        for _ in range(2000):
            with region, region, region:
                pass

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(enter_often) for _ in range(8)]:
            done.result()

    with pytest.raises(RuntimeError, match="left more often"):
        region.__exit__(None, None, None)


@pytest.mark.parametrize("kind", [property, functools.cached_property, functools.partialmethod])
def test_above_what_is_not_called_it_says_to_stand_below(kind):
    with pytest.raises(TypeError, match=f"put @tprof.task below @{kind.__name__}, next to the function"):
        tprof.task(kind(int))


@pytest.mark.parametrize("kind", [staticmethod, classmethod, functools.cache])
def test_above_other_decorators_it_works(kind):
    class Holder:
        @tprof.task
        @kind
        def one(*_):
            return 1

    assert Holder.one() == 1
