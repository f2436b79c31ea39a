"""GPU joules by instance: by the time in which the GPU worked for each, with idle and others' joules apart."""

import json
import shutil
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import traces
from support.fake_cuda import BUSY_W, IDLE_W, UUID, FakeDevice, FakeTorch, counting
from support.fake_nvml import FakeNvml
from support.fake_sensor import wait_for
from support.properties import examples
from tprof.analysis.attribution.gpu import UsedParts, claims_of, marked_work
from tprof.analysis.profile.grouped import GroupSums
from tprof.analysis.profile.summary import summary_of_job

import tprof
from tprof.cli.summary import show
from tprof.live import Meter
from tprof.trace import layout
from tprof.trace.gpu import GpuSegments, GpuUsers

SECOND_NS = 10**9
IDLE = 10.0
# Two tasks, one after the other on one thread; a third on another thread for the first second only.
THREADS = (
    {
        "t_ns": [0, 2 * SECOND_NS, 4 * SECOND_NS],
        "instance": [1, 2, 0],
        "task": [0, 1, -1],
        "cpu_ns": [0, SECOND_NS, 2 * SECOND_NS],
        "pid": 100,
        "tid": 100,
    },
)
GPU_J = ([0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS, 4 * SECOND_NS], [0.0, 110.0, 220.0, 230.0, 330.0])
CPU_J = ([0, 2 * SECOND_NS, 4 * SECOND_NS], [0.0, 20.0, 60.0])


def write(path, *, segments=(), users=(), note=None, gpu=GPU_J, threads=THREADS, idle=IDLE, cpu=CPU_J):
    """Write a trace with a GPU; segments are (begin, end in seconds, instance, task, stream)."""
    energy = {"gpu-0": gpu} | ({} if cpu is None else {"package-0": cpu})
    static_w = {} if idle is None else {"gpu-0": idle}
    traces.write(path, tasks=("first", "second"), threads=threads, energy=energy, static_power_w=static_w)
    (path / "gpu").mkdir(mode=0o700)
    rows = [
        [round(begin * SECOND_NS), round((end - begin) * SECOND_NS), instance, task, stream]
        for begin, end, instance, task, stream in segments
    ]
    lines = [{"device": [], "number": 0, "segments": rows}] if rows else []
    lines += [] if note is None else [note]
    (path / "gpu/00000000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines = [
        {
            "domain": "gpu-0",
            "since_ns": round(begin * SECOND_NS),
            "t_ns": round(end * SECOND_NS),
            "processes": processes,
        }
        for begin, end, processes in users
    ]
    (path / "gpu/processes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tprof.load(path).profile("cputime")


def gpu_of(profile):
    """Return the account of the GPU, and the GPU joules of each instance."""
    account = profile.accounts.loc["gpu-0"].drop("quality").astype(float)
    assert account.drop("measured_j").sum() == pytest.approx(account["measured_j"], rel=1e-9)
    return account, profile.tasks.sort_values("instance")["gpu_j"].tolist()


def test_joules_go_by_the_time_of_marked_work_and_idle_ones_stay_apart(tmp_path):
    profile = write(tmp_path / "t", segments=[(0, 0.5, 1, 0, 0), (0.5, 2, 2, 1, 0), (3.5, 4, 2, 1, 0)])

    account, joules = gpu_of(profile)
    # 100 J a second are dynamic, in the third second nothing.
    assert joules == pytest.approx([50.0, 50.0 + 100.0 + 90.0])
    assert account["idle_j"] == pytest.approx(40.0)
    assert account["runtime_j"] == pytest.approx(0.0)


def test_asynchronous_work_counts_after_its_task_has_returned(tmp_path):
    """Instance 1 ends at two seconds; its kernels run until four."""
    _, joules = gpu_of(write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)]))

    assert joules == pytest.approx([290.0, 0.0])


def test_two_streams_share_by_time(tmp_path):
    _, joules = gpu_of(write(tmp_path / "t", segments=[(0, 1, 1, 0, 0), (0, 0.25, 2, 1, 7)]))

    assert joules == pytest.approx([80.0, 20.0])


