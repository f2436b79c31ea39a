"""The recordings whose figures are frozen: each is a function that writes one, with the views that are compared."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from frozen import programs
from frozen.programs import FIRST_TID, MS, PID, US
from support import stacks, task_graphs, traces

import tprof
from tprof.live.kept_sums import KeptSums
from tprof.trace import Flag, layout
from tprof.trace.clock_offset import PINGS, Offset
from tprof.trace.cluster import HostPart, write_hosts
from tprof.trace.writer import add_cpu_times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TASKS = ("outer", "inner", "leaf", "leaf")
LENGTH_NS = 300 * MS
COUNTERS = ({"model": "cputime"}, {"model": "ipc"}, {"model": "fesc"})
LINEAR = {"model": "linear", "coefficients": "tprof-table1"}


@dataclass(frozen=True)
class Recording:
    """A recording, and how it is looked at.

    Attributes
    ----------
    write : writes it to a path
    views : options of `Trace.profile`, one for each profile
    """

    write: Callable[[Path], None]
    views: tuple[dict[str, Any], ...] = field(default=({"model": "cputime"},))


RECORDINGS: dict[str, Recording] = {}


def frozen(*views: dict[str, Any]) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Take a function's recording, under its name with dashes."""

    def take(write: Callable[[Path], None]) -> Callable[[Path], None]:
        RECORDINGS[write.__name__.replace("_", "-")] = Recording(write, views or ({"model": "cputime"},))
        return write

    return take


def write(path: Path, threads: list[dict[str, Any]], energy: dict[str, Any], **given: Any) -> None:
    tprof.write_trace(path, **{"tasks": TASKS, "threads": threads, "energy": energy} | given)


def package(seed: int = 1, every_ns: int = 7 * MS) -> dict[str, Any]:
    return {"package-0": programs.random_readings(seed, every_ns)}


