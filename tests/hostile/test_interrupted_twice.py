"""Ctrl-C, pressed twice at any moment, ends a program and what it forked, and its recording whole."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from support import programs
from support.recorded import instances

import tprof

ROUNDS = 30
DEADLINE_S = 120
LONGEST_S = {"first": 0.05, "second": 0.2}
PROGRAM = """
import multiprocessing, os, sys, threading
import tprof

@tprof.task
def work():
    return sum(range(200))

def computes():
    while True:
        work()

def forks():
    while True:
        child = os.fork()
        work()
        if child == 0:
            sys.exit()
        os.waitpid(child, 0)

def forks_once():
    if os.fork():
        os.wait()
    computes()

def starts_processes():
    while True:
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()

def starts_threads():
    while True:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

def main(name):
    print("running", flush=True)
    globals()[name]()

if sys.argv[1:2] == ["record"]:
    with tprof.record("t.tprof", energy="estimate", counters="none"):
        main(sys.argv[2])
else:
    main(sys.argv[1])
"""
WAYS = {
    "record": [sys.executable, "program.py", "record"],
    "run": [programs.TPROF, "run", "--energy", "estimate", "-o", "t.tprof", "program.py"],
}


def interrupt(group):
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGINT)


def ends(group):
    """Tell whether a group of processes is gone in time."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def press_twice(folder, words, waits_s):
    """Run a program and interrupt all of its processes; returns its status and what it printed."""
    with (folder / "said").open("w+") as said:
        program = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True
        )
        assert program.stdout.readline() == "running\n"
        try:
            for wait_s in waits_s:
                time.sleep(wait_s)
                interrupt(program.pid)
            status = program.wait(DEADLINE_S)
            assert ends(program.pid), "a process that it forked goes on"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        said.seek(0)
        return status, said.read()


def ignored_of_ours(said):
    """Return what Python printed of exceptions that were dropped in this package's functions."""
    blocks = re.findall(r"^Exception ignored .*\n(?:^[ T].*\n)*", said, re.MULTILINE)
    return [block for block in blocks if f"{os.sep}tprof{os.sep}" in block]


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["computes", "forks", "forks_once", "starts_processes", "starts_threads"])
def test_whenever_it_is_pressed_the_program_ends_by_it_and_the_recording_is_whole(tmp_path, name, way):
    seed = time.time_ns()
    draw = random.Random(seed)  # noqa: S311 - any moments will do

    for number in range(ROUNDS):
        waits_s = [draw.uniform(0, longest_s) for longest_s in LONGEST_S.values()]
        folder = tmp_path / str(number)
        folder.mkdir()
        programs.write(folder, PROGRAM)

        status, said = press_twice(folder, [*WAYS[way], name], waits_s)

        what = f"seed {seed}, round {number}, after {waits_s} s: {said}"
        assert status == -signal.SIGINT, what
        assert tprof.load(folder / "t.tprof").complete, what
        assert ignored_of_ours(said) == [], what


UNPROTECTED = 2
"""Lines at the begin where Python itself would not look at signals; here a function is called there, and it does."""
EACH_LINE = """
import os, signal, sys
import tprof

@tprof.task
def work():
    return 1

class Pressed:
    # Sends SIGINT at the line of that number, counted from the end of the block, wherever that line is.
    def __init__(self, number):
        self.left = number
    def __call__(self, frame, event, argument):
        if event == "line" and ours in frame.f_code.co_filename:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
        return self

ours = os.path.dirname(tprof.__file__)
first, step = map(int, sys.argv[1:])
number = first
while True:
    session, pressed = f"{number}.tprof", Pressed(number)
    try:
        with tprof.record(session, energy="estimate", counters="none"):
            work()
            sys.settrace(pressed)
            sys._getframe().f_trace = pressed
        sys.settrace(None)
        how = "not"
    except KeyboardInterrupt:
        sys.settrace(None)
        how = "once"
    sys._getframe().f_trace = None
    print(number, how, "TPROF_SESSION" in os.environ, flush=True)
    if pressed.left > 0:
        break
    number += step
"""


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.thorough)])
def test_at_whichever_line_of_its_end_it_is_pressed_a_recording_ends_whole(tmp_path, step):
    first = UNPROTECTED + 1 + time.time_ns() % step

    done = programs.run(tmp_path, EACH_LINE, str(first), str(step))

    *interrupted, last = done.stdout.splitlines()
    assert done.returncode == 0, (first, done.stderr)
    assert interrupted, "it was pressed at no line"
    for line in interrupted:
        number, how, left_behind = line.split()
        assert (how, left_behind) == ("once", "False"), (line, done.stderr)
        trace = tprof.load(tmp_path / f"{number}.tprof")
        assert trace.complete, number
        assert instances(trace) == {"work": 1}
    assert last.split()[1] == "not"
