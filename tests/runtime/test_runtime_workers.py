"""Workers stay on cores of their own, and numerical libraries stay at one thread each."""

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from tprof.runtime import Runtime, current
from tprof.runtime.workers import Workers

import tprof
from tprof.errors import UsageError

CPUS = sorted(os.sched_getaffinity(0))


@tprof.task
def where(met=None):
    if met is not None:
        met.wait(30)
    return frozenset(os.sched_getaffinity(0))


def on_another_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def places(**options):
    """Return where as many tasks run at once as there are workers."""
    with Runtime(**options) as runtime:
        met = threading.Barrier(runtime.workers)
        return sorted(sorted(task.result()) for task in [where(met) for _ in range(runtime.workers)])


def test_each_worker_has_a_core_of_its_own():
    assert places(library_threads=None) == [[cpu] for cpu in CPUS]
    assert places(workers=1, library_threads=None)[0][0] in CPUS


def test_workers_go_where_the_kernel_puts_them_if_asked_or_too_many():
    assert places(pin=False) == [CPUS] * len(CPUS)
    assert places(workers=len(CPUS) + 1) == [CPUS] * (len(CPUS) + 1)


def test_more_workers_than_cores_share_them_if_asked():
    assert places(workers=2 * len(CPUS), pin=True) == sorted([[cpu] for cpu in CPUS] * 2)


def test_a_program_on_one_core_has_one_worker():
    def body():
        os.sched_setaffinity(0, CPUS[-1:])
        with Runtime() as runtime:
            return runtime.workers, where().result()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(body).result() == (1, frozenset(CPUS[-1:]))


def test_a_task_that_waited_is_on_the_core_of_the_slot_it_came_back_to():
    @tprof.task
    def parent(met):
        here = where().result()
        met.wait(30)
        return here, frozenset(os.sched_getaffinity(0))

    with Runtime(library_threads=None) as runtime:
        for _ in range(20):
            met = threading.Barrier(runtime.workers)
            after = [task.result()[1] for task in [parent(met) for _ in range(runtime.workers)]]
            assert sorted(sorted(cpus) for cpus in after) == [[cpu] for cpu in CPUS]


def test_the_thread_that_made_the_runtime_stays_where_it_was():
    with Runtime():
        where().result()
        assert sorted(os.sched_getaffinity(0)) == CPUS
    assert sorted(os.sched_getaffinity(0)) == CPUS


def test_workers_are_named():
    with Runtime(workers=2, name="baker", library_threads=None) as runtime:
        names = {runtime.submit(lambda: threading.current_thread().name).result() for _ in range(20)}
    assert names <= {"baker-0", "baker-1"}


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """Let BLAS have two threads; skip where there is none to ask."""
    np.linalg.inv(np.eye(3))
    if not blas_threads():
        pytest.skip("NumPy has no BLAS here that tells its threads")
    with threadpool_limits(limits=2, user_api="blas"):
        yield blas_threads()


def test_blas_has_one_thread_in_tasks_and_its_own_number_afterwards(two_blas_threads):
    with Runtime(workers=2) as runtime:
        inside = runtime.submit(blas_threads).result()
    assert set(inside) == {1}
    assert blas_threads() == two_blas_threads

    with pytest.raises(ZeroDivisionError), Runtime(workers=2):
        raise ZeroDivisionError
    assert blas_threads() == two_blas_threads


def test_blas_keeps_its_threads_if_asked(two_blas_threads):
    with Runtime(workers=2, library_threads=None) as runtime:
        assert runtime.submit(blas_threads).result() == two_blas_threads


def test_blas_gets_its_threads_back_though_the_last_worker_releases_the_libraries(two_blas_threads):
    workers = Workers("worker", cpus=None, library_threads=1)
    workers.limit_libraries()
    assert set(blas_threads()) == {1}

    on_another_thread(workers.release_libraries)

    assert blas_threads() == two_blas_threads


def test_blas_has_one_thread_in_tasks_whichever_thread_has_limited_it_before(two_blas_threads):
    """The fixture limits it on this thread; newer threadpoolctl lets only the first thread that ever did go on."""
    inside = []

    def run():
        with Runtime(workers=1) as runtime:
            inside.extend(runtime.submit(blas_threads).result())

    on_another_thread(run)

    assert set(inside) == {1}
    assert blas_threads() == two_blas_threads


def test_after_a_runtime_any_thread_can_limit_blas(two_blas_threads):
    def limit():
        with threadpool_limits(limits=1, user_api="blas"):
            inside.extend(blas_threads())

    inside = []
    with Runtime(workers=1):
        pass
    on_another_thread(limit)

    assert set(inside) == {1}
    assert blas_threads() == two_blas_threads


