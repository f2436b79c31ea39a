"""CPU time that no sample shows goes to other processes, to the program's unseen threads, or to nobody."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tprof.analysis import build_profile
from tprof.analysis.attribution.hidden import HiddenTime

import tprof
from tprof.trace import NativeThread, Quality, Readings

MS = 1_000_000
SECOND = 1000


def counted(name, quantity, t_ms, cpu_ms):
    count = len(t_ms)
    return Readings(
        name, quantity, "machine", 0 if quantity == "busy" else None, "proc", Quality.MEASURED, counted=False,
        unit=1e-9, modulus=None, t_ns=np.asarray(t_ms, np.int64) * MS,
        value=(np.asarray(cpu_ms, float) * MS).astype(np.uint64), window_ns=np.zeros(count, np.uint32),
        missing=np.zeros(count, bool), reopened=np.zeros(count, bool), suspended_ns=np.zeros(count, np.int64),
        dropped=0,
    )  # fmt: skip


def profiled(tmp_path, *, threads, busy, program, static_w=None):
    """Profile two seconds at 5 J a second; `busy` and `program` are CPU milliseconds at 0, 1 and 2 s."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "t.tprof"
    times = np.arange(0, 2001, 10)
    tprof.write_trace(
        path,
        tasks=["work"],
        threads=threads,
        energy={"package-0": (times * MS, times / 200)},
        static_power_w=static_w,
    )
    trace = tprof.load(path)
    t_ms = [0, SECOND, 2 * SECOND]
    extra = {"busy-0": counted("busy-0", "busy", t_ms, busy), "program": counted("program", "program", t_ms, program)}
    return build_profile(dataclasses.replace(trace, readings=trace.readings | extra))


def worker(task_ms=(0, 2000), cpu_ms=2000):
    begin, end = task_ms
    return {
        "t_ns": [begin * MS, end * MS],
        "instance": [1, 0],
        "task": [0, -1],
        "cpu": [0, 0],
        "cpu_ns": [0, round(cpu_ms * MS)],
    }


