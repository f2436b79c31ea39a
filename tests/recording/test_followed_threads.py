"""The threads that record no samples: whose they are and what they use."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support import own_threads, pthreads

import tprof
from tprof import _core

MS = 1_000_000
HAS_OWN_CREATION = "libasan" in os.environ.get("LD_PRELOAD", "")  # all threads begin in a function of the sanitizer


@pytest.fixture(scope="module")
def library_path(tmp_path_factory):
    return pthreads.build(tmp_path_factory.mktemp("threads"))


@pytest.fixture(scope="module")
def library(library_path):
    return pthreads.open_library(library_path)


def record(place, **options):
    return tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True, **options)


def natives(place):
    trace = tprof.load(place / "t.tprof")
    assert trace.notes == ()
    return trace.native_threads


def used_ns(thread):
    return int(thread.cpu_ns[-1] - thread.cpu_ns[0])


def await_polls(count):
    """Wait until the threads' clocks were read so often, however busy the machine is."""
    before = own_threads.sensor_waits()
    pthreads.wait_until(lambda: own_threads.sensor_waits() >= before + count)


def test_a_short_thread_has_its_creator_its_library_and_all_of_its_time(tmp_path, library, library_path):
    creator = tprof.task(lambda: library.one(30 * MS))

    with record(tmp_path):
        tid = creator()

    (thread,) = [one for one in natives(tmp_path) if one.tid == tid]
    trace = tprof.load(tmp_path / "t.tprof")
    (start,) = [sample for sample in trace.threads[0].read() if sample["instance"]]
    assert (thread.pid, thread.creator_tid) == (os.getpid(), threading.get_native_id())
    assert trace.tasks[thread.creator_task].name == trace.tasks[start["task"]].name
    assert thread.creator_instance == start["instance"]
    assert Path(thread.library) == library_path
    assert thread.created_ns == thread.t_ns[0] < thread.ended_ns == thread.t_ns[-1]
    assert thread.cpu_ns[0] == 0
    assert 30 * MS <= library.one_used_ns() <= thread.cpu_ns[-1] < library.one_used_ns() + 2 * MS


def test_a_pool_that_was_there_before_is_followed_from_the_start(tmp_path, library, library_path):
    library.pool_begin(3)
    tids = [library.pool_tid(i) for i in range(3)]
    before_ns = [library.pool_used_ns(i) for i in range(3)]

    with record(tmp_path):
        library.pool_work(40 * MS)
        await_polls(10)
        library.pool_work(20 * MS)
        spent_ns = [library.pool_used_ns(i) - ns for i, ns in enumerate(before_ns)]
    library.pool_work(0)

    pool = [one for one in natives(tmp_path) if one.tid in tids]
    assert sorted(one.tid for one in pool) == sorted(tids)
    for thread in pool:
        assert (thread.created_ns, thread.creator_tid, thread.creator_task) == (None, None, None)
        assert HAS_OWN_CREATION or Path(thread.library) == library_path
        assert used_ns(thread) == pytest.approx(spent_ns[tids.index(thread.tid)], abs=2 * MS)
        assert used_ns(thread) >= 60 * MS
        assert thread.ended_ns is None


def test_the_end_of_a_thread_that_was_there_before_is_found(tmp_path, library):
    library.pool_begin(1)
    tid = library.pool_tid(0)

    with record(tmp_path):
        library.pool_work(0)
        ended_ns = _core.now_ns()
        pthreads.wait_until(lambda: not Path(f"/proc/self/task/{tid}").exists())

    (thread,) = [one for one in natives(tmp_path) if one.tid == tid]
    assert thread.t_ns[0] < ended_ns
    assert thread.t_ns[-1] <= thread.ended_ns <= tprof.load(tmp_path / "t.tprof").process_end_ns[0]


def test_a_clock_that_stands_still_is_not_written(tmp_path, library):
    library.pool_begin(2)
    tids = [library.pool_tid(i) for i in range(2)]

    with record(tmp_path):
        library.pool_work(5 * MS)
        first_ns = _core.now_ns()
        await_polls(40)
        second_ns = _core.now_ns()
        library.pool_work(5 * MS)
        await_polls(2)  # else a busy machine may read their clocks no more before they end
        library.pool_work(0)

    for thread in [one for one in natives(tmp_path) if one.tid in tids]:
        stands = np.diff(thread.cpu_ns) == 0
        assert not (stands[:-1] & stands[1:]).any(), "only the first and the last time at which it stood are written"
        moved_again = np.flatnonzero(~stands & (thread.t_ns[1:] > second_ns))[0]
        assert first_ns < thread.t_ns[moved_again]
        assert stands[moved_again - 1], "the time until which the clock stood"


