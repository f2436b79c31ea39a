"""Windows of recordings with GPUs, native threads, a task runtime, keys, compression or several hosts."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from support import command_line, task_graphs, traces
from support.native_truth import MS, PID, Program
from support.task_graphs import Flat

import tprof
from tprof.errors import UsageError

SECOND_NS = 10**9
ACCOUNTS = ["measured_j", "tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]


def tiled(trace, edges_s, model="cputime"):
    """Return the profile of the whole, and of the windows between some seconds, which begin at 0."""
    windows = itertools.pairwise([*edges_s, (trace.end_ns - trace.start_ns) * 1e-9])
    return trace.profile(model), [trace.profile(model, start_s=begin, end_s=end) for begin, end in windows]


def assert_tiles(whole, parts, *columns):
    """Assert that windows have together the accounts of the whole, and each task's sums of some columns."""
    for account in ACCOUNTS:
        summed = sum(part.accounts[account] for part in parts)
        np.testing.assert_allclose(summed, whole.accounts[account], rtol=1e-9, atol=1e-9)
    for column in columns:
        summed = sum(part.tasks.groupby("task", observed=False)[column].sum() for part in parts)
        expected = whole.tasks.groupby("task", observed=False)[column].sum()
        np.testing.assert_allclose(summed, expected, rtol=1e-9, atol=1e-9)


# Native threads: the pools of a window are those of the whole.


def alone():
    program = Program(["multiply", "parse"])
    pool = program.pool(threads=3)
    for _ in range(20):
        program.call("multiply", pool, 40 * MS)
        program.run("parse", 30 * MS)
    return program


def beside(**options):
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(threads=2, **options)
    while program.now_ns[0] < 2_000 * MS:
        program.call("multiply", pool, 20 * MS, before_ns=3 * MS, spin_ns=60 * MS if options else 0)
        program.rest(int(program.random.integers(1, 40)) * MS)
    while program.now_ns[1] < 2_000 * MS:
        program.run("parse", 10 * MS, thread=1)
    return program


def left_working():
    program = Program(["begin", "parse"])
    program.run("begin", 2 * MS)
    thread = program.pool(library="/lib/libown.so", created_ns=MS, creator_tid=PID, creator_task=0, creator_instance=1)
    for _ in range(4):
        program.run("parse", 300 * MS)
    thread.work(MS, program.now_ns[0] + 20 * MS, "begin")
    return program


@pytest.mark.parametrize("edges_s", [[0, 0.5, 1.0], [0, 0.1, 0.2, 0.3], [0, 0.537]])
@pytest.mark.parametrize(
    ("program", "passive"),
    [(alone, True), (beside, True), (lambda: beside(noted=True), False), (left_working, True)],
    ids=["alone", "onsets", "calls", "left working"],
)
def test_pools_of_windows_are_those_of_the_whole(tmp_path, program, passive, edges_s) -> None:
    """Each window knows the users that the whole recording shows, so the joules of native threads sum to the whole."""
    trace = program().write(tmp_path / "t.tprof", passive=passive)

    whole, parts = tiled(trace, edges_s)

    assert_tiles(whole, parts, "native_j", "native_cpu_s", "cpu_s")
    how = [pool["known_by"] for pool in whole.info["native"]["pools"]]
    for part in parts:
        assert part.info["native"] is None or [pool["known_by"] for pool in part.info["native"]["pools"]] == how
        low_j, high_j = part.tasks["native_j"], part.tasks["native_high_j"]
        assert (low_j <= high_j + 1e-12).all()


