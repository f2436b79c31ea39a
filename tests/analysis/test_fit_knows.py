"""Where a task's power depends on something, the fit finds it, says so, and its intervals hold."""

import dataclasses

import numpy as np
import pytest
from tprof.analysis.models.fitted.findings import disorder

import tprof
from benchmarks.simulator import (
    ICE_LAKE,
    Beside,
    Drift,
    Effects,
    Hidden,
    Mix,
    Package,
    Run,
    random_mix,
    stated,
    write,
)
from benchmarks.validation.cases import NOISY

TASKS = (
    stated("short", 30e-6, 4.0, 0.05),
    stated("middle", 80e-6, 8.0, 0.05),
    stated("long", 200e-6, 12.0, 0.05),
)
MIX = Mix(duration_s=1.5, cores=3)


def fitted(path, *, seed=1, tasks=TASKS, mix=MIX, sensor=ICE_LAKE, **effects):
    """Return the findings by kind, and for each task the error of its dynamic energy in half widths of its interval."""
    run = Run(
        Package(effects=Effects(**effects)), [task.kernel for task in tasks], random_mix(tasks, mix, seed=seed),
        mix.duration_s + mix.idle_s, seed,
    )  # fmt: skip
    truth = write(path, [task.name for task in tasks], run, sensor=sensor, seed=seed, counters=False)
    profile = tprof.load(path).profile(model="fitted")
    summary = profile.summary()
    off = {
        task.name: (summary.loc[task.name, "dynamic_j"] - truth.dynamic_j[truth.task == number].sum())
        / (summary.loc[task.name, "dynamic_high_j"] - summary.loc[task.name, "dynamic_j"])
        for number, task in enumerate(tasks)
    }
    found = {}
    for one in profile.info["fitted"]["findings"]:
        found.setdefault(one["kind"], []).append(one)
    return found, off, profile


def held(off):
    """Allow for the 5 % of intervals that need not hold: no error is far outside."""
    return max(abs(value) for value in off.values()) < 1.5


def test_constant_powers_raise_no_finding(tmp_path):
    found, off, profile = fitted(tmp_path / "t.tprof")

    assert found == {}
    assert profile.info["warnings"] == []
    assert held(off)


def test_a_task_that_draws_more_beside_another_is_found_with_its_size(tmp_path):
    found, off, profile = fitted(tmp_path / "t.tprof", beside=(Beside(2, 0, 0.15),))

    first = found["contention"][0]
    assert first["tasks"] == ["long", "short"]
    assert first["low"] < 0.15 < first["high"]
    assert "long draws" in first["text"]
    assert "more beside short" in first["text"]
    assert first["text"] in profile.info["warnings"]
    assert held(off)


def test_powers_that_drift_are_found_and_the_mean_is_kept(tmp_path):
    found, off, _ = fitted(tmp_path / "t.tprof", drift=Drift(linear=0.12))

    (drift,) = found["drift"]
    assert drift["low"] < 0.12 < drift["high"]
    assert "from begin to end" in drift["text"]
    assert held(off)


def test_power_that_goes_with_the_length_of_an_instance_is_found(tmp_path):
    tasks = tuple(dataclasses.replace(task, duration_spread=0.5, length_exponent=0.3) for task in TASKS)

    found, off, _ = fitted(tmp_path / "t.tprof", tasks=tasks)

    assert "long" in {name for one in found["length"] for name in one["tasks"]}
    assert found["length"][0]["size"] == pytest.approx(0.3 * np.log(2), abs=0.06)
    assert held(off)


def test_a_sensor_that_is_late_is_found_out(tmp_path):
    found, off, _ = fitted(tmp_path / "t.tprof", sensor=dataclasses.replace(ICE_LAKE, late_s=0.5e-3))

    (late,) = found["lateness"]
    assert "0.5 ms later" in late["text"]
    assert late["tasks"] == ["short", "middle", "long"]
    assert held(off)


def test_noise_of_the_sensor_is_not_lateness(tmp_path):
    found, off, _ = fitted(tmp_path / "t.tprof", seed=4, sensor=NOISY)

    assert found == {}
    assert held(off)


def test_a_task_in_step_with_others_is_known_to_be_uncertain(tmp_path):
    mix = Mix(duration_s=1.0, cores=1, groups=((0, 1, 2),))

    found, off, profile = fitted(tmp_path / "t.tprof", mix=mix)

    assert found.keys() == {"ratio"}
    assert found["ratio"][0]["tasks"] == ["short", "middle", "long"]
    (warning,) = [text for text in profile.info["warnings"] if "in step" in text]
    assert warning.startswith("short, middle and long ran in step, nearly in one ratio: the readings hardly tell their")
    assert "give that of short within" in warning
    assert held(off)


def test_disorder_is_one_for_instances_in_random_order_and_small_for_those_in_step():
    length = np.array([20e-6, 50e-6, 200e-6])
    order = np.random.default_rng(0).integers(0, 3, (3000, 24))
    count = (order[:, :, None] == np.arange(3)).sum(axis=1)
    in_step = np.full((3000, 3), 8) + np.eye(3, dtype=int)[order[:, 0]]

    assert disorder(count * length, count * length**2) == pytest.approx(np.ones(3), abs=0.1)
    assert (disorder(in_step * length, in_step * length**2) < 0.1).all()
    assert disorder(count[:, :1] * length[:1], count[:, :1] * length[:1] ** 2) == pytest.approx([1.0])


def test_unlike_cores_are_found(tmp_path):
    found, off, _ = fitted(tmp_path / "t.tprof", cores=(1.0, 1.0, 0.7))

    (cores,) = found["cores"]
    assert cores["size"] < -0.15
    assert held(off)


def test_a_load_that_no_sample_shows_is_said_to_be_unexplained(tmp_path):
    found, _, profile = fitted(tmp_path / "t.tprof", hidden=Hidden(6.0, 5e-3, 30e-3))

    (unexplained,) = found["unexplained"]
    assert set(unexplained["tasks"]) == {"short", "middle", "long"}
    assert any("another program" in text for text in profile.info["warnings"])


def test_instances_over_many_quanta_that_differ_raise_no_finding(tmp_path):
    tasks = (stated("little", 3e-3, 4.0, 0.08), stated("much", 15e-3, 12.0, 0.08))

    found, off, _ = fitted(tmp_path / "t.tprof", tasks=tasks)

    assert found == {}
    assert held(off)


@pytest.mark.thorough
def test_fifty_tasks_on_sixteen_cores_are_fitted_without_a_false_finding(tmp_path):
    tasks = tuple(stated(f"task {number}", 50e-6 * 1.07**number, 4.0 + number % 9, 0.05) for number in range(50))

    found, off, profile = fitted(tmp_path / "t.tprof", tasks=tasks, mix=Mix(duration_s=1.0, cores=16))

    assert found == {}
    assert np.mean([abs(value) <= 1 for value in off.values()]) >= 0.9
    assert (profile.recipe.fits["package-0"].power >= 0).all()
