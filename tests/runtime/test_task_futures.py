"""A task's future is one of `concurrent.futures` in all that they do, and can be awaited."""

import asyncio
import concurrent.futures as cf
import sys
import threading

import pytest
from support.task_programs import OursError
from tprof.runtime import Runtime, Task, TaskCancelledError

import tprof


@tprof.task
def give(value):
    return value


@tprof.task
def hold(gate, value=None):
    assert gate.wait(30)
    if isinstance(value, Exception):
        raise value
    return value


@pytest.fixture
def gate():
    """Give an event that is set in the end, whatever the test did."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_gives_a_future_with_the_result():
    with Runtime(workers=1):
        task = give([1, 2])
        assert isinstance(task, cf.Future)
        assert isinstance(task, Task)
        assert task.result() is task.result(timeout=60)
        assert task.exception() is None
        assert task.exception(timeout=0) is None
    assert (task.done(), task.running(), task.cancelled()) == (True, False, False)
    assert repr(task) == "<Task give #1 finished>"
    assert (task.name, task.number) == ("give", 1)


def test_a_future_of_a_task_that_runs(gate):
    with Runtime(workers=1):
        task = hold(gate)
        waiting = give(1)
        while not task.running():
            assert not task.done()
        with pytest.raises(TimeoutError):
            task.result(timeout=0)
        with pytest.raises(TimeoutError):
            task.result(0.001)
        with pytest.raises(cf.TimeoutError):
            task.exception(timeout=0.001)
        with pytest.raises(TimeoutError):
            waiting.result(-1)
        assert not waiting.running()
        assert not waiting.done()
        assert not task.cancel()
        gate.set()
        assert waiting.result() == 1


@pytest.mark.parametrize("timeout", [1e6, 1e10, 1e300, float("inf"), None, 10**6])
def test_very_long_timeouts_are_as_good_as_none(timeout, gate):
    with Runtime(workers=1):
        task = hold(gate, 5)
        gate.set()
        assert task.result(timeout=timeout) == 5


@pytest.mark.parametrize("timeout", ["1", [], object()])
def test_a_timeout_is_a_number(timeout):
    with Runtime(workers=1), pytest.raises(TypeError):
        give(1).result(timeout=timeout)


def test_asking_again_and_again_never_gives_anything_but_a_timeout_or_the_result():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Runtime(workers=2, library_threads=None):
            for number in range(1000):
                task = give(number)
                while True:
                    try:
                        assert task.result(timeout=0) == number
                        break
                    except TimeoutError:
                        pass
    finally:
        sys.setswitchinterval(before)


def test_only_the_runtime_says_how_a_task_ends():
    with Runtime(workers=1):
        task = give(1)
        for refused in (
            lambda: task.set_result(2),
            lambda: task.set_exception(OursError()),
            task.set_running_or_notify_cancel,
        ):
            with pytest.raises(RuntimeError, match="task give belongs to its runtime, which alone says how it ends"):
                refused()
        assert task.result() == 1


def test_callbacks_are_called_once_in_order_with_the_future(gate):
    told = []
    with Runtime(workers=1) as runtime:
        task = hold(gate)
        task.add_done_callback(lambda future: told.append((1, future)))
        task.add_done_callback(lambda future: told.append((2, future)))
        gate.set()
        runtime.wait()
        give(0).result()
        task.add_done_callback(lambda future: told.append((3, future)))
        assert told == [(1, task), (2, task), (3, task)]


def test_a_callback_that_raises_does_no_harm(gate, monkeypatch):
    unraisable, told = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: unraisable.append(what.exc_value))
    error = OursError("of a callback")

    def broken(_):
        raise error

    with Runtime(workers=1) as runtime:
        task = hold(gate)
        task.add_done_callback(broken)
        task.add_done_callback(told.append)
        gate.set()
        runtime.wait()
        task.add_done_callback(broken)

    assert told == [task]
    assert unraisable == [error, error]


def test_callbacks_of_tasks_that_fail_and_are_cancelled(gate):
    told = []
    with Runtime(workers=1) as runtime:
        failing = hold(gate, OursError())
        needs = give(failing)
        cancelled = give(1)
        for task in (failing, needs, cancelled):
            task.add_done_callback(lambda future: told.append((future.number, future.state)))
        cancelled.cancel()
        gate.set()
        with pytest.raises(OursError):
            runtime.wait()

    assert sorted(told) == [(1, "failed"), (2, "cancelled"), (3, "cancelled")]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_callback_may_spawn_and_wait(gate, workers):
    """It runs on a worker, which would otherwise be the one that runs what the callback waits for."""
    told = []
    with Runtime(workers=workers, max_pending=1) as runtime:
        task = hold(gate)
        task.add_done_callback(lambda _: told.append(give(give(2)).result()))
        gate.set()
        while not told:
            runtime.wait()

    assert told == [2]


def test_a_callback_that_waits_for_what_another_worker_does(gate):
    met = threading.Event()

    def meet(_):
        assert met.wait(30)

    with Runtime(workers=2) as runtime:
        task = hold(gate, "first")
        runtime.submit(lambda _: met.set(), task)
        task.add_done_callback(meet)
        gate.set()

    assert met.is_set()


def test_wait_waits_for_those_that_have_not_ended(gate):
    with Runtime(workers=2):
        ended = give(1)
        ended.result()
        held = hold(gate)

        done, pending = cf.wait([ended, held], timeout=0.01)
        assert (done, pending) == ({ended}, {held})
        done, pending = cf.wait([ended, held], return_when=cf.FIRST_COMPLETED)
        assert (done, pending) == ({ended}, {held})
        done, pending = cf.wait([ended, held], timeout=0.01, return_when=cf.FIRST_EXCEPTION)
        assert (done, pending) == ({ended}, {held})
        threading.Timer(0.05, gate.set).start()
        done, pending = cf.wait([ended, held])
        assert (done, pending) == ({ended, held}, set())


def test_wait_for_the_first_exception(gate):
    with Runtime(workers=3) as runtime:
        first, second = threading.Event(), threading.Event()
        tasks = [hold(gate), hold(first, 1), hold(second, OursError())]
        threading.Timer(0.02, first.set).start()
        threading.Timer(0.05, second.set).start()
        done, pending = cf.wait(tasks, return_when=cf.FIRST_EXCEPTION)
        assert tasks[2] in done
        assert tasks[0] in pending
        gate.set()
        with pytest.raises(OursError):
            runtime.wait()


def test_as_completed_gives_each_once_as_it_ends(gate):
    with Runtime(workers=2):
        held = hold(gate, 0)
        tasks = [give(number) for number in range(1, 20)]
        tasks[0].result()
        seen = []
        for task in cf.as_completed([held, *tasks, *tasks]):
            seen.append(task.result())
            if len(seen) == 19:
                gate.set()

    assert seen[-1] == 0
    assert sorted(seen) == list(range(20))


def test_as_completed_gives_up_in_time(gate):
    with Runtime(workers=2):
        ended = give(1)
        ended.result()
        completed = cf.as_completed([ended, hold(gate)], timeout=0.01)
        assert next(completed) is ended
        with pytest.raises(TimeoutError):
            next(completed)
        gate.set()


def test_waiting_for_tasks_that_end_at_any_moment_misses_none():
    """Between looking who has ended and asking to be told, some end."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Runtime(workers=2, library_threads=None), cf.ThreadPoolExecutor(2) as pool:
            for _ in range(100):
                tasks = [give(number) for number in range(10)] + [pool.submit(abs, -1)]
                assert sorted(task.result() for task in cf.as_completed(tasks, timeout=30)) == [0, 1, 1, *range(2, 10)]
                tasks = [give(number) for number in range(10)]
                waited = [pool.submit(cf.wait, tasks, 30), pool.submit(cf.wait, tasks, 30)]
                assert all(len(future.result().done) == 10 for future in waited)
    finally:
        sys.setswitchinterval(before)


