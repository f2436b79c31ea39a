"""Joules of a recording that still runs, and their agreement with the profile that is made of it afterwards."""

import itertools
import multiprocessing
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fake_trees
from support import traces as support_traces
from support.fake_sensor import FakeSensor, wait_for
from support.properties import examples

import tprof
from tprof.live import Meter, threads
from tprof.live.domains import RunningDomains
from tprof.trace import NativeThread, layout
from tprof.trace.tasks import TaskTable

MODULUS = fake_trees.RANGE_UJ + 1
WATTS = 50.0
LONGEST_STEP_S = 0.02
"""Of the fake sensor: where it got no processor for longer it does not jump."""


@tprof.task
def spin(cpu_s):
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


@tprof.task
def add(count):
    return sum(range(count))


@tprof.task
def spin_until(event):
    while not event.is_set():
        pass


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Record on a machine whose sensor advances by 50 W, and on which nobody else is seen to run."""
    tree = fake_trees.laptop(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    tree.write("proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(64)))
    with FakeSensor(watts=WATTS, modulus=MODULUS, longest_step_s=LONGEST_STEP_S).drives(tree.energy_of("intel-rapl:0")):
        yield tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0)


def balance(energy):
    return energy.tasks_j + energy.runtime_j + energy.other_j + energy.idle_j


def run_threads(*bodies):
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    return threads


def test_the_joules_of_many_looks_are_those_of_the_profile(watched):
    seen = []
    with watched as recording:
        for _ in range(10):
            for _ in range(3):
                spin(0.01)
            for _ in range(300):
                add(2000)
            seen.append(recording.energy())
        done_ns = time.monotonic_ns()
        live = wait_for(
            lambda: (now := recording.energy()).until_s * 1e9 + start_ns(recording) > done_ns and now, "all"
        )

    summary = recording.profile("cputime").summary()
    assert live.quality == "measured"
    assert {name: task.instances for name, task in live.tasks.items()} == summary["instances"].to_dict()
    # What threads without tasks took, the fake sensor's own too, is known afterwards only: of tasks their shares agree.
    # Nor does it depend on the machine how those are divided where nobody looks while a task runs.
    looked_once = Meter(recording.path).energy()
    for name, task in looked_once.tasks.items():
        share = summary.loc[name, "energy_j"] / summary["energy_j"].sum()
        assert task.energy_j / looked_once.tasks_j == pytest.approx(share, abs=0.05)
    # After the last look the recording may have gone on for long, where its end got no processor.
    later_j = WATTS * (looked_once.until_s - live.until_s)
    assert 0.9 * looked_once.measured_j - later_j <= live.measured_j <= 1.1 * looked_once.measured_j
    for energy in (*seen, live):
        assert balance(energy) == pytest.approx(energy.measured_j)
    assert all(one.tasks_j <= other.tasks_j for one, other in itertools.pairwise(seen))


def start_ns(recording):
    return tprof.load(recording.path).start_ns


def test_a_task_counts_while_it_runs(watched):
    stop = threading.Event()
    with watched as recording:
        (thread,) = run_threads(lambda: spin_until(stop))
        try:
            first = wait_for(lambda: recording.energy().tasks.get("spin_until"), "the task's start")
            wait_for(lambda: recording.energy().tasks["spin_until"].energy_j > first.energy_j + 1, "another joule")
        finally:
            stop.set()
            thread.join()

    assert first.instances == 1


def test_asking_leaves_no_trace(watched):
    with watched as recording:
        add(10)
        for _ in range(20):
            recording.energy()
        run_threads(recording.energy)[0].join()
        add(10)

    trace = tprof.load(recording.path)
    assert [thread.count for thread in trace.threads] == [5]
    assert [entry.name for entry in trace.tasks if entry.name == "energy"] == []


def test_more_samples_than_are_read_at_a_time_are_all_counted(watched):
    with watched as recording:
        for _ in range(70_000):
            add(1)
        live = wait_for(lambda: (now := recording.energy()).tasks["add"].instances == 70_000 and now, "all instances")

    assert balance(live) == pytest.approx(live.measured_j)


def test_child_processes_count(watched):
    with watched as recording:
        child = multiprocessing.get_context("fork").Process(target=spin, args=(0.1,))
        child.start()
        child.join()
        live = wait_for(lambda: (now := recording.energy()).tasks["spin"].energy_j > 0 and now, "the child's joules")

    assert live.tasks["spin"].instances == 1


def test_without_a_sensor_joules_are_not_known(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="none") as recording:
        add(10)
        energy = recording.energy()

    assert energy.quality == "none"
    assert np.isnan(energy.tasks_j)
    assert energy.tasks["add"].instances == 1


def test_before_the_first_reading_no_joules_are_known(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate"):
        domains = RunningDomains(tmp_path / "t.tprof", {})

        assert len(domains.counted) == 1
        assert (domains.first_ns, domains.last_ns, domains.until(0, 1, 1)) == (None, None, None)


def test_a_recording_that_does_not_run_has_a_profile_instead(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate") as recording:
        add(10)

    with pytest.raises(tprof.UsageError, match="does not run: after its with-block take its profile"):
        recording.energy()


def test_a_session_that_is_deleted_is_said_to_be(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate") as recording:
        recording.energy()
        recording.path.rename(tmp_path / "elsewhere")
        with pytest.raises(tprof.TraceError, match="its joules so far are not known"):
            recording.energy()
        (tmp_path / "elsewhere").rename(recording.path)


MS = 1_000_000
SECOND_NS = 10**9


@st.composite
def traces(draw):
    """Threads that run tasks of several lengths against a sensor with uneven updates."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    threads, instance = [], 0
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 40))
        t_ns = np.cumsum(rng.integers(1, SECOND_NS // 50, count + 1))
        runs = rng.random(count + 1) < 0.8
        runs[-1] = False
        ids = np.where(runs, np.arange(instance + 1, instance + count + 2), 0)
        instance += count + 1
        used = rng.random(count) * np.diff(t_ns)
        threads.append(
            {
                "t_ns": t_ns,
                "instance": ids,
                "task": np.where(runs, rng.integers(0, 3, count + 1), -1),
                "cpu": np.zeros(count + 1, int),
                "package": np.zeros(count + 1, int),
                "cpu_ns": np.concatenate(([0], np.cumsum(used))).astype(int),
            }
        )
    edges_ns = np.concatenate(([0], np.cumsum(rng.integers(1, SECOND_NS // 20, draw(st.integers(2, 30))))))
    energy_j = np.cumsum(rng.random(len(edges_ns)))
    return threads, {"package-0": (edges_ns, energy_j)}


@examples(40)
@given(traces())
def test_a_meter_gives_what_the_model_cputime_gives(tmp_path_factory, drawn):
    threads, energy = drawn
    path = tmp_path_factory.mktemp("live") / "t.tprof"
    tprof.write_trace(path, tasks=["a", "b", "c"], threads=threads, energy=energy)

    live = Meter(path).energy()

    profile = tprof.load(path).profile("cputime")
    account = profile.accounts.loc["package-0"]
    assert live.measured_j == pytest.approx(account["measured_j"])
    assert live.tasks_j == pytest.approx(account["tasks_j"], rel=1e-4, abs=1e-6)
    assert live.runtime_j == pytest.approx(account["runtime_j"], rel=1e-4, abs=1e-6)
    assert live.idle_j == pytest.approx(account["idle_j"], rel=1e-4, abs=1e-6)
    known_s = live.until_s
    begun = profile.tasks[profile.tasks["start_s"] <= known_s].groupby("task", observed=True).size()
    for name, row in profile.summary().iterrows():
        if name not in live.tasks:
            assert name not in begun
            continue
        assert live.tasks[name].instances == begun[name]
        if np.isfinite(row["energy_j"]):
            assert live.tasks[name].energy_j == pytest.approx(row["energy_j"], rel=1e-4, abs=1e-6)


def running(path, tasks, energy):
    """Write two threads that run tasks one after the other on a core each, and no end: the recording goes on."""
    count = len(tasks)
    t_ns = np.arange(count + 1) * SECOND_NS // 100
    ids = np.append(np.arange(1, count + 1), 0)
    threads = [
        {"t_ns": t_ns, "instance": ids + first * (ids > 0), "task": [*tasks, -1], "cpu_ns": t_ns}
        for first in (0, count)
    ]
    tprof.write_trace(path, tasks=["a", "b", "c"], threads=threads, energy=energy)
    (path / "end.json").unlink()


def test_cpu_time_that_samples_show_counts_once_in_however_many_steps(tmp_path):
    """The program used 3 cores, of which samples show 2."""
    edges_ns = np.arange(51) * SECOND_NS // 50
    path = tmp_path / "t.tprof"
    running(path, [0] * 100, {"package-0": (edges_ns, np.arange(51) * 1.0)})
    rows = np.zeros(51, layout.READING)
    rows["t_ns"], rows["value"] = edges_ns, edges_ns * 3
    support_traces.add_cpu_times(path, "program", quantity="program", package=None, readings=rows)
    stepped, whole = Meter(path), Meter(path)

    while stepped.step(SECOND_NS // 50):
        pass
    while whole.step(SECOND_NS):
        pass

    assert whole.figures().runtime_j == pytest.approx(50 / 3, rel=0.2)
    assert stepped.figures().runtime_j == pytest.approx(whole.figures().runtime_j, rel=0.1)


def test_numbers_of_tasks_that_lie_far_apart_and_come_later_are_those_of_their_tasks(tmp_path, monkeypatch):
    path = tmp_path / "t.tprof"
    edges_ns = np.arange(31) * SECOND_NS // 100
    running(path, [2] * 10 + [0] * 10 + [1] * 10, {"package-0": (edges_ns, np.arange(31) * 1.0)})
    monkeypatch.setattr(threads, "MOST_IN_BLOCK", 3)
    monkeypatch.setattr(TaskTable, "is_sparse", lambda *_: True)
    meter = Meter(path)

    while meter.step(SECOND_NS // 100):
        pass

    found = {name: (task.instances, task.energy_j) for name, task in meter.figures().tasks.items()}
    assert found == {name: (20, pytest.approx(10.0)) for name in "abc"}


def with_a_pool(path, rounds=30):
    """Write what runs: a task that waits for a thread of a pool, which goes on for 20 ms, and one that computes itself.

    The first one takes 50 ms and the second one 40 ms; then nothing runs for 30 ms. The machine draws 10 W.
    """
    end_ns = rounds * 120 * MS
    begins_ns = np.arange(rounds)[:, None] * 120 * MS
    edges_ns = np.arange(end_ns // MS + 1) * MS
    reads_ns = np.arange(0, end_ns + 1, 5 * MS)

    def used_ns(t_ns, begin_ns, stop_ns):
        """Return the CPU time up to some times of what runs from one time of each round to another."""
        return np.clip(t_ns - begins_ns - begin_ns, 0, stop_ns - begin_ns).sum(axis=0)

    t_ns = np.append((begins_ns + np.array([0, 50 * MS, 50 * MS, 90 * MS])).ravel(), end_ns)
    runs = np.append(np.tile([1, 0, 1, 0], rounds), 0)
    thread = {
        "t_ns": t_ns, "instance": np.where(runs, np.arange(1, len(t_ns) + 1), 0), "pid": 7, "tid": 7,
        "task": np.append(np.tile([0, -1, 1, -1], rounds), -1), "cpu_ns": used_ns(t_ns, 50 * MS, 90 * MS),
    }  # fmt: skip
    pool = NativeThread(
        pid=7, tid=8, name="pool", library="/lib/pool.so", created_ns=None, creator_tid=None, creator_task=None,
        creator_instance=None, ended_ns=None, t_ns=reads_ns, cpu_ns=used_ns(reads_ns, 0, 70 * MS),
    )  # fmt: skip
    energy = {"package-0": (edges_ns, edges_ns * 10e-9)}
    tprof.write_trace(path, tasks=["waits", "computes"], threads=[thread], energy=energy, native=[pool])
    rows = np.zeros(len(reads_ns), layout.READING)
    rows["t_ns"], rows["value"] = reads_ns, used_ns(reads_ns, 50 * MS, 90 * MS) + pool.cpu_ns
    support_traces.add_cpu_times(path, "program", quantity="program", package=None, readings=rows)


@pytest.mark.parametrize("slice_ms", [20, 130, 5000])
def test_what_a_pool_did_is_its_tasks_while_the_recording_runs(tmp_path, slice_ms):
    path = tmp_path / "t.tprof"
    with_a_pool(path)
    profile = tprof.load(path).profile("cputime")
    (path / "end.json").unlink()
    meter = Meter(path)

    while meter.step(slice_ms * MS):
        pass

    live, accounts = meter.figures(), profile.counted_accounts
    assert accounts["spin_j"] == pytest.approx(3.0)
    for name, energy_j in profile.summary()["energy_j"].items():
        assert live.tasks[name].energy_j == pytest.approx(energy_j, rel=0.05)
    # Whose pool it is shows only after some rounds.
    assert live.spin_j > 1.5
    assert live.spin_j + live.unidentified_j == pytest.approx(accounts["spin_j"], rel=0.05)
    assert balance(live) + live.spin_j + live.unidentified_j == pytest.approx(live.measured_j)