def test_the_time_of_all_threads_is_that_of_the_process(tmp_path, library):
    library.pool_begin(2)
    work, churn = tprof.task(lambda: library.pool_work(60 * MS)), tprof.task(lambda: library.churn(10, 5 * MS))

    with record(tmp_path):
        before_ns = time.process_time_ns() - own_threads.used_ns()
        for _ in range(4):
            work()
        churn()  # to make and end a thread takes the process's time too
        process_ns = time.process_time_ns() - own_threads.used_ns() - before_ns
        library.pool_work(0)

    trace = tprof.load(tmp_path / "t.tprof")
    used_by_name = [(one.name, used_ns(one)) for one in trace.native_threads]
    (samples,) = (one.read()["cpu_ns"] for one in trace.threads)
    total_ns = int(samples[-1] - samples[0]) + sum(ns for _, ns in used_by_name)
    assert total_ns == pytest.approx(process_ns, rel=0.08), used_by_name
    assert not [name for name, _ in used_by_name if name.startswith("tprof")]


def test_short_detached_threads_are_all_seen_with_their_time(tmp_path, library):
    task = tprof.task(lambda: library.churn(300, 500_000))

    with record(tmp_path):
        before_ns = time.process_time_ns()
        task()
        process_ns = time.process_time_ns() - before_ns

    short = [one for one in natives(tmp_path) if one.creator_task is not None]
    assert len(short) == 300
    assert len({(one.tid, one.created_ns) for one in short}) == 300
    assert 300 * 0.5 * MS <= sum(used_ns(one) for one in short) <= process_ns


def test_creating_threads_is_as_without_tprof(tmp_path, library):
    def outcomes():
        return (
            library.cancelled(),
            library.cleaned_up(),
            library.left(),
            library.with_stack(128 * 1024),
            library.refused(),
        )

    plain = outcomes()
    with record(tmp_path):
        recorded = outcomes()

    assert recorded == plain == (0, 11, 0, 0, 0)


@pytest.mark.parametrize(
    "flags", [("-Wl,-z,now", "-Wl,-z,relro"), ("-Wl,-z,lazy",), ("-fno-plt",), ("-Wl,-z,norelro",)]
)
def test_the_creator_is_known_however_the_library_was_linked(tmp_path, flags):
    library = pthreads.open_library(pthreads.build(tmp_path, *flags))

    with record(tmp_path):
        tid = library.one(MS)

    (thread,) = [one for one in natives(tmp_path) if one.tid == tid]
    assert thread.creator_tid == threading.get_native_id()


def test_a_thread_that_begins_to_record_samples_is_no_longer_a_native_one(tmp_path):
    begin, done = threading.Event(), threading.Event()
    task = tprof.task(lambda: None)

    def run():
        begin.wait()
        task()
        done.set()
        end.wait()

    end = threading.Event()
    thread = threading.Thread(target=run)
    with record(tmp_path):
        thread.start()
        native_id = thread.native_id
        begin.set()
        done.wait()
        end.set()
        thread.join()

    trace = tprof.load(tmp_path / "t.tprof")
    (sampled,) = [one for one in trace.threads if one.tid == native_id]
    (native,) = [one for one in trace.native_threads if one.tid == native_id]
    first = sampled.read()[0]
    assert native.created_ns < native.ended_ns <= first["t_ns"]
    assert native.cpu_ns[-1] <= first["cpu_ns"]


def test_a_thread_that_says_that_it_is_tprofs_own_is_followed_no_more(tmp_path):
    begun, done = threading.Event(), threading.Event()

    def run():
        _core.leave_out_thread(True)  # noqa: FBT003 - a function of C
        end_ns = time.thread_time_ns() + 50 * MS
        while time.thread_time_ns() < end_ns:
            pass
        begun.set()
        done.wait()
        _core.leave_out_thread(False)  # noqa: FBT003 - a function of C

    may_say = threading.Event()
    thread = threading.Thread(target=lambda: may_say.wait() and run())
    with record(tmp_path):
        thread.start()
        await_polls(3)  # it got no processor to say so before it was found
        may_say.set()
        begun.wait()
        await_polls(3)
        done.set()
        thread.join()

    (found,) = [one for one in natives(tmp_path) if one.tid == thread.native_id]
    assert found.ended_ns is not None
    assert used_ns(found) < 50 * MS


def test_without_native_threads_there_is_no_file_and_nobody_listens(tmp_path, library):
    with record(tmp_path, attribute_native=False):
        library.one(MS)

    assert list((tmp_path / "t.tprof" / "native").iterdir()) == []
    assert natives(tmp_path) == ()


