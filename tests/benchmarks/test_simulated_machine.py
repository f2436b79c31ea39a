"""The simulated machine draws what its laws say, and the laws go through what the paper prints."""

import itertools
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import benchmarks.simulator.simulated_machine as virtual
from benchmarks.simulator.program import SLICE_S, body
from benchmarks.simulator.simulated_machine import ENERGY, FIRST, IDLE_W, Package, Shape, make_tree

SHAPE = Shape((virtual.LOWEST_HZ, virtual.HIGHEST_HZ))
PROGRAM = [sys.executable, "-P", "-m", "benchmarks.simulator.program"]


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
    start = [sys.executable, "-P", "-m", "benchmarks.simulator"]
    done = subprocess.run([*start, *words], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert said in done.stderr
    assert "usage: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_laws_are_those_that_the_paper_prints():
    assert (virtual.response("sort").energy_ratio, virtual.response("sort").time_ratio) == pytest.approx((0.57, 1.89))
    assert virtual.response("jacobi").time_ratio == 1
    assert len(virtual.RESPONSES) == 9


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def cpu_ns(self):
        return round(self.now_s * 1e9)

    def work_for(self, seconds):
        self.now_s += 1.5 * seconds  # a slice never ends when it was asked to


@pytest.mark.parametrize("hz", SHAPE.frequencies_hz)
def test_the_package_counts_what_slices_draw_by_their_law_and_a_little_beside(tmp_path, hz):
    make_tree(tmp_path, SHAPE, "nobody")
    clock, law = Clock(), virtual.response("sort")
    package = Package(tmp_path, clock)

    package.add(f"sort {hz} 300000000")
    package.add("merge 1600000000 0")
    clock.now_s = 2.0
    package.advance()

    drawn_j = 0.3 * law.power_w(hz) + 2.0 * IDLE_W
    assert int((tmp_path / ENERGY).read_text()) == pytest.approx(1e6 * drawn_j, abs=1)


def test_a_task_works_as_long_as_its_law_says_at_the_frequencies_that_it_finds():
    clock, law = Clock(), virtual.response("sort")
    reports, found_hz = [], itertools.chain([virtual.HIGHEST_HZ] * 10, itertools.repeat(virtual.LOWEST_HZ))
    machine = SimpleNamespace(frequency_hz=lambda: next(found_hz), report=lambda *report: reports.append(report))

    body(machine, law, 0.1, work_for=clock.work_for, cpu_ns=clock.cpu_ns)()

    done_s = sum(cpu_ns * 1e-9 / law.time(hz) for _, hz, cpu_ns in reports)
    assert 0.1 <= done_s < 0.1 + 1.5 * SLICE_S
    assert sum(cpu_ns for *_, cpu_ns in reports) == clock.cpu_ns()
    assert {task for task, *_ in reports} == {"sort"}
    assert [hz for _, hz, _ in reports[:10]] == [virtual.HIGHEST_HZ] * 10
    assert {hz for _, hz, _ in reports[10:]} == {virtual.LOWEST_HZ}


def test_a_programs_tasks_draw_on_the_machine_at_the_frequency_that_the_tree_holds(tmp_path):
    hz = virtual.LOWEST_HZ
    with virtual.Machine(tmp_path, SHAPE) as machine:
        (tmp_path / FIRST / "scaling_max_freq").write_text(f"{hz // 1000}\n")
        begin_s, before_uj = time.monotonic(), int((tmp_path / ENERGY).read_text())
        subprocess.run(
            [*PROGRAM, "--tasks", "sort", "--instances", "3", "--seconds", "0.05"], env=machine.environment, check=True
        )
        taken_j = (int((tmp_path / ENERGY).read_text()) - before_uj) / 1e6
        lasted_s = time.monotonic() - begin_s

    law = virtual.response("sort")
    task_j = 0.15 * law.time(hz) * law.power_w(hz)
    # The machine hears of the last slice a moment after it.
    last_j = SLICE_S * law.power_w(hz)
    assert task_j - last_j <= taken_j < 1.25 * task_j + IDLE_W * lasted_s


def test_the_program_says_where_it_can_run(tmp_path):
    done = subprocess.run(
        PROGRAM, env={**os.environ, "TPROF_SYSROOT": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode != 0
    assert f"there is no simulated machine below {tmp_path}" in done.stderr
