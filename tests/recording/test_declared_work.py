"""What tasks declare of their flops and bytes is in the trace, and never in the program's way."""

import asyncio
import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import traces

import tprof
from tprof import _core


@tprof.task(flops=2e6, bytes=8)
def fixed() -> int:
    return 1


@tprof.task(flops=lambda n, scale=1: 2 * n * scale, bytes=lambda n, scale=1: 8 * n)  # noqa: ARG005 - the task's own
def varied(n: int, scale: int = 1) -> int:
    return n * scale


@tprof.task(flops=lambda x: 1 / x)
def fragile(x: float) -> float:
    return x


@tprof.task(bytes=lambda value: value)
async def declared_fetch(value: int) -> int:
    await asyncio.sleep(0)
    return value


@tprof.task(flops=lambda limit: limit)
def declared_count(limit: int):
    yield from range(limit)


class DeclaredTile:
    @tprof.task(flops=lambda self: self.size)
    def blur(self) -> int:
        return self.size

    def __init__(self, size: int) -> None:
        self.size = size


def recorded(path, body):
    with tprof.record(path, energy="none", counters="none"):
        body()
    return {entry.name: entry for entry in tprof.load(path).tasks}


def test_numbers_stand_in_the_table_and_leave_the_call_alone(tmp_path):
    table = recorded(tmp_path / "t.tprof", fixed)

    assert (table["fixed"].flops, table["fixed"].bytes, table["fixed"].calls) == (2e6, 8.0, 0)
    assert type(fixed) is _core.Task
    assert fixed.__wrapped__() == 1


def test_functions_of_the_arguments_are_summed_over_calls_and_threads(tmp_path):
    def body():
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(varied, [1, 2, 3, 4])) == [1, 2, 3, 4]
        varied(5, scale=2)

    entry = recorded(tmp_path / "t.tprof", body)["varied"]

    assert (entry.calls, entry.flops_sum, entry.bytes_sum) == (5, 2.0 * 20, 8.0 * 15)
    assert (entry.flops, entry.bytes) == (None, None)
    assert entry.source is not None


def test_nothing_is_asked_while_nothing_records(tmp_path):
    asked = []

    @tprof.task(flops=asked.append)
    def quiet(_: int) -> None: ...

    quiet(1)
    recorded(tmp_path / "t.tprof", lambda: None)
    quiet(2)

    assert asked == []


def test_each_recording_begins_from_zero(tmp_path):
    recorded(tmp_path / "a.tprof", lambda: varied(100))

    entry = recorded(tmp_path / "b.tprof", lambda: varied(1))["varied"]

    assert (entry.calls, entry.flops_sum) == (1, 2.0)


def test_a_declaration_that_fails_is_counted_and_the_call_goes_on(tmp_path):
    def body():
        assert [fragile(x) for x in (0.0, 2.0, -1.0)] == [0.0, 2.0, -1.0]

    entry = recorded(tmp_path / "t.tprof", body)["fragile"]

    assert (entry.calls, entry.flops_sum) == (1, 0.5)
    lines = (tmp_path / "t.tprof/tasks/00000000.jsonl").read_text().splitlines()
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0.0  # noqa: B018 - Python 3.14 words it in another way
    message = str(raised.value)
    assert [
        (one["calls_failed"], one["failed"], one["failure"]) for one in map(json.loads, lines) if "calls" in one
    ] == [(2, "flops", f"ZeroDivisionError: {message}")]
    profile = tprof.load(tmp_path / "t.tprof").profile()
    assert (
        f"flops of task fragile: the declared function failed for 2 of 3 calls (ZeroDivisionError: {message})"
    ) in profile.info["warnings"]


def test_what_a_declaration_gave_instead_of_a_number_is_said(tmp_path):
    @tprof.task(bytes=lambda: "many")
    def vague() -> None: ...

    entry = recorded(tmp_path / "t.tprof", vague)["vague"]

    assert (entry.calls, entry.calls_failed, entry.failed) == (0, 1, "bytes")
    assert entry.failure == "it gave an object of type str, not a number of 0 or more"


@pytest.mark.parametrize(
    ("function", "asks"),
    [
        (lambda a: a, lambda a, q: a * q),
        (lambda a, b: a + b, lambda a: a),
        (lambda: 0, lambda a: a),
        (lambda a, *, b: a + b, lambda a, *, c: a + c),
    ],
)
def test_a_declaration_that_fits_no_call_is_refused_where_it_is_made(function, asks):
    with pytest.raises(TypeError, match=r"bytes of task .* is asked with the task's arguments, and takes other ones"):
        tprof.task(flops=3, bytes=asks)(function)


@pytest.mark.parametrize(
    ("function", "asks"),
    [
        (lambda a, b=1: a + b, lambda a: a),
        (lambda a, b=1, c=2: a + b + c, lambda a, b: a + b),
        (lambda a, b=1, *, c=2, d=3: a + b + c + d, lambda a, *, d: a + d),
        (lambda a: a, lambda x: x),
        (lambda a: a, lambda *, a: a),
        (lambda *rest: rest, lambda a, b: a + b),
        (lambda a: a, lambda *_, **__: 1),
        (lambda a: a, max),
    ],
)
def test_a_declaration_that_fits_some_calls_is_taken(function, asks):
    assert tprof.task(flops=asks)(function).__wrapped__ is not None


def test_coroutines_generators_and_methods_declare_too(tmp_path):
    def body():
        assert asyncio.run(declared_fetch(7)) == 7
        assert list(declared_count(3)) == [0, 1, 2]
        assert DeclaredTile(11).blur() == 11

    table = recorded(tmp_path / "t.tprof", body)

    assert (
        table["declared_fetch"].bytes_sum,
        table["declared_count"].flops_sum,
        table["DeclaredTile.blur"].flops_sum,
    ) == (7.0, 3.0, 11.0)


def test_a_forked_child_adds_its_own_calls(tmp_path):
    def body():
        varied(1)
        pid = os.fork()
        if pid == 0:
            varied(10)
            from tprof.session.process_state import this_process  # noqa: PLC0415 - in the child

            this_process.leave()
            os._exit(0)
        os.waitpid(pid, 0)

    entry = recorded(tmp_path / "t.tprof", body)["varied"]

    assert (entry.calls, entry.flops_sum) == (2, 2.0 * 11)


def test_a_task_with_work_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(varied)) is varied  # noqa: S301 - our own bytes


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), "12", [1]])
def test_what_is_no_amount_is_refused_where_it_is_declared(amount):
    with pytest.raises(ValueError, match="flops must be a number of 0 or more, or a function of the arguments"):
        tprof.task(flops=amount)(len)


@pytest.mark.parametrize("wrong", ["true", "-1", "1e400", '"3"', "null", "[1]"])
def test_amounts_of_a_trace_that_are_none_are_left_out(tmp_path, wrong):
    path = traces.write(tmp_path / "t.tprof")
    line = f'{{"task": 0, "name": "load", "flops": {wrong}, "calls": {wrong}, "flops_sum": {wrong}, '
    line += f'"calls_failed": {wrong}, "failed": {wrong}}}\n'
    with (path / "tasks/00000000.jsonl").open("a", encoding="utf-8") as file:
        file.write(line)

    entry = tprof.load(path).tasks[0]

    assert (entry.flops, entry.calls, entry.flops_sum) == (None, 0, None)
    assert (entry.calls_failed, entry.failed) == (0, None)
