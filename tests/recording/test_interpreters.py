"""Interpreters besides the main one: tprof imports there, and their tasks are in the one recording of the process."""

import os
import sys

import pytest
from support import programs
from support.recorded import instances

import tprof
from tprof.session.table_file import TableFile

# One face for what Python calls differently from version to version; from 3.12 on each has a lock of its own.
SEVERAL = """
try:
    import _interpreters as low
except ImportError:
    import _xxsubinterpreters as low
import os, sys, threading

HERE = os.path.dirname(os.path.abspath(__file__))

class Interpreter:
    def __init__(self):
        # Python 3.11 has one lock for all, and isolated means without threads.
        self.id = low.create() if sys.version_info >= (3, 12) else low.create(isolated=False)
        self.run(f"import sys; sys.path.insert(0, {HERE!r})")

    def run(self, code):
        failed = low.run_string(self.id, code)
        if failed is not None:
            sys.exit(failed.formatted)

    def end(self):
        low.destroy(self.id)

def in_threads(functions):
    threads = [threading.Thread(target=function, name=f"starts {n}") for n, function in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""

WORK = """
import threading
import tprof

@tprof.task
def burn(n):
    return sum(range(n))

@tprof.task
def steps(n):
    yield from range(n)

@tprof.task(updates="numbers")
def change(numbers):
    numbers[0] += 1
    return numbers[0]

def run(times):
    for _ in range(times):
        burn(1000)
    with tprof.region("block"):
        list(steps(3))

def run_in_thread():
    thread = threading.Thread(target=burn, args=[10], name="of the other")
    thread.start()
    thread.join()
"""


def run(tmp_path, source, *arguments, **options):
    (tmp_path / "several.py").write_text(SEVERAL, encoding="utf-8")
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    head = "import sys, os\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\nfrom several import *\n"
    return programs.run(tmp_path, head + source, *arguments, **options)


def recorded(tmp_path, source, **options):
    """Run a program that records to t.tprof; return the trace."""
    done = run(tmp_path, source, **options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert trace.notes == ()
    return trace


BEFORE_AND_WHILE = """
import tprof
early, late = Interpreter(), Interpreter()
early.run("import work")
with tprof.record("t.tprof", energy="estimate", counters="none"):
    late.run("import work; work.run(3)")
    in_threads([lambda: early.run("work.run(5)"), lambda: late.run("work.run(7)")])
    late.end()
    early.run("work.run(1)")
early.end()
"""


def test_tasks_of_all_interpreters_are_recorded(tmp_path):
    trace = recorded(tmp_path, BEFORE_AND_WHILE)

    assert instances(trace) == {"burn": 16, "steps": 4, "block": 4}
    assert {entry.name: entry.line for entry in trace.tasks} == {"burn": 5, "steps": 9, "change": 13, "block": 21}
    summary = trace.profile().summary()
    assert summary.loc["burn", "energy_j"] > 0


THREADS = """
import tprof
other = Interpreter()
with tprof.record("t.tprof", energy="estimate", counters="none"):
    other.run("import work; work.run(1)")
    in_threads([lambda: other.run("work.run(1)")])
    other.run("work.run_in_thread()")
other.end()
"""


def test_threads_are_named_by_who_knows_them(tmp_path):
    trace = recorded(tmp_path, THREADS)

    first, visitor, own = (thread.name for thread in sorted(trace.threads, key=lambda one: one.ordinal))
    assert (first, own) == ("MainThread", "of the other")
    assert visitor.endswith("interpreter 1")


POOL = """
from concurrent.futures import InterpreterPoolExecutor
import tprof, work

@tprof.task
def double(n):
    return 2 * work.burn(n)

if __name__ == "__main__":
    with tprof.record("t.tprof", energy="estimate", counters="none"):
        with InterpreterPoolExecutor(2) as pool:
            assert list(pool.map(work.burn, [10] * 40)) == [45] * 40
            assert pool.submit(double, 10).result() == 90
        work.burn(10)
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor is new in Python 3.14")
def test_a_pool_of_interpreters(tmp_path):
    trace = recorded(tmp_path, POOL, env={**os.environ, "PYTHONPATH": str(tmp_path)})

    assert instances(trace) == {"burn": 42, "double": 1}
    assert [thread.name for thread in trace.threads if thread.name.startswith("InterpreterPool in interpreter ")]


AT_THE_SAME_TIME = """
import tprof

def live():
    for _ in range(2):
        one = Interpreter()
        one.run("import work; work.run(50)")
        one.end()

for _ in range(2):
    with tprof.record("t.tprof", energy="estimate", counters="none", overwrite=True):
        in_threads([live] * 3)
"""


def test_interpreters_that_come_and_go_at_the_same_time(tmp_path):
    trace = recorded(tmp_path, AT_THE_SAME_TIME)

    assert instances(trace) == {"burn": 300, "steps": 6, "block": 6}


