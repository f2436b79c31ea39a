"""What a worker of Ray looks up to execute becomes a task of the same kind, here with a manager as Ray has it."""

import asyncio
import inspect
import types
from typing import Any, NamedTuple

import pytest
from support.recorded import failures, instances, record

import tprof
import tprof.ray
from tprof.errors import UsageError
from tprof.ray.marking import mark_in
from tprof.session.process_state import this_process


class Info(NamedTuple):
    function: Any
    function_name: str
    max_calls: int


class Descriptor(NamedTuple):
    function_id: str
    class_name: str


class Actor:
    def add(self, n):
        return sum(range(n))

    def count(self, n):
        yield from range(n)

    async def wait(self, n):
        await asyncio.sleep(0)
        return n

    async def flow(self, n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    @tprof.task
    def own(self):
        return 1

    def __ray_ready__(self) -> bool:
        return True


def remote(n):
    if n < 0:
        raise ValueError(n)
    return n


def stream(n):
    yield from range(n)


def executor_of(method):
    """Return what Ray executes instead of a method."""

    def actor_method_executor(actor, *args, **kwargs):
        return method(actor, *args, **kwargs)

    actor_method_executor.name = method.__name__
    actor_method_executor.method = method
    return actor_method_executor


@pytest.fixture
def look_up(monkeypatch):
    """Return a function that looks up a remote function or a method, as a worker does."""
    monkeypatch.setattr("tprof.ray.marking._label_actor", lambda _: None)
    known = {}

    class FunctionActorManager:
        def get_execution_info(self, _, function_descriptor):
            return known[function_descriptor.function_id]

    module = types.ModuleType("ray._private.function_manager")
    module.FunctionActorManager = FunctionActorManager
    mark_in(module)
    mark_in(module)  # once is enough

    def look(function, *, is_method=False):
        known[function.__name__] = Info(executor_of(function) if is_method else function, function.__name__, 0)
        descriptor = Descriptor(function.__name__, "test_ray.<locals>.Actor" if is_method else "")
        first, again = (FunctionActorManager().get_execution_info(None, descriptor) for _ in range(2))
        assert first is again
        return first

    return look


def test_functions_and_methods_of_every_kind_are_tasks_by_their_names(tmp_path, look_up):
    actor = Actor()
    found = {name: look_up(getattr(Actor, name), is_method=True).function for name in ("add", "count", "wait", "flow")}

    async def drain():
        return [await found["wait"](actor, 2), [one async for one in found["flow"](actor, 3)]]

    def run():
        assert look_up(remote).function(3) == 3
        assert list(look_up(stream).function(2)) == [0, 1]
        assert (found["add"](actor, 4), list(found["count"](actor, 2))) == (6, [0, 1])
        assert asyncio.run(drain()) == [2, [0, 1, 2]]

    trace = record(tmp_path / "t.tprof", run)

    names = ("remote", "stream", "Actor.add", "Actor.count", "Actor.wait", "Actor.flow")
    assert instances(trace) == dict.fromkeys(names, 1)
    places = {entry.name: entry.line for entry in trace.tasks}
    assert places["Actor.add"] == Actor.add.__code__.co_firstlineno
    assert {entry.library for entry in trace.tasks if entry.name in names} == {"Ray"}


def test_ray_still_finds_what_it_asks_of_a_method(look_up):
    wait = look_up(Actor.wait, is_method=True).function

    assert (wait.name, wait.method) == ("wait", Actor.wait)
    assert inspect.iscoroutinefunction(wait.method)
    assert inspect.isgenerator(look_up(stream).function(1))


def test_tasks_of_the_program_and_methods_of_ray_itself_stay_as_they_are(look_up):
    own, ready = (look_up(getattr(Actor, name), is_method=True) for name in ("own", "__ray_ready__"))

    assert type(own.function) is type(ready.function) is types.FunctionType
    assert look_up(tprof.task(remote)).function.__wrapped__ is remote


def test_what_a_pattern_of_tprof_run_selects_has_no_second_instance(look_up, monkeypatch):
    monkeypatch.setattr(this_process, "selects", lambda function: function in (remote, Actor.add))

    assert look_up(remote).function is remote
    assert type(look_up(Actor.add, is_method=True).function) is types.FunctionType
    assert look_up(stream).function is not stream


def test_an_attempt_that_fails_is_an_instance_that_failed(tmp_path, look_up):
    marked = look_up(remote).function

    def run():
        with pytest.raises(ValueError, match="-1"):
            marked(-1)

    assert failures(record(tmp_path / "t.tprof", run)) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"others": {"worker_process_setup_hook": "mine"}}, "call tprof.ray.set_up_worker"),
        ({"others": {"env_vars": "A=1"}}, "others= is a dict such as"),
        ({"others": 4}, "others= is a dict such as"),
        ({}, "exists: choose another path, or replace it with overwrite=True"),
        ({"overwrite": True}, "is not a job: it is left alone"),
        ({"idle_s": -1}, "idle_s must be from 0"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_ray_is_loaded(tmp_path, options, sentence):
    (tmp_path / "x.tprof").mkdir()

    with pytest.raises(UsageError, match=sentence):
        tprof.ray.runtime_env(tmp_path / "x.tprof", **options)


def test_a_job_inside_another_recording_is_refused(tmp_path):
    with (
        tprof.record(tmp_path / "a.tprof", energy="none", counters="none"),
        pytest.raises(UsageError, match="a recording already runs in this process"),
    ):
        tprof.ray.runtime_env(tmp_path / "b.tprof")


def test_a_job_that_was_not_begun_cannot_be_collected(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    with pytest.raises(UsageError, match="is not recorded by this process"):
        tprof.ray.collect(tmp_path / "x.tprof")


def test_a_ray_that_is_not_known_is_warned_of():
    with pytest.warns(RuntimeWarning, match="put @tprof.task below @ray.remote"):
        mark_in(types.ModuleType("ray._private.function_manager"))
