"""A runtime with fewer active workers than it has: who runs, who parks, and that nothing is left lying."""

import threading

import pytest
from tprof.runtime import Runtime, current

import tprof
from tprof.errors import UsageError

DEADLINE_S = 60


@tprof.task
def slots(running, most, meet):
    with meet:
        running.add(threading.get_ident())
        most.append(len(running))
    with meet:
        running.discard(threading.get_ident())


def run_batch(runtime, count=200):
    running, most, meet = set(), [], threading.Lock()
    for _ in range(count):
        slots(running, most, meet)
    runtime.wait()
    return len(most), max(most)


@pytest.mark.parametrize("active", [1, 2, 3, 4])
def test_no_more_tasks_run_at_a_time_than_workers_are_active(active):
    with Runtime(workers=4) as runtime:
        runtime.active_workers = active

        ran, most = run_batch(runtime)

        assert runtime.active_workers == active
    assert ran == 200
    assert most <= active


def test_workers_come_back_when_there_are_more_again():
    with Runtime(workers=3) as runtime:
        runtime.active_workers = 1
        run_batch(runtime)
        runtime.active_workers = 3
        gate = threading.Barrier(3)

        for _ in range(3):
            runtime.submit(gate.wait, DEADLINE_S)

        runtime.wait()


def test_tasks_of_a_worker_that_is_stood_down_are_run_by_others():
    @tprof.task
    def spawn_and_stand_down():
        current().active_workers = 1
        for _ in range(50):
            slots(running, most, meet)

    running, most, meet = set(), [], threading.Lock()
    with Runtime(workers=4) as runtime:
        for _ in range(4):
            spawn_and_stand_down()
        runtime.wait()

    assert len(most) == 200


@tprof.task
def count_down(left):
    if left:
        future = count_down(left - 1)
        current().active_workers = 1 + left % 3
        future.result()


def test_tasks_that_wait_go_on_however_the_number_changes():
    with Runtime(workers=3) as runtime:
        futures = [count_down(30) for _ in range(8)]
        runtime.wait()

    assert all(future.done() for future in futures)


def test_the_number_changes_while_tasks_come_from_several_threads():
    with Runtime(workers=4) as runtime:
        total = []
        counted = threading.Lock()

        def spawn():
            for _ in range(300):
                runtime.submit(add)

        def add():
            with counted:
                total.append(1)

        threads = [threading.Thread(target=spawn) for _ in range(3)]
        for thread in threads:
            thread.start()
        for place in range(300):
            runtime.active_workers = 1 + place % 4
        for thread in threads:
            thread.join()
        runtime.wait()

    assert len(total) == 900


def test_numbers_out_of_range_are_refused():
    with Runtime(workers=2) as runtime:
        for number in (0, 3, True, 1.5):
            with pytest.raises(UsageError, match="active_workers is a whole number from 1 to 2"):
                runtime.active_workers = number
