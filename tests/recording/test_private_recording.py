"""Budgets without a recording: the private one that they share, and what is left of it."""

import asyncio
import os
import signal
import subprocess
import tempfile
import threading

import pytest
from support import budgeted, programs
from support.budgeted import record, spin, spin_here_over, spin_over

import tprof


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Give every test a machine with a sensor."""
    with budgeted.machine(tmp_path, monkeypatch) as machine:
        yield machine


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Give a folder for temporary files, for this process and its children."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def outlive_another_thread(temporary):
    begun, go_on = threading.Event(), threading.Event()

    def other():
        with tprof.budget(joules=1e6):
            begun.set()
            assert go_on.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(30)
    with tprof.budget(joules=0.5, action="cancel") as budget:
        go_on.set()
        thread.join()
        assert len(list(temporary.iterdir())) == 1
        spin_over(budget)


def test_a_budget_goes_on_when_that_of_another_thread_ends(temporary):
    with pytest.raises(tprof.BudgetExceededError, match="is used up"):
        outlive_another_thread(temporary)

    assert not list(temporary.iterdir())


async def spend(joules, cpu_s, turns):
    with tprof.budget(joules=joules) as budget:
        for _ in range(turns):
            spin(cpu_s)
            await asyncio.sleep(0)
    return budget


async def spend_side_by_side():
    return await asyncio.gather(spend(1e6, 0.01, 2), spend(1e6, 0.01, 20))


def test_budgets_of_coroutines_overlap(temporary):
    short, long = asyncio.run(spend_side_by_side())

    assert 0 < short.used_j < long.used_j
    assert not list(temporary.iterdir())


def test_a_recording_may_follow_the_last_of_them(tmp_path, temporary):
    first, second = tprof.budget(joules=1e6), tprof.budget(joules=1e6)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(tprof.UsageError, match="already runs"), record(tmp_path):
        pass
    second.__exit__(None, None, None)

    with record(tmp_path):
        spin(0.01)
    assert not list(temporary.iterdir())


NEVER_LEFT = """
import sys, tprof
budget = tprof.budget(joules=1e6, action="cancel")
budget.__enter__()
print("inside", flush=True)
if sys.argv[1:] == ["wait"]:
    sys.stdin.read()
"""


def test_a_program_that_ends_inside_the_block_leaves_nothing(tmp_path, temporary):
    ended = programs.run(tmp_path, NEVER_LEFT)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "inside\n", "")
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_program_left_goes_with_the_next_budget(tmp_path, temporary, number):
    killed = programs.start(tmp_path, NEVER_LEFT, "wait", stdin=subprocess.PIPE)
    assert killed.stdout.readline() == "inside\n"
    killed.send_signal(number)
    killed.communicate(timeout=programs.DEADLINE_S)
    (left,) = temporary.iterdir()
    with tprof.budget(joules=1e6):
        assert not left.exists()

    assert not list(temporary.iterdir())


def test_what_a_running_program_uses_stays(tmp_path, temporary):
    running = programs.start(tmp_path, NEVER_LEFT, "wait", stdin=subprocess.PIPE)
    assert running.stdout.readline() == "inside\n"
    (used,) = temporary.iterdir()
    somebody_elses = temporary / "tprof-session-notes"
    somebody_elses.mkdir()
    with tprof.budget(joules=1e6):
        spin(0.01)

    assert used.exists()
    assert somebody_elses.exists()
    running.communicate("", timeout=programs.DEADLINE_S)
    assert list(temporary.iterdir()) == [somebody_elses]


def exceed_beside_a_child(temporary):
    with tprof.budget(joules=0.5, action="cancel") as budget:
        child = os.fork()
        if child == 0:
            with tprof.budget(joules=1e6):
                pass
            os._exit(0 if list(temporary.iterdir()) else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        spin_here_over(budget)


def test_a_forked_child_leaves_it_to_its_parent(temporary):
    with pytest.raises(tprof.BudgetExceededError):
        exceed_beside_a_child(temporary)

    assert not list(temporary.iterdir())
