"""Several runtimes in one process, one in the other or in threads of their own."""

import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from support.task_programs import OursError
from threadpoolctl import threadpool_info, threadpool_limits
from tprof.runtime import Runtime, Task, TaskCancelledError, _scheduler, current
from tprof.runtime.group import GROUP

import tprof
from tprof import _core
from tprof.declarations import NOTHING
from tprof.errors import UsageError


@tprof.task
def give(value):
    return value


@tprof.task(updates="x")
def change(x, _=None):
    x += 1


@tprof.task(reads="x")
def look(x):
    return x[0]


def has_no_lock():
    """Return whether threads run Python code side by side."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def scheduler_alone():
    """Return what a runtime has inside, without threads."""
    return _scheduler.Scheduler(
        slot_count=1,
        future_type=Task,
        start_thread=print,
        on_slot_taken=print,
        group_variable=GROUP,
        note=print,
        most_unfinished=0,
        graph=None,
    )


@contextmanager
def quick_switches():
    """Let threads take turns as often as they can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.fixture
def gate():
    """Give an event that is set in the end, whatever the test did."""
    event = threading.Event()
    yield event
    event.set()


def test_calls_go_to_the_innermost_block():
    with Runtime(workers=1) as outer:
        give(1)
        with Runtime(workers=1) as inner:
            assert current() is inner
            give(2)
            give(3)
        assert current() is outer
        give(4)

    assert (outer.counts()["spawned"], inner.counts()["spawned"]) == (2, 2)


def test_calls_of_each_thread_go_to_the_runtime_that_it_entered():
    entered, counts = threading.Barrier(3), []

    def run(number):
        with Runtime(workers=1) as runtime:
            entered.wait(30)
            tasks = [give(at) for at in range(number)]
            assert current() is runtime
            runtime.wait()
            assert all(task.done() for task in tasks)
            counts.append(runtime.counts()["spawned"])
            entered.wait(30)

    threads = [threading.Thread(target=run, args=(number,)) for number in (10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [10, 20, 30]


def test_a_runtime_inside_a_task():
    @tprof.task
    def outer_task(n):
        mine = current()
        with Runtime(workers=1) as inner:
            inside = [give(at) for at in range(n)]
            assert current() is inner
            inner.wait()
            assert all(task.done() for task in inside)
        assert current() is mine
        return inner.counts()["spawned"], give(n)

    with Runtime(workers=2) as outer:
        tasks = [outer_task(n) for n in range(6)]
        results = [task.result() for task in tasks]

    assert [spawned for spawned, _ in results] == list(range(6))
    assert [child.result() for _, child in results] == list(range(6))
    assert outer.counts()["spawned"] == 12


def test_a_future_of_one_runtime_is_an_argument_in_another(gate):
    with Runtime(workers=1) as outer:
        early = outer.submit(lambda: 1)
        early.result()
        late = outer.submit(lambda: gate.wait(30) and 2)
        with Runtime(workers=1) as inner:
            both = inner.submit(lambda *numbers: sum(numbers), early, late, *[give(10) for _ in range(12)])
            assert not both.done()
            gate.set()
            assert both.result() == 123


def test_a_failure_in_one_runtime_cancels_who_needs_it_in_another(gate):
    x = np.zeros(3)

    def fail():
        gate.wait(30)
        raise OursError("elsewhere")

    with Runtime(workers=1) as outer:
        failing = outer.submit(fail)
        with Runtime(workers=1) as inner:
            task = change(x, failing)
            reader = look(x)
            gate.set()
            with pytest.raises(TaskCancelledError, match="failed: OursError"):
                task.result()
            inner.wait()
            assert reader.cancelled()
            assert look(x).result() == 0
        with pytest.raises(OursError):
            outer.wait()


def test_a_worker_that_waits_for_another_runtime_lends_its_slot():
    @tprof.task
    def outer_task(outer):
        with Runtime(workers=1) as inner:
            wanted = outer.submit(lambda: 5)
            return inner.submit(wanted.result).result()

    with Runtime(workers=1) as outer:
        assert outer_task(outer).result() == 5


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (0, 2, 1)])
def test_libraries_get_their_threads_back_in_whatever_order_runtimes_end(order):
    np.linalg.inv(np.eye(3))
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        runtimes = [Runtime(workers=1, library_threads=threads) for threads in (1, 1, 1)]

        for runtime in runtimes:
            runtime.__enter__()
        for at in order:
            assert blas_threads() == {1}
            runtimes[at].__exit__(None, None, None)

        assert blas_threads() == before


def test_a_runtime_runs_once():
    runtime = Runtime(workers=1)
    with runtime:
        with pytest.raises(UsageError, match="a runtime runs once: make another"):
            runtime.__enter__()
        assert give(1).result() == 1
    with pytest.raises(UsageError, match="a runtime runs once"), runtime:
        pass


def test_before_and_after_its_block_a_runtime_says_that_it_does_not_run():
    runtime = Runtime(workers=1)
    uses = [
        lambda: runtime.submit(print),
        runtime.wait,
        lambda: runtime.wait(1),
        runtime.group,
        runtime.cancel,
    ]
    for use in uses:
        with pytest.raises(UsageError, match="this runtime has not begun: enter it with a with-block"):
            use()
    with runtime:
        pass
    for use in uses:
        with pytest.raises(UsageError, match="this runtime has ended"):
            use()
    with pytest.raises(UsageError, match="no runtime runs here"):
        current()
    assert runtime.counts() == {
        "spawned": 0,
        "executed": 0,
        "stolen": 0,
        "peak_unfinished": 0,
        "unfinished": 0,
        "threads": 0,
    }


def test_without_a_runtime_a_call_is_a_call():
    assert give(3) == 3
    with Runtime(workers=1):
        assert give.__wrapped__(3) == 3
    assert give(3) == 3


def test_threads_that_exchange_the_current_runtime_drop_each_reference_once():
    """Where Python has no lock of its own, two threads that read and then wrote it dropped the same one."""
    schedulers = [scheduler_alone() for _ in range(3)]
    before = [sys.getrefcount(scheduler) for scheduler in schedulers]
    rounds = 1_000_000 if has_no_lock() else 3_000

    def exchange():
        for at in range(rounds):
            _scheduler.set_default(schedulers[at % 3])

    def read():
        for _ in range(rounds):
            _scheduler.current_scheduler()

    threads = [threading.Thread(target=work) for work in (exchange, exchange, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _scheduler.set_default(None)

    assert [sys.getrefcount(scheduler) for scheduler in schedulers] == before


def test_after_runtimes_of_many_threads_a_call_is_a_call():
    def run():
        for _ in range(30):
            with Runtime(workers=1, pin=False, library_threads=None):
                pass

    with quick_switches():
        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert _scheduler.current_scheduler() is None
    assert give(3) == 3


def test_a_call_that_found_a_runtime_just_before_its_end_is_a_call():
    ended = scheduler_alone()
    ended.stop()
    _scheduler.set_default(ended)
    _core.set_spawner(_scheduler.spawn)
    try:
        assert give(3) == 3
        assert ended.submit(give, NOTHING, 3) is None
    finally:
        _core.set_spawner(None)
        _scheduler.set_default(None)


def test_a_runtime_that_another_thread_ends():
    runtime = Runtime(workers=1).__enter__()
    task = give(1)
    thread = threading.Thread(target=runtime.__exit__, args=(None, None, None))
    thread.start()
    thread.join()

    assert task.result() == 1
    assert give(2) == 2
    with Runtime(workers=1):
        assert give(3).result() == 3
