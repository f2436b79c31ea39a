"""Interpreters besides the main one: tprof imports there, and their tasks are in the one recording of the process."""

import sys

import pytest
from support import programs
from support.recorded import instances

import tprof
from tprof.table_file import TableFile

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
        self.id = low.create()
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
    assert {entry.name: entry.line for entry in trace.tasks} == {"burn": 5, "steps": 9, "block": 15}
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

    first, visitor, own = sorted((thread.name for thread in trace.threads), key=["MainThread", "of the other"].count)[::-1] if False else [thread.name for thread in sorted(trace.threads, key=lambda one: one.ordinal)]
    assert (first, own) == ("MainThread", "of the other")
    assert visitor.endswith("interpreter 1")


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor is new in Python 3.14")
def test_a_pool_of_interpreters(tmp_path):
    trace = recorded(tmp_path, POOL, env=programs_environment(tmp_path))

    assert instances(trace) == {"burn": 41, "double": 2}
