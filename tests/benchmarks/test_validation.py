"""The virtual processor is exact where it can be checked by hand, and `validate` reports every case and model."""

import json

import numpy as np
import pytest
from tprof.benchmarks.validation import CASES
from tprof.benchmarks.validation import validate as validation
from tprof.benchmarks.virtual import ICE_LAKE, Core, Package, Task, random_mix, write

import tprof

TASK = Task("work", 1e-3, 6.0)


def one(begin_s, end_s, power_w):
    return Core(np.array([begin_s]), np.array([end_s]), np.array([0]), np.array([power_w]))


def test_a_package_draws_static_power_and_what_its_cores_run():
    package = Package(static_w=10.0)

    joules, instances = package.energies([one(0.0, 1.0, 4.0), one(0.5, 2.0, 8.0)], np.array([0.0, 0.5, 1.0, 3.0]), 3.0)

    assert joules == pytest.approx([0.0, 7.0, 18.0, 46.0])
    assert [float(one[0]) for one in instances] == pytest.approx([4.0, 12.0])


def test_contention_takes_from_tasks_that_run_together():
    package = Package(static_w=0.0, contention=0.5)

    joules, instances = package.energies([one(0.0, 1.0, 4.0), one(0.5, 1.5, 4.0)], np.array([0.0, 1.5]), 1.5)

    assert [float(one[0]) for one in instances] == pytest.approx([3.0, 3.0])
    assert joules[-1] == pytest.approx(6.0)


def test_drift_adds_half_of_itself_over_the_run():
    joules, _ = Package(static_w=10.0, drift_w=2.0).energies([], np.array([0.0, 4.0]), 4.0)

    assert joules.tolist() == pytest.approx([0.0, 44.0])


def test_updates_come_at_a_thousand_a_second_and_are_seen_late_by_less_than_a_poll():
    updates_s = ICE_LAKE.updates(5.0, np.random.default_rng(0))
    late_s = ICE_LAKE.seen(updates_s) - updates_s

    assert len(updates_s) == pytest.approx(5000, rel=0.03)
    assert (late_s >= 0).all()
    assert (late_s < ICE_LAKE.poll_s + 1e-12).all()


@pytest.mark.parametrize("changing", [False, True])
def test_cores_run_one_task_at_a_time_for_the_part_that_was_asked(changing):
    cores = random_mix((TASK,), cores=3, duration_s=1.0, seed=1, busy=0.5, changing=changing)

    for core in cores:
        assert (core.begin_s[1:] >= core.end_s[:-1]).all()
        assert core.begin_s[0] >= 1 / 3
        assert (core.end_s - core.begin_s).sum() == pytest.approx(0.5, rel=0.2)


def test_the_trace_holds_what_the_package_drew_and_calls_it_simulated(tmp_path):
    cores = random_mix((TASK,), cores=2, duration_s=0.5, seed=2)

    truth = write(tmp_path / "t.tprof", (TASK,), cores, package=Package(), sensor=ICE_LAKE, end_s=1.0, seed=2)

    profile = tprof.load(tmp_path / "t.tprof").profile(model="cputime")
    assert profile.info["quality"] == "simulated"
    assert sorted(profile.tasks["instance"]) == truth.instance.tolist()
    assert profile.measured_j == pytest.approx(10.0 + truth.energy_j.sum(), rel=0.01)


def test_validate_reports_each_case_task_and_model_in_plain_values():
    cases = (CASES[0], CASES[3])
    result = validation.measure(validation.Effort(seeds=1, duration_s=0.6), cases=cases)

    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert {row["case"] for row in result["rows"]} == {case.name for case in cases}
    assert {row["model"] for row in result["rows"]} == {"fitted", "cputime", "wall time"}
    held = [row for row in result["rows"] if row["target"] is not None]
    assert len(held) == 3
    assert all(row["met"] == (row["mean_error"] <= 0.02) for row in held)
