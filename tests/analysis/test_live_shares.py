"""The live figures of a recording that has ended are those of its profile by CPU time, whatever its steps."""

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples

import tprof
from tprof.live import Meter
from tprof.live.domains import Domain
from tprof.trace import NativeThread, layout

MS = 1_000_000
TASKS = ["a", "b", "c"]
MODULUS = 1 << 32
MISSING = 1


def assert_as_the_profile(path, slice_ns):
    stepped = Meter(path)
    while stepped.step(slice_ns):
        pass
    trace = tprof.load(path)
    profile = trace.profile("cputime")
    counted = [name for name in profile.accounts.index if trace.readings[name].counted]
    columns = ["measured_j", "tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]
    accounts = profile.accounts.loc[counted, columns]
    expected = accounts.astype(float).fillna(0.0).sum().to_dict()
    close = {"rel": 1e-9, "abs": 1e-12 * max(expected["measured_j"], 1e-9)}
    assert sum(expected.values()) - expected["measured_j"] == pytest.approx(expected["measured_j"], **close)
    columns.remove("measured_j")
    by_domain = {name: parts for name, parts in stepped.by_domain().items() if parts.any()}
    for name, parts in by_domain.items():
        assert parts == pytest.approx(accounts.loc[name, columns].astype(float).fillna(0.0).tolist(), **close)
    tasks_j = profile.tasks.groupby("task", observed=True)["energy_j"].sum().to_dict()
    for live in (stepped.figures(), Meter(path).energy()):
        if counted and len(accounts) and not np.isnan(live.measured_j):
            assert {name: getattr(live, name) for name in expected} == pytest.approx(expected, **close)
            assert {name: task.energy_j for name, task in live.tasks.items()} == pytest.approx(tasks_j, **close)
    return expected


def increasing(rng, count, most_ns, *, still=0.0):
    """Return times from 0 on, some of them equal to the one before."""
    return np.concatenate(([0], np.cumsum(np.where(rng.random(count) < still, 0, rng.integers(1, most_ns, count)))))


def thread_of(rng, first_id, *, has_cpu):
    count = int(rng.integers(1, 60))
    t_ns = increasing(rng, count, 20 * MS, still=0.05) + int(rng.integers(0, 30 * MS))
    runs = rng.random(count + 1) < 0.7
    runs[-1] = rng.random() < 0.2
    used = np.concatenate(([0], np.cumsum(rng.random(count) * np.diff(t_ns)))).astype(int)
    cpu = rng.integers(0, 6, count + 1)
    thread = {
        "t_ns": t_ns,
        "instance": np.where(runs, np.arange(first_id, first_id + count + 1), 0),
        "task": np.where(runs, rng.integers(0, len(TASKS), count + 1), -1),
        "cpu": cpu,
        "package": cpu // 2 % 2,
    }
    return thread | ({"cpu_ns": used} if has_cpu else {"instructions": used})


def native_thread(rng, number):
    """Return a native thread of some pool that works at random times."""
    count = int(rng.integers(1, 60))
    t_ns = increasing(rng, count, 20 * MS, still=0.05) + int(rng.integers(0, 100 * MS))
    used = rng.random(count) * np.diff(t_ns) * (rng.random(count) < rng.random())
    created = bool(rng.random() < 0.5)
    task = int(rng.integers(0, len(TASKS))) if created and rng.random() < 0.5 else None
    return NativeThread(
        pid=0, tid=10_000 + number, name=str(rng.choice(["pool-1", "pool-2", "other"])),
        library=str(rng.choice(["", "/lib/libopenblas.so", "/lib/libgomp.so.1", "/usr/bin/python3.11"])),
        created_ns=int(t_ns[0]) if created else None, creator_tid=0 if created else None, creator_task=task,
        creator_instance=None if task is None else 1, ended_ns=int(t_ns[-1]) if rng.random() < 0.3 else None,
        t_ns=t_ns, cpu_ns=np.concatenate(([0], np.cumsum(used))).astype(int),
    )  # fmt: skip


def readings_of(rng, t_ns, value):
    rows = np.zeros(len(t_ns), layout.READING)
    rows["t_ns"], rows["value"] = t_ns, value % MODULUS
    rows["window_ns"] = np.minimum(np.diff(t_ns, prepend=0), rng.integers(0, MS))
    rows["flags"] = np.where(rng.random(len(t_ns)) < 0.05, MISSING, 0)
    return rows


@st.composite
def written(draw, *, most_native=4):
    """Return a function that writes a trace with all that complicates one."""
    seed, machine = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(["one package", "two packages", "wide"]))
    static_w, hidden = draw(st.sampled_from([0.0, 0.5, 20.0])), draw(st.booleans())
    whole, block = draw(st.booleans()), draw(st.booleans())

    def write(path):
        rng = np.random.default_rng(seed)
        threads = [
            thread_of(rng, 1 + 100 * number, has_cpu=rng.random() < 0.8) for number in range(int(rng.integers(1, 4)))
        ]
        names = {"one package": ["package-0"], "two packages": ["package-0", "package-1", "dram-0"], "wide": ["psys"]}
        edges = {name: increasing(rng, int(rng.integers(5, 60)), 40 * MS) for name in names[machine]}
        energy = {name: (t_ns, np.cumsum(rng.random(len(t_ns)))) for name, t_ns in edges.items()}
        watts = dict.fromkeys(edges, static_w) if static_w else None
        tprof.write_trace(
            path, tasks=TASKS, threads=threads, energy=energy, static_power_w=watts, quality="measured",
            native=[native_thread(rng, number) for number in range(int(rng.integers(0, most_native + 1)))],
        )  # fmt: skip
        for name, t_ns in edges.items():
            value = MODULUS - 40_000 + np.cumsum(rng.integers(0, 3000, len(t_ns)))
            rows = readings_of(rng, t_ns, value)
            traces.set_readings(path / "readings" / f"{name}.readings", rows, unit=2.0**-14, modulus=MODULUS)
        if rng.random() < 0.3:
            disturb(traces.samples_of(path), rng)
        if hidden:
            add_hidden(path, rng, two=machine == "two packages")
        if not whole:
            traces.set_header(traces.samples_of(path), end_reason=0)
        if block:
            clock = {"name": "CLOCK_MONOTONIC", "start_ns": 0, "block_start_ns": 40 * MS}
            traces.set_json(path / "manifest.json", clock=clock)
            traces.set_json(path / "end.json", end_ns=300 * MS)
        return path

    return write


