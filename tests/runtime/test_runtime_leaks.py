"""Nothing is kept that nobody needs: arguments, results, tasks, groups, runtimes, whatever became of them."""

import concurrent.futures as cf
import gc
import itertools
import pathlib
import sys
import threading
import weakref

import numpy as np
import pytest
from support.task_programs import OursError
from tprof.runtime import Runtime, TaskCancelledError, current

import tprof

PAGE_BYTES = 4096


def last(x, y, *, key):
    return key


class Thing:
    """Something to refer to."""


@tprof.task(reads="x", updates="y")
def use(x, y=None, *rest, key=None):
    return x


@tprof.task(updates="x")
def hold(x, gate):
    assert gate.wait(60)
    return x


@tprof.task
def fail(thing):
    raise OursError(thing)


@tprof.task
def nest(n, thing):
    if n:
        nest(n - 1, thing)
        current().wait()


def test_arguments_are_let_go_when_a_task_has_ended_and_results_with_the_future():
    argument, handle, result = Thing(), Thing(), Thing()
    seen = [weakref.ref(thing) for thing in (argument, handle, result)]

    with Runtime(workers=2) as runtime:
        task = runtime.submit(last, argument, handle, key=result, updates="y")
        del argument, handle, result
        runtime.wait()
        assert [ref() is None for ref in seen] == [True, True, False]
        assert task.result() is seen[2]()
        del task
        assert seen[2]() is None


def test_arguments_of_failed_and_cancelled_tasks_are_let_go():
    failing, cancelled, spawned = Thing(), Thing(), Thing()
    seen = [weakref.ref(thing) for thing in (failing, cancelled, spawned)]

    with Runtime(workers=1) as runtime:
        gate = threading.Event()
        held = runtime.submit(gate.wait, 30)
        first = fail(failing)
        second = use(first, cancelled)
        third = use(spawned)
        third.cancel()
        gate.set()
        with pytest.raises(OursError):
            runtime.wait()
        held.result()
        with pytest.raises(TaskCancelledError):
            second.result()
        del failing, cancelled, spawned, first, second, third
        gc.collect()
        assert [ref() for ref in seen] == [None, None, None]


def test_reference_counts_go_back():
    thing, name, array = Thing(), ("a", "handle"), np.zeros(4)
    things = (thing, name, array, use, None)
    before = [sys.getrefcount(one) for one in things]

    for _ in range(3):
        with Runtime(workers=2, library_threads=None) as runtime:
            for _ in range(100):
                use(name, array)
                use(array[1:], [array, None], thing, key=thing)
                runtime.submit(len, name)
            with runtime.group():
                use(thing, thing)
            runtime.wait()
        del runtime
    gc.collect()

    after = [sys.getrefcount(one) for one in things]
    assert after[:3] == before[:3]
    assert abs(after[3] - before[3]) <= 2
    assert abs(after[4] - before[4]) < 200


def test_a_runtime_is_let_go_with_all_that_it_kept():
    runtime = Runtime(workers=2, keep_graph=True)
    with runtime:
        future = use(1)
    seen = [weakref.ref(runtime), weakref.ref(future)]

    del runtime, future
    gc.collect()

    assert [ref() for ref in seen] == [None, None]


def test_a_runtime_that_was_never_entered_is_let_go():
    seen = weakref.ref(Runtime(workers=3))
    gc.collect()
    assert seen() is None


def refuse():
    with pytest.raises(TypeError):
        use({})
    with pytest.raises(ValueError, match="priority"):
        current().submit(use, 1, priority=99)


def end_badly(runtime):
    fail(Thing())
    nest(3, Thing())
    with pytest.raises(OursError):
        runtime.wait()


def cancel_all(runtime):
    gate = threading.Event()
    held = hold("x", gate)
    tasks = [use("x", at) for at in range(5)] + [use(held)]
    tasks[2].cancel()
    runtime.cancel()
    gate.set()
    runtime.wait()
    assert tasks[2].cancelled()


def group_that_fails(runtime):
    with pytest.raises(OursError), runtime.group():
        fail(1)
        use(2)


def ask_in_all_ways(runtime):
    task = use(np.zeros(3), [np.zeros(2)], 5, key=6)
    task.add_done_callback(lambda _: None)
    task.wait(0.0001)
    cf.wait([task], timeout=0)
    assert list(cf.as_completed([task])) == [task]
    task.result()
    task.exception()
    runtime.wait(np.zeros(1), "x", task)
    repr(task)
    runtime.counts()


def another(_):
    with Runtime(workers=1, library_threads=None, keep_graph=True) as runtime:
        use(use(1))
        runtime.graph()


