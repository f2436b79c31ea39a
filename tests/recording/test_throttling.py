"""Throttling: the strictest request applies, and what the program itself set stays."""

import os
import subprocess
import sys
import threading
import time
from typing import NoReturn

import pytest
from support import budgeted
from support.browser import opened
from support.budgeted import record, spin, spin_here_over
from support.fake_sensor import wait_for
from tprof.runtime import Runtime

import tprof
import tprof.frequency
from benchmarks.simulator.simulated_machine import FIRST, Shape, make_tree
from tprof.budgets.response import Response
from tprof.budgets.throttling import Pauses, Workers
from tprof.errors import SensorError
from tprof.frequency import Guard
from tprof.session.process_state import this_process


def test_a_throttle_on_workers_holds_and_lets_go():
    running, most = [], []

    def body():
        running.append(1)
        most.append(len(running))
        time.sleep(0.001)
        running.pop()

    with Runtime(workers=4) as runtime:
        throttle = Workers(lambda: [runtime])
        said = [throttle.tighten(), throttle.tighten(), throttle.tighten()]
        runtime.wait()
        for _ in range(50):
            runtime.submit(body)
        runtime.wait()
        held = max(most)
        throttle.release()
        barrier = threading.Barrier(4)
        for _ in range(4):
            runtime.submit(barrier.wait)
        runtime.wait()

    assert said == ["2 of 4 workers go on taking tasks", "1 of 4 workers go on taking tasks", None]
    assert held == 1


@pytest.fixture
def runtime():
    """Give a runtime of 4 workers."""
    with Runtime(workers=4) as runtime:
        yield runtime


def tightened(runtime, times=1):
    throttle = Workers(lambda: [runtime])
    for _ in range(times):
        throttle.tighten()
    return throttle


@pytest.mark.parametrize("first_to_go", [0, 1])
def test_the_strictest_throttle_holds_until_it_is_released(runtime, first_to_go):
    throttles = [tightened(runtime), tightened(runtime)]

    seen = [runtime.active_workers]
    throttles.pop(first_to_go).release()
    seen.append(runtime.active_workers)
    throttles.pop().release()

    assert seen == [1, (1, 2)[first_to_go]]
    assert runtime.active_workers == 4


def test_a_number_of_workers_that_the_program_sets_stays(runtime):
    throttle = tightened(runtime)
    runtime.active_workers = 3
    throttle.release()
    seen = [runtime.active_workers]
    throttle = tightened(runtime)
    runtime.active_workers = 4
    throttle.tighten()
    seen.append(runtime.active_workers)
    throttle.release()

    assert seen == [3, 1]
    assert runtime.active_workers == 4


def test_a_runtime_that_has_ended_is_released():
    with Runtime(workers=4) as runtime:
        throttle = tightened(runtime)
    throttle.release()
    with Runtime(workers=4) as another:
        assert another.active_workers == 4


def pauses_s(tasks):
    begin_s, length_s = tasks["start_s"].to_numpy(), tasks["duration_s"].to_numpy()
    return (begin_s[1:] - begin_s[:-1] - length_s[:-1]) / length_s[:-1]


def test_the_longest_pause_holds_until_it_is_released(tmp_path, monkeypatch):
    short, long = Pauses(), Pauses()
    with budgeted.machine(tmp_path, monkeypatch), record(tmp_path) as recording:
        said = [short.tighten(), long.tighten(), long.tighten()]
        short.release()
        for _ in range(2):
            spin(0.01)
        long.release()
        for _ in range(2):
            spin(0.01)

    assert said[2] == "each thread pauses after a task, 3 times as long as the task took"
    after = pauses_s(recording.profile("cputime").tasks)
    assert after[0] >= 2.9
    assert after[2] < 2.9


class HeldGuard(Guard):
    """A guard of a machine whose frequencies somebody holds."""

    def __enter__(self) -> NoReturn:
        """Refuse."""
        message = "the processor's frequencies are held already"
        raise SensorError(message)


def exceed():
    with tprof.budget(joules=0.5, action="slow") as budget:
        spin_here_over(budget)


FORKED = """
import os, sys
import tprof
from tprof.budgets.throttling import Frequency, frequency_throttle
throttle, _ = frequency_throttle()
throttle.tighten()
child = os.fork()
if child == 0:
    os.read(0, 1)
    os._exit(0)
print("held", flush=True)
os.waitpid(child, 0)
"""


def test_a_forked_child_that_lives_on_does_not_keep_the_frequency(tmp_path):
    make_tree(tmp_path / "root", Shape((1_600_000_000, 3_600_000_000)), "nobody")
    file = tmp_path / "root" / FIRST / "scaling_max_freq"
    environment = os.environ | {"TPROF_SYSROOT": str(tmp_path / "root")}
    with subprocess.Popen(
        [sys.executable, "-c", FORKED], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert file.read_text() != "3600000\n"

        process.kill()

        wait_for(lambda: file.read_text().strip() == "3600000", "the former frequency")


@pytest.mark.usefixtures("runtime")
def test_a_frequency_that_somebody_holds_leaves_the_next_throttle(tmp_path, monkeypatch):
    what = r"2 of 4 workers .*the frequency stays: .* are held already\)"
    with budgeted.machine(tmp_path, monkeypatch) as machine:
        highest = budgeted.add_policy(machine.tree)
        monkeypatch.setattr(tprof.frequency, "Guard", HeldGuard)
        with pytest.warns(RuntimeWarning, match=what):
            exceed()

        assert int(highest.read_text()) == 3000000


def test_a_frequency_that_cannot_be_set_any_more_leaves_the_next_throttle(tmp_path, monkeypatch, runtime):
    response = Response("slow", (__file__, 1), this_process.runtimes)
    with budgeted.machine(tmp_path, monkeypatch) as machine:
        highest = budgeted.add_policy(machine.tree)
        response.get_ready()
        highest.unlink()
        highest.mkdir()
        with pytest.warns(RuntimeWarning, match=r"^too much; 2 of 4 workers .*the frequency stays: .*is a directory"):
            response.act(lambda: "too much")
        highest.rmdir()
        highest.write_text("2500000")
        response.end()

        assert int(highest.read_text()) == 3000000
    assert runtime.active_workers == 4


@pytest.mark.parametrize(("action", "says"), [("warn", "warned: the budget of"), ("slow", "slowed down: each thread")])
def test_what_a_budget_did_stands_in_the_decisions_and_the_report(tmp_path, monkeypatch, action, says):
    with (
        budgeted.machine(tmp_path, monkeypatch),
        tprof.record(tmp_path / "acted.tprof", energy="powercap", counters="none", idle_s=0),
        pytest.warns(RuntimeWarning),
        tprof.budget(joules=0.5, action=action) as budget,
    ):
        spin_here_over(budget)

    profile = tprof.load(tmp_path / "acted.tprof").profile()
    assert set(profile.decisions["kind"]) == {"acted"}
    assert profile.decisions["why"].iloc[0].startswith(says)
    if action == "slow":
        profile.to_html(tmp_path / "acted.html")
        assert "A budget, at " in opened(tmp_path / "acted.html")