def shares(profile):
    account = profile.accounts.loc["package-0"]
    assert account[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum() == pytest.approx(
        account["measured_j"], rel=1e-9
    )
    return {name: account[f"{name}_j"] / account["measured_j"] for name in ("tasks", "runtime", "other", "idle")}


def test_another_process_as_busy_as_ours_pays_half(tmp_path):
    profile = profiled(tmp_path, threads=[worker()], busy=[0, 2000, 4000], program=[0, 1000, 2000])

    assert shares(profile) == pytest.approx({"tasks": 0.5, "runtime": 0.0, "other": 0.5, "idle": 0.0}, abs=1e-9)


def test_unseen_threads_of_a_pool_are_runtime_with_a_warning_that_names_the_remedy(tmp_path):
    profile = profiled(tmp_path, threads=[worker()], busy=[0, 2000, 4000], program=[0, 2000, 4000])

    assert shares(profile) == pytest.approx({"tasks": 0.5, "runtime": 0.5, "other": 0.0, "idle": 0.0}, abs=1e-9)
    assert any("50% of the program's CPU time" in text and "threadpoolctl" in text for text in profile.info["warnings"])


def test_plain_code_of_a_thread_that_takes_part_is_no_unseen_thread(tmp_path):
    """The thread joined at 0 s and computed for a second before its task; that shows only at its next sample."""
    main = {
        "t_ns": [0, 1500 * MS, 2000 * MS],
        "instance": [0, 1, 0],
        "task": [-1, 0, -1],
        "cpu": [0, 0, 0],
        "cpu_ns": [0, 1000 * MS, 1500 * MS],
    }

    profile = profiled(tmp_path, threads=[main], busy=[0, 1000, 1500], program=[0, 1000, 1500])

    assert not any("run no task" in text for text in profile.info["warnings"])
    assert shares(profile)["runtime"] > 0.4


def test_ticks_of_busy_time_that_arrive_late_do_not_become_others(tmp_path):
    profile = profiled(tmp_path, threads=[worker()], busy=[0, 1010, 2000], program=[0, 1000, 2000])

    assert shares(profile)["other"] == pytest.approx(0.0, abs=1e-9)


def test_a_kernel_that_counts_less_than_the_program_used_knows_nothing_of_others(tmp_path):
    """A virtual machine that loses ticks: what others used cannot be told, and the figures say so."""
    few, enough = (
        profiled(tmp_path / name, threads=[worker()], busy=[0, busy_ms // 2, busy_ms], program=[0, 1000, 2000])
        for name, busy_ms in (("few", 600), ("enough", 1900))
    )

    said = (
        "the kernel counted 0.6 s of CPU time of all programs, but this program alone used 2 s: what other programs "
        "used is not known, and their joules count as the program's"
    )
    assert said in few.info["warnings"]
    assert not any("the kernel counted" in text for text in enough.info["warnings"])


@pytest.mark.parametrize("static_w", [None, {"package-0": 4.0}])
def test_where_no_task_runs_a_little_of_others_leaves_the_rest_idle(tmp_path, static_w):
    profile = profiled(
        tmp_path,
        threads=[worker(task_ms=(0, 1000), cpu_ms=1000)],
        busy=[0, 1000, 1020],
        program=[0, 1000, 1000],
        static_w=static_w,
    )

    assert shares(profile) == pytest.approx({"tasks": 0.5, "runtime": 0.0, "other": 0.01, "idle": 0.49}, abs=1e-9)


@pytest.mark.parametrize("static_w", [None, {"package-0": 4.0}])
def test_a_task_that_waits_draws_next_to_nothing(tmp_path, static_w):
    """A sleep of two seconds uses 60 us of a core."""
    sleeper = worker(cpu_ms=0.06)

    profile = profiled(tmp_path, threads=[sleeper], busy=[0, 0, 0], program=[0, 0, 0], static_w=static_w)

    assert shares(profile)["tasks"] < 0.01
    assert shares(profile)["idle"] > 0.99


def test_a_task_that_waits_takes_no_static_power_from_one_that_runs(tmp_path):
    waiting = worker(cpu_ms=0.06) | {"instance": [2, 0], "cpu": [1, 1]}

    profile = profiled(
        tmp_path, threads=[worker(), waiting], busy=[0, 1000, 2000], program=[0, 1000, 2000],
        static_w={"package-0": 4.0},
    )  # fmt: skip

    joules = profile.tasks.set_index("instance")["energy_j"]
    assert joules[2] < 0.001 * joules[1]


def test_the_start_of_a_child_process_is_no_thread_without_tasks(tmp_path):
    """A child's main thread used a second of CPU time before its first task, and the first sample says so."""
    child = {
        "t_ns": [1000 * MS, 2000 * MS],
        "instance": [2, 0],
        "task": [0, -1],
        "cpu": [1, 1],
        "cpu_ns": [1000 * MS, 2000 * MS],
        "pid": 2,
    }

    profile = profiled(tmp_path, threads=[worker(), child], busy=[0, 2000, 4000], program=[0, 2000, 4000])

    assert shares(profile) == pytest.approx({"tasks": 0.75, "runtime": 0.25, "other": 0.0, "idle": 0.0}, abs=1e-9)
    assert not any("run no task" in text for text in profile.info["warnings"])
    assert any("25% of the program's CPU time passed before" in text for text in profile.info["warnings"])


@pytest.mark.parametrize(("unseen_ms", "warns"), [(100, False), (300, False), (600, True), (900, True)])
def test_a_little_of_unseen_threads_in_a_short_program_is_no_warning(tmp_path, unseen_ms, warns):
    """Half a second of CPU time changes the figures of a program that used two, a tenth does not."""
    used_ms = 1400 + unseen_ms

    profile = profiled(
        tmp_path, threads=[worker(cpu_ms=1400)], busy=[0, used_ms, used_ms], program=[0, used_ms, used_ms]
    )

    assert any("run no task" in text for text in profile.info["warnings"]) is warns


def test_many_unseen_threads_of_a_very_short_program_are_a_warning(tmp_path):
    profile = profiled(tmp_path, threads=[worker(cpu_ms=200)], busy=[0, 200, 400], program=[0, 200, 400])

    assert any("run no task" in text for text in profile.info["warnings"])


def test_the_time_of_tprof_s_own_threads_is_not_said_to_be_the_program_s():
    hidden = HiddenTime(
        np.array([0, 100 * SECOND * MS]), {}, np.array([0.0, 3.0]), before_s=0.5, program_s=10.0, own_s=2.0
    )

    assert hidden.unseen_share == pytest.approx(0.05)
    assert dataclasses.replace(hidden, own_s=3.0).unseen_share == 0.0


def test_tprof_reads_clocks_in_every_process(tmp_path):
    """One hundredth of a core for the sensors, and one for the native threads of each of two processes."""
    child = worker() | {"instance": [2, 0], "pid": 2, "tid": 2}
    first = worker() | {"pid": 1, "tid": 1}
    seen = [NativeThread(pid, 10, "", "", None, None, None, None, None, [0], [0]) for pid in (1, 2)]
    path = tmp_path / "t.tprof"
    tprof.write_trace(
        path, tasks=["work"], threads=[first, child], energy={"package-0": ([0, 2000 * MS], [0, 10])}, native=seen
    )
    trace = tprof.load(path)

    activity = build_profile(trace).recipe.read(trace)

    assert activity.hidden.own_s == pytest.approx(0.06)