def test_energy_j_has_the_gpus_part_and_the_processors_domains_do_not_change(tmp_path):
    marked = write(tmp_path / "a", segments=[(0, 2, 1, 0, 0), (2, 4, 2, 1, 0)])
    traces.write(tmp_path / "b", tasks=("first", "second"), threads=THREADS, energy={"package-0": CPU_J})
    without = tprof.load(tmp_path / "b").profile("cputime")

    assert marked.accounts.loc["package-0"].equals(without.accounts.loc["package-0"])
    own_j = marked.tasks["energy_j"] - marked.tasks["gpu_j"]
    assert own_j.tolist() == pytest.approx(without.tasks["energy_j"].tolist())
    assert "gpu_j" not in without.tasks
    summary = marked.summary()
    assert summary.loc["first", "energy_j"] == pytest.approx(20.0 + 200.0)
    assert summary.loc["first", "gpu_j"] == pytest.approx(200.0)
    assert np.isnan(summary.loc["first", ["power_w", "power_high_w", "edp_js"]].astype(float)).all()
    assert (without.summary()[["power_w", "edp_js"]] > 0).all(axis=None)
    by_domain = marked.energy_by_domain
    assert by_domain.loc["first", "gpu-0"] == pytest.approx(200.0)
    assert by_domain.loc["first", "package-0"] == pytest.approx(20.0)
    assert marked.measured_j == pytest.approx(60.0 + 330.0)


def test_over_hosts_and_labels_too_no_power_follows_from_joules_of_a_gpu(tmp_path):
    profile = write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)])

    over_hosts = summary_of_job([profile.host_sums, profile.host_sums])
    labelled = profile.tasks.assign(label_rank=0)
    over_ranks = GroupSums.of(labelled, profile.own_s, ["rank"]).table(profile.summary())

    assert over_hosts.loc["first", "gpu_j"] == pytest.approx(580.0)
    assert over_hosts["power_w"].isna().to_dict() == {"first": True, "second": False}
    assert over_ranks["energy_j"].sum() == pytest.approx(350.0)
    assert over_ranks["power_w"].isna().all()


def test_what_other_processes_used_is_other(tmp_path):
    users = [(0, 2, [[100, 0.6], [999, 0.2]]), (2, 4, [[100, 1.0], [999, 0.0]])]
    account, joules = gpu_of(write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)], users=users))

    assert account["other_j"] == pytest.approx(50.0)
    assert joules == pytest.approx([240.0, 0.0])


def test_an_open_device_alone_does_not_take_joules_from_this_program(tmp_path):
    users = [(0, 4, [[100, None], [999, None]])]
    profile = write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)], users=users)

    assert gpu_of(profile)[0]["other_j"] == 0
    assert any("the driver does not say who used it" in text for text in profile.info["warnings"])


def test_a_device_that_only_others_have_open_is_theirs(tmp_path):
    account, joules = gpu_of(write(tmp_path / "t", users=[(0, 4, [[999, None]])]))

    assert account["other_j"] == pytest.approx(290.0)
    assert joules == [0.0, 0.0]


def test_numbers_of_another_container_are_recognised(tmp_path):
    profile = write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)], users=[(0, 4, [[31337, 1.0]])])

    assert gpu_of(profile)[1] == pytest.approx([290.0, 0.0])
    assert any("--pid=host" in text for text in profile.info["warnings"])


def test_power_above_idle_while_nobody_works_is_idle(tmp_path):
    """Clocks stay up for a while after work: the driver samples no use, and no task is to pay."""
    users = [(0, 1, [[100, 1.0]]), (1, 4, [[100, 0.0]])]
    account, joules = gpu_of(write(tmp_path / "t", segments=[(0, 1, 1, 0, 0)], users=users))

    assert joules == pytest.approx([100.0, 0.0])
    assert account["idle_j"] == pytest.approx(230.0)


def test_work_without_a_mark_is_the_runtimes_with_a_warning(tmp_path):
    users = [(0, 4, [[100, 1.0]])]
    profile = write(tmp_path / "t", segments=[(0, 1, 1, 0, 0)], users=users)
    account, joules = gpu_of(profile)

    assert joules == pytest.approx([100.0, 0.0])
    assert account["runtime_j"] == pytest.approx(190.0)
    assert any("@tprof.task(gpu=True)" in text and "66 %" in text for text in profile.info["warnings"])


