"""Stacks are sampled in every process of a recording, and the program does not notice."""

import gc
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.programs import TPROF

import tprof
from tprof import _core
from tprof.trace import layout

if not hasattr(_core, "StackFile"):
    pytest.skip("a free-threaded Python has no lock under which stacks are sampled", allow_module_level=True)

DEADLINE_S = 120
LEAST = 12


def committed(session):
    """Return how many samples the session holds by now, in all processes."""
    count = 0
    for path in (session / "stacks").glob("*.stacks"):
        content = path.read_bytes()
        if len(content) >= layout.HEADER_BYTES:
            count += int(np.frombuffer(content, layout.HEADER, count=1)["committed"][0])
    return count


def wait_for(count, session):
    """Compute in this very function until so many records are there."""
    until_s = time.monotonic() + DEADLINE_S
    while committed(session) < count:
        assert time.monotonic() < until_s
        sum(range(10_000))


@tprof.task
def outer(session):
    inner(session, committed(session) + LEAST)


def inner(session, count):
    wait_for(count, session)


@tprof.task
def wait_until(event):
    event.wait()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("stacks") / "s.tprof"
    blocked = threading.Event()
    waiting = threading.Thread(target=wait_until, args=[blocked], name="waiting")
    with tprof.record(path, energy="estimate", counters="none", stacks=True):
        waiting.start()
        outer(path)
        blocked.set()
        waiting.join()
    return path


def names_of(one, stack):
    return [one.functions[index].name for index in one.path(int(stack))]


def test_stacks_have_the_functions_that_called_each_other_and_their_places(session):
    (one,) = tprof.load(session).stacks()
    here = one.tid == threading.get_native_id()
    found = [names_of(one, stack) for stack in one.stack[here]]
    inside = [names for names in found if "inner" in names]

    assert inside
    assert all(names[names.index("inner") - 1] == "outer" for names in inside)
    (place,) = {(function.file, function.line) for function in one.functions if function.name == "inner"}
    assert place == (__file__, inner.__code__.co_firstlineno)
    assert one.left_out == 0
    assert (one.pid, one.process) == (os.getpid(), 0)


def test_a_thread_that_waits_is_sampled_with_the_function_in_which_it_waits(session):
    trace = tprof.load(session)
    (one,) = trace.stacks()
    (tid,) = (thread.tid for thread in trace.threads if thread.name == "waiting")

    waits = [names_of(one, stack) for stack in one.stack[one.tid == tid]]

    assert any(names[-2:] == ["Event.wait", "Condition.wait"] for names in waits)


def test_the_flame_shows_the_functions_below_their_task_and_keeps_its_joules(session):
    profile = tprof.load(session).profile()
    flame = profile.flame()
    rows = {path: flame.nodes.loc[row] for row, path in flame.paths()}

    assert {("outer", "inner"), ("outer", "inner", "wait_for")} <= set(rows)
    outer_j = profile.summary().loc["outer", "energy_j"]
    assert rows[("outer",)]["energy_j"] == pytest.approx(outer_j, rel=1e-9)
    assert rows["outer", "inner"]["samples"] > 0
    assert flame.sampled >= rows[("outer",)]["samples"]
    outside_j = rows[("(outside tasks)",)]["energy_j"]
    assert flame.energy_j == pytest.approx(profile.tasks["energy_j"].sum() + outside_j, rel=1e-9)
    assert 0 <= outside_j <= profile.accounts["runtime_j"].sum() * (1 + 1e-9)


def test_the_programs_random_numbers_and_collector_stay_as_they_were(tmp_path):
    random.seed(7)
    expected = random.random()  # noqa: S311 - the program's
    gc_before = gc.isenabled()

    random.seed(7)
    with tprof.record(tmp_path / "s.tprof", energy="none", counters="none", stacks=True) as recording:
        wait_for(3, recording.path)
        assert gc.isenabled() == gc_before
    assert random.random() == expected  # noqa: S311
    assert not [thread for thread in threading.enumerate() if "tprof" in thread.name]


def test_a_sample_costs_the_cpu_time_of_its_thread_not_what_others_take_meanwhile(tmp_path):
    file = _core.StackFile(os.fspath(tmp_path / "a.stacks"), 0, "")
    begin_ns = time.thread_time_ns()
    cost_ns = sum(file.sample() for _ in range(2000))
    used_ns = time.thread_time_ns() - begin_ns
    file.close()

    assert 0 < cost_ns <= used_ns


