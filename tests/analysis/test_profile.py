"""A trace becomes tables with one defined outcome for each oddity of sensors and threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis import build_profile

import tprof
from tprof.errors import UsageError

MS = 1_000_000
COLUMNS = [
    "task", "instance", "parent", "pid", "tid", "thread", "cpu", "package", "start_s", "duration_s", "cpu_s",
    "energy_j", "dynamic_j", "static_j", "energy_low_j", "energy_high_j", "power_w",
]  # fmt: skip


def thread(t_ms, instance, task=None, **columns):
    task = [-1 if i == 0 else 0 for i in instance] if task is None else task
    return {"t_ns": [round(t * MS) for t in t_ms], "instance": instance, "task": task, **columns}


def profiled(tmp_path, threads, energy, tasks=("a", "b"), model="auto", **options):
    path = tmp_path / f"t{len(list(tmp_path.iterdir()))}.tprof"
    host = options.pop("host", None)
    static = options.pop("static_power_w", None)
    given_energy = {name: ([round(t * MS) for t in t_ms], joules) for name, (t_ms, joules) in energy.items()}
    tprof.write_trace(path, tasks=list(tasks), threads=threads, energy=given_energy, host=host, static_power_w=static)
    return build_profile(tprof.load(path), model=model, **options)


def by_instance(profile, column="energy_j"):
    return dict(zip(profile.tasks["instance"].tolist(), profile.tasks[column].tolist(), strict=True))


def assert_conserved(profile) -> None:
    for _, row in profile.accounts.iterrows():
        parts = row["tasks_j"] + row["runtime_j"] + row["other_j"] + row["idle_j"]
        assert parts == pytest.approx(row["measured_j"], rel=1e-9, abs=1e-15)


def test_columns_are_those_of_the_design_and_counters_stand_before_ipc(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [thread([0, 10], [1, 0], instructions=[0, 30], cycles=[0, 20], cpu_ns=[0, 10 * MS])],
        {"package-0": ([0, 10], [0.0, 1.0])},
    )

    assert list(profile.tasks.columns) == [*COLUMNS, "instructions", "cycles", "ipc", "failed", "quality"]
    assert profile.tasks["ipc"].tolist() == [1.5]


def test_a_processor_that_is_not_known_is_minus_one(tmp_path) -> None:
    profile = profiled(tmp_path, [thread([0, 1], [1, 0])], {"package-0": ([0, MS], [0.0, 1.0])})

    assert profile.tasks["cpu"].tolist() == [-1]


def test_two_threads_on_one_core_are_shared_by_cpu_time(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [
            thread([0, 10], [1, 0], cpu=[0, 0], cpu_ns=[0, 8 * MS]),
            thread([0, 10], [2, 0], cpu=[0, 0], cpu_ns=[0, 2 * MS]),
        ],
        {"package-0": ([0, 10], [0.0, 1.0])},
        model="cputime",
    )

    assert by_instance(profile) == pytest.approx({1: 0.8, 2: 0.2}, rel=1e-9)
    assert_conserved(profile)


def test_quanta_in_which_nobody_runs_are_idle(tmp_path) -> None:
    profile = profiled(
        tmp_path, [thread([10, 20, 30], [0, 1, 0])], {"package-0": ([0, 10, 20, 30], [0.0, 3.0, 5.0, 12.0])}
    )

    account = profile.accounts.loc["package-0"]
    assert (account["tasks_j"], account["idle_j"]) == pytest.approx((7.0, 5.0), rel=1e-9)
    assert_conserved(profile)


def test_tasks_shorter_than_a_quantum_share_it_and_their_bounds_are_the_quantum(tmp_path) -> None:
    profile = profiled(tmp_path, [thread([0, 2, 10], [1, 2, 0], [0, 1, -1])], {"package-0": ([0, 10], [0.0, 1.0])})

    assert by_instance(profile) == pytest.approx({1: 0.2, 2: 0.8}, rel=1e-9)
    assert profile.tasks["energy_low_j"].tolist() == pytest.approx([0.0, 0.0], abs=1e-15)
    assert profile.tasks["energy_high_j"].tolist() == pytest.approx([1.0, 1.0])


def test_bounds_of_a_long_instance_keep_the_quanta_it_fills(tmp_path) -> None:
    profile = profiled(tmp_path, [thread([5, 25], [1, 0])], {"package-0": ([0, 10, 20, 30], [0.0, 1.0, 3.0, 7.0])})

    row = profile.tasks.iloc[0]
    assert (row["energy_low_j"], row["energy_j"], row["energy_high_j"]) == pytest.approx((2.0, 7.0, 7.0))


def test_an_instance_outside_every_quantum_is_not_resolved(tmp_path) -> None:
    profile = profiled(tmp_path, [thread([0, 5, 20, 25], [1, 0, 2, 0])], {"package-0": ([10, 18], [0.0, 1.0])})

    assert all(math.isnan(value) for value in by_instance(profile).values())
    assert profile.accounts.loc["package-0", "idle_j"] == 1.0


def test_one_reading_alone_resolves_nothing_and_says_so(tmp_path) -> None:
    profile = profiled(tmp_path, [thread([0, 5], [1, 0])], {"package-0": ([2], [1.0])})

    assert math.isnan(profile.tasks["energy_j"][0])
    assert math.isnan(profile.accounts.loc["package-0", "measured_j"])
    assert any("not resolved" in text for text in profile.info["warnings"])


def test_an_instance_of_no_duration_takes_nothing(tmp_path) -> None:
    profile = profiled(tmp_path, [thread([0, 5, 5, 10], [1, 2, 1, 0])], {"package-0": ([0, 10], [0.0, 1.0])})

    assert by_instance(profile) == pytest.approx({1: 1.0, 2: 0.0})
    assert by_instance(profile, "duration_s")[2] == 0.0


def test_a_nested_task_is_not_counted_twice_and_names_its_parent(tmp_path) -> None:
    profile = profiled(
        tmp_path, [thread([0, 2, 6, 10], [1, 2, 1, 0], [0, 1, 0, -1])], {"package-0": ([0, 10], [0.0, 10.0])}
    )

    assert by_instance(profile) == pytest.approx({1: 6.0, 2: 4.0})
    assert by_instance(profile, "parent") == {1: 0, 2: 1}
    assert by_instance(profile, "duration_s") == pytest.approx({1: 0.010, 2: 0.004})


def test_an_instance_that_moves_between_threads_is_one_row(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [thread([0, 4, 10], [7, 8, 0], tid=1), thread([0, 6, 10], [0, 7, 0], tid=2)],
        {"package-0": ([0, 2, 4, 6, 8, 10], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])},
    )

    assert len(profile.tasks) == 2
    assert by_instance(profile) == pytest.approx({7: 6.0, 8: 4.0}, rel=1e-9)
    assert by_instance(profile, "tid")[7] == 1
    assert by_instance(profile, "duration_s")[7] == pytest.approx(0.010)


def test_scattered_ids_of_other_writers_give_the_same_energies(tmp_path) -> None:
    ids = [2**63 + 5, 17, 2**40]
    rows = [thread([0, 1, 3, 6], np.array([*ids, 0], np.uint64), [0, 1, 0, -1])]

    profile = profiled(tmp_path, rows, {"package-0": ([0, 6], [0.0, 6.0])})

    assert by_instance(profile) == pytest.approx(dict(zip(ids, [1.0, 2.0, 3.0], strict=True)))


def test_packages_pay_for_their_own_threads_and_a_move_is_halved(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [
            thread([0, 10], [1, 0], cpu=[0, 0], package=[0, 0]),
            thread([0, 10], [2, 0], cpu=[1, 1], package=[1, 1]),
        ],
        {"package-0": ([0, 10], [0.0, 1.0]), "package-1": ([0, 10], [0.0, 5.0])},
    )
    moved = profiled(
        tmp_path,
        [thread([0, 10], [1, 0], cpu=[0, 1], package=[0, 1])],
        {"package-0": ([0, 10], [0.0, 1.0]), "package-1": ([0, 10], [0.0, 5.0])},
    )

    assert by_instance(profile) == pytest.approx({1: 1.0, 2: 5.0})
    assert by_instance(moved) == pytest.approx({1: 6.0})
    assert any("began on one package" in text for text in moved.info["warnings"])
    assert_conserved(moved)


def test_dram_adds_to_package_and_psys_and_core_do_not(tmp_path) -> None:
    times = [0, 10]
    profile = profiled(
        tmp_path,
        [thread(times, [1, 0])],
        {name: (times, [0.0, joules]) for name, joules in (("package-0", 4.0), ("dram-0", 1.0), ("psys", 9.0))},
    )

    assert by_instance(profile) == pytest.approx({1: 5.0})
    assert profile.accounts.loc["psys", "tasks_j"] == pytest.approx(9.0)
    assert profile.measured_j == pytest.approx(5.0)
    assert_conserved(profile)


def test_zero_modelled_power_falls_back_to_cpu_time_and_never_to_nan(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [
            thread([0, 10], [1, 0], instructions=[0, 0], cycles=[0, 0], cpu_ns=[0, 3 * MS]),
            thread([0, 10], [2, 0], instructions=[0, 0], cycles=[0, 0], cpu_ns=[0, 1 * MS]),
        ],
        {"package-0": ([0, 10], [0.0, 4.0])},
        model="ipc",
    )

    assert by_instance(profile) == pytest.approx({1: 3.0, 2: 1.0}, rel=1e-9)


def test_static_power_is_split_over_running_cores_and_the_rest_by_the_model(tmp_path) -> None:
    counters = {"instructions": [0, 30], "cycles": [0, 10]}
    profile = profiled(
        tmp_path,
        [
            thread([0, 10], [1, 0], cpu=[0, 0], cpu_ns=[0, 10 * MS], **counters),
            thread([0, 10], [2, 0], cpu=[1, 1], cpu_ns=[0, 10 * MS], instructions=[0, 10], cycles=[0, 10]),
        ],
        {"package-0": ([0, 10, 20], [0.0, 0.5, 0.6])},
        static_power_w={"package-0": 10.0},
        model="ipc",
    )

    assert by_instance(profile, "static_j") == pytest.approx({1: 0.05, 2: 0.05})
    assert by_instance(profile, "dynamic_j") == pytest.approx({1: 0.3, 2: 0.1}, rel=1e-9)
    assert profile.accounts.loc["package-0", "idle_j"] == pytest.approx(0.1)
    assert_conserved(profile)


def test_with_the_true_linear_model_every_instance_is_right(tmp_path) -> None:
    rng = np.random.default_rng(3)
    a, b, c, c1, c2 = 1.1, 0.08, 0.19, 8.0, 5.2
    n, end = 2000, 100 * MS
    threads, truth, steps = [], {}, []
    for core in range(4):
        t = np.concatenate(([0], 1 + np.sort(rng.choice(end - 1, n - 1, replace=False)), [end])).astype(np.int64)
        d = np.diff(t)
        cycles = d * 3
        instructions, l2, llc = (rng.integers(0, high, n) for high in (200_000, 9_000, 3_000))
        power = a * instructions / cycles + (b * l2 + c * llc) * 64 / d + c1
        ids = core * n + 1 + np.arange(n)
        truth.update(zip(ids.tolist(), (power * d * 1e-9).tolist(), strict=True))
        steps.append((t, power))
        cumulative = {
            name: np.concatenate(([0], np.cumsum(x)))
            for name, x in (("instructions", instructions), ("cycles", cycles), ("l2_refs", l2), ("llc_refs", llc))
        }
        threads.append(
            {
                "t_ns": t, "instance": np.append(ids, 0), "task": np.append(np.zeros(n, int), -1),
                "cpu": np.full(n + 1, core), "cpu_ns": t, **cumulative,
            }
        )  # fmt: skip
    edges = np.arange(0, end + 1, MS)
    total = c2 * edges * 1e-9
    for t, power in steps:
        total = total + np.interp(edges, t, np.concatenate(([0], np.cumsum(power * np.diff(t) * 1e-9))))
    path = tmp_path / "true.tprof"
    tprof.write_trace(path, tasks=["a"], threads=threads, energy={"package-0": (edges, total)})

    profile = tprof.load(path).profile(model="linear", coefficients="tprof-table1")

    got = by_instance(profile, "dynamic_j")
    # Within a quantum only the sum is known; the true model makes every share right.
    for instance, joules in truth.items():
        assert got[instance] == pytest.approx(joules, rel=1e-9)


def test_a_recording_without_a_sensor_has_no_joules_and_says_so(tmp_path):
    with tprof.record(tmp_path / "none.tprof", energy="none", counters="none"):
        pass

    profile = tprof.load(tmp_path / "none.tprof").profile()

    assert math.isnan(profile.measured_j)
    assert ", no energy, " in repr(profile)


@examples(60)
@given(st.data())
def test_accounts_sum_to_the_measured_joules(tmp_path_factory, data) -> None:
    def draw_thread(_):
        t = sorted(data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=8)))
        ids = data.draw(st.lists(st.integers(0, 5), min_size=len(t), max_size=len(t)))
        cpus = data.draw(st.lists(st.integers(0, 1), min_size=len(t), max_size=len(t)))
        moved = data.draw(st.lists(st.integers(0, 9), min_size=len(t), max_size=len(t)))
        return thread(t, ids, cpu=cpus, package=cpus, cpu_ns=np.cumsum(moved).tolist())

    threads = [draw_thread(i) for i in range(data.draw(st.integers(1, 3)))]
    times = sorted(data.draw(st.sets(st.integers(0, 50), min_size=2, max_size=8)))
    joules = np.cumsum([data.draw(st.floats(0, 5, allow_subnormal=False)) * 1e-3 for _ in times]).tolist()
    static = data.draw(st.sampled_from([None, {"package-0": 0.5}]))

    profile = profiled(
        tmp_path_factory.mktemp("t"), threads, {"package-0": (times, joules), "package-1": (times, joules)},
        static_power_w=static,
    )  # fmt: skip

    assert_conserved(profile)
    assert not (profile.tasks["energy_j"] < 0).any()
    counted = profile.accounts["tasks_j"].sum()
    assert np.nansum(profile.tasks["energy_j"]) == pytest.approx(counted, rel=1e-9, abs=1e-12)


def test_a_model_without_its_counters_is_refused_with_what_to_do(tmp_path) -> None:
    with pytest.raises(UsageError, match=r'model "fesc" needs the counters stalls_frontend, cycles.*record again'):
        profiled(tmp_path, [thread([0, 1], [1, 0])], {"package-0": ([0, 1], [0.0, 1.0])}, model="fesc")


def test_summary_has_mean_spread_edp_and_correlation(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [thread([0, 1, 3, 6], [1, 2, 3, 0], [0, 0, 1, -1])],
        {"package-0": ([0, 1, 3, 6], [0.0, 1.0, 3.0, 12.0])},
    )

    summary = profile.summary()

    assert summary.index.tolist() == ["b", "a"]
    assert summary.loc["a", "instances"] == 2
    assert summary.loc["a", "energy_mean_j"] == pytest.approx(1.5)
    assert summary.loc["a", "edp_js"] == pytest.approx(1.5 * 0.0015)
    assert summary.loc["a", "energy_time_corr"] == pytest.approx(1.0)
    assert math.isnan(summary.loc["b", "energy_time_corr"])
    assert summary["share"].sum() == pytest.approx(1.0)


def test_summary_bounds_what_the_instances_of_the_run_drew(tmp_path) -> None:
    """Of two quanta of 2 J each has an instance of a millisecond, which may have drawn nothing or everything."""
    profile = profiled(
        tmp_path,
        [thread([0, 1, 2, 3, 4], [1, 2, 3, 4, 0], [0, 1, 0, 1, -1])],
        {"package-0": ([0, 2, 4], [0.0, 2.0, 4.0])},
    )

    row = profile.summary().loc["a"]

    half_j = 1.96 * math.sqrt(2 * 1.0**2 / 3)
    assert row["dynamic_j"] == pytest.approx(2.0)
    assert (row["dynamic_low_j"], row["dynamic_high_j"]) == pytest.approx((2.0 - half_j, 2.0 + half_j))
    assert row["power_w"] == pytest.approx(1000.0)
    assert (row["power_low_w"], row["power_high_w"]) == pytest.approx(((2.0 - half_j) / 2e-3, (2.0 + half_j) / 2e-3))


def test_instances_and_power_add_up_to_the_same_joules(tmp_path) -> None:
    profile = profiled(
        tmp_path,
        [thread([0, 2, 6, 10], [1, 2, 1, 0], [0, 1, 0, -1], cpu_ns=[0, MS, 4 * MS, 9 * MS])],
        {"package-0": ([0, 4, 10], [0.0, 3.0, 10.0])},
    )

    assert profile.tasks["energy_j"].sum() == pytest.approx(10.0)
    assert (profile.power["package-0_w"] * profile.power["duration_s"]).sum() == pytest.approx(10.0)


def test_a_mean_whose_interval_reaches_zero_is_said_not_to_be_resolved(tmp_path):
    """A task of 10 us in one quantum of 1 ms may have drawn nothing; one of 10 ms over ten of them did draw."""
    us = 1000
    thread = {"t_ns": [0, 10 * us, 1000 * us, 11_000 * us], "instance": [1, 0, 2, 0], "task": [0, -1, 1, -1]}
    other = {"t_ns": [0, 11_000 * us], "instance": [3, 0], "task": [1, -1], "tid": 2}
    t_ns = np.arange(12) * 1000 * us
    energy = {"package-0": (t_ns, t_ns * 20e-9)}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["short", "long"], threads=[thread, other], energy=energy)

    summary = tprof.load(tmp_path / "t.tprof").profile(model="cputime").summary()

    assert summary["resolved"].to_dict() == {"long": True, "short": False}
