"""What changes a task's power on the virtual processor, by hand-made schedules whose joules can be written down."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.simulator import (
    ICE_LAKE,
    Beside,
    Core,
    Drift,
    Effects,
    Hidden,
    Mix,
    Package,
    Run,
    random_mix,
    stated,
)

TASKS = (stated("first", 1e-3, 4.0), stated("second", 2e-3, 10.0))
KERNELS = [task.kernel for task in TASKS]


def core(*instances):
    begin_s, end_s, task = (np.array(part) for part in zip(*instances, strict=True))
    return Core(begin_s.astype(float), end_s.astype(float), task.astype(np.int64), np.ones(len(task)))


def run_of(*cores, end_s=1.0, seed=0, **effects):
    return Run(Package(effects=Effects(**effects)), KERNELS, list(cores), end_s, seed)


def test_a_task_draws_more_only_while_the_other_runs_on_another_core():
    run = run_of(core((0.0, 0.4, 0)), core((0.1, 0.2, 1)), core((0.15, 0.3, 1)), beside=(Beside(0, 1, 0.5),))

    assert run.instances_j(0) == pytest.approx([4.0 * (0.4 + 0.5 * 0.2)])
    assert run.instances_j(1) == pytest.approx([10.0 * 0.1])


def test_a_task_does_not_contend_with_itself_on_its_own_core():
    run = run_of(core((0.0, 0.4, 0)), core((0.5, 0.6, 0)), beside=(Beside(0, 0, 0.5),))

    assert run.instances_j(0) == pytest.approx([1.6])


def test_powers_that_drift_by_a_tenth_end_a_tenth_above_where_they_begin():
    instances = [(n / 100, (n + 1) / 100, 0) for n in range(100)]
    run = run_of(core(*instances), drift=Drift(linear=0.1))

    joules = run.instances_j(0)

    assert joules.sum() == pytest.approx(4.0, rel=1e-3)
    assert joules[-1] - joules[0] == pytest.approx(0.04 * 0.1 * 0.99, rel=0.01)


def test_a_step_is_at_half_time():
    run = run_of(core((0.0, 0.5, 0), (0.5, 1.0, 0)), drift=Drift(step=0.1))

    assert run.instances_j(0) == pytest.approx([2.0 * 0.95, 2.0 * 1.05], rel=1e-6)


def test_each_task_walks_on_its_own_way_the_same_with_the_same_seed():
    cores = core((0.0, 1.0, 0)), core((0.0, 1.0, 1))
    first, again, other = (run_of(*cores, seed=seed, drift=Drift(walk=0.1)) for seed in (1, 1, 2))

    assert first.drift_factor.tolist() == again.drift_factor.tolist()
    assert first.drift_factor.tolist() != other.drift_factor.tolist()
    assert first.drift_factor[0].tolist() != first.drift_factor[1].tolist()
    assert first.drift_factor.mean(axis=1) == pytest.approx([1.0, 1.0])


def test_a_core_draws_its_own_part():
    run = run_of(core((0.0, 0.5, 0)), core((0.0, 0.5, 0)), core((0.0, 0.5, 0)), cores=(1.0, 0.7))

    assert [float(run.instances_j(place)[0]) for place in range(3)] == pytest.approx([2.0, 1.4, 2.0])


def test_hidden_bursts_are_in_the_packages_joules_and_in_no_instance():
    run = run_of(core((0.0, 10.0, 0)), end_s=10.0, hidden=Hidden(6.0, 5e-3, 15e-3))

    hidden_j = float(run.joules(np.array([10.0]))[0]) - 10.0 * 10.0 - 4.0 * 10.0

    assert run.instances_j(0) == pytest.approx([40.0])
    assert hidden_j == pytest.approx(6.0 * 10.0 / 4, rel=0.2)


def test_a_late_sensor_shows_what_it_showed_later_and_never_an_older_value_after_a_newer_one():
    random = np.random.default_rng(0)
    updates_s = ICE_LAKE.updates(5.0, random)

    late_s = replace(ICE_LAKE, late_s=0.5e-3).shown(updates_s, random) - updates_s
    tail_s = replace(ICE_LAKE, late_s=2e-3, late_tail=True).shown(updates_s, random)

    assert (late_s >= 0).all()
    assert late_s.max() <= 0.5e-3
    assert late_s.mean() == pytest.approx(0.25e-3, rel=0.05)
    assert (np.diff(tail_s) >= 0).all()
    assert ICE_LAKE.shown(updates_s, random) is updates_s


def test_groups_keep_their_order_and_run_as_often_as_each_other():
    tasks = (*TASKS, stated("third", 5e-3, 1.0))
    (only,) = random_mix(tasks, Mix(cores=1, duration_s=20.0, groups=((0, 1), (2,)), as_often=True), seed=1)

    follows = only.task[1:][only.task[:-1] == 0]
    counts = np.bincount(only.task)

    assert set(follows.tolist()) == {1}
    assert counts[2] == pytest.approx(counts[0], rel=0.1)


def test_an_instances_power_goes_with_its_length():
    task = replace(TASKS[0], duration_spread=0.5, length_exponent=0.3)
    (only,) = random_mix((task,), Mix(cores=1, duration_s=1.0), seed=1)

    assert only.scale == pytest.approx(((only.end_s - only.begin_s) / 1e-3) ** 0.3, rel=1e-3)