def on_one_package(threads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [thread | {"package": 0} for thread in threads]


def add_busy_times(path: Path, seed: int, threads: int) -> None:
    for name, (t_ns, cpu_ns, quantity, package) in programs.cpu_times(seed, threads).items():
        add_cpu_times(path, name, (t_ns, cpu_ns), quantity=quantity, package=package)


# How instances lie: nested, suspended, moved, again, open.


@frozen()
def two_tasks_by_hand(path: Path) -> None:
    traces.write(path)


@frozen(*COUNTERS, LINEAR, {"model": "auto"})
def nested_on_one_package(path: Path) -> None:
    write(path, on_one_package(programs.nested(2, moves=False)), package())


@frozen(*COUNTERS, LINEAR, {"model": "cputime", "attribute_native": False})
def suspended_and_moved(path: Path) -> None:
    energy = {"package-0": programs.random_readings(3, 9 * MS), "package-1": programs.random_readings(4, 13 * MS)}
    write(path, programs.nested(5), energy)


@frozen(*COUNTERS)
def domains_that_nest(path: Path) -> None:
    energy = {
        name: programs.random_readings(seed, every_ns, begin_ns=begin_ns)
        for seed, (name, every_ns, begin_ns) in enumerate([
            ("package-0", 5 * MS, 0), ("package-1", 11 * MS, 2 * MS), ("core-0", 7 * MS, 0),
            ("dram-0", 23 * MS, 4 * MS), ("psys", 31 * MS, 0),
        ])
    }  # fmt: skip
    write(path, programs.nested(6, events=300), energy, static_power_w={"package-0": 3.0, "dram-0": 0.5})


@frozen({"model": "cputime"}, {"model": "ipc"})
def ids_that_come_again(path: Path) -> None:
    threads = programs.nested(7)
    for thread in threads:
        # Ids of a small range: many instances begin again after their end.
        thread["instance"] = np.where(thread["instance"] > 0, (thread["instance"] & 15) + (thread["tid"] << 8), 0)
    write(path, threads, package())


@frozen({"model": "cputime"})
def times_that_go_backwards(path: Path) -> None:
    write(path, on_one_package(programs.nested(8)), package())
    file = path / "threads" / "00000001.samples"
    content = bytearray(file.read_bytes())
    samples = np.frombuffer(content, np.uint8, offset=layout.HEADER_BYTES).reshape(-1, 64)
    samples[20:23, :8] = samples[10:13, :8]
    file.write_bytes(bytes(content))


@frozen({"model": "cputime"})
def open_at_the_end(path: Path) -> None:
    threads = programs.nested(9, events=40, moves=False)
    last = threads[0]
    last["instance"][-1], last["task"][-1], last["kind"][-1] = (1 << 40) + 99, 1, 1
    write(path, threads, package())


@frozen({"model": "cputime"})
def a_thread_that_outlives_the_recording(path: Path) -> None:
    write(path, on_one_package(programs.nested(10)), package())
    traces.set_json(path / "end.json", end_ns=200 * MS)


@frozen({"model": "cputime"})
def several_processes(path: Path) -> None:
    write(path, programs.nested(11, threads=4, processes=2), package())
    for number in (1, 3):
        traces.set_header(path / "threads" / f"{number:08d}.samples", process=1)
    (path / "tasks/00000001.jsonl").write_bytes((path / "tasks/00000000.jsonl").read_bytes())
    (path / "labels").mkdir()
    for number in (0, 1):
        (path / f"labels/0000000{number}.jsonl").write_text(json.dumps({"rank": str(number), "job": "j"}) + "\n")


@frozen({"model": "cputime"})
def a_thousand_short_threads(path: Path) -> None:
    threads = [
        {
            "t_ns": [begin_ns, begin_ns + 500 * US, begin_ns + 900 * US],
            "instance": [2 * number + 1, 2 * number + 2, 0], "task": [number % 4, (number + 1) % 4, -1],
            "cpu": [number % 4] * 3, "package": 0, "cpu_ns": [0, 400 * US, 800 * US], "tid": 1000 + number,
        }
        for number, begin_ns in enumerate(range(0, LENGTH_NS, 300 * US))
    ]  # fmt: skip
    write(path, threads, package(12))


@frozen({"model": "cputime"})
def no_task_ran(path: Path) -> None:
    write(path, [], package(), tasks=[])


@frozen({"model": "cputime"}, {"model": "auto"})
def no_energy(path: Path) -> None:
    write(path, programs.nested(13, events=60), {})


# What counters and sensors do.


@frozen(*COUNTERS)
def lost_counts(path: Path) -> None:
    threads, rng = programs.nested(14, events=300), np.random.RandomState(14)
    for thread in threads:
        lost = np.repeat(rng.randint(0, 10, len(thread["t_ns"])) < 3, rng.randint(1, 30, len(thread["t_ns"])))
        thread["flags"] = np.where(lost[: len(thread["t_ns"])], thread["flags"] | Flag.UNCOUNTED, thread["flags"])
    write(
        path,
        threads,
        {"package-0": programs.random_readings(14, 9 * MS)} | {"package-1": programs.random_readings(15, 9 * MS)},
    )


@frozen(*COUNTERS)
def counters_in_turns(path: Path) -> None:
    threads = programs.nested(16, events=300)
    for thread in threads:
        thread["flags"] = thread["flags"] | np.where(np.arange(len(thread["t_ns"])) % 3 == 0, int(Flag.SCALED), 0)
    write(path, on_one_package(threads), package())


@frozen({"model": "cputime"})
def lost_samples(path: Path) -> None:
    write(path, on_one_package(programs.nested(17)), package())
    traces.set_header(path / "threads" / "00000000.samples", dropped_enospc=12, first_drop_ns=100 * MS)
    traces.set_json(path / "end.json", dropped={"enospc": 12})


@frozen({"model": "cputime"}, {"model": "ipc"})
def untracked_cpu_time(path: Path) -> None:
    energy = {"package-0": programs.random_readings(18, 9 * MS), "package-1": programs.random_readings(19, 13 * MS)}
    write(path, programs.nested(20), energy)
    add_busy_times(path, 21, 3)


@frozen({"model": "cputime"})
def faults_of_a_sensor(path: Path) -> None:
    """A counter that wraps, stands still for a while, falls, and jumps."""
    write(path, on_one_package(programs.nested(22)), package())
    file = path / "readings" / "package-0.readings"
    t_ns = np.arange(0, LENGTH_NS + 1, 5 * MS)
    value = 200_000 + np.cumsum(np.random.RandomState(23).randint(10_000, 200_000, len(t_ns)))
    value[20:26] = value[20]
    value[40] += 900_000_000
    value[50:] -= 3_000_000
    readings = np.zeros(len(t_ns), layout.READING)
    readings["t_ns"], readings["value"] = t_ns, value % 4_000_000
    traces.set_readings(file, readings, unit=1e-6, modulus=4_000_000)


@frozen({"model": "cputime"})
def readings_with_known_times(path: Path) -> None:
    threads = programs.in_turns(24, [300 * US, 2 * MS], length_ns=LENGTH_NS)
    power = programs.read(threads, [3000, 9000], static_mw=4000, length_ns=LENGTH_NS, timed=True)
    write(path, threads, {"package-0": power}, tasks=["short", "long"], quality="measured")


@frozen({"model": "cputime"}, {"model": "auto"})
def an_estimate(path: Path) -> None:
    threads = programs.in_turns(25, [300 * US, 2 * MS], length_ns=LENGTH_NS, gap_ns=MS)
    power = programs.read(threads, [5000, 5000], static_mw=7000, length_ns=LENGTH_NS)
    write(path, threads, {"package-0": power}, tasks=["short", "long"], quality="estimated")


# Powers that are fitted.

KINDS = ["small", "middle", "large"]
LENGTHS = [200 * US, 900 * US, 3 * MS]
FITTED = ({"model": "fitted"}, {"model": "auto"})


def _fitted(path: Path, seed: int, milliwatts: list[int], *, static_mw: int = 10_000, **options: Any) -> None:
    threads = programs.in_turns(seed, LENGTHS, **options)
    power = programs.read(threads, milliwatts, static_mw=static_mw, seed=seed, timed=True)
    write(path, threads, {"package-0": power}, tasks=KINDS, quality="simulated")


@frozen(*FITTED, {"model": "fitted", "start_s": 0.2, "end_s": 0.8})
def short_tasks_with_gaps(path: Path) -> None:
    _fitted(path, 30, [3000, 8000, 12_000], gap_ns=2 * MS)


@frozen(*FITTED)
def short_tasks_without_gaps(path: Path) -> None:
    _fitted(path, 31, [3000, 8000, 12_000])


@frozen(*FITTED)
def four_threads_of_tasks(path: Path) -> None:
    _fitted(path, 32, [2000, 5000, 6000], threads=4, gap_ns=MS, spread=40)


@frozen(*FITTED)
def one_kind_of_task(path: Path) -> None:
    threads = programs.in_turns(33, [4 * MS], threads=1, gap_ns=3 * MS)
    power = programs.read(threads, [8000], static_mw=12_000, timed=True)
    write(path, threads, {"package-0": power}, tasks=["only"], quality="simulated")


@frozen({"model": "fitted"})
def contention(path: Path) -> None:
    """A task draws more while two threads work."""
    threads = programs.in_turns(34, LENGTHS, gap_ns=2 * MS)
    t_ns, joules, window_ns = programs.read(threads, [3000, 8000, 12_000], static_mw=10_000, seed=34, timed=True)
    busy = [np.searchsorted(one["t_ns"], t_ns, side="right") % 2 for one in threads]
    more_uj = np.cumsum(np.append(0, (busy[0] * busy[1])[:-1] * np.diff(t_ns)) // 1_000_000 * 4000)
    write(path, threads, {"package-0": (t_ns, joules + more_uj * 1e-6, window_ns)}, tasks=KINDS, quality="simulated")


@frozen(*FITTED)
def idle_time_before_the_program(path: Path) -> None:
    threads = programs.in_turns(35, LENGTHS)
    power = programs.read(threads, [3000, 8000, 12_000], static_mw=10_000, seed=35, timed=True)
    shift = 300 * MS
    for thread in threads:
        thread["t_ns"] = thread["t_ns"] + shift
    idle_ns = np.arange(0, shift, MS)
    t_ns = np.concatenate((idle_ns, power[0] + shift))
    joules = np.concatenate((idle_ns * 1e-8, power[1] + shift * 1e-8))
    window_ns = np.concatenate((np.full(len(idle_ns), 50 * US), power[2]))
    write(path, threads, {"package-0": (t_ns, joules, window_ns)}, tasks=KINDS, quality="simulated")
    manifest = json.loads((path / "manifest.json").read_text())
    traces.set_json(path / "manifest.json", clock=manifest["clock"] | {"block_start_ns": shift})


# Threads of libraries.

CALLS = [(FIRST_TID, 20 * MS, 60 * MS), (FIRST_TID + 1, 90 * MS, 120 * MS), (FIRST_TID, 150 * MS, 230 * MS)]
BOTH = [(FIRST_TID, 20 * MS, 140 * MS), (FIRST_TID + 1, 90 * MS, 220 * MS)]


def calling(seed: int) -> list[dict[str, Any]]:
    """Return two threads that run one task after the other."""
    return programs.in_turns(seed, [30 * MS, 40 * MS], length_ns=LENGTH_NS)


def _with_pool(path: Path, seed: int, *pools: Any) -> None:
    write(
        path,
        calling(seed),
        package(seed),
        tasks=["solve", "multiply"],
        native=[one for pool in pools for one in pool],
    )


@frozen({"model": "cputime"}, {"model": "cputime", "attribute_native": False}, {"model": "auto"})
def a_passive_pool(path: Path) -> None:
    _with_pool(path, 40, programs.pool(40, users=CALLS))


@frozen({"model": "cputime"})
def a_spinning_pool(path: Path) -> None:
    _with_pool(path, 41, programs.pool(41, users=CALLS, spin_ns=25 * MS, noted=True))


@frozen({"model": "cputime"})
def a_pool_of_noted_calls(path: Path) -> None:
    _with_pool(path, 42, programs.pool(42, users=CALLS, noted=True))


@frozen({"model": "cputime"})
def a_pool_that_two_tasks_use_at_once(path: Path) -> None:
    _with_pool(path, 43, programs.pool(43, users=BOTH, workers=3))


@frozen({"model": "cputime"})
def two_pools(path: Path) -> None:
    _with_pool(
        path, 44, programs.pool(44, users=CALLS),
        programs.pool(45, users=BOTH, library="/lib/polars.so", first_tid=600, noted=True),
    )  # fmt: skip


# GPUs.


def with_gpus(path: Path, seed: int, count: int, **given: Any) -> list[dict[str, Any]]:
    """Write a recording with GPUs that two processes use, and return its threads."""
    given = {"threads": programs.nested(seed), "energy": package(seed)} | given
    threads: list[dict[str, Any]] = given.pop("threads")
    gpus = {f"gpu-{number}": programs.random_readings(seed + number, 20 * MS) for number in range(count)}
    write(path, threads, given.pop("energy") | gpus, static_power_w={"gpu-0": 1.0}, **given)
    manifest = json.loads((path / "manifest.json").read_text())
    domains = [one | {"uuid": one["name"]} if one["name"].startswith("gpu-") else one for one in manifest["domains"]]
    traces.set_json(path / "manifest.json", domains=domains)
    (path / "gpu").mkdir()
    rng = np.random.RandomState(seed)
    users = [
        {
            "domain": name,
            "since_ns": t_ns,
            "t_ns": t_ns + 30 * MS,
            "processes": [[PID, 0.6 * rng.randint(2)], [9, 0.2 * rng.randint(2)]],
        }
        for name in gpus
        for t_ns in range(0, LENGTH_NS, 30 * MS)
    ]
    (path / "gpu/processes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in users))
    return threads


def mark_gpus(path: Path, threads: list[dict[str, Any]], seed: int, edges: int = 60) -> None:
    """Add for which instances two streams worked, and when: for nobody and for unknown ones too."""
    rng = np.random.RandomState(seed)
    ids = np.concatenate([one["instance"] for one in threads]).astype(np.int64)
    lines = [{"used": ["torch"]}]
    for stream in (0, 7):
        edges_ns = np.sort(rng.randint(0, LENGTH_NS, edges)).reshape(-1, 2)
        of = np.append([0, 12345], ids)[rng.randint(0, len(ids) + 2, len(edges_ns))]
        rows = [[a, b - a, one, 0, stream] for (a, b), one in zip(edges_ns.tolist(), of.tolist(), strict=True)]
        lines.append({"device": ["gpu-0"], "number": 0, "segments": rows})
    (path / "gpu/00000000.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))


@frozen({"model": "cputime"})
def marked_work_of_gpus(path: Path) -> None:
    mark_gpus(path, with_gpus(path, 50, 2), 51)


@frozen({"model": "cputime"})
def unmarked_use_of_gpus(path: Path) -> None:
    with_gpus(path, 52, 2)
    (path / "gpu/00000000.jsonl").write_text('{"used": ["torch"]}\n')


# Stacks, runtimes, keys.


def add_stacks(path: Path, seed: int, tids: list[int], cpu_ns: Callable[[Any, int], Any]) -> None:
    rng = np.random.RandomState(seed)
    records = [
        *(stacks.function(number, f"f{number}", f"/a.py:{number}") for number in range(4)),
        stacks.call(0, 0), stacks.call(1, 1, 0), stacks.call(2, 2, 1), stacks.call(3, 3, 0), stacks.call(4, 1, 3),
    ]  # fmt: skip
    for number, tid in enumerate(tids):
        t_ns = np.unique(rng.randint(0, LENGTH_NS, 120))
        records.append(stacks.samples(t_ns, rng.randint(0, 5, len(t_ns)), tid=tid, cpu_ns=cpu_ns(t_ns, number)))
    stacks.write(path, np.concatenate(records))


@frozen({"model": "cputime"})
def sampled_stacks(path: Path) -> None:
    threads = on_one_package(programs.nested(60))
    write(path, threads, package(60))

    def clock(t_ns: Any, number: int) -> Any:
        known = threads[number]
        return programs.between(t_ns, known["t_ns"], known["cpu_ns"])

    add_stacks(path, 61, [FIRST_TID, FIRST_TID + 1, FIRST_TID + 2], clock)


@frozen({"model": "cputime"})
def stacks_outside_tasks(path: Path) -> None:
    thread = {"t_ns": [0, LENGTH_NS], "instance": [0, 0], "task": [-1, -1], "cpu": [0, 0], "cpu_ns": [0, LENGTH_NS],
              "kind": [6, 6], "pid": PID, "tid": FIRST_TID, "name": "main"}  # fmt: skip
    write(path, [thread], package(62), tasks=[])
    add_stacks(path, 63, [FIRST_TID], lambda t_ns, _: t_ns)


@frozen({"model": "cputime"})
def a_graph_of_a_task_runtime(path: Path) -> None:
    rng = np.random.RandomState(70)
    waits_for = [set(rng.randint(0, number, 2).tolist()) if number else set() for number in range(40)]
    tasks = [(int(rng.randint(1, 20)) * MS, waited) for waited in waits_for]
    task_graphs.write(path, task_graphs.Flat(tasks, workers=3, gap_ns=MS).lanes, 40)


@frozen({"model": "cputime"})
def keys_of_an_engine(path: Path) -> None:
    rng = np.random.RandomState(71)
    waits_for = [set(rng.randint(0, number, 2).tolist()) if number else set() for number in range(40)]
    lanes = task_graphs.Flat([(int(rng.randint(1, 20)) * MS, one) for one in waits_for], workers=3, gap_ns=MS).lanes
    for lane in lanes:
        lane.events.clear()
    task_graphs.write(path, lanes, 40)
    names = [f"('sum-{number // 7}', {number - number % 2})" for number in range(40)]
    lines = [
        {"instance": number + 1, "key": names[number], "needs": sorted(names[one] for one in waited)}
        for number, waited in enumerate(waits_for)
        if number % 11
    ]
    (path / "keys").mkdir()
    (path / "keys/00000000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


# Jobs, sums, windows of time.


@frozen({"model": "cputime"}, {"model": "ipc"})
def three_hosts(path: Path) -> None:
    parts = []
    for number, name in enumerate(("one", "two", "three")):
        part = path / "hosts" / name
        part.parent.mkdir(parents=True, exist_ok=True)
        write(part, programs.nested(80 + number), package(80 + number), host={"hostname": name}, quality="measured")
        parts.append(HostPart(name, part, Offset(number * MS, 1000, PINGS)))
    write_hosts(path, parts, engine="dask")


@frozen({})
def sums_only(path: Path) -> None:
    write(path, on_one_package(programs.nested(85)), package(85), quality="measured")
    domains = [{"name": "package-0", "scope": "package", "quality": "measured", "counted": True}]
    traces.set_json(path / "manifest.json", keep="summary", span_s=0.1, domains=domains)
    kept = KeptSums(path, 100 * MS, is_over=True)
    kept.finish()
    kept.remove_streams()


@frozen(
    {"model": "cputime", "start_s": 0.05, "end_s": 0.2},
    {"model": "ipc", "start_s": 0.101},
    {"model": "cputime", "end_s": 0.0333},
)
def windows_of_time(path: Path) -> None:
    energy = {"package-0": programs.random_readings(86, 9 * MS), "package-1": programs.random_readings(87, 13 * MS)}
    write(path, programs.nested(88), energy, native=programs.pool(88, users=CALLS))
    add_busy_times(path, 89, 3)
