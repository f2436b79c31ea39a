"""Groups wait for what their block spawns; cancelling lets what has not begun not run."""

import asyncio
import threading

import pytest
from support.task_programs import OursError
from tprof.runtime import Runtime, TaskCancelledError, current

import tprof


@tprof.task
def give(value):
    return value


@tprof.task
def fail(message="of ours"):
    raise OursError(message)


@tprof.task
def hold(gate):
    assert gate.wait(30)


@pytest.fixture
def gate():
    """Give an event that is set in the end, whatever the test did."""
    event = threading.Event()
    yield event
    event.set()


def running(task):
    while not task.running():
        assert not task.done()
    return task


def test_a_group_waits_for_its_tasks_and_no_others(gate):
    with Runtime(workers=2) as runtime:
        before = hold(gate)
        with runtime.group():
            tasks = [give(number) for number in range(20)]
        assert all(task.done() for task in tasks)
        assert not before.done()
        with runtime.group():
            pass
        gate.set()


def test_groups_one_in_the_other(gate):
    with Runtime(workers=2) as runtime, runtime.group():
        outer = hold(gate)
        with runtime.group():
            inner = give(1)
        assert inner.done()
        assert not outer.done()
        after = give(2)
        gate.set()
    assert outer.done()
    assert after.done()


def test_a_group_waits_for_what_its_tasks_spawn(gate):
    ended = []

    @tprof.task
    def parent(n):
        if n > 0:
            parent(n - 1)
        else:
            gate.wait(30)
        ended.append(n)

    with Runtime(workers=2) as runtime:
        with runtime.group():
            parent(5)
            gate.set()
        assert sorted(ended) == list(range(6))


def test_a_group_raises_the_first_failure_and_the_others_go_on():
    with Runtime(workers=1) as runtime:
        with pytest.raises(OursError, match="of ours") as caught, runtime.group():
            failing = fail()
            needs = give(failing)
            other = give(1)
        assert caught.value.__notes__ == [f"raised in task fail (#{failing.number})"]
        assert (needs.state, other.state) == ("cancelled", "finished")
        runtime.wait()


def test_an_exception_of_the_block_cancels_what_has_not_begun(gate):
    with Runtime(workers=1) as runtime:
        other = give(0)
        with pytest.raises(ZeroDivisionError), runtime.group():
            begun = running(hold(gate))
            tasks = [give(number) for number in range(10)]
            deep = give(begun)
            threading.Timer(0.5, gate.set).start()
            raise ZeroDivisionError
        assert begun.state == "finished"
        assert all(task.state == "cancelled" for task in [*tasks, deep])
        assert other.result() == 0
        assert give(5).result() == 5


def test_an_exception_of_the_block_is_noted_what_failed_meanwhile():
    with Runtime(workers=1) as runtime, pytest.raises(ZeroDivisionError) as caught, runtime.group():
        failing = fail()
        while not failing.done():
            pass
        raise ZeroDivisionError
    assert caught.value.__notes__ == [f"meanwhile {failing!r} raised OursError('of ours')"]


def test_a_group_inside_a_task_takes_only_its_own_tasks_though_the_worker_runs_others_there():
    """The worker runs the parent on the same stack, inside the group's block: the child is not the group's."""

    @tprof.task
    def parent():
        fail("child")

    @tprof.task
    def outer():
        with current().group():
            task = parent()
            with pytest.raises(OursError, match="child"):
                task.result()
        return task.state

    with Runtime(workers=1):
        assert outer().result() == "failed"


def test_an_async_group_lets_the_loop_go_on(gate):
    async def main(runtime):
        beats = []

        async def beat():
            while not gate.is_set():
                beats.append(len(beats))
                if len(beats) == 3:
                    gate.set()
                await asyncio.sleep(0)

        beating = asyncio.create_task(beat())
        async with runtime.group():
            task = hold(gate)
        assert task.done()
        await beating
        with pytest.raises(OursError):
            async with runtime.group():
                fail()
        with pytest.raises(ZeroDivisionError):
            async with runtime.group():
                raise ZeroDivisionError

    with Runtime(workers=1) as runtime:
        asyncio.run(main(runtime))


