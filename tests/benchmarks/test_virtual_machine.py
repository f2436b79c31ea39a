"""The simulated machine draws what its laws say, and the laws go through what the paper prints."""

import os
import subprocess
import sys
import time

import pytest
import tprof.benchmarks.virtual.machine as virtual
from tprof.benchmarks.virtual.machine.machine import IDLE_W
from tprof.benchmarks.virtual.machine.tree import ENERGY, FIRST, Shape

SHAPE = Shape((virtual.LOWEST_HZ, virtual.HIGHEST_HZ))
PROGRAM = [sys.executable, "-P", "-m", "tprof.benchmarks.virtual.machine.program"]


@pytest.mark.parametrize("law", virtual.RESPONSES.values(), ids=lambda law: law.task)
def test_a_law_goes_through_both_ends_and_never_falls_between(law):
    steps = [virtual.LOWEST_HZ + (virtual.HIGHEST_HZ - virtual.LOWEST_HZ) * place / 50 for place in range(51)]

    assert law.time(virtual.LOWEST_HZ) == pytest.approx(law.time_ratio)
    assert law.energy(virtual.LOWEST_HZ) == pytest.approx(law.energy_ratio)
    assert law.time(virtual.HIGHEST_HZ) == law.energy(virtual.HIGHEST_HZ) == 1
    assert 0 <= law.waiting <= 1
    assert [law.energy(hz) for hz in steps] == sorted(law.energy(hz) for hz in steps)


@pytest.mark.parametrize(
    ("words", "said"), [([], "name the command"), (["no-such-command"], "there is no command no-such-command")]
)
def test_a_machine_without_a_command_that_runs_says_how_it_is_used(words, said):
    start = [sys.executable, "-P", "-m", "tprof.benchmarks.virtual.machine"]
    done = subprocess.run([*start, *words], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert said in done.stderr
    assert "usage: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_laws_are_those_that_the_paper_prints():
    assert (virtual.response("sort").energy_ratio, virtual.response("sort").time_ratio) == pytest.approx((0.57, 1.89))
    assert virtual.response("jacobi").time_ratio == 1
    assert len(virtual.RESPONSES) == 9


@pytest.mark.parametrize("hz", SHAPE.frequencies_hz)
def test_a_tasks_joules_are_its_law_at_the_frequency_that_the_tree_holds(tmp_path, hz):
    with virtual.Machine(tmp_path, SHAPE) as machine:
        (tmp_path / FIRST / "scaling_max_freq").write_text(f"{hz // 1000}\n")
        before_uj, before_s = int((tmp_path / ENERGY).read_text()), time.monotonic()
        subprocess.run(
            [*PROGRAM, "--tasks", "sort", "--instances", "3", "--seconds", "0.1"], env=machine.environment, check=True
        )
        taken_j = (int((tmp_path / ENERGY).read_text()) - before_uj) / 1e6
        idle_j = IDLE_W * (time.monotonic() - before_s)

    law = virtual.response("sort")
    task_j = 0.3 * law.time(hz) * law.power_w(hz)
    # Of each instance the last slice may be too long, and the idle power of the whole time comes on top.
    assert task_j <= taken_j < 1.15 * task_j + idle_j


def test_the_program_says_where_it_can_run(tmp_path):
    done = subprocess.run(
        PROGRAM, env={**os.environ, "TPROF_SYSROOT": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode != 0
    assert f"there is no simulated machine below {tmp_path}" in done.stderr
