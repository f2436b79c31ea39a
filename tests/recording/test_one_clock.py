"""Stamps of all threads and processes are on one clock, and each thread's are in order."""

import queue
import threading
import time

import numpy as np
from support import programs
from support.recorded import record

import tprof

HANDS = 200


def stamps(trace, name):
    """Return when the task's instances started, in the order of time."""
    times = []
    for thread in trace.threads:
        samples = thread.read()
        wanted = [index for index, task in enumerate(trace.tasks) if task.name == name]
        times.extend(samples["t_ns"][(samples["kind"] == 1) & np.isin(samples["task"], wanted)].tolist())
    return sorted(times)


def test_what_one_thread_hands_to_another_is_stamped_before_the_others_work(tmp_path):
    @tprof.task
    def give(): ...

    @tprof.task
    def take(): ...

    there, back = queue.SimpleQueue(), queue.SimpleQueue()

    def taker():
        for _ in range(HANDS):
            there.get()
            take()
            back.put(None)

    def body():
        thread = threading.Thread(target=taker)
        thread.start()
        for _ in range(HANDS):
            give()
            there.put(None)
            back.get()
        thread.join()

    trace = record(tmp_path / "t.tprof", body)

    given, taken = stamps(trace, "give"), stamps(trace, "take")
    in_turn = np.column_stack([given, taken]).ravel()
    assert len(in_turn) == 2 * HANDS
    assert (np.diff(in_turn) >= 0).all()


PROCESSES = """
import os, sys
import tprof

def point(name):
    with tprof.region(name): pass

with tprof.record("t.tprof", energy="estimate", counters="none"):
    if len(sys.argv) > 1: raise SystemExit("spawned twice")
    point("a")
    child = os.fork()
    if child == 0:
        point("b")
        os._exit(0)
    os.waitpid(child, 0)
    point("c")
    code = "import tprof\\nwith tprof.region('d'): pass"
    os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ), 0)
    point("e")
"""


def test_processes_share_the_clock(tmp_path):
    done = programs.run(tmp_path, PROCESSES)

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(tmp_path / "t.tprof")
    times = [stamps(trace, name) for name in "abcde"]
    assert [len(one) for one in times] == [1] * 5
    assert sorted(times) == times


def test_stamps_lie_between_what_the_program_reads_from_the_clock(tmp_path):
    @tprof.task
    def inside():
        read.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    read = []

    def body():
        for _ in range(300):
            read.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
            inside()
        read.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    samples = record(tmp_path / "t.tprof", body).threads[0].read()

    recorded = samples["t_ns"][samples["kind"] != 6].astype("i8")
    assert len(recorded) == 600
    assert (recorded >= np.array(read[:-1])).all()
    assert (recorded <= np.array(read[1:])).all()


def test_the_stamps_of_every_thread_never_fall(tmp_path):
    @tprof.task
    def work():
        return sum(range(20))

    def body():
        threads = [threading.Thread(target=lambda: [work() for _ in range(2000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = record(tmp_path / "t.tprof", body, counters="auto")

    assert len(trace.threads) == 5
    for thread in trace.threads:
        samples = thread.read()
        for column in ("t_ns", *thread.columns):
            assert (np.diff(samples[column].astype("i8")) >= 0).all(), column
        assert thread.end_ns >= int(samples["t_ns"][-1])
