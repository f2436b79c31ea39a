"""The counters of a recording are read on native threads too: here the kernel's own events, which any kernel has."""

import mmap
import os
import resource
import threading
import time
from pathlib import Path

import pytest
from support import programs
from support.descriptors import perf_descriptors

import tprof
from tprof import counters
from tprof.errors import SensorError

COUNTED = "page_faults,context_switches,cpu_migrations"
DEADLINE_S = 120.0
WITH_SUPPORT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}


@pytest.fixture(scope="module", autouse=True)
def needs_counters():
    try:
        counters.choose(COUNTED)
    except SensorError as error:
        pytest.skip(str(error))


def burn_until(what):
    """Use the processor until something is so; fails after a deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < end_s
        for _ in range(1000):
            pass


def burn_for(seconds):
    """Use so much CPU time of this thread: then it is counted, whichever other thread of the process was first."""
    end_s = time.thread_time() + seconds
    burn_until(lambda: time.thread_time() >= end_s)


def touch(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for place in range(0, len(memory), mmap.PAGESIZE):
            memory[place] = 1


def recorded_work(path, work, count=1):
    """Record threads that run no task, and return the trace and these threads as it has them.

    `work` gets a function that says whether its thread is counted by now.
    """
    errors = []

    def is_counted():
        own, known = threading.get_native_id(), tprof.load(path).native_threads
        return any(one.tid == own and one.counts is not None for one in known)

    def run():
        try:
            work(is_counted)
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            errors.append(error)

    with tprof.record(path, energy="estimate", counters=COUNTED):
        threads = [threading.Thread(target=run) for _ in range(count)]
        for thread in threads:
            thread.start()
        tids = [thread.native_id for thread in threads]
        for thread in threads:
            thread.join()
    assert not errors, errors
    trace = tprof.load(path)
    return trace, [one for one in trace.native_threads if one.tid in tids]


def test_what_a_thread_counted_to_its_end_is_in_the_trace(tmp_path):
    seen = {}

    def work(is_counted):
        began = resource.getrusage(resource.RUSAGE_THREAD)
        burn_until(is_counted)
        burn_for(0.2)
        seen["open"] = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - began.ru_minflt
        touch(3000)
        seen["end"] = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - began.ru_minflt

    trace, (thread,) = recorded_work(tmp_path / "t.tprof", work)

    assert trace.notes == ()
    assert set(thread.counts.values) == set(COUNTED.split(","))
    assert seen["end"] - seen["open"] >= 3000
    counted = int(thread.counts.values["page_faults"][-1])
    assert seen["end"] - seen["open"] <= counted <= seen["end"] + 20  # what Python does around the function
    assert thread.counts.at[-1] == len(thread.t_ns) - 1
    assert not thread.counts.scaled.any()


def test_without_counters_threads_have_none(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"):
        thread = threading.Thread(target=lambda: time.sleep(0.01))
        thread.start()
        thread.join()

    assert all(one.counts is None for one in tprof.load(tmp_path / "t.tprof").native_threads)


def test_descriptors_are_given_back_with_their_threads(tmp_path):
    outside = perf_descriptors()

    def work(is_counted):
        burn_until(is_counted)
        all_there.wait(DEADLINE_S)

    all_there = threading.Barrier(2)

    _, threads = recorded_work(tmp_path / "t.tprof", work, count=2)

    assert len(threads) == 2
    assert perf_descriptors() == outside


FORKS = """
import os, sys, threading, time, warnings
import tprof
from support.descriptors import perf_descriptors

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
done = threading.Event()
def burn():
    while not done.is_set():
        pass

with tprof.record(sys.argv[1], energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    own = perf_descriptors()
    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    end_s = time.monotonic() + 120
    while perf_descriptors() < own + 6 and time.monotonic() < end_s:
        time.sleep(0.001)
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, b"%d" % perf_descriptors())
        os._exit(0)
    print(own, perf_descriptors(), int(os.read(reading, 10)))
    os.wait()
    done.set()
    for thread in threads:
        thread.join()
"""


def test_a_forked_child_does_not_keep_its_parent_s_counters(tmp_path):
    done = programs.run(tmp_path, FORKS, str(tmp_path / "t.tprof"), env=WITH_SUPPORT)

    assert (done.returncode, done.stderr) == (0, "")
    own, parent, child = map(int, done.stdout.split())
    assert parent >= own + 6
    assert child <= own


LIMITED = """
import resource, sys, threading, time
import tprof
from support.descriptors import perf_descriptors

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
done = threading.Event()
def burn():
    while not done.is_set():
        pass

with tprof.record(sys.argv[1], energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    own = perf_descriptors()
    threads = [threading.Thread(target=burn) for _ in range(6)]
    for thread in threads:
        thread.start()
    end_s = time.monotonic() + 120
    while perf_descriptors() < own + 6 and time.monotonic() < end_s:
        time.sleep(0.001)
    time.sleep(0.1)
    print(perf_descriptors() - own)
    done.set()
    for thread in threads:
        thread.join()
"""


def test_where_descriptors_are_few_some_threads_have_cpu_time_only(tmp_path):
    done = programs.run(tmp_path, LIMITED, str(tmp_path / "t.tprof"), env=WITH_SUPPORT)

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == 6  # an eighth of 64 is enough for two threads
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.notes == ()
    assert sum(one.counts is not None for one in trace.native_threads) >= 2
    assert trace.threads[0].columns[2:] == ("page_faults", "context_switches", "cpu_migrations")