WAYS = {
    "calls": lambda _: [use(at, key=at) for at in range(10)],
    "data": lambda _: [use(np.zeros(5)[1:], [np.zeros(5), None], (1, 2)) for _ in range(10)],
    "handles": lambda runtime: (use(object(), object()), runtime.wait()),
    "futures": lambda _: use(*[use(at) for at in range(12)]),
    "refusals": lambda _: refuse(),
    "failures": end_badly,
    "cancelling": cancel_all,
    "groups": lambda runtime: nest(5, runtime.group().__enter__().__exit__(None, None, None)),
    "groups that fail": group_that_fails,
    "questions": ask_in_all_ways,
    "nesting": lambda _: nest(10, Thing()),
    "priorities": lambda runtime: runtime.submit(use, 1, priority=lambda *_: 3),
    "closures": lambda runtime: runtime.submit(lambda: 1),
    "runtimes": another,
}


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES


@pytest.mark.parametrize("way", WAYS)
def test_doing_it_again_and_again_takes_no_more_memory(way):
    """Blocks of Python's own allocator, and what the C code takes by itself."""
    with Runtime(workers=2, library_threads=None) as runtime:

        def rounds(count):
            for _ in range(count):
                WAYS[way](runtime)
            runtime.wait()
            gc.collect()

        times = 40 if way == "runtimes" else 100
        rounds(times)
        blocks, resident = [sys.getallocatedblocks()], resident_bytes()
        for _ in range(4):
            rounds(times)
            blocks.append(sys.getallocatedblocks())

        # Caches of the interpreter grow now and then (a new runtime reads many paths): what leaks takes a block every
        # time, a runtime dozens.
        most = 5 * times if way == "runtimes" else times // 2
        assert min(after - before for before, after in itertools.pairwise(blocks)) < most
        assert resident_bytes() - resident < 4 * 2**20


@pytest.fixture
def busy_runtime():
    """Give a runtime in which a task runs all the time, so that nothing is forgotten for want of tasks."""
    with Runtime(workers=2, library_threads=None, max_pending=100) as runtime:
        gate = threading.Event()
        hold("held", gate)
        yield runtime
        gate.set()


def test_a_handle_that_its_tasks_are_done_with_is_let_go_while_others_run(busy_runtime):
    things = [Thing() for _ in range(1000)]
    seen = [weakref.ref(thing) for thing in things]

    for thing in things:
        use(thing, thing).result()
    busy_runtime.submit(len, ()).result()
    del things, thing
    gc.collect()

    # What a worker has just run it still holds for a moment.
    assert sum(ref() is not None for ref in seen) <= 2


def test_new_handles_take_no_more_memory_while_others_run(busy_runtime):
    def rounds(begin):
        for at in range(begin, begin + 20_000):
            use(("tile", at), ("row", at))
        busy_runtime.submit(len, ()).result()

    rounds(0)
    blocks, resident = sys.getallocatedblocks(), resident_bytes()
    rounds(20_000)

    assert sys.getallocatedblocks() - blocks < 5_000
    assert resident_bytes() - resident < 4 * 2**20


@pytest.mark.parametrize("data", ["handles", "arrays"])
def test_failures_that_somebody_asked_about_are_let_go_while_others_run(busy_runtime, data):
    errors, whole = [], np.zeros(1000)

    def fail_once(x):
        error = OursError(at)
        errors.append(weakref.ref(error))
        raise error

    for at in range(1000):
        task = busy_runtime.submit(fail_once, whole[at:] if data == "arrays" else ("row", at), updates="x")
        assert isinstance(task.exception(), OursError)
    del task
    gc.collect()

    assert sum(ref() is not None for ref in errors) < 600


def test_a_failure_that_nobody_asked_about_is_kept_however_many_others_there_were(busy_runtime):
    task = busy_runtime.submit(last, 1, updates="x")  # it lacks an argument
    for at in range(1000):
        assert fail(("row", at)).exception() is not None

    with pytest.raises(TaskCancelledError):
        use(1).result()
    assert task.exception() is not None


def test_a_table_of_data_that_never_come_again_is_pruned():
    with Runtime(workers=1, library_threads=None, max_pending=100) as runtime:
        kept = np.zeros(200_000, np.int8)

        def rounds():
            for at in range(0, 100_000, 2):
                use(kept[at : at + 1])

        rounds()
        runtime.submit(len, ()).result()
        resident = resident_bytes()
        kept = np.zeros(200_000, np.int8)
        rounds()
        runtime.submit(len, ()).result()

        assert resident_bytes() - resident < 4 * 2**20
