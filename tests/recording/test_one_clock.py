"""Stamps of all threads and processes are on one clock, and each thread's are in order."""

import ctypes
import queue
import shutil
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support import programs
from support.recorded import record

import tprof

HANDS = 200
CSRC = Path(__file__).resolve().parent.parent.parent / "tprof" / "csrc"
CLOCKS = """
#define clock_gettime real_clock_gettime
#include <time.h>
#undef clock_gettime
static long long awake_ns, asleep_ns, delays_ns[64];
static int reads;
static int clock_gettime(clockid_t clock, struct timespec *now)
{
    const long long ns = awake_ns + (clock == CLOCK_BOOTTIME ? asleep_ns : 0);
    *now = (struct timespec){ns / 1000000000, ns % 1000000000};
    awake_ns += 20 + delays_ns[reads++ % 64];
    return 0;
}
#include "clock.h"
unsigned long long after(unsigned long long known_ns, long long asleep, int delayed, long long delay_ns)
{
    awake_ns = 1000000000;
    asleep_ns = asleep;
    reads = 0;
    for (int i = 0; i < 64; i++)
        delays_ns[i] = i % 3 == delayed ? delay_ns : 0;
    return tprof_suspended_ns(known_ns);
}
"""
SECOND = 10**9


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

    trace = record(tmp_path / "t.tprof", body, counters="page_faults,context_switches,cpu_migrations")

    assert len(trace.threads) == 5
    for thread in trace.threads:
        samples = thread.read()
        for column in ("t_ns", *thread.columns):
            assert (np.diff(samples[column].astype("i8")) >= 0).all(), column
        assert thread.end_ns >= int(samples["t_ns"][-1])


@pytest.fixture(scope="module")
def suspended_ns(tmp_path_factory):
    """Return the function, with clocks of which the one with number `delayed` takes long at each attempt."""
    compiler = shutil.which("cc")
    if compiler is None or not CSRC.is_dir():
        pytest.skip("there is no C compiler, or no source to compile")
    place = tmp_path_factory.mktemp("clocks")
    (place / "clocks.c").write_text(CLOCKS)
    command = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{CSRC}", "-o", place / "clocks.so"]
    subprocess.run([*command, place / "clocks.c"], check=True)
    function = ctypes.CDLL(str(place / "clocks.so")).after
    function.argtypes = [ctypes.c_ulonglong, ctypes.c_longlong, ctypes.c_int, ctypes.c_longlong]
    function.restype = ctypes.c_ulonglong
    return function


@pytest.mark.parametrize("delayed", [0, 1, 2])
@pytest.mark.parametrize("asleep_ns", [0, 7 * SECOND])
def test_a_reader_that_loses_the_processor_between_two_clocks_sees_no_suspend(suspended_ns, delayed, asleep_ns):
    known_ns = suspended_ns(0, asleep_ns, 0, 0)

    assert abs(suspended_ns(known_ns, asleep_ns, delayed, SECOND) - known_ns) < 1000


def test_a_suspend_is_seen(suspended_ns):
    known_ns = suspended_ns(0, SECOND, 0, 0)

    assert suspended_ns(known_ns, 3 * SECOND, 0, 0) - known_ns == pytest.approx(2 * SECOND, abs=1000)