def test_a_block_outside_any_task_is_the_runtimes(tmp_path):
    account, joules = gpu_of(write(tmp_path / "t", segments=[(0, 4, 0, 2**32 - 1, 0)]))

    assert account["runtime_j"] == pytest.approx(290.0)
    assert joules == [0.0, 0.0]


def test_without_any_mark_the_only_task_of_a_while_is_the_one(tmp_path):
    """In the third second both tasks may have kernels on the GPU: the first one's may still run."""
    users = [(0, 4, [[100, 1.0]])]
    profile = write(tmp_path / "t", users=users, gpu=(GPU_J[0], [0.0, 110.0, 220.0, 330.0, 440.0]))
    account, joules = gpu_of(profile)

    assert joules == pytest.approx([200.0, 100.0])
    assert account["runtime_j"] == pytest.approx(100.0)
    assert any("could be of several tasks" in text for text in profile.info["warnings"])


def test_without_any_mark_a_process_that_used_no_gpu_is_no_candidate(tmp_path):
    other = {**THREADS[0], "instance": [3, 4, 0], "task": [1, 1, -1], "pid": 200, "tid": 200}
    users, gpu = [(0, 4, [[100, 1.0]])], (GPU_J[0], [0.0, 110.0, 220.0, 330.0, 440.0])
    both = write(tmp_path / "t", users=users, threads=(THREADS[0], other), gpu=gpu)
    traces.set_header(tmp_path / "t/threads/00000001.samples", process=1)
    shutil.copy(tmp_path / "t/tasks/00000000.jsonl", tmp_path / "t/tasks/00000001.jsonl")

    apart = tprof.load(tmp_path / "t").profile("cputime")

    assert gpu_of(both)[0]["tasks_j"] == pytest.approx(100.0)  # where both threads ran the same task
    assert gpu_of(apart)[1] == pytest.approx([200.0, 100.0, 0.0, 0.0])


def test_instances_of_one_task_share_without_a_mark(tmp_path):
    thread = {"t_ns": [0, SECOND_NS, 4 * SECOND_NS], "instance": [1, 2, 0], "task": [0, 0, -1], "pid": 100}
    _, joules = gpu_of(write(tmp_path / "t", threads=(thread,), users=[(0, 4, [[100, 1.0]])]))

    assert joules == pytest.approx([100.0, 190.0])


def test_an_unknown_idle_power_is_said(tmp_path):
    profile = write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)], idle=None)

    assert gpu_of(profile)[1] == pytest.approx([330.0, 0.0])
    assert any("idle power of gpu-0 is not known" in text for text in profile.info["warnings"])


def test_what_could_not_be_marked_is_said(tmp_path):
    note = {"used": ["torch"], "lost": 2, "captured": 3, "overlapped": True, "problem": "RuntimeError: assert"}
    warnings = " ".join(write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)], note=note).info["warnings"])

    assert "2 marks on GPUs have no time" in warnings
    assert "3 marks on GPUs were left out while a graph was captured" in warnings
    assert "give each thread a stream of its own" in warnings
    assert "marks on GPUs ended with an error: RuntimeError: assert" in warnings


def test_bounds_are_narrow_where_an_instance_is_alone_and_wide_where_it_is_not(tmp_path):
    segments = [(0, 1, 1, 0, 0), (1, 1.5, 1, 0, 0), (1.5, 2, 2, 1, 0)]
    profile = write(tmp_path / "t", segments=segments, cpu=None)

    tasks = profile.tasks.sort_values("instance")
    assert tasks["energy_j"].tolist() == pytest.approx([150.0, 50.0])
    assert tasks["energy_low_j"].tolist() == pytest.approx([100.0, 0.0])
    assert tasks["energy_high_j"].tolist() == pytest.approx([200.0, 100.0])


def test_an_old_trace_without_a_gpu_directory_is_read(tmp_path):
    traces.write(tmp_path / "t", energy={"package-0": CPU_J, "gpu-0": GPU_J})

    trace = tprof.load(tmp_path / "t")

    assert not trace.gpu
    assert gpu_of(trace.profile())[0]["other_j"] == 0


