"""Whatever a program does with tprof for long, it holds no more afterwards: descriptors, threads, children, files."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from support import leak_loop
from support.programs import DEADLINE_S

import tprof
from tprof.cli.app import COMMANDS

WARM, ROUNDS = 5, 40
MOST_BYTES_A_ROUND = 32 * 1024
SERVES_METRICS = importlib.util.find_spec("prometheus_client") is not None
ENDS_WITH_THE_PROGRAM = {"run"}
MADE_BY = {
    "Budget": "budget", "ClusterTrace": "job", "Recording": "record", "Trace": "load", "gpu": "region",
    **dict.fromkeys(["BudgetExceededError", "SensorError", "TprofError", "TraceError", "UsageError"], "refusals"),
}  # fmt: skip
CALLS = [way for way in leak_loop.WAYS if not way.startswith("tprof ")]
QUICK = ("record", "record and fork", "label", "runtime", "metrics", "metrics of a recording", "load", "refusals")


def held_around(tmp_path, ways, *, warm, rounds):
    """Return what a process holds before and after so many rounds of these ways."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, leak_loop.__file__, str(warm), str(rounds), *ways],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_nothing_is_open(before, after):
    """So few rounds say nothing of memory: the interpreter's own caches are not full yet."""
    del before["resident"], after["resident"]
    assert after == before


def assert_nothing_is_kept(before, after, rounds):
    resident = after.pop("resident") - before.pop("resident")
    assert after == before
    assert resident < rounds * MOST_BYTES_A_ROUND


def test_every_public_name_and_every_command_is_among_the_ways():
    names = {MADE_BY.get(name, name) for name in tprof.__all__}
    commands = {f"tprof {name}" for name in set(COMMANDS) - ENDS_WITH_THE_PROGRAM}

    assert names | commands <= leak_loop.WAYS.keys()


def test_a_few_rounds_of_what_is_done_most_leave_nothing_open(tmp_path):
    ways = [way for way in QUICK if SERVES_METRICS or not way.startswith("metrics")]
    before, after = held_around(tmp_path, ways, warm=2, rounds=4)

    assert_nothing_is_open(before, after)


@pytest.mark.thorough
@pytest.mark.parametrize("command", leak_loop.COMMANDS)
def test_a_command_leaves_nothing_open(tmp_path, command):
    """Its memory ends with its process."""
    before, after = held_around(tmp_path, [f"tprof {command}"], warm=2, rounds=3)

    assert_nothing_is_open(before, after)


@pytest.mark.thorough
@pytest.mark.parametrize("way", CALLS)
def test_doing_it_again_and_again_leaves_nothing_behind(tmp_path, way):
    before, after = held_around(tmp_path, [way], warm=WARM, rounds=ROUNDS)

    assert_nothing_is_kept(before, after, ROUNDS)