def test_a_window_long_after_a_pool_was_created_does_not_think_it_new(tmp_path) -> None:
    """A thread that nobody saw begin, and that ends soon after a window begins, serves no creator of the window."""
    trace = beside().write(tmp_path / "t.tprof")
    one = trace.native_threads[0]

    part = one.between(int(one.t_ns[len(one.t_ns) // 2]), int(one.t_ns[-1]))

    assert part.created_ns is not None
    assert part.created_ns <= one.t_ns[0]


# GPUs, beside processors and nested domains.


def with_gpu(path, segments, *, users=()):
    """Write two tasks one after the other, domains that nest, and a GPU that was read each half second."""
    t_ns = [0, 2 * SECOND_NS, 4 * SECOND_NS]
    used = [0, SECOND_NS, 2 * SECOND_NS]
    threads = ({"t_ns": t_ns, "instance": [1, 2, 0], "task": [0, 1, -1], "cpu_ns": used, "pid": 100, "tid": 100},)
    read_ns = np.arange(0, 4 * SECOND_NS + 1, SECOND_NS // 2)
    energy = {
        "gpu-0": (read_ns, np.cumsum([0, 55, 55, 60, 40, 5, 5, 80, 20])),
        "package-0": (read_ns, np.arange(len(read_ns)) * 10.0),
        "core-0": (read_ns, np.arange(len(read_ns)) * 7.0),
    }
    traces.write(path, tasks=("first", "second"), threads=threads, energy=energy, static_power_w={"gpu-0": 10.0})
    (path / "gpu").mkdir(mode=0o700)
    rows = [
        [round(begin * SECOND_NS), round((end - begin) * SECOND_NS), instance, task, stream]
        for begin, end, instance, task, stream in segments
    ]
    line = {"device": [], "number": 0, "segments": rows}
    (path / "gpu/00000000.jsonl").write_text(json.dumps(line) + "\n" if rows else "")
    lines = [
        {"domain": "gpu-0", "since_ns": begin * SECOND_NS, "t_ns": end * SECOND_NS, "processes": processes}
        for begin, end, processes in users
    ]
    (path / "gpu/processes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tprof.load(path)


SEGMENTS = [(0, 0.7, 1, 0, 0), (0.9, 2, 1, 0, 0), (2, 2.6, 2, 1, 0), (0.2, 1.5, 1, 0, 3), (3, 4, 2, 1, 3)]


@pytest.mark.parametrize("users", [(), [(0, 2, [[100, 0.6], [999, 0.2]]), (2, 4, [[100, 1.0], [999, 0.0]])]])
@pytest.mark.parametrize("edges_s", [[0, 1, 3], [0, 0.5, 2], [0, 2]])
def test_windows_of_a_gpu_sum_to_the_whole(tmp_path, edges_s, users) -> None:
    """Joules of marked work, of other processes and of idle time are those of the whole, domain by domain."""
    whole, parts = tiled(with_gpu(tmp_path / "t.tprof", SEGMENTS, users=users), edges_s)

    assert_tiles(whole, parts, "gpu_j", "energy_j")
    assert not any(part.info["warnings"] for part in parts)
    for part in parts:
        by_domain = part.energy_by_domain
        assert by_domain["core-0"].sum() == pytest.approx(part.accounts.loc["core-0", "tasks_j"])


def test_work_of_a_gpu_whose_task_ran_before_the_window_is_said(tmp_path) -> None:
    """Kernels run on after their task has returned: a window without the task says what it cannot give to it."""
    trace = with_gpu(tmp_path / "t.tprof", [(0, 4, 1, 0, 0)])
    whole, (before, after) = tiled(trace, [0, 2])

    assert after.tasks["gpu_j"].sum() == 0
    left_j = whole.tasks["gpu_j"].sum() - before.tasks["gpu_j"].sum()
    assert after.accounts.loc["gpu-0", "runtime_j"] == pytest.approx(left_j)
    where = f"{left_j:.3g} J on gpu-0 in this window are of work whose tasks ran before it (in `runtime`)"
    assert after.info["warnings"] == [f"{where}: the whole recording gives them to these tasks"]
    assert not before.info["warnings"]


# A task runtime.


@pytest.mark.parametrize("seed", range(4))
def test_times_of_workers_in_windows_sum_to_the_whole(tmp_path, seed) -> None:
    """What workers ran, lacked and left waiting in windows is what they did in the whole recording."""
    rng = np.random.default_rng(seed)
    tasks = [
        (int(rng.integers(1, 20)) * MS, {int(one) for one in rng.integers(0, number, 2)} if number else set())
        for number in range(50)
    ]
    trace = task_graphs.write(tmp_path / "t.tprof", Flat(tasks, workers=3, gap_ns=2 * MS, slow_ns=MS // 2).lanes)

    whole, parts = tiled(trace, [0, 0.05, 0.1])

    columns = ["served_s", "running_s", "suspended_s", "starved_s", "overhead_s"]
    summed = sum(part.starvation.set_index("worker")[columns] for part in parts)
    np.testing.assert_allclose(summed, whole.starvation.set_index("worker")[columns], atol=1e-7)
    for part, (begin_s, end_s) in zip(parts, itertools.pairwise([0, 0.05, 0.1, 1e9]), strict=True):
        path = part.critical_path()
        assert path.span_s <= path.makespan_s + 1e-9
        assert path.makespan_s <= min(end_s, whole.critical_path().makespan_s) - begin_s + 1e-6
        assert set(part.dependences["instance"]) <= set(part.tasks["instance"])
        waited = part.tasks.merge(whole.tasks, on="instance", suffixes=("", "_whole"))
        known = waited["wait_worker_s"].notna()
        np.testing.assert_allclose(waited["wait_worker_s"][known], waited["wait_worker_s_whole"][known], atol=1e-7)
        assert known.sum() >= len(waited) - 3


def test_keys_of_an_engine_stay_with_the_instances_of_a_window(tmp_path) -> None:
    """Instances of a window have their keys, and depend on those that made what they needed in it."""
    count = 8
    t_ns = np.arange(count + 1) * SECOND_NS
    thread = {"t_ns": t_ns, "instance": [*range(1, count + 1), 0], "task": [0] * count + [-1]}
    energy = {"package-0": (t_ns, t_ns * 1e-8)}
    path = traces.write(tmp_path / "t.tprof", threads=(thread,), energy=energy)
    (path / "keys").mkdir()
    lines = [{"instance": one, "key": f"k{one}", "needs": [f"k{one - 1}"]} for one in range(1, count + 1)]
    (path / "keys/00000000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    part = tprof.load(path).profile("cputime", start_s=2, end_s=5)

    assert part.tasks["key"].tolist() == ["k3", "k4", "k5"]
    assert part.dependences.to_numpy().tolist() == [[4, 3], [5, 4]]
    assert part.critical_path().span_s == pytest.approx(3.0)


# Fits, compression, hosts.


def test_a_fitted_window_conserves_its_joules(tmp_path) -> None:
    """Powers are fitted to each window by itself, and its joules stay what its sensor measured."""
    rng = np.random.default_rng(1)
    t_ns = np.arange(0, 2_001) * MS
    instance = np.where(np.arange(len(t_ns)) % 5 < 4, np.arange(len(t_ns)), 0).astype(np.uint64)
    task = np.where(instance > 0, rng.integers(0, 2, len(t_ns)), -1)
    watts = np.array([4.0, 12.0, 1.0])[task]
    energy_j = np.concatenate(([0.0], np.cumsum(watts[:-1] * 1e-3)))[::10]
    thread = {"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": np.cumsum((instance > 0) * MS)}
    traces.write(tmp_path / "t.tprof", threads=(thread,), energy={"package-0": (t_ns[::10], energy_j)})

    whole, parts = tiled(tprof.load(tmp_path / "t.tprof"), [0, 0.5, 1.5], "fitted")

    assert sum(part.measured_j for part in parts) == pytest.approx(whole.measured_j, rel=1e-9)
    for part in parts:
        row = part.accounts.iloc[0]
        assert row[ACCOUNTS[1:5]].sum() == pytest.approx(row["measured_j"], rel=1e-9)


def test_a_window_of_a_compressed_session_is_that_of_the_plain_one(tmp_path) -> None:
    """Blocks are decompressed where the window needs them, and nothing differs."""
    count = 200_000
    t_ns = np.arange(count) * 10_000
    instance = np.where(np.arange(count) % 2 == 0, np.arange(count) // 2 + 1, 0).astype(np.uint64)
    thread = {"t_ns": t_ns, "instance": instance, "task": np.where(instance > 0, 0, -1), "cpu_ns": t_ns}
    grid_ns = np.arange(0, count * 10_000, 7 * MS)
    path = traces.write(tmp_path / "t.tprof", threads=(thread,), energy={"package-0": (grid_ns, grid_ns * 1e-8)})
    plain = tprof.load(path).profile(start_s=0.5, end_s=0.9).tasks

    told = command_line.tprof("compress", str(path), cwd=tmp_path)
    packed = tprof.load(path)

    assert told.returncode == 0
    assert packed.threads[0].stream.packed is not None
    assert packed.profile(start_s=0.5, end_s=0.9).tasks.equals(plain)


def test_a_job_of_several_hosts_says_that_it_has_no_windows(tmp_path) -> None:
    """A window of a job is one sentence, which names where its parts are."""
    for host in ("one", "two"):
        (tmp_path / "job/hosts").mkdir(parents=True, exist_ok=True)
        traces.write(tmp_path / "job/hosts" / host)

    told = command_line.tprof("summary", "job", "--between", "0,1", cwd=tmp_path)

    assert told.returncode == 2
    assert "a window of time is one of a single host" in told.stderr
    assert "job/hosts" in told.stderr
    with pytest.raises(UsageError, match="single host"):
        tprof.load(tmp_path / "job").profile(start_s=0.5)