@examples(60)
@given(
    cuts=st.lists(st.floats(0, 4), min_size=2, max_size=12, unique=True),
    owners=st.lists(st.sampled_from([0, 1, 2, 9]), min_size=12, max_size=12),
    drawn=st.lists(st.floats(0, 300), min_size=4, max_size=4),
    other=st.floats(0, 1),
)
def test_joules_of_a_gpu_are_conserved(tmp_path_factory, cuts, owners, drawn, other):
    cuts = sorted(cuts)
    segments = [
        (begin, end, owner, 0 if owner == 1 else 1, place % 2)
        for place, (begin, end, owner) in enumerate(zip(cuts, cuts[1:], owners, strict=False))
        if end - begin > 1e-6
    ]
    gpu = (GPU_J[0], np.concatenate(([0.0], np.cumsum(drawn))).tolist())
    path = tmp_path_factory.mktemp("t") / "t"
    profile = write(path, segments=segments, users=[(0, 4, [[100, 1.0], [999, other]])], gpu=gpu, cpu=None)

    account, joules = profile.accounts.loc["gpu-0"], profile.tasks["gpu_j"].to_numpy()
    if np.isnan(float(account["measured_j"])):
        return
    gpu_of(profile)
    tasks = profile.tasks
    assert (joules >= 0).all()
    assert joules.sum() == pytest.approx(float(account["tasks_j"]))
    assert (tasks["energy_low_j"] <= tasks["energy_j"] * (1 + 1e-9) + 1e-9).all()
    assert (tasks["energy_high_j"] >= tasks["energy_j"] * (1 - 1e-9) - 1e-9).all()


@tprof.task(gpu=True)
def small(torch):
    torch.launch(0.05, "small")


@tprof.task(gpu=True)
def large(torch):
    torch.launch(0.15, "large")


def test_a_count_that_falls_once_costs_the_joules_of_that_time_only(tmp_path):
    write(tmp_path / "t.tprof", segments=[(0.0, 4.0, 1, 0, 0)])
    rows = np.zeros(6, layout.READING)
    rows["t_ns"], rows["value"] = np.arange(6) * SECOND_NS, [500, 610, 720, 100, 210, 320]
    traces.set_readings(tmp_path / "t.tprof/readings/gpu-0.readings", rows, unit=1.0, modulus=0)

    account, joules = gpu_of(tprof.load(tmp_path / "t.tprof").profile("cputime"))

    assert 200 <= account["measured_j"] <= 440
    assert 0 < joules[0] < account["measured_j"]


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(0, 2), st.integers(0, 9)), max_size=9)


def segments_of(spans, process=0):
    """Return segments of a process: begin and length in seconds, stream and instance of each."""
    begin, length, stream, instance = np.array(sorted(spans), np.int64).reshape(-1, 4).T
    return GpuSegments(
        process, (), 0, stream, begin * SECOND_NS, (begin + length) * SECOND_NS, instance.astype(np.uint64),
        np.zeros(len(begin), np.uint32),
    )  # fmt: skip


@examples(100)
@given(SPANS)
def test_work_that_overlaps_takes_no_more_time_than_there_is(spans):
    edges_ns = np.arange(10, 101) * SECOND_NS

    work = marked_work((segments_of(spans),), edges_ns)

    assert (work.seconds > 0).all()
    assert (work.seconds <= 1).all()
    seconds = {number: set() for _, _, number, _ in spans}
    for begin, length, number, _ in spans:
        seconds[number] |= {*range(max(begin, 10), max(begin + length, 10))}
    overlapped = sum(len(one) for one in seconds.values())
    assert work.seconds.sum() <= overlapped + 1e-9


def test_an_instance_takes_at_most_all_of_the_quanta_in_which_it_worked():
    """Two streams that work for it in one quantum do not count that twice."""
    work = pd.DataFrame({"owner": [1, 1, 2, 1], "quantum": [0, 0, 0, 2], "seconds": [0.25, 0.25, 0.5, 1.0]})

    claims = claims_of(work, np.array([10.0, 20.0, 30.0]))

    assert claims["joules"].to_dict() == {1: 35.0, 2: 5.0}
    assert claims["least"].to_dict() == {1: 30.0, 2: 0.0}
    assert claims["most"].to_dict() == {1: 40.0, 2: 10.0}