@pytest.fixture
def openmp():
    """Give OpenMP's library, which would use three threads on this one."""
    try:
        library = ctypes.CDLL("libgomp.so.1")
    except OSError:
        pytest.skip("there is no libgomp")
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(3)
    yield library
    library.omp_set_num_threads(before)


def test_openmp_has_one_thread_in_tasks(openmp):
    with Runtime(workers=2) as runtime:
        met = threading.Barrier(2)
        tasks = [runtime.submit(lambda: (met.wait(30), openmp.omp_get_max_threads())[1]) for _ in range(2)]
        assert [task.result() for task in tasks] == [1, 1]
        assert openmp.omp_get_max_threads() == 1
    assert openmp.omp_get_max_threads() == 3


def test_openmp_gets_its_threads_back_though_the_last_worker_releases_the_libraries_first(openmp):
    workers = Workers("worker", cpus=None, library_threads=1)
    workers.limit_libraries()
    assert openmp.omp_get_max_threads() == 1

    on_another_thread(workers.release_libraries)
    workers.release_libraries()

    assert openmp.omp_get_max_threads() == 3


def test_openmp_gets_its_threads_back_though_another_thread_ends_the_runtime(openmp):
    with Runtime(workers=1) as runtime:
        on_another_thread(lambda: runtime.__exit__(None, None, None))

    assert openmp.omp_get_max_threads() == 3


def test_a_thread_that_leaves_while_tasks_run_has_its_openmp_back_and_the_tasks_their_one_blas_thread(
    openmp, two_blas_threads
):
    """As a second Ctrl-C does."""
    workers = Workers("worker", cpus=None, library_threads=1)
    workers.limit_libraries()

    workers.release_thread()

    assert openmp.omp_get_max_threads() == 3
    assert set(blas_threads()) == {1}
    on_another_thread(workers.release_libraries)
    assert blas_threads() == two_blas_threads


@pytest.mark.parametrize("first", ["this thread", "the other"])
def test_openmp_gets_its_threads_back_on_each_thread_that_a_runtime_began_on(openmp, first):
    begun, may_end, counts = threading.Event(), threading.Event(), []

    def use_another():
        openmp.omp_set_num_threads(5)
        with Runtime(workers=1):
            begun.set()
            assert may_end.wait(30)
        counts.append(openmp.omp_get_max_threads())

    thread = threading.Thread(target=use_another)
    thread.start()
    assert begun.wait(30)
    with Runtime(workers=1):
        if first == "the other":
            may_end.set()
            thread.join()
    counts.append(openmp.omp_get_max_threads())
    may_end.set()
    thread.join()

    assert sorted(counts) == [3, 5]


def test_spare_threads_serve_again_and_again():
    @tprof.task
    def deep(n):
        return deep(n - 1).result(timeout=30) if n else 0

    with Runtime(workers=1, library_threads=None) as runtime:
        most = []
        for _ in range(20):
            assert deep(20).result() == 0
            most.append(runtime.counts()["threads"])

    assert most[-1] <= 22


def test_counts_add_up():
    with Runtime(workers=2, library_threads=None) as runtime:
        tasks = [where() for _ in range(100)]
        runtime.wait()
        counts = runtime.counts()
    assert all(task.done() for task in tasks)
    assert (counts["spawned"], counts["executed"], counts["unfinished"]) == (100, 100, 0)
    assert 1 <= counts["peak_unfinished"] <= 100
    assert counts["threads"] == 2
    assert counts["stolen"] <= 100
    assert runtime.counts()["threads"] == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"workers": 0}, "workers is a whole number from 1 to 4096, got 0"),
        ({"workers": 4097}, "workers is a whole number from 1 to 4096, got 4097"),
        ({"workers": True}, "workers is a whole number from 1 to 4096, got True"),
        ({"workers": 1.5}, "workers is a whole number from 1 to 4096, got 1.5"),
        ({"workers": "2"}, "workers is a whole number from 1 to 4096, got '2'"),
        ({"library_threads": 0}, "library_threads is a whole number from 1 to 4096, got 0"),
        ({"max_pending": 0}, f"max_pending is a whole number from 1 to {2**40}, got 0"),
        ({"max_pending": -1}, f"max_pending is a whole number from 1 to {2**40}, got -1"),
    ],
)
def test_options_out_of_range_are_refused_in_one_sentence(options, sentence):
    with pytest.raises(UsageError) as caught:
        Runtime(**options)
    assert str(caught.value) == sentence


def test_current_is_the_runtime_of_the_task_on_its_worker():
    with Runtime(workers=1) as runtime:
        assert runtime.submit(current).result() is runtime