WHILE_RECORDINGS_BEGIN = """
import tprof
import work

def live():
    one = Interpreter()
    one.run("import work")
    while not enough.wait(0.0001):  # Python 3.11 takes its lock from no other interpreter's thread that keeps it
        one.run("work.run(5)")
    one.end()

enough = threading.Event()
threads = [threading.Thread(target=live) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(10):
    with tprof.record("t.tprof", energy="estimate", counters="none", overwrite=True):
        work.run(5)
enough.set()
for thread in threads:
    thread.join()
"""


def test_recordings_that_begin_and_end_while_others_run_tasks(tmp_path):
    trace = recorded(tmp_path, WHILE_RECORDINGS_BEGIN)

    assert set(instances(trace)) == {"burn", "steps", "block"}


ENDED_BEFORE = """
import tprof
gone = Interpreter()
gone.run("import work; work.run(1)")
gone.end()
with tprof.record("t.tprof", energy="estimate", counters="none"), tprof.region("nothing"):
    pass
"""


def test_an_interpreter_that_ended_leaves_nothing_behind(tmp_path):
    trace = recorded(tmp_path, ENDED_BEFORE)

    assert [entry.name for entry in trace.tasks] == ["nothing"]


FORK = """
import tprof
import work
with tprof.record("t.tprof", energy="estimate", counters="none"):
    gone = Interpreter()
    gone.run("import work; work.run(1)")
    gone.end()
    child = os.fork()  # beside one that lives, Python's own fork hangs or aborts
    work.burn(10)
    if child == 0:
        sys.exit()
    os.waitpid(child, 0)
    other = Interpreter()
    other.run("import work; work.run(1)")
    other.end()
"""


def test_a_process_forks_after_an_interpreter_ended(tmp_path):
    trace = recorded(tmp_path, FORK)

    assert instances(trace) == {"burn": 4, "steps": 2, "block": 2}
    assert len({thread.pid for thread in trace.threads}) == 2


ANOTHER_RECORDS = """
import tprof
import work
other = Interpreter()
other.run("import tprof, work; recording = tprof.record('t.tprof', energy='estimate', counters='none')")
other.run("recording.__enter__()")
work.run(2)
try:
    tprof.record("u.tprof").__enter__()
except tprof.UsageError as error:
    print(error)
other.run("work.run(1); recording.__exit__(None, None, None)")
if len(sys.argv) > 1:
    with tprof.record("u.tprof", energy="estimate", counters="none"):
        work.run(1)
other.end()
"""


def test_any_interpreter_may_record_and_one_at_a_time(tmp_path):
    done = run(tmp_path, ANOTHER_RECORDS)

    assert done.stderr == ""
    assert done.stdout == "another interpreter of this process records already: end that recording before another\n"
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"burn": 3, "steps": 2, "block": 2}


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 14), reason="this Python crashes where two interpreters import datetime"
)
def test_one_interpreter_records_after_another(tmp_path):
    done = run(tmp_path, ANOTHER_RECORDS, "again")

    assert (done.returncode, done.stderr) == (0, "")
    assert instances(tprof.load(tmp_path / "u.tprof")) == {"burn": 1, "steps": 1, "block": 1}


CHILD = """
import subprocess
if len(sys.argv) > 1:
    for _ in range(2):
        one = Interpreter()
        one.run("import work; work.run(1)")
        one.end()
    sys.exit()
import tprof
with tprof.record("t.tprof", energy="estimate", counters="none"):
    subprocess.run([sys.executable, __file__, "child"], check=True)
"""


def test_a_child_process_whose_other_interpreters_alone_have_tasks(tmp_path):
    trace = recorded(tmp_path, CHILD)

    assert instances(trace) == {"burn": 2, "steps": 2, "block": 2}
    assert [process["ended_ns"] is None for process in trace.end["processes"]] == [False, False]


RUNTIME = """
other = Interpreter()
code = "try:\\n    import tprof.runtime\\nexcept ImportError as error:\\n    print(error)"
other.run(code)
other.end()
"""


def test_the_task_runtime_says_where_it_runs(tmp_path):
    done = run(tmp_path, RUNTIME)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "tprof.runtime runs in the main interpreter of a process only: import it there\n"


BESIDE_A_RUNTIME = """
import tprof
from tprof.runtime import Runtime

@tprof.task(writes="into")
def fill(into):
    into[0] += 1

other = Interpreter()
given = bytearray(1)
with tprof.record("t.tprof", energy="estimate", counters="none"), Runtime(workers=1):
    fill(given).result()
    other.run("import work; into = [1]; assert work.change(into) == 2")
other.end()
"""


def test_a_runtime_leaves_the_tasks_of_other_interpreters_alone(tmp_path):
    trace = recorded(tmp_path, BESIDE_A_RUNTIME)

    assert instances(trace) == {"fill": 1, "change": 1}


def test_a_table_that_two_write_loses_no_line_to_a_torn_one(tmp_path):
    path = tmp_path / "table.jsonl"
    first = TableFile(path)
    second = TableFile(path, new=False)
    first.append(b"one\n")
    with path.open("ab") as file:
        file.write(b"to")  # as a full disk leaves it

    second.append(b"three\n")
    first.append(b"four\n")

    assert path.read_bytes() == b"one\nto\nthree\nfour\n"
    first.close()
    second.close()