TIMES = st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 30)), min_size=1, max_size=6)


@examples(100)
@given(TIMES, st.sampled_from([{1: 0.5}, {1: 0.25, 9: 0.5}, {9: 1.0}, {1: None, 9: None}]))
@example([(0, 0), (6, -2), (0, 0)], {1: 0.5}).via("a use that ends before it begins, an earlier one after it")
def test_uses_that_are_noted_out_of_order_count_once(spans, processes):
    since_ns, t_ns = (np.array(one) * SECOND_NS for one in ([at for at, _ in spans], [sum(both) for both in spans]))
    parts = np.array([np.nan if part is None else part for part in processes.values()])
    users = GpuUsers(
        "gpu-0", since_ns, t_ns, np.full(len(spans), len(parts)),
        np.tile(list(processes), len(spans)), np.tile(parts, len(spans)),
    )  # fmt: skip
    edges_ns = np.arange(0, 101, 5) * SECOND_NS

    used = UsedParts.of(users, {1})
    whole = used.between(edges_ns)

    expected = (1.0, 0.0) if None in processes.values() else (processes.get(1, 0.0), processes.get(9, 0.0))
    assert used.is_unknown == (None in processes.values())
    for ns, part in zip(whole[:2], expected, strict=True):
        assert (ns >= 0).all()
        assert (ns <= part * np.diff(edges_ns) * (1 + 1e-9)).all()


def test_from_the_counter_to_the_tasks(tmp_path, monkeypatch):
    """A GPU with known watts runs kernels long after their tasks have returned."""
    device = FakeDevice()
    torch = FakeTorch(device, monkeypatch)
    FakeNvml(counting(device)).install(monkeypatch)
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with tprof.record(tmp_path / "t.tprof", energy="nvml", counters="none", idle_s=0.3) as recording:
        for _ in range(4):
            small(torch)
            large(torch)
        wait_for(lambda: device.busy_ns(2**62) == device.busy_ns(time.monotonic_ns()), "the last kernel's end")

    profile = recording.profile()

    account, _ = gpu_of(profile)
    # The median, since a busy machine reads late now and then.
    by_task = profile.tasks.groupby("task", observed=True)["gpu_j"].median()
    dynamic_w = BUSY_W - IDLE_W
    assert by_task["small"] == pytest.approx(0.05 * dynamic_w, rel=0.2)
    assert by_task["large"] == pytest.approx(0.15 * dynamic_w, rel=0.1)
    # A busy machine reads the fake a tenth of the idle time late.
    assert profile.info["static_power_w"]["gpu-0"] == pytest.approx(IDLE_W, rel=0.3)
    assert account["tasks_j"] == pytest.approx(account["measured_j"] - account["idle_j"], rel=0.05)
    assert profile.trace.manifest["domains"][0]["uuid"] == f"GPU-{UUID}"


def test_the_summary_has_a_column_for_gpus_where_one_is_measured(tmp_path, capsys):
    profile = write(tmp_path / "t", segments=[(0, 2, 1, 0, 0), (2, 4, 2, 1, 0)])
    traces.write(tmp_path / "without")

    show(profile, sys.stdout, everything=True)
    with_gpu = capsys.readouterr().out
    show(tprof.load(tmp_path / "without").profile(), sys.stdout, everything=True)

    assert "GPU" in with_gpu
    assert "200 J" in with_gpu
    assert "GPU" not in capsys.readouterr().out


def test_live_joules_of_a_gpu_are_those_of_the_profile_once_the_recording_has_ended(tmp_path):
    write(tmp_path / "t", segments=[(0, 4, 1, 0, 0)])
    meter = Meter(tmp_path / "t")

    energy = meter.energy()

    assert energy.measured_j == pytest.approx(330.0 + 60.0)
    accounts = tprof.load(tmp_path / "t").profile("cputime").counted_accounts
    assert (energy.tasks_j, energy.runtime_j) == pytest.approx((accounts["tasks_j"], accounts["runtime_j"]))
    assert energy.tasks_j >= 310.0
