"""The law, the schedule and the sensor of the virtual processor are exact where they can be checked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.simulator import (
    ICE_LAKE,
    KNIGHTS_LANDING,
    POLYBENCH,
    STATED,
    STRESS,
    Core,
    Kernel,
    Law,
    Mix,
    Package,
    Run,
    Task,
    random_mix,
    side_by_side,
    stated,
)
from benchmarks.simulator.power_law import LINE_GB, demand_gbs, rates

PLAIN = Law(gating=0.0, contention=0.0, scatter=0.0, leak=0.0)
BUSY = Kernel("busy", ipc=2.0, l2_gbs=10.0, llc_gbs=5.0)


def one(begin_s, end_s, task=0, scale=1.0):
    return Core(np.array([begin_s]), np.array([end_s]), np.array([task]), np.array([scale]))


def of_one(law, kernel, hz=3.3e9, others_gbs=0.0):
    return rates(law, (kernel,), np.array([0]), np.array([hz]), np.array([others_gbs]))


def test_without_what_bends_it_the_law_is_the_papers_equation():
    done = of_one(PLAIN, BUSY)

    assert done.power_w[0] == pytest.approx(8.0 + 1.10 * 2.0 + 0.08 * 10.0 + 0.19 * 5.0)
    assert done.instructions[0] == pytest.approx(2.0 * 3.3e9)
    assert done.l2_refs[0] * LINE_GB == pytest.approx(10.0)


def test_half_of_the_frequency_is_half_of_the_power_and_the_square_of_the_voltage():
    still = replace(BUSY, l2_gbs=0.0, llc_gbs=0.0)

    slow = of_one(PLAIN, still, hz=1.65e9)

    voltage = (1.10 - 0.112 * 1.65) / 1.10
    assert slow.power_w[0] == pytest.approx((8.0 + 2.2) / 2 * voltage**2)
    assert slow.instructions[0] == pytest.approx(1.65e9 * 2.0)


def test_v_squared_f_at_the_lowest_frequency_is_the_papers_third():
    assert float(Law().voltage(1.6e9) ** 2) * 1.6 / 3.3 == pytest.approx(0.33, abs=0.005)


def test_contention_stretches_what_waits_for_memory_and_saves_some_of_the_clock():
    law = Law(scatter=0.0)  # a third of this kernel's time waits: 5 of 5 + 10 GB/s
    crowded = of_one(law, BUSY, others_gbs=30.0)

    speed = 1 / (2 / 3 + 1 / 3 * 2)
    assert crowded.instructions[0] == pytest.approx(2.0 * 3.3e9 * speed)
    assert crowded.llc_refs[0] * LINE_GB == pytest.approx(5.0 * speed)
    clock_w = 8.0 * (1 - 0.15 * (1 / 3 * 2 * speed))
    assert crowded.power_w[0] == pytest.approx(clock_w + (1.10 * 2.0 + 0.08 * 10.0 + 0.19 * 5.0) * speed)


def test_instructions_of_one_kernel_take_more_than_of_another_and_no_counter_says_so():
    usual, heavy = of_one(Law(), BUSY), of_one(Law(), replace(BUSY, mix=1.0))

    assert heavy.power_w[0] - usual.power_w[0] == pytest.approx(0.10 * 1.10 * 2.0)
    assert heavy.instructions[0] == usual.instructions[0]


def test_nobody_draws_and_counts_nothing():
    done = rates(Law(), (BUSY,), np.array([-1]), np.array([3.3e9]), np.array([9.0]))

    assert all(float(getattr(done, name)[0]) == 0.0 for name in vars(done))
    assert demand_gbs(Law(), (BUSY,), np.array([-1, 0]), np.full(2, 3.3e9)).tolist() == pytest.approx([0.0, 5.0])


def test_turbo_depends_on_how_many_cores_are_busy():
    law = Law()

    fast = law.frequency_hz(np.array([0, 1, 2, 4, 9]), 3.3e9, turbo=True)

    assert fast.tolist() == [3.7e9, 3.7e9, 3.6e9, 3.4e9, 3.4e9]
    assert law.frequency_hz(np.array([1]), 1.6e9, turbo=True).tolist() == [1.6e9]


def test_no_two_kernels_are_the_same_and_none_is_calibrated_and_validated():
    names = [kernel.name for kernel in (*POLYBENCH, *STRESS)]

    assert len(POLYBENCH) == 17
    assert len(set(names)) == len(names)


def test_a_package_draws_static_power_and_what_its_cores_run():
    tasks = (stated("a", 1.0, 4.0), stated("b", 1.0, 8.0))
    run = Run(Package(), [task.kernel for task in tasks], [one(0.0, 1.0), one(0.5, 2.0, task=1)], 3.0)

    assert run.joules(np.array([0.0, 0.5, 1.0, 3.0])) == pytest.approx([0.0, 7.0, 18.0, 46.0])
    assert [float(run.instances_j(place)[0]) for place in (0, 1)] == pytest.approx([4.0, 12.0])


def test_static_power_is_split_evenly_over_the_cores_that_run_in_a_quantum():
    tasks = (stated("a", 1.0, 4.0),)
    run = Run(Package(), [tasks[0].kernel], [one(0.0, 1.0), one(0.0, 2.0)], 3.0)

    edges_s = np.array([1.0, 2.0])

    assert run.static_shares_j(0, edges_s) == pytest.approx([5.0])
    assert run.static_shares_j(1, edges_s) == pytest.approx([15.0])


def test_a_warm_package_leaks_towards_its_part_of_what_warmed_it():
    law = replace(STATED, leak=0.1, warm_s=0.5)
    run = Run(Package(law), [Kernel("hot", 1.0, unseen_w=20.0)], [one(0.0, 2.0)], 2.0)

    warmed_j = 0.1 * 20.0 * (2.0 - 0.5 * (1 - np.exp(-4.0)))

    assert run.joules(np.array([2.0]))[0] == pytest.approx(20.0 + 40.0 + warmed_j, rel=1e-4)


def test_energy_is_the_integral_of_power_whoever_runs():
    tasks = [Task(kernel.name, 0.003, kernel) for kernel in POLYBENCH[:5]]
    cores = random_mix(tasks, Mix(cores=3, duration_s=0.3, busy=0.6), seed=3)
    run = Run(Package(Law(), turbo=True), [task.kernel for task in tasks], cores, 0.7)

    at_s = np.linspace(0.0, 0.7, 70_001)
    watts = np.diff(run.joules(at_s)) / np.diff(at_s)

    assert run.joules(np.array([0.7]))[0] == pytest.approx(float((watts * np.diff(at_s)).sum()))
    dynamic_j = sum(float(run.instances_j(place).sum()) for place in range(3))
    assert run.joules(np.array([0.7]))[0] == pytest.approx(dynamic_j + float(run.static_j(np.array([0.7]))[0]))
    assert watts.min() >= 5.2 - 1e-6


@pytest.mark.parametrize(
    ("hz", "turbo", "expected"), [(3.3e9, False, 3.3e9), (1.6e9, False, 1.6e9), (3.3e9, True, 3.6e9)]
)
def test_cycles_over_time_is_the_frequency_and_instructions_over_cycles_the_ipc(hz, turbo, expected):
    still = Kernel("still", ipc=1.7)
    run = Run(Package(Law(), hz, turbo), [still], [one(0.1, 0.3), one(0.1, 0.3)], 0.4)

    counts = {name: float(values[1] - values[0]) for name, values in run.counts(0, np.array([0.1, 0.3])).items()}

    assert counts["cycles"] / 0.2 == pytest.approx(expected, rel=1e-6)
    assert counts["instructions"] / counts["cycles"] == pytest.approx(1.7, rel=1e-6)
    assert counts["llc_refs"] == 0


def test_updates_come_at_a_thousand_a_second_and_are_seen_late_by_less_than_a_poll():
    updates_s = ICE_LAKE.updates(5.0, np.random.default_rng(0))
    seen = ICE_LAKE.seen(updates_s)
    late_s = seen.at_s - updates_s[seen.update]

    assert len(updates_s) == pytest.approx(5000, rel=0.03)
    assert (late_s >= 0).all()
    assert (late_s < ICE_LAKE.poll_s + 1e-12).all()


def test_a_sensor_read_as_a_recording_reads_it_times_some_updates_closely():
    updates_s = ICE_LAKE.updates(5.0, np.random.default_rng(0))

    seen = replace(ICE_LAKE, poll_s=1e-3, closely=1 / 8).seen(updates_s)

    close = seen.window_s < 60e-6
    assert close.mean() == pytest.approx(1 / 8, abs=0.03)
    assert seen.window_s[~close].max() <= 1.001e-3
    late_s = seen.at_s - updates_s[seen.update]
    assert (late_s[close] <= seen.window_s[close] + 1e-9).all()
    assert (np.diff(seen.update) > 0).all()


def test_a_register_counts_whole_units_and_wraps_at_32_bits():
    sensor = replace(KNIGHTS_LANDING, left_j=1.0)

    counts = sensor.register(np.array([0.0, 0.99999, 1.0, 1.5]), np.random.default_rng(0)).astype(np.int64)

    assert sensor.unit_j == pytest.approx(15.3e-6, rel=0.01)
    assert counts.tolist() == [2**32 - 65536, 2**32 - 1, 0, 32768]


def test_noise_is_as_large_as_asked_and_the_register_never_falls():
    sensor = replace(ICE_LAKE, noise_j=0.01, left_j=1e5)
    joules = np.arange(10_000) * 0.1

    counts = sensor.register(joules, np.random.default_rng(0)).astype(np.int64)
    off_j = (counts - counts[0]) * sensor.unit_j - joules

    assert (np.diff(counts) >= 0).all()
    assert off_j.std() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("mix", [Mix(3, 1.0, busy=0.5), Mix(3, 1.0, busy=0.5, changing=True)])
def test_cores_run_one_task_at_a_time_for_the_part_that_was_asked(mix):
    for core in random_mix((stated("work", 1e-3, 6.0),), mix, seed=1):
        assert (core.begin_s[1:] >= core.end_s[:-1]).all()
        assert core.begin_s[0] >= 1 / 3
        assert (core.end_s - core.begin_s).sum() == pytest.approx(0.5, rel=0.2)


def test_in_bursts_all_cores_rest_together():
    tasks = (stated("work", 1e-4, 6.0),)
    cores = random_mix(tasks, Mix(4, 1.0, idle_s=0.0, burst_s=5e-3, gap_s=10e-3), seed=1)
    run = Run(Package(), [tasks[0].kernel], cores, 1.0)

    length_s = np.diff(run.moments_s)

    assert length_s[run.busy == 4].sum() == pytest.approx(1 / 3, rel=0.35)
    assert length_s[run.busy == 0].sum() == pytest.approx(2 / 3, rel=0.35)


def test_side_by_side_phases_follow_each_other_on_the_cores_that_were_asked():
    first, second = side_by_side([[0, 0], [1]], instance_s=0.1, phase_s=0.1)

    assert first.task.tolist() == [0, 1]
    assert second.task.tolist() == [0]
    assert first.begin_s.tolist() == pytest.approx([0.0, 0.12])
    assert second.end_s.tolist() == pytest.approx([0.1])
