"""The error that a report expects for instances of each length is the one that the virtual processor shows."""

import numpy as np
import pytest

import tprof
from benchmarks.simulator import ICE_LAKE, Mix, Package, Run, Sensor, random_mix, stated, write

TASKS = (stated("short", 50e-6, 9.0), stated("long", 5e-3, 6.0))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("expected") / "t.tprof"
    cores = random_mix(TASKS, Mix(duration_s=1.5), seed=2)
    sensor = Sensor(ICE_LAKE.gaps_ms, ICE_LAKE.unit_j, poll_s=1e-3)
    simulated = Run(Package(), [task.kernel for task in TASKS], cores, 2.0)
    truth = write(path, [task.name for task in TASKS], simulated, sensor=sensor, seed=2, counters=False)
    return tprof.load(path), truth


def test_expected_errors_are_those_that_are_made(run):
    trace, truth = run
    profile = trace.profile(model="fitted")

    expected = profile.expected_errors

    got = profile.tasks.set_index("instance").loc[truth.instance, "dynamic_j"].to_numpy()
    for row in expected[expected["instances"] > 100].itertuples():
        own = (truth.duration_s >= row.length_low_s) & (truth.duration_s < row.length_high_s) & np.isfinite(got)
        made = np.sqrt(((got[own] - truth.dynamic_j[own]) ** 2).mean()) / truth.dynamic_j[own].mean()
        assert row.error == pytest.approx(made, rel=0.5)


def test_longer_instances_are_known_better(run):
    expected = run[0].profile(model="fitted").expected_errors

    assert expected["length_low_s"].is_monotonic_increasing
    assert expected["error"].iloc[-1] < expected["error"].iloc[0] / 3


def test_nothing_is_expected_of_an_estimate(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording, tprof.region("work"):
        sum(range(1000))

    assert len(recording.profile().expected_errors) == 0


def test_a_trace_without_quanta_has_no_expectation(tmp_path):
    thread = {"t_ns": [0, 10_000], "instance": [1, 0], "task": [0, -1]}
    energy = {"package-0": ([0, 20_000], [0.0, 1.0])}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["a"], threads=[thread], energy=energy)

    assert len(tprof.load(tmp_path / "t.tprof").profile().expected_errors) == 0