def disturb(path, rng):
    """Let a thread's clock, or its count of CPU time, fall once."""
    content = bytearray(path.read_bytes())
    samples = np.frombuffer(content, layout.sample_dtype(("count", "", "", "", "")), offset=layout.HEADER_BYTES)
    samples[str(rng.choice(["t_ns", "count"]))][rng.integers(0, len(samples))] //= 2
    path.write_bytes(bytes(content))


def add_hidden(path, rng, *, two):
    for name, quantity, package, cores in (
        ("program", "program", None, 2.5),
        ("busy-0", "busy", 0, 1.5),
        *([("busy-1", "busy", 1, 2.0)] if two else []),
    ):
        t_ns = increasing(rng, int(rng.integers(2, 40)), 30 * MS)
        used = np.concatenate(([0], np.cumsum(cores * rng.random(len(t_ns) - 1) * np.diff(t_ns)))).astype(int)
        rows = readings_of(rng, t_ns, used)
        traces.add_cpu_times(path, name, quantity=quantity, package=package, readings=rows)


@examples(150)
@given(written(), st.integers(MS, 500 * MS))
def test_written_traces(tmp_path_factory, write, slice_ns):
    assert_as_the_profile(write(tmp_path_factory.mktemp("written") / "t.tprof"), slice_ns)


@tprof.task
def spin(cpu_s):
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


@tprof.task
def spin_and(end):
    spin(0.01)
    end(0)


@tprof.task
def rest():
    threading.Event().wait(0.002)


def work():
    for _ in range(15):
        spin(0.002)
        rest()


def idle_thread(stop):
    """Burn CPU time in a thread that runs no task."""
    while not stop.is_set():
        sum(range(1000))


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_recorded_traces(tmp_path, end):
    stop, path = threading.Event(), tmp_path / "t.tprof"
    with tprof.record(path, energy="estimate", counters="none"):
        threads = [threading.Thread(target=work) for _ in range(3)]
        threads.append(threading.Thread(target=idle_thread, args=(stop,)))
        for thread in threads:
            thread.start()
        child = os.fork()
        if child == 0:
            spin(0.02)
            if end == "is killed":
                spin_and(os._exit)
            os._exit(0)
        os.waitpid(child, 0)
        for thread in threads[:-1]:
            thread.join()
        stop.set()
        threads[-1].join()

    figures = assert_as_the_profile(path, 7 * MS)

    assert figures["tasks_j"] > 0
    assert figures["measured_j"] > 0


def lead_in(begin_ms, steps):
    """Return a domain with quanta of 10 ms, whose block begins at a time that is said before a step or after the last.

    Quantum n has n + 1 J; `steps` are how many of them come at a time.
    """
    domain = Domain("package-0")
    number = 0
    for place, count in enumerate(steps):
        if place == len(steps) - 1:
            domain.begin(begin_ms * MS)
        edges_ns = np.arange(number + (place > 0), number + count + 1) * 10 * MS
        domain.append(edges_ns, np.arange(number, number + count) + 1.0)
        number += count
    domain.begin(begin_ms * MS)
    return domain


@pytest.mark.parametrize("steps", [(6,), (2, 4), (5, 1), (1, 1, 1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize(
    ("begin_ms", "lead_in_j", "left_j"),
    [
        (0, 0.0, [1, 2, 3, 4, 5, 6]),
        (5, 0.5, [0.5, 2, 3, 4, 5, 6]),
        (20, 3.0, [3, 4, 5, 6]),
        (32, 6.8, [3.2, 5, 6]),
        (58, 15 + 4.8, [1.2]),
    ],
)
def test_joules_before_the_block_are_the_lead_in_and_a_cut_quantum_keeps_its_part(begin_ms, lead_in_j, left_j, steps):
    domain = lead_in(begin_ms, steps)

    assert domain.lead_in_j == pytest.approx(lead_in_j)
    assert domain.known_j == pytest.approx(21.0)
    assert domain.first_ns == begin_ms * MS
    quanta = domain.take(60 * MS)
    assert quanta.energy_j == pytest.approx(left_j)
    assert quanta.edges_ns.tolist() == [begin_ms * MS, *range((begin_ms // 10 + 1) * 10 * MS, 60 * MS + 1, 10 * MS)]


def test_a_block_that_begins_after_all_quanta_leaves_none_of_them():
    domain = lead_in(75, (3, 3))

    assert domain.lead_in_j == pytest.approx(21.0)
    assert domain.take(100 * MS).energy_j.tolist() == []
    domain.append(np.array([80 * MS]), np.array([10.0]))
    assert domain.lead_in_j == pytest.approx(21.0 + 7.5)
    assert domain.take(100 * MS).energy_j == pytest.approx([2.5])
