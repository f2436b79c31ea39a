"""Calls that give work to a library's pool are noted with their task, and nothing about them changes."""

import platform
import threading

import numpy as np
import pytest
from support import calling

import tprof

MS = 1_000_000

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="calls are noted on x86-64 and arm64 only"
)


@pytest.fixture(scope="module", params=["now", "lazy"])
def caller(request, tmp_path_factory):
    """Return the library that calls, with its table of addresses protected by the linker, and not."""
    path = calling.build(tmp_path_factory.mktemp("calls"), f"-Wl,-z,{request.param}")
    return calling.open_caller(path)


def record(place, **options):
    return tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True, **options)


def calls_of(place, caller):
    """Return the calls of the library, and the names of the tasks."""
    trace = tprof.load(place / "t.tprof")
    assert trace.notes == ()
    (calls,) = [one for one in trace.native_calls if one.library == caller.pool]
    assert calls.complete
    return calls, [entry.name for entry in trace.tasks]


def entries(calls):
    """Return the places where an entry begins that is no further part of a long one."""
    follows = (calls.begin_ns[1:] == calls.end_ns[:-1]) & (calls.tid[1:] == calls.tid[:-1])
    return np.concatenate(([0], 1 + np.flatnonzero(~follows)))


def test_every_kind_of_argument_and_result_passes_through(tmp_path, caller):
    assert caller.right() == calling.RIGHT

    with record(tmp_path):
        assert caller.right() == calling.RIGHT

    assert caller.right() == calling.RIGHT
    assert len(calls_of(tmp_path, caller)[0].tid) > 0


def test_a_call_has_its_thread_its_task_and_its_time(tmp_path, caller):
    burn, wait = tprof.task(name="burn")(caller.call_burn), tprof.task(name="wait")(lambda: None)

    with record(tmp_path):
        wait()
        burn(30 * MS)
        wait()
        caller.call_burn(20 * MS)

    calls, names = calls_of(tmp_path, caller)
    length_ns = calls.end_ns - calls.begin_ns
    assert set(calls.tid) == {threading.get_native_id()}
    assert set(calls.task) == {names.index("burn"), -1}
    of_task = calls.task == names.index("burn")
    assert length_ns[of_task].sum() >= 30 * MS
    assert length_ns[~of_task].sum() >= 20 * MS
    assert (calls.inside[length_ns > 10 * MS] > 0.99).all()


def test_calls_in_turn_are_few_records(tmp_path, caller):
    often = tprof.task(name="often")(caller.call_often)

    with record(tmp_path):
        often(200_000)

    calls, _ = calls_of(tmp_path, caller)
    length_ns = calls.end_ns - calls.begin_ns
    assert len(calls.tid) <= 2 + length_ns.sum() / (2 * MS)
    assert (calls.inside[:-1] > 0).all()
    assert (calls.inside < 1).any()


def test_tasks_that_call_in_turn_are_kept_apart(tmp_path, caller):
    one, two = (tprof.task(name=name)(caller.call_often) for name in ("one", "two"))

    with record(tmp_path):
        for _ in range(20):
            one(3)
            two(3)

    calls, names = calls_of(tmp_path, caller)
    assert not calls.several.any()
    assert [names[task] for task in calls.task[entries(calls)]] == ["one", "two"] * 20


def test_more_calls_than_there_is_place_for_lose_tasks_not_time(tmp_path, caller):
    one, two = (tprof.task(name=name)(caller.call_often) for name in ("one", "two"))

    with record(tmp_path):
        for _ in range(20_000):
            one(1)
            two(1)

    calls, _ = calls_of(tmp_path, caller)
    assert (calls.begin_ns[1:] >= calls.end_ns[:-1]).all()
    assert set(calls.task[calls.several]) <= {-1}


def test_a_call_that_still_goes_on_is_known_until_the_end(tmp_path, caller):
    burn = tprof.task(name="burn")(caller.call_burn)
    thread = threading.Thread(target=burn, args=(1000 * MS,))

    with record(tmp_path):
        thread.start()
        caller.call_burn(200 * MS)
    thread.join()

    calls, names = calls_of(tmp_path, caller)
    own = calls.task == names.index("burn")
    assert calls.end_ns[own].max() >= calls.end_ns[~own].max()
    assert (calls.begin_ns[own][1:] == calls.end_ns[own][:-1]).all()


def test_a_call_inside_another_is_part_of_it(tmp_path, caller):
    twice = tprof.task(name="twice")(caller.call_twice)

    with record(tmp_path):
        twice()

    calls, _ = calls_of(tmp_path, caller)
    assert len(entries(calls)) == 1
    assert calls.end_ns[-1] - calls.begin_ns[0] >= 2 * MS


def test_a_jump_out_of_a_call_and_the_end_of_a_thread_inside_one_are_survived(tmp_path, caller):
    with record(tmp_path):
        assert caller.jump_out(1000) == 1000
        assert caller.end_inside() == 1
        caller.call_burn(5 * MS)

    calls, _ = calls_of(tmp_path, caller)
    assert (calls.end_ns - calls.begin_ns).max() >= 5 * MS


def test_calls_of_many_threads_are_all_noted(tmp_path, caller):
    with record(tmp_path):
        for _ in range(10):
            caller.call_in_threads(60, 50)

    calls, _ = calls_of(tmp_path, caller)
    assert len(np.unique(calls.tid)) >= 60


def test_a_fork_inside_a_call_leaves_it_to_the_parent(tmp_path, caller):
    with record(tmp_path):
        assert caller.fork_inside() == calling.RIGHT
        caller.call_burn(5 * MS)

    calls, _ = calls_of(tmp_path, caller)
    assert set(calls.tid) == {threading.get_native_id()}


def test_a_function_is_found_through_a_table_of_addresses(tmp_path, caller):
    with record(tmp_path):
        caller.call_through_table()

    assert len(calls_of(tmp_path, caller)[0].tid) == 1


def test_recordings_one_after_another_have_their_own_calls(tmp_path, caller):
    for count in (1, 2):
        task = tprof.task(name="burn")(caller.call_burn)

        with record(tmp_path):
            for _ in range(count):
                task(6 * MS)
        task(6 * MS)

        calls, _ = calls_of(tmp_path, caller)
        assert len(entries(calls)) == count


def test_without_native_threads_no_call_is_noted(tmp_path, caller):
    with record(tmp_path, attribute_native=False):
        assert caller.right() == calling.RIGHT

    assert tprof.load(tmp_path / "t.tprof").native_calls == ()