def test_a_forked_child_records_its_own(tmp_path, library):
    tids = []
    task = tprof.task(lambda: tids.append(library.one(20 * MS)))

    with record(tmp_path):
        child = os.fork()
        if child == 0:
            task()
            tprof.session.process_state.this_process.leave()
            os._exit(0)
        os.waitpid(child, 0)
        task()

    trace = tprof.load(tmp_path / "t.tprof")
    by_pid = {one.pid: one for one in trace.native_threads if one.creator_task is not None}
    assert set(by_pid) == {os.getpid(), child}
    for one in by_pid.values():
        assert one.creator_tid == one.pid
        assert used_ns(one) >= 20 * MS
        assert trace.tasks[one.creator_task].name.endswith("<lambda>")


KILLED = """
import ctypes, os, sys, time
import tprof
library = ctypes.CDLL(sys.argv[1])
library.pool_work.argtypes = [ctypes.c_uint64]
library.pool_begin(2)
with tprof.record(sys.argv[2], energy="estimate", counters="none"):
    library.pool_work(50_000_000)
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_was_read_survives_a_kill(tmp_path, library_path):
    command = [sys.executable, "-c", KILLED, library_path, tmp_path / "t.tprof"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"

        def is_read():
            return sum(used_ns(one) >= 50 * MS for one in tprof.load(tmp_path / "t.tprof").native_threads) == 2

        try:
            pthreads.wait_until(is_read)
        finally:
            program.send_signal(signal.SIGKILL)

    trace = tprof.load(tmp_path / "t.tprof")
    pool = [one for one in trace.native_threads if used_ns(one) >= 50 * MS]
    assert not trace.complete
    assert len(pool) == 2
    assert {one.ended_ns for one in pool} == {None}


STARTED = """
import os, sys
import tprof
sys.path.insert(0, sys.argv[2])
from support import pthreads
library = pthreads.open_library(sys.argv[1])
library.pool_begin(2)
library.pool_work(200_000_000)
print(os.getpid(), library.pool_tid(0), library.pool_tid(1))
"""


def test_a_started_process_that_joins_records_its_own(tmp_path, library_path):
    with record(tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", STARTED, library_path, Path(__file__).parents[1]],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=120,
        )

    pid, *tids = map(int, done.stdout.split())
    threads = [one for one in natives(tmp_path) if one.pid == pid and one.tid in tids]
    assert len(threads) == 2
    assert all(used_ns(one) >= 100 * MS for one in threads)


def test_a_fork_leaves_the_parents_threads_to_the_parent(tmp_path, library):
    library.pool_begin(2)
    tids = {library.pool_tid(i) for i in range(2)}

    with record(tmp_path):
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        library.pool_work(20 * MS)
    library.pool_work(0)

    threads = [one for one in natives(tmp_path) if one.tid in tids]
    assert sorted(one.tid for one in threads) == sorted(tids)
    assert {one.pid for one in threads} == {os.getpid()}
    assert all(used_ns(one) >= 20 * MS for one in threads)


def test_recordings_one_after_another_each_have_their_threads(tmp_path, library):
    for _ in range(3):
        with record(tmp_path):
            tid = library.one(2 * MS)

        (thread,) = [one for one in natives(tmp_path) if one.tid == tid]
        assert thread.cpu_ns[0] == 0 < thread.cpu_ns[-1]


def test_a_lost_file_loses_readings_not_the_program(tmp_path, library):
    with record(tmp_path):
        (tmp_path / "t.tprof" / "native" / "00000000.native").unlink()
        library.churn(400, 100_000)

    assert tprof.load(tmp_path / "t.tprof").native_threads == ()


PRELOADED = r"""
#include <dlfcn.h>
#include <pthread.h>

int preloaded_calls;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    __atomic_add_fetch(&preloaded_calls, 1, __ATOMIC_SEQ_CST);
    return next(thread, attributes, routine, argument);
}
"""

COUNTED = """
import ctypes, os, sys
import tprof
sys.path.insert(0, sys.argv[3])
from support import pthreads
library = pthreads.open_library(sys.argv[1])
calls = ctypes.c_int.in_dll(ctypes.CDLL(None), "preloaded_calls")
with tprof.record(sys.argv[2], energy="estimate", counters="none"):
    before = calls.value
    tid = library.one(1_000_000)
    print(calls.value - before, tid, os.environ["LD_PRELOAD"])
"""


def test_a_preloaded_pthread_create_of_the_users_is_still_called(tmp_path, library_path):
    compiled = pthreads.build(tmp_path, source=PRELOADED)
    words = [sys.executable, "-c", COUNTED, library_path, tmp_path / "t.tprof", Path(__file__).parents[1]]
    preload = " ".join([*os.environ.get("LD_PRELOAD", "").split(), str(compiled)])  # a sanitizer must be the first

    done = subprocess.run(
        words, env={**os.environ, "LD_PRELOAD": preload}, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )

    calls, tid, variable = done.stdout.rstrip("\n").split(" ", 2)
    (thread,) = [one for one in natives(tmp_path) if one.tid == int(tid)]
    assert (int(calls), variable) == (1, preload)
    assert thread.creator_tid == thread.pid
