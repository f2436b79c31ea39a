"""However a thread begins or ends, its file says so, and the program's own list of threads stays as it was."""

import pytest
from support import programs
from support.recorded import instances, story

import tprof
from tprof.trace import EndReason

FOREIGN = """
import _thread, ctypes, threading
import tprof
from tprof.trace import EndReason

@tprof.task
def work():
    return 1

def low_level():
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (work(), done.release()), ())
    done.acquire()

def native():
    libc = ctypes.CDLL(None)
    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda argument: work() and None)
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, start, None) == 0
    assert libc.pthread_join(thread, None) == 0

with tprof.record("t.tprof", energy="estimate", counters="none"):
    for begin in low_level, native:
        begin()
        assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
"""


def test_threads_that_threading_does_not_know_are_recorded_and_stay_unknown_to_it(tmp_path):
    done = programs.run(tmp_path, FOREIGN)

    assert (done.returncode, done.stderr) == (0, "")
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"work": 2}


NAMED = """
import threading
import tprof
from tprof.trace import EndReason

@tprof.task
def work():
    return 1

class Odd(threading.Thread):
    @property
    def name(self): raise RuntimeError("no name")

with tprof.record("t.tprof", energy="estimate", counters="none"):
    names = ["\\u00e4" * 5000, "\\udcff\\0x", "a\\nb\\x1b[31m"]
    for thread in [*(threading.Thread(target=work, name=name) for name in names), Odd(target=work)]:
        thread.start()
        thread.join()
print("done")
"""


def test_any_name_of_a_thread_is_kept_as_far_as_it_fits(tmp_path):
    done = programs.run(tmp_path, NAMED)

    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert instances(trace) == {"work": 4}
    names = [thread.name for thread in trace.threads]
    assert names[0] == "MainThread"
    assert set(names[1].rstrip("\ufffd")) == {"ä"}
    assert len(names[1].encode()) <= 130


DAEMON = """
import os, sys, threading
import tprof
from tprof.trace import EndReason

@tprof.task
def busy():
    entered.set()
    while True:
        inner()

@tprof.task
def inner():
    return sum(range(50))

@tprof.task
def blocked():
    entered.set()
    os.read(os.pipe()[0], 1)

recording = tprof.record("t.tprof", energy="estimate", counters="none")
recording.__enter__()
for target in busy, blocked:
    entered = threading.Event()
    threading.Thread(target=target, daemon=True).start()
    assert entered.wait(30)
if sys.argv[1] == "ended":
    recording.__exit__(None, None, None)
print("end of main")
"""


@pytest.mark.parametrize("how", ["ended", "open"])
@pytest.mark.parametrize("attempt", range(3))
def test_daemon_threads_inside_tasks_do_not_disturb_the_end_of_the_interpreter(tmp_path, how, attempt):  # noqa: ARG001 - it depends on the moment
    done = programs.run(tmp_path, DAEMON, how)

    assert (done.returncode, done.stdout, done.stderr) == (0, "end of main\n", "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete == (how == "ended")
    assert instances(trace)["busy"] == instances(trace)["blocked"] == 1
    told = next(story(trace, thread) for thread in range(3) if ("start", "blocked") in story(trace, thread))
    assert told in ([("start", "blocked")], [("start", "blocked"), ("close", None)])
    if how == "ended":
        assert {thread.end_reason for thread in trace.threads} == {EndReason.STOPPED}


UNCAUGHT = """
import threading
import tprof
from tprof.trace import EndReason

@tprof.task
def inner():
    raise LookupError("thread died")

@tprof.task
def outer():
    inner()

threading.excepthook = lambda said: print(said.exc_type.__name__, said.exc_value)
with tprof.record("t.tprof", energy="estimate", counters="none"):
    for _ in range(5):
        thread = threading.Thread(target=outer)
        thread.start()
        thread.join()
"""


def test_a_thread_that_dies_of_an_exception_ends_every_task_it_was_in(tmp_path):
    done = programs.run(tmp_path, UNCAUGHT)

    assert (done.returncode, done.stdout) == (0, "LookupError thread died\n" * 5), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    for thread in range(1, 6):
        told = story(trace, thread)
        assert told[:4] == [("start", "outer"), ("start", "inner"), ("finish", "outer"), ("finish", None)]
        assert told[4:] in ([], [("close", None)]), "a join may return before the thread has gone"


LATE = """
import threading
import tprof
from tprof.trace import EndReason

@tprof.task
def work():
    return 1

class Late:
    def __del__(self):
        work()

local = threading.local()

def fill():
    local.value = Late()
    work()

with tprof.record("t.tprof", energy="estimate", counters="none"):
    for _ in range(50):
        thread = threading.Thread(target=fill)
        thread.start()
        thread.join()
"""


def test_tasks_that_run_while_a_thread_is_torn_down_are_recorded(tmp_path):
    done = programs.run(tmp_path, LATE)

    assert (done.returncode, done.stderr) == (0, "")
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"work": 100}


REUSED = """
import threading
import tprof
from tprof.trace import EndReason

tids = []

def work(name):
    with tprof.region(name):
        tids.append((name, threading.get_native_id()))

with tprof.record("t.tprof", energy="estimate", counters="none"):
    for number in range(300):
        thread = threading.Thread(target=work, args=(f"region {number}",), name=f"thread {number}")
        thread.start()
        thread.join()
for name, tid in tids: print(name.split()[1], tid)
"""


def test_each_of_many_short_threads_has_a_file_with_its_own_name_and_number(tmp_path):
    done = programs.run(tmp_path, REUSED)

    trace = tprof.load(tmp_path / "t.tprof")
    said = {f"thread {number}": int(tid) for number, tid in (line.split() for line in done.stdout.splitlines())}
    assert {thread.name: thread.tid for thread in trace.threads if thread.name != "MainThread"} == said
    for ordinal, thread in enumerate(trace.threads):
        if thread.name != "MainThread":
            assert story(trace, ordinal)[0] == ("start", thread.name.replace("thread", "region"))
