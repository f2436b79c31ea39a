"""A run that fails or hangs costs a sweep that run alone, and an ended sweep leaves no run behind."""

import os
import signal

import pandas as pd
import pytest
from support.fake_sensor import wait_for
from support.sweeps import QUICK, begun, environment, points, state, sweep

from benchmarks.simulator.simulated_machine import Shape, make_tree
from tprof.frequency import Bounds, find_policies, read_bounds

ENDS = (1_600_000_000, 3_600_000_000)
OVER_WORKERS = ("--frequencies", "none", *QUICK, "--seed", "1", "-o", "out")
FAILS = "import os, sys\nif os.environ['TPROF_WORKERS'] == '2' and not os.path.exists('mended'): sys.exit(3)\n"
HANGS = "import os, time\nif os.environ['TPROF_WORKERS'] == '2': time.sleep(600)\n"
DEAF = """import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: open('asked', 'w').close())
open('pid', 'w').write(str(os.getpid()))
os.rename('pid', 'run')
time.sleep(600)
"""


@pytest.fixture
def env(tmp_path):
    make_tree(tmp_path / "root", Shape(ENDS), "nobody")
    return environment(tmp_path / "root")


def test_other_points_run_and_the_same_command_tries_again_what_failed(tmp_path, env):
    (tmp_path / "fails.py").write_text(FAILS)
    words = (*OVER_WORKERS, "--workers", "1,2,3", "fails.py")

    first = sweep(tmp_path, *words, env=env)
    swept = list(pd.read_csv(tmp_path / "out/sweep.csv")["workers"])
    (tmp_path / "mended").touch()
    second = sweep(tmp_path, *words, env=env)

    assert first.returncode == 1
    assert swept == [1, 3]
    assert "1 of 3 runs failed, the same command tries them again (2w-1: the run ended with status 3;" in first.stderr
    assert "tprof report" not in first.stderr
    assert second.returncode == 0, second.stderr
    assert "2 of them done before" in second.stderr
    assert state(tmp_path / "out") == ["done"] * 3


def test_a_run_that_hangs_is_ended_in_time(tmp_path, env):
    (tmp_path / "hangs.py").write_text(HANGS)

    done = sweep(tmp_path, *OVER_WORKERS, "--workers", "2", "--timeout", "1", "hangs.py", env=env)

    assert done.returncode == 1
    assert "2w-1: the run did not end within --timeout 1" in done.stderr
    assert state(tmp_path / "out") == ["failed"]


@pytest.mark.thorough
def test_a_run_that_hangs_costs_that_run_alone(tmp_path, env):
    (tmp_path / "hangs.py").write_text(HANGS)

    done = sweep(tmp_path, *OVER_WORKERS, "--workers", "1,2", "--timeout", "60", "hangs.py", env=env)

    assert done.returncode == 1
    assert sorted(state(tmp_path / "out")) == ["done", "failed"]


def test_a_program_that_always_fails_ends_the_sweep_with_its_words_and_the_frequencies_restored(tmp_path, env):
    (tmp_path / "fails.py").write_text("raise ValueError('as asked')\n")

    done = sweep(tmp_path, *QUICK, "--workers", "1,2", "--repeat", "2", "-o", "out", "fails.py", env=env)

    assert done.returncode == 1
    assert "3 runs failed one after the other" in done.stderr
    assert "the run ended with status 1: ValueError: as asked; all it printed is in " in done.stderr
    assert state(tmp_path / "out").count("waiting") == 5
    assert "Traceback" not in done.stderr
    assert read_bounds(find_policies(tmp_path / "root")[0]) == Bounds(*ENDS)


def test_of_a_long_log_only_the_last_words_are_read(tmp_path, env):
    (tmp_path / "talks.py").write_text(
        "import sys\nsys.stderr.write('x' * 10_000_000 + '\\n')\nraise SystemExit('enough')\n"
    )

    done = sweep(tmp_path, *OVER_WORKERS, "--workers", "1", "talks.py", env=env)

    assert done.returncode == 1
    assert len(done.stderr) < 2000
    assert points(tmp_path / "out")[0]["state"] == "failed"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_a_run_that_heeds_no_signal_is_killed_when_asked_twice(tmp_path, env, number):
    (tmp_path / "deaf.py").write_text(DEAF)

    with begun(tmp_path, "--workers", "1", *QUICK, "deaf.py", env=env) as process:
        wait_for((tmp_path / "run").exists, "the run")
        run = os.pidfd_open(int((tmp_path / "run").read_text()))
        process.send_signal(number)
        wait_for((tmp_path / "asked").exists, "the run being asked to end")
        process.send_signal(number)
        said = process.stderr.read()

    assert "interrupted; the same command goes on" in said
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(run, 0)
    os.close(run)
    assert read_bounds(find_policies(tmp_path / "root")[0]) == Bounds(*ENDS)
