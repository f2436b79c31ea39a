"""A forked child has no power over its parent's recording, and none over the parent's files."""

import json

from support import programs
from support.recorded import instances

import tprof

LEAVES = """
import os, sys
import tprof

@tprof.task
def work():
    return 1

with tprof.record("t.tprof", energy="estimate", counters="none"):
    first = os.fork()
    if first == 0:
        work()
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == 3
    assert not os.path.exists("t.tprof/end.json"), "the child ended its parent's recording"
    second = os.fork()
    if second == 0:
        work()
        os._exit(0)
    os.waitpid(second, 0)
    work()
"""


def test_a_forked_child_that_leaves_the_block_leaves_the_recording_to_its_parent(tmp_path):
    done = programs.run(tmp_path, LEAVES)

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace) == {"work": 3}
    ended = json.loads((tmp_path / "t.tprof" / "end.json").read_text())
    assert ended["stopped"] == "end"
    assert [entry["ended_ns"] is not None for entry in ended["processes"]][:2] == [True, True]


GOES_ON = """
import os
import tprof

@tprof.task
def work():
    return 1

child = None
with tprof.record("t.tprof", energy="estimate", counters="none"):
    child = os.fork()
    work()
    if child:
        os.waitpid(child, 0)
work()
if child == 0:
    assert "TPROF_SESSION" not in os.environ
    with tprof.record("own.tprof", energy="estimate", counters="none"):
        work()
"""


def test_a_forked_child_may_record_on_its_own_after_the_block(tmp_path):
    done = programs.run(tmp_path, GOES_ON)

    assert (done.returncode, done.stderr) == (0, "")
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"work": 2}
    assert instances(tprof.load(tmp_path / "own.tprof")) == {"work": 1}


UNTOUCHED = """
import glob, os
import tprof

@tprof.task
def work():
    return 1

@tprof.task
def around():
    work()
    before = {path: open(path, "rb").read() for path in glob.glob("t.tprof/t*/00000000.*")}
    child = os.fork()
    if child == 0:
        for _ in range(5000):
            work()
        os._exit(0)
    os.waitpid(child, 0)
    assert before == {path: open(path, "rb").read() for path in before}
    assert len(before) == 2

with tprof.record("t.tprof", energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    around()
"""


def test_a_forked_child_changes_no_byte_of_its_parents_files(tmp_path):
    done = programs.run(tmp_path, UNTOUCHED)

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert instances(trace) == {"around": 1, "work": 5001}
    assert sorted(thread.count for thread in trace.threads) == [5, 10_001]


RESTARTED = """
import os
import tprof

@tprof.task
def work():
    return len(bytearray(32 << 20))

with tprof.record("t.tprof", energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    for _ in range(5):
        work()
    child = os.fork()
    if child == 0:
        with tprof.region("first"):
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_the_counts_of_a_forked_child_begin_anew(tmp_path):
    done = programs.run(tmp_path, RESTARTED)

    assert (done.returncode, done.stderr) == (0, "")
    parent, child = sorted(tprof.load(tmp_path / "t.tprof").threads, key=lambda thread: thread.process)
    for column in set(parent.columns) - {"energy_uj"}:
        assert int(child.read()[column][-1]) <= int(parent.read()[column][-1]), column
