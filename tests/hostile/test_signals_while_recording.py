"""Signal handlers may do all that a program does, at any moment; Ctrl-C ends a recording whole."""

import json
import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest
from support import programs
from support.recorded import instances, story

import tprof

DEFINES = """
import signal, sys
import tprof

signals, timer = getattr(signal, sys.argv[1]), getattr(signal, sys.argv[2])
handled = 0

def handler(number, frame):
    global handled
    handled += 1
    with tprof.region(f"handler {handled}"):
        pass
    if handled < 40:
        signal.setitimer(timer, 0.001)

signal.signal(signals, handler)
with tprof.record("t.tprof", energy="estimate", counters="none"):
    signal.setitimer(timer, 0.001)
    opened = 0
    while handled < 40:
        opened += 1
        with tprof.region(f"program {opened}"):
            pass
print(handled, opened)
"""


@pytest.mark.parametrize(("name", "timer"), [("SIGALRM", "ITIMER_REAL"), ("SIGPROF", "ITIMER_PROF")])
def test_a_handler_that_opens_a_new_region_never_waits_for_the_program(tmp_path, name, timer):
    done = programs.run(tmp_path, DEFINES, name, timer)

    assert done.returncode == 0, done.stderr
    handled, opened = map(int, done.stdout.split())
    trace = tprof.load(tmp_path / "t.tprof")
    counts = instances(trace)
    assert set(counts.values()) == {1}
    assert set(counts) == {f"handler {n + 1}" for n in range(handled)} | {f"program {n + 1}" for n in range(opened)}


RAISES = """
import signal
import tprof

class TooLong(Exception): pass

def handler(number, frame):
    raise TooLong

@tprof.task
def inner():
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    while True: pass

@tprof.task
def outer():
    inner()

signal.signal(signal.SIGALRM, handler)
with tprof.record("t.tprof", energy="estimate", counters="none"):
    for _ in range(20):
        try:
            outer()
        except TooLong:
            pass
"""


def test_a_handler_that_raises_inside_a_task_ends_every_task_it_leaves(tmp_path):
    done = programs.run(tmp_path, RAISES)

    assert (done.returncode, done.stderr) == (0, "")
    told = story(tprof.load(tmp_path / "t.tprof"))
    one = [("start", "outer"), ("start", "inner"), ("finish", "outer"), ("finish", None)]
    assert told == one * 20


INTERRUPTED = """
import sys
import tprof

@tprof.task
def work():
    return 1

def main():
    work()
    print("running", flush=True)
    while True:
        work()

if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        with tprof.record("t.tprof", energy="estimate", counters="none"):
            main()
    main()
"""


def interrupt(program):
    assert program.stdout.readline() == "running\n"
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=programs.DEADLINE_S)
    assert "KeyboardInterrupt" in said
    assert program.returncode == -signal.SIGINT


def assert_whole(session):
    trace = tprof.load(session)
    assert trace.complete
    assert json.loads((session / "end.json").read_text())["stopped"] == "interrupted"
    samples = trace.threads[0].read()
    assert len(samples) == trace.threads[0].count > 1
    assert int(samples["instance"][-1]) == 0, "every task has ended"


def test_ctrl_c_ends_a_recording_whole(tmp_path):
    interrupt(programs.start(tmp_path, INTERRUPTED, "record"))

    assert_whole(tmp_path / "t.tprof")


def test_ctrl_c_ends_a_program_under_tprof_run_by_the_signal_and_its_recording_whole(tmp_path):
    command = str(Path(sysconfig.get_path("scripts")) / "tprof")
    script = programs.write(tmp_path, INTERRUPTED)
    program = subprocess.Popen(
        [command, "run", "--energy", "estimate", "-o", "t.tprof", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
    )

    interrupt(program)

    assert_whole(tmp_path / "t.tprof")