PROGRAM = """
    import json, multiprocessing, os, sys, time

    def busy():
        until = time.monotonic() + 60
        path = os.path.join(os.environ["TPROF_SESSION"], "stacks")
        while time.monotonic() < until:
            mine = [name for name in os.listdir(path)]
            sizes = [open(os.path.join(path, name), "rb").read(80)[64:72] for name in mine]
            if len(mine) >= int(sys.argv[1]) and all(int.from_bytes(size, "little") > 40 for size in sizes):
                return

    if __name__ == "__main__":
        ways = [multiprocessing.get_context(way).Process(target=busy) for way in ("fork", "spawn")]
        [one.start() for one in ways]
        busy()
        [one.join() for one in ways]
        print("done", [one.exitcode for one in ways])
"""


@pytest.mark.thorough
def test_children_that_are_forked_or_spawned_are_sampled_too(tmp_path):
    (tmp_path / "p.py").write_text(textwrap.dedent(PROGRAM))
    (finished,) = [
        subprocess.run(
            [sys.executable, "-m", "tprof", "run", "--stacks", "-o", "s.tprof", "p.py", "3"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
    ]  # fmt: skip

    trace = tprof.load(tmp_path / "s.tprof")
    by_process = {one.process: {function.name for function in one.functions} for one in trace.stacks()}

    assert finished.stdout == "done [0, 0]\n"
    assert len({one.pid for one in trace.stacks()}) == len(by_process) >= 3
    assert sum("busy" in names for names in by_process.values()) == 3
    assert trace.profile().flame().energy_j > 0


@pytest.mark.thorough
def test_stacks_survive_a_kill(tmp_path):
    (tmp_path / "p.py").write_text("def busy():\n    while True:\n        sum(range(1000))\nbusy()\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "tprof", "run", "--stacks", "-o", "s.tprof", "p.py"],
        cwd=tmp_path, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until_s = time.monotonic() + DEADLINE_S
    while not (tmp_path / "s.tprof" / "stacks").is_dir() or committed(tmp_path / "s.tprof") < 20:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()

    (one,) = tprof.load(tmp_path / "s.tprof").stacks()

    assert any("busy" in names_of(one, stack) for stack in one.stack)


def test_a_very_deep_stack_is_cut_and_says_so(tmp_path):
    limit = sys.getrecursionlimit()

    def deep(count, session):
        if count:
            deep(count - 1, session)
        else:
            wait_for(committed(session) + LEAST, session)

    sys.setrecursionlimit(5000)
    try:
        with tprof.record(tmp_path / "s.tprof", energy="none", counters="none", stacks=True) as recording:
            deep(1500, recording.path)
    finally:
        sys.setrecursionlimit(limit)
    (one,) = tprof.load(tmp_path / "s.tprof").stacks()
    paths = [one.path(int(stack)) for stack in one.stack]

    cut = [path for path in paths if one.functions[path[0]].is_cut]
    assert cut
    assert {len(path) for path in cut} == {1025}


MAKER = """
    import ctypes, sys, threading, time
    from tprof import _core

    unlocked, locked = ctypes.CDLL(None), ctypes.PyDLL(None)
    unlocked.PyThreadState_New.restype = locked.PyInterpreterState_Get.restype = ctypes.c_void_p
    interpreter = ctypes.c_void_p(locked.PyInterpreterState_Get())
    over = threading.Event()

    def make():
        while not over.is_set():
            states = [ctypes.c_void_p(unlocked.PyThreadState_New(interpreter)) for _ in range(20)]
            for state in states:
                locked.PyThreadState_Clear(state)
                locked.PyThreadState_Delete(state)

    file = _core.StackFile(sys.argv[1], 0, "")
    makers = [threading.Thread(target=make) for _ in range(3)]
    [maker.start() for maker in makers]
    until = time.monotonic() + 1
    while time.monotonic() < until:
        file.sample()
        time.sleep(0)
    over.set()
    [maker.join() for maker in makers]
    print("whole")
"""


def test_threads_of_libraries_that_enter_python_meanwhile_are_never_met_half_made(tmp_path):
    program = textwrap.dedent(MAKER)

    finished = subprocess.run(
        [sys.executable, "-c", program, "a.stacks"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (finished.returncode, finished.stdout) == (0, "whole\n")


def test_the_options_of_a_recording_reach_its_children_by_the_manifest(session):
    manifest = json.loads((Path(session) / "manifest.json").read_text("utf-8"))

    assert manifest["recorder"]["stacks"] is True


def test_run_takes_the_option(tmp_path):
    words = [TPROF, "run", "--stacks", "--no-summary", "-o", "s.tprof", "-c", "print(sum(range(9)))"]
    finished = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    assert (finished.returncode, finished.stdout) == (0, "36\n")
    assert len(tprof.load(tmp_path / "s.tprof").stack_files) == 1
