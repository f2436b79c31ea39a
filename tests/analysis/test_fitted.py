"""From readings alone, `fitted` finds the power of tasks far shorter than a reading, and knows what is open."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tprof.analysis.models.fitted import powers

import tprof
from benchmarks.simulator import (
    ICE_LAKE,
    STATED,
    Law,
    Mix,
    Package,
    Run,
    Sensor,
    Task,
    kernel,
    random_mix,
    stated,
    write,
)

TASKS = (stated("short", 20e-6, 4.0), stated("middle", 50e-6, 8.0), stated("long", 200e-6, 12.0))


def profiled(
    path, tasks=TASKS, *, seed=1, model="fitted", package=None, sensor=ICE_LAKE, cores=None, end_s=None, **mix
):
    """Profile two seconds of four cores; returns the profile and the truth."""
    layout = Mix(duration_s=2.0, **mix)
    if cores is None:
        cores = random_mix(tasks, layout, seed=seed)
    run = Run(package or Package(), [task.kernel for task in tasks], cores, end_s or 2.0 + layout.idle_s)
    truth = write(path, [task.name for task in tasks], run, sensor=sensor, seed=seed, counters=False)
    return tprof.load(path).profile(model=model), truth


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """Profile four cores that are always busy; returns the path of the trace, the profile and the truth."""
    path = tmp_path_factory.mktemp("busy") / "t.tprof"
    return path, *profiled(path)


def errors(profile, truth, tasks=TASKS):
    """Return by how much the mean dynamic energy of each task is off, as a part of it."""
    rows = profile.tasks.set_index("instance").loc[truth.instance]
    resolved = np.isfinite(rows["dynamic_j"].to_numpy())
    means = [
        (rows["dynamic_j"].to_numpy()[where].mean(), truth.dynamic_j[where].mean())
        for where in (resolved & (truth.task == number) for number in range(len(tasks)))
    ]
    return {task.name: abs(got / true - 1) for task, (got, true) in zip(tasks, means, strict=True)}


@pytest.mark.parametrize("mix", [None, {"busy": 0.5}, {"changing": True}], ids=["busy", "half idle", "changing"])
def test_tasks_of_20_to_200_us_get_their_energy_within_two_percent(tmp_path, busy, mix):
    profile, truth = profiled(tmp_path / "t.tprof", **mix) if mix else busy[1:]

    assert max(errors(profile, truth).values()) < 0.02
    assert profile.info["model"] == "fitted"
    assert profile.info["static_power_w"]["package-0"] == pytest.approx(10.0, rel=0.01)
    account = profile.accounts.loc["package-0"]
    parts = account[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum()
    assert parts == pytest.approx(account["measured_j"], rel=1e-9)


def test_cpu_time_alone_is_wrong_by_more_than_a_third_on_the_same_data(busy):
    path, _, truth = busy

    profile = tprof.load(path).profile(model="cputime")

    assert max(errors(profile, truth).values()) > 0.3


def test_intervals_are_narrow_and_hold_the_truth(busy):
    _, profile, truth = busy

    summary, rows = profile.summary(), profile.tasks.set_index("instance").loc[truth.instance]
    for number, task in enumerate(TASKS):
        low, high = summary.loc[task.name, ["energy_mean_low_j", "energy_mean_high_j"]]
        static = rows["static_j"].to_numpy()[truth.task == number]
        true = truth.dynamic_j[truth.task == number].mean() + np.nanmean(static)
        assert low * 0.999 < true < high * 1.001
        assert (high - low) / true < 0.1


def test_sums_and_powers_have_narrow_intervals_that_hold_what_this_run_drew(busy):
    _, profile, truth = busy

    summary = profile.summary()

    for number, task in enumerate(TASKS):
        own, row = truth.task == number, summary.loc[task.name]
        true_j, own_s = truth.dynamic_j[own].sum(), truth.duration_s[own].sum()
        assert row["dynamic_low_j"] * 0.999 < true_j < row["dynamic_high_j"] * 1.001
        static_w = (row["energy_j"] - row["dynamic_j"]) / own_s
        assert row["power_low_w"] * 0.999 < true_j / own_s + static_w < row["power_high_w"] * 1.001
        assert (row["dynamic_high_j"] - row["dynamic_low_j"]) / true_j < 0.1


def test_auto_takes_it_where_tasks_differ_and_not_where_they_do_not(tmp_path, busy):
    alike = tuple(stated(task.name, task.duration_s, 8.0) for task in TASKS)

    differ = tprof.load(busy[0]).profile(model="auto")
    same, _ = profiled(tmp_path / "b.tprof", alike, model="auto")

    assert differ.info["model"] == "fitted"
    assert "distinguish tasks better than cputime" in differ.info["model_why"]
    assert same.info["model"] == "cputime"


def test_drift_of_static_power_does_not_go_to_the_tasks(tmp_path):
    profile, truth = profiled(tmp_path / "t.tprof", package=Package(dataclasses.replace(STATED, leak=0.11, warm_s=1.0)))

    assert max(errors(profile, truth).values()) < 0.02


def test_without_idle_time_the_common_level_is_uncertain_and_said_to_be(tmp_path):
    profile, _ = profiled(tmp_path / "t.tprof", idle_s=0.0)

    summary = profile.summary()
    width = (summary["energy_mean_high_j"] - summary["energy_mean_low_j"]) / summary["energy_mean_j"]
    assert (width > 0.3).all()
    assert any("static power of package-0 is uncertain" in text for text in profile.info["warnings"])


def test_tasks_that_always_run_together_are_named_and_their_sum_is_right(tmp_path):
    """Each core alternates two tasks of 10 and 30 us: in every quantum they have the same mix."""
    pair = (stated("give", 10e-6, 4.0), stated("take", 30e-6, 12.0))
    both = Task("both", 40e-6, pair[0].kernel, duration_spread=0.0)
    cores = random_mix((both,), Mix(duration_s=2.0, busy=0.5), seed=3)
    split = [
        dataclasses.replace(
            core,
            begin_s=np.column_stack([core.begin_s, core.begin_s + 10e-6]).ravel(),
            end_s=np.column_stack([core.begin_s + 10e-6, core.end_s]).ravel(),
            task=np.tile([0, 1], len(core.task)),
            scale=np.ones(2 * len(core.task)),
        )
        for core in cores
    ]

    profile, truth = profiled(tmp_path / "t.tprof", pair, cores=split)

    assert any("give and take always ran together" in text for text in profile.info["warnings"])
    assert np.nansum(profile.tasks["dynamic_j"]) == pytest.approx(truth.dynamic_j.sum(), rel=0.01)
    summary = profile.summary().loc["give"]
    assert summary["energy_mean_low_j"] < 40e-6 + 10e-6 * 2.5 < summary["energy_mean_high_j"]


def test_a_task_that_is_hardly_seen_is_uncertain_rather_than_absurd(tmp_path):
    cores = random_mix(TASKS[:2], Mix(duration_s=2.0), seed=5)
    first = cores[0]
    cores[0] = dataclasses.replace(first, task=np.where(np.arange(len(first.task)) == 40, 2, first.task))

    profile, _ = profiled(tmp_path / "t.tprof", TASKS, cores=cores)

    rare = profile.tasks[profile.tasks["task"] == "long"]
    assert len(rare) == 1
    assert 0 < rare["power_w"].iloc[0] < 60
    assert profile.summary().loc["short", "instances"] > 1000


def test_a_burst_that_no_task_explains_does_not_decide(busy):
    trace = tprof.load(busy[0])
    reading = trace.readings["package-0"]
    records = reading.records.copy()
    value = records["value"]
    value[1000:] += np.uint64(round(2.0 / reading.unit))
    value[1500:] += np.uint64(round(1.0 / reading.unit))
    value %= np.uint64(reading.modulus)
    burst = dataclasses.replace(trace, readings={"package-0": dataclasses.replace(reading, records=records)})

    profile = burst.profile(model="fitted")

    powers = profile.recipe.fits["package-0"].power[:3]
    assert powers == pytest.approx([task.kernel.unseen_w for task in TASKS], rel=0.03)


def test_a_sensor_polled_each_millisecond_still_tells_tasks_apart(tmp_path):
    profile, truth = profiled(tmp_path / "t.tprof", sensor=Sensor(ICE_LAKE.gaps_ms, ICE_LAKE.unit_j, poll_s=1e-3))

    assert max(errors(profile, truth).values()) < 0.15
    assert profile.info["model"] == "fitted"


def test_too_few_readings_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(tprof.UsageError, match=r"needs 30 readings.*record for longer"):
        profiled(tmp_path / "t.tprof", cores=random_mix(TASKS, Mix(1, 0.01, idle_s=0.0), seed=1), end_s=0.02)


def test_tasks_that_never_ran_cost_no_columns_and_change_nothing(tmp_path, monkeypatch):
    """MPI declares 200 functions, of which a program calls a few."""
    layout, sizes, tables = Mix(duration_s=0.5), [], []
    average = powers.average
    monkeypatch.setattr(powers, "average", lambda white, *rest: sizes.append(white.shape[1]) or average(white, *rest))
    run = Run(Package(), [task.kernel for task in TASKS], random_mix(TASKS, layout, seed=1), 0.5 + layout.idle_s)

    for absent in (1, 200):
        names = [*(task.name for task in TASKS), *(f"absent {number}" for number in range(absent))]
        path = tmp_path / f"{absent}.tprof"
        write(path, names, run, sensor=ICE_LAKE, seed=1, counters=False)
        tables.append(tprof.load(path).profile(model="fitted").summary())

    assert len(set(sizes)) == 1
    columns = ["instances", "energy_j", "dynamic_j", "dynamic_low_j", "dynamic_high_j"]
    one, many = (table.loc[[task.name for task in TASKS], columns].to_numpy(float) for table in tables)
    assert many == pytest.approx(one, rel=1e-6)


def test_an_estimate_is_refused(tmp_path):
    @tprof.task
    def work():
        return sum(range(1000))

    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording:
        work()

    with pytest.raises(tprof.UsageError, match=r'these joules are an estimate.*take model="cputime"'):
        recording.profile(model="fitted")


def test_turbo_that_steps_down_as_cores_get_busy_is_not_taken_for_the_tasks(tmp_path):
    """One core of four at 3.7 GHz draws a third more than each of four: what runs in crowds would look frugal."""
    tasks = (Task("mm2", 20e-6, kernel("mm2")), Task("jacobi1d", 200e-6, kernel("jacobi1d")))
    mix = Mix(duration_s=3.0, busy=0.5)
    cores = random_mix(tasks, mix, seed=7)
    run = Run(Package(Law(), turbo=True), [task.kernel for task in tasks], cores, mix.idle_s + mix.duration_s)
    truth = write(tmp_path / "t.tprof", [task.name for task in tasks], run, sensor=ICE_LAKE, seed=7, counters=False)

    profile = tprof.load(tmp_path / "t.tprof").profile(model="fitted")

    got = profile.tasks.set_index("instance").loc[truth.instance, "dynamic_j"].to_numpy()
    for number in range(2):
        own = (truth.task == number) & np.isfinite(got)
        assert got[own].mean() == pytest.approx(truth.dynamic_j[own].mean(), rel=0.02)
