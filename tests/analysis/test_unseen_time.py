"""CPU time that no sample shows goes to other processes, to the program's unseen threads, or to nobody."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from support.fake_nvml import FakeGpu, FakeNvml
from support.fake_sensor import wait_for
from tprof.analysis import build_profile
from tprof.analysis.attribution.cpu_counts import CpuCount
from tprof.analysis.attribution.hidden import HiddenSoFar, HiddenTime

import tprof
from tprof.trace import NativeThread, Quality, Readings
from tprof.trace.readings import records_of

MS = 1_000_000
SECOND = 1000


def counted(name, quantity, t_ms, cpu_ms):
    return Readings(
        name, quantity, "machine", 0 if quantity == "busy" else None, "proc", Quality.MEASURED, counted=False,
        unit=1e-9, modulus=None, dropped=0,
        records=records_of(np.asarray(t_ms, np.int64) * MS, (np.asarray(cpu_ms, float) * MS).astype(np.uint64)),
    )  # fmt: skip


def profiled(tmp_path, *, threads, busy, program, static_w=None):
    """Profile two seconds at 5 J a second; `busy` and `program` are CPU milliseconds at 0, 1 and 2 s."""
    t_ms = [0, SECOND, 2 * SECOND]
    counts = [counted("busy-0", "busy", t_ms, busy), counted("program", "program", t_ms, program)]
    return profiled_with(tmp_path, threads, counts, static_w=static_w)


def profiled_with(tmp_path, threads, counts, *, static_w=None):
    """Profile two seconds at 5 J a second with these counts of CPU time."""
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
    return build_profile(dataclasses.replace(trace, readings=trace.readings | {one.name: one for one in counts}))


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
    assert any(
        "50 % of the program's CPU time" in text and "threadpoolctl" in text for text in profile.info["warnings"]
    )


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


FAR = 2**63 // MS - 1


@pytest.mark.parametrize(
    ("busy_ms", "left_out"),
    [((FAR, 1000, 2000), 1), ((0, FAR, 1000, 2000), 1), ((0, 1000, 2000, FAR), 1), ((0, 900, 20, 1000, 2000, FAR), 2)],
    ids=["first", "inner", "last", "several"],
)
def test_readings_of_a_damaged_file_with_wrong_times_are_left_out_and_said(tmp_path, recwarn, busy_ms, left_out):
    def profile_of(name, t_ms):
        program = counted("program", "program", [0, 1000, 2000], [0, 1000, 2000])
        # Twice as much as the program takes: another one runs as well.
        busy = counted("busy-0", "busy", t_ms, [2 * min(t, 2000) for t in t_ms])
        return profiled_with(tmp_path / name, [worker()], [busy, program])

    damaged, whole = profile_of("damaged", busy_ms), profile_of("whole", [t for t in busy_ms if t in (0, 1000, 2000)])

    assert shares(damaged) == pytest.approx(shares(whole), abs=0.02)
    said = [text for text in damaged.info["warnings"] if "busy-0 is damaged" in text]
    assert [text.split()[3] for text in said] == [str(left_out)]
    assert not any("damaged" in text for text in whole.info["warnings"])
    assert not recwarn.list


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
    assert any("25 % of the program's CPU time passed before" in text for text in profile.info["warnings"])


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
        np.array([0, 100 * SECOND * MS]), np.zeros(2), np.array([0.0, 3.0]), {}, before_s=0.5, program_s=10.0, own_s=2.0
    )

    assert hidden.unseen_share == pytest.approx(0.05)
    assert dataclasses.replace(hidden, own_s=3.0).unseen_share == 0.0


def test_packages_have_their_own_part_of_others_and_equal_parts_of_threads_without_samples():
    edges_ns = np.array([0, 50, 100]) * MS
    others_s, unseen_s = np.array([0.0, 6.0]), np.array([0.0, 3.0])
    hidden = HiddenTime(np.array([0, 100 * MS]), others_s, unseen_s, {0: 2 / 3, 1: 1 / 3}, program_s=10.0)

    by_package = [hidden.between(edges_ns, package) for package in (0, 1)]

    assert [other_s for other_s, _ in by_package] == [pytest.approx([2.0, 2.0]), pytest.approx([1.0, 1.0])]
    assert [unseen_s for _, unseen_s in by_package] == [pytest.approx([0.75, 0.75])] * 2
    assert [*hidden.between(edges_ns, None)] == [pytest.approx([3.0, 3.0]), pytest.approx([1.5, 1.5])]


@pytest.mark.parametrize("late_ms", [0, 35])
def test_while_a_recording_runs_time_without_samples_is_claimed_in_whole(late_ms):
    """Counts of 0.75 cores of ours, of which samples show 0.5, and of 2 of all; they are read late by so much."""
    hidden, program, busy = HiddenSoFar(), CpuCount(1e-9, None), CpuCount(1e-9, None)
    hidden.program.append(program)
    hidden.busy.append(busy)
    claimed_s = np.zeros(2)
    for end_ms in range(10, 1010, 10):
        read_ns = np.array([0, end_ms - late_ms][end_ms > 10 :]).clip(0) * MS
        program.add(read_ns, (read_ns * 0.75).astype(np.uint64))
        busy.add(read_ns, (read_ns * 2.0).astype(np.uint64))
        since_ns, until_ns = (end_ms - 10) * MS, end_ms * MS
        more_s = hidden.extend(since_ns, until_ns, lambda t_ns: 0.5e-9 * t_ns, first_ns=0)
        assert min(more_s) >= 0
        claimed_s += more_s

    assert claimed_s == pytest.approx([1.25, 0.25], abs=0.02 if late_ms else 1e-9)
    in_quanta_s = hidden.between(np.array([200, 600, 1000]) * MS, None)
    assert in_quanta_s[0] == pytest.approx([0.5, 0.5], abs=0.02)
    assert in_quanta_s[1] == pytest.approx([0.1, 0.1], abs=0.02)


@pytest.mark.parametrize("cores", [0.0, 0.3, 1.9])
def test_a_tick_of_the_kernel_is_not_claimed_as_time_of_other_processes(cores):
    """The machine's time is counted in ticks of 10 ms on each of two processors; others use so many cores."""
    hidden, program, busy = HiddenSoFar(), CpuCount(1e-9, None), CpuCount(1e-9, None)
    hidden.program.append(program)
    hidden.busy.append(busy)
    claimed_s = 0.0
    for end_ms in range(4, 2004, 4):
        read_ns = np.array([end_ms * MS])
        program.add(read_ns, read_ns.astype(np.uint64))
        ticks = [10 * MS * np.floor((read_ns * (1 + cores) / 2 + 3 * MS * cpu) / (10 * MS)) for cpu in (1, 2)]
        busy.add(read_ns, sum(ticks).astype(np.uint64))
        claimed_s += hidden.extend((end_ms - 4) * MS, end_ms * MS, lambda t_ns: 1e-9 * t_ns, first_ns=0)[0]

    assert claimed_s == pytest.approx(2.0 * cores, abs=0.025)


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

    activity, _ = build_profile(trace).instances.stream.planned(0)

    assert activity.hidden.own_s == pytest.approx(0.06)


def test_what_reading_a_slow_gpu_took_is_no_thread_of_the_programs(tmp_path, monkeypatch):
    """A call of NVML computes for 4 ms on an H200, so a tenth of a core was said to be the program's."""
    nvml, calls = FakeNvml(FakeGpu("GPU-a")).install(monkeypatch), []
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))

    def slow_count(_):
        until_ns = time.thread_time_ns() + 4 * MS
        while time.thread_time_ns() < until_ns:
            pass
        calls.append(1)
        return 5000 + len(calls)

    nvml.nvmlDeviceGetTotalEnergyConsumption = slow_count
    with tprof.record(tmp_path / "t.tprof", energy="nvml", counters="none", idle_s=0) as recording:
        calls.clear()
        wait_for(lambda: len(calls) > 10, "reads")
    activity, _ = recording.profile().instances.stream.planned(0)

    assert tprof.load(tmp_path / "t.tprof").end["readers_cpu_ns"] >= 10 * 4 * MS
    assert activity.hidden.own_s >= 0.04