def test_who_stops_waiting_is_forgotten(gate):
    with Runtime(workers=1):
        task = hold(gate)
        for _ in range(5):
            cf.wait([task], timeout=0)

        assert vars(task)["waiters"] == []
        gate.set()


def test_cancel_before_it_runs(gate):
    with Runtime(workers=1) as runtime:
        held = hold(gate)
        task = give(1)
        assert task.cancel()
        assert task.cancel()
        assert (task.done(), task.cancelled(), task.running()) == (True, True, False)
        with pytest.raises(TaskCancelledError, match="task give was cancelled before it ran"):
            task.result()
        with pytest.raises(cf.CancelledError):
            task.exception()
        gate.set()
        runtime.wait()
        assert not held.cancel()


def test_futures_as_arguments_are_their_results(gate):
    with Runtime(workers=2):
        task = hold(gate, 2)
        total = give(task)
        for _ in range(5):
            total = add(total, other=task)
        many = largest(*[give(number) for number in range(20)])
        gate.set()
        assert total.result() == 12
        assert many.result() == 19
        assert add(give(1), other=give(2)).result() == 3


@tprof.task
def add(one, *, other):
    return one + other


@tprof.task
def largest(*numbers):
    return max(numbers)


def test_a_future_that_is_data_is_its_result_in_the_body():
    @tprof.task(updates="total")
    def put(total, number):
        total.append(number)
        return total

    with Runtime(workers=2):
        total = give([])
        for number in range(10):
            put(total, number)
        assert put(total, 10).result() == list(range(11))


def test_a_result_is_asked_for_inside_a_task(gate):
    @tprof.task
    def ask(task):
        return task().result() + 1

    with Runtime(workers=1):
        later = give(1)
        asked = ask(lambda: later)
        held = hold(gate, 5)
        both = ask(lambda: held)
        gate.set()
        assert (asked.result(), both.result()) == (2, 6)


def test_a_task_that_waits_for_itself_or_its_parent_is_told_so():
    box = {}

    @tprof.task
    def child():
        return box["parent"].result()

    @tprof.task
    def parent(gate):
        gate.wait(30)
        with pytest.raises(RuntimeError, match="waits for <Task parent #1 running>, which cannot end before it"):
            box["parent"].result()
        with pytest.raises(RuntimeError, match="<Task child #2 running> waits for <Task parent #1 running>"):
            child().result()
        with pytest.raises(TimeoutError):
            box["parent"].result(timeout=0)
        return 1

    with Runtime(workers=2):
        gate = threading.Event()
        box["parent"] = parent(gate)
        gate.set()
        assert box["parent"].result() == 1


def test_tasks_are_awaited():
    async def main():
        gate = threading.Event()
        held = hold(gate, 3)
        asyncio.get_running_loop().call_later(0.01, gate.set)
        assert await held == 3
        assert await asyncio.gather(*[give(number) for number in range(50)]) == list(range(50))
        assert await asyncio.wait_for(give(give(1)), 30) == 1
        with pytest.raises(OursError):
            await hold(gate, OursError())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(hold(last), 0.01)
        last.set()
        return await asyncio.wrap_future(give(4))

    last = threading.Event()
    with Runtime(workers=2) as runtime:
        assert asyncio.run(main()) == 4
        runtime.wait()


def test_cancelling_who_awaits_cancels_a_task_that_has_not_begun(gate):
    async def main():
        hold(gate)
        task = give(1)

        async def wait():
            await task

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        return task

    with Runtime(workers=1):
        assert asyncio.run(main()).cancelled()
        gate.set()
