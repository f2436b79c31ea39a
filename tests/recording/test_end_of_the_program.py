"""However a program ends, its exit status and its output are its own, and what was recorded is whole."""

import json

import pytest
from support import programs
from support.recorded import instances

import tprof

ENDS = """
import atexit, os, sys
import tprof

@tprof.task
def work():
    return 1

@tprof.task
def last(word):
    print(word, flush=True)

@tprof.task
def leave():
    END

with tprof.record("t.tprof", energy="estimate", counters="none"):
    atexit.register(last, "first registered")
    atexit.register(last, "last registered")
    work()
    leave()
"""
ATEXIT = "last registered\nfirst registered\n"


@pytest.mark.parametrize(
    ("end", "status", "stopped"),
    [
        ("pass", 0, "end"),
        ("sys.exit()", 0, "exit"),
        ("sys.exit(7)", 7, "exit"),
        ("sys.exit('why')", 1, "exit"),
        ("raise SystemExit(300)", 300 % 256, "exit"),
        ("1 / 0", 1, "error"),
        ("raise KeyboardInterrupt", -2, "interrupted"),
        ("raise BaseExceptionGroup('both', [SystemExit(3), KeyError()])", 1, "error"),
    ],
)
def test_exit_status_and_order_of_atexit_are_kept(tmp_path, end, status, stopped):
    done = programs.run(tmp_path, ENDS.replace("END", end))

    assert (done.returncode, done.stdout) == (status, ATEXIT)
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert json.loads((tmp_path / "t.tprof" / "end.json").read_text())["stopped"] == stopped
    assert instances(trace) == {"work": 1, "leave": 1}
    assert trace.threads[0].read()["instance"][-1] == 0


@pytest.mark.parametrize("end", ["os._exit(9)", "os.abort()", "os.kill(os.getpid(), 9)"])
def test_a_program_that_ends_without_a_word_leaves_an_incomplete_recording(tmp_path, end):
    plain = programs.run(tmp_path, f"import os\n{end}")

    done = programs.run(tmp_path, ENDS.replace("END", end))

    assert (done.returncode, done.stdout) == (plain.returncode, "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert not trace.complete
    assert instances(trace) == {"work": 1, "leave": 1}


OPEN = """
import atexit
import tprof

@tprof.task
def work():
    return 1

recording = tprof.record("t.tprof", energy="estimate", counters="none")
recording.__enter__()
atexit.register(recording.__exit__, None, None, None)
atexit.register(work)
work()
"""


def test_a_recording_may_be_ended_by_atexit(tmp_path):
    done = programs.run(tmp_path, OPEN)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace) == {"work": 2}


SPAWNED = """
import multiprocessing, os, sys
import tprof

@tprof.task
def work():
    return 1

def child(end):
    work()
    ends = {"exit": sys.exit, "_exit": os._exit, "raise": lambda n: n / 0,
            "kill": lambda n: os.kill(os.getpid(), n + 4)}
    ends[end](5)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with tprof.record("t.tprof", energy="estimate", counters="none"):
        ended = [context.Process(target=child, args=(end,)) for end in ("exit", "_exit", "raise", "kill")]
        for process in ended: process.start()
        for process in ended: process.join()
        print([process.exitcode for process in ended])
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_keep_their_exit_status_and_what_they_recorded(tmp_path, method):
    done = programs.run(tmp_path, SPAWNED, method)

    assert (done.returncode, done.stdout) == (0, "[5, 5, 1, -9]\n"), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace) == {"work": 4}
