"""Spawning runs ahead only so far."""

import threading

import pytest
from tprof.runtime import Runtime

import tprof


@tprof.task
def nothing():
    pass


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 64])
def test_never_more_are_unfinished_than_allowed(most):
    with Runtime(workers=2, max_pending=most, library_threads=None) as runtime:
        for _ in range(500):
            nothing()
        counts = runtime.counts()

    assert counts["peak_unfinished"] <= most
    assert runtime.counts()["executed"] == 500


def test_a_quarter_of_a_million_tasks_stay_bounded():
    with Runtime(workers=1, library_threads=None) as runtime:
        for _ in range(250_000):
            nothing()

    assert runtime.counts()["peak_unfinished"] <= 100_000
    assert runtime.counts()["executed"] == 250_000


def test_without_a_limit_all_may_be_unfinished():
    gate = threading.Event()
    with Runtime(workers=1, max_pending=None, library_threads=None) as runtime:
        runtime.submit(gate.wait, 30)
        for _ in range(150_000):
            nothing()
        gate.set()

    assert runtime.counts()["peak_unfinished"] == 150_001


def test_children_are_bounded_for_each_parent():
    @tprof.task
    def parent():
        for _ in range(50):
            nothing()

    with Runtime(workers=2, max_pending=2, library_threads=None) as runtime:
        for _ in range(10):
            parent()

    assert runtime.counts()["executed"] == 510
    assert runtime.counts()["peak_unfinished"] <= 2 + 2 * 2


def test_a_spawner_that_is_held_back_goes_on_when_another_thread_ends_the_runtime():
    """It comes back into a scheduler that nobody else holds any more."""
    for _ in range(20):
        gate, spawning = threading.Event(), threading.Event()
        spawned = []

        def spawn(spawning=spawning, spawned=spawned):
            spawning.set()
            spawned.extend(nothing() for _ in range(50))

        with Runtime(workers=1, max_pending=1, library_threads=None) as runtime:
            runtime.submit(gate.wait, 30)
            thread = threading.Thread(target=spawn)
            thread.start()
            spawning.wait(30)
            gate.set()
        del runtime
        thread.join()

        assert all(task is None or task.result() is None for task in spawned)