def test_coroutines_have_groups_of_their_own(gate):
    async def one(runtime, event):
        async with runtime.group():
            hold(event)
            await asyncio.sleep(0)
            hold(event)

    async def main(runtime):
        late, early = gate, threading.Event()
        first, second = asyncio.create_task(one(runtime, late)), asyncio.create_task(one(runtime, early))
        await asyncio.sleep(0)
        early.set()
        await second
        assert not first.done()
        late.set()
        await first

    with Runtime(workers=4) as runtime:
        asyncio.run(main(runtime))


def test_a_group_is_for_one_block():
    with Runtime(workers=1) as runtime:
        group = runtime.group()
        with group:
            pass
        with pytest.raises(RuntimeError, match="make one group for each block"), group:
            pass


def test_cancelling_a_group_leaves_others_and_what_comes_later(gate):
    with Runtime(workers=1) as runtime:
        begun = running(hold(gate))
        outside = give(1)
        with runtime.group() as group:
            inside = [give(2), give(begun)]
            group.cancel()
            later = give(3)
            gate.set()
        assert [task.state for task in inside] == ["cancelled", "cancelled"]
        assert (outside.result(), later.result()) == (1, 3)


def test_cancelling_a_group_reaches_the_groups_inside_its_block(gate):
    with Runtime(workers=1) as runtime:
        running(hold(gate))
        with runtime.group() as outer:
            first = give(1)
            with runtime.group():
                inside = give(2)
                outer.cancel()
            gate.set()
            later = give(3)

    assert [task.state for task in (first, inside, later)] == ["cancelled", "cancelled", "finished"]


def test_cancelling_a_group_reaches_what_its_tasks_spawn(gate):
    children = []

    @tprof.task
    def parent():
        hold(gate)
        children.extend(give(number) for number in range(3))
        begun.set()
        gate.wait(30)
        children.append(give(3))

    begun = threading.Event()
    with Runtime(workers=1) as runtime, runtime.group() as group:
        task = parent()
        begun.wait(30)
        group.cancel()
        gate.set()
    assert task.state == "finished"
    assert {child.state for child in children} == {"cancelled"}


def test_cancelling_the_runtime_is_for_what_was_spawned_so_far(gate):
    ran = []

    @tprof.task
    def note(number):
        ran.append(number)

    @tprof.task
    def parent():
        started.set()
        gate.wait(30)
        note("child")

    started = threading.Event()
    with Runtime(workers=1) as runtime:
        begun = parent()
        started.wait(30)
        queued = [note(number) for number in range(5)]
        waiting = note(begun)
        runtime.cancel()
        later = note("later")
        gate.set()
        runtime.wait()
        assert {task.state for task in [*queued, waiting]} == {"cancelled"}
        assert (begun.state, later.state) == ("finished", "finished")
        runtime.cancel()
        assert note("afterwards").result() is None

    assert ran == ["later", "afterwards"]


def test_what_needs_a_cancelled_task_is_cancelled_with_it(gate):
    with Runtime(workers=1) as runtime:
        running(hold(gate))
        task = give(1)
        needs = give(task)
        other = give(2)
        assert task.cancel()
        gate.set()
        with pytest.raises(TaskCancelledError, match="since it needs what task give was cancelled"):
            needs.result()
        runtime.wait()
        assert other.result() == 2


def test_a_cancelled_task_that_waits_for_others_keeps_its_place_between_them(gate):
    """Who comes after it still waits for who comes before it."""
    order = []

    @tprof.task(updates="x")
    def change(x, number):
        if number == 1:
            gate.wait(30)
        order.append(number)

    @tprof.task(writes="x")
    def overwrite(x, number):
        order.append(number)

    with Runtime(workers=4) as runtime:
        change("x", 1)
        second = change("x", 2)
        third = overwrite("x", 3)
        assert second.cancel()
        assert second.cancelled()
        assert not third.done()
        gate.set()
        runtime.wait()
    assert order == [1, 3]


def test_waiting_for_data_whose_task_was_cancelled_says_so(gate):
    @tprof.task(updates="x")
    def change(x):
        pass

    with Runtime(workers=1) as runtime:
        running(hold(gate))
        task = change("x")
        task.cancel()
        with pytest.raises(TaskCancelledError, match="task change was cancelled"):
            runtime.wait("x")
        runtime.wait("x")
        gate.set()
