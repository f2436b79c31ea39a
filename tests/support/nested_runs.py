"""Recordings with nested, suspended and moved instances, of several threads, packages and domains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import Flag, Kind, write_trace
from tprof.trace.writer import add_cpu_times

from . import native_pools

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
TASKS = ("outer", "inner", "leaf", "leaf")
LENGTH_MS = 300


class _Thread:
    """One thread's samples and stack."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stack: list[tuple[int, int]] = []
        self.begun = 0
        self.samples: list[tuple[int, int, int, int]] = []

    def note(self, t_ns: int, kind: Kind) -> None:
        """Add a sample of who runs now."""
        instance, task = self.stack[-1] if self.stack else (0, -1)
        self.samples.append((t_ns, instance, task, int(kind)))


def write(  # noqa: PLR0913 - one parameter an option
    path: Path,
    rng: np.random.Generator,
    *,
    events: int = 400,
    threads: int = 3,
    domains: int = 3,
    updates_ms: tuple[int, int] = (5, 60),
    timed: float = 0.0,
    pools: int = 0,
    gpus: int = 0,
    marks: bool = True,
    tasks: int = len(TASKS),
    lost: float = 0.0,
) -> Path:
    """Write a recording whose instances nest, wait, and go on in other threads; some last throughout.

    Sensors are updated each so many milliseconds; with `timed` it is known when, but for such a part of that time.
    So many libraries have pools of native threads, of which some note their calls. On the first GPU two streams work
    for instances, of which some are not there; without `marks` it is only known which processes used GPUs.
    Of the tasks the first ones run. Counts of such a part of the samples are lost, mostly of several in a row.
    """
    running, waiting = [_Thread(number) for number in range(threads)], []
    for thread in running:
        _start(thread, 0, 0)
    times_ns = np.sort(rng.integers(0, LENGTH_MS * MS, events))
    for t_ns in times_ns.tolist():
        _step(running[rng.integers(threads)], t_ns, waiting, rng, tasks)
    for thread in running:
        thread.stack = thread.stack[: int(rng.integers(0, 2))]
        thread.note(LENGTH_MS * MS, Kind.FINISH)
    ends_ms = rng.integers(*updates_ms, domains)
    energy = {
        name: _readings(rng, int(step), timed)
        for name, step in zip(("package-0", "package-1", "dram-0", "psys")[:domains], ends_ms, strict=True)
    }
    for number in range(gpus):
        energy[f"gpu-{number}"] = _readings(rng, 20, 0.0)
    native = [one for number in range(pools) for one in native_pools.random_pool(rng, number, threads, LENGTH_MS * MS)]
    write_trace(
        path,
        tasks=TASKS,
        threads=[_given(one, rng, lost) for one in running],
        energy=energy,
        native=native,
        static_power_w={"gpu-0": 1.0} if gpus else {},
    )
    if gpus:
        _name_gpus(path)
        (path / "gpu").mkdir(mode=0o700)
        _note_users(path, rng, gpus)
        _mark(path, rng, [sample[1] for one in running for sample in one.samples] if marks else [])
    _add_cpu_times(path, rng, threads)
    return path


def _name_gpus(path: Path) -> None:
    """Give each GPU its own name as a UUID."""
    manifest = json.loads((path / "manifest.json").read_text())
    domains = [one | {"uuid": one["name"]} if one["name"].startswith("gpu-") else one for one in manifest["domains"]]
    (path / "manifest.json").write_text(json.dumps(manifest | {"domains": domains}))


def _note_users(path: Path, rng: np.random.Generator, gpus: int) -> None:
    """Note in which parts the program and another one used each GPU; at times nobody did."""
    lines = [
        {"domain": f"gpu-{number}", "since_ns": begin * MS, "t_ns": (begin + 30) * MS, "processes": processes}
        for number in range(gpus)
        for begin in range(0, LENGTH_MS, 30)
        for processes in ([[7, float(rng.choice([0, 0.6]))], [9, float(rng.choice([0, 0.2]))]],)
    ]
    (path / "gpu/processes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _mark(path: Path, rng: np.random.Generator, instances: list[int]) -> None:
    """Note that GPUs were used, and segments of two streams of the first one for some instances, if there are any."""
    lines = ['{"used": ["torch"]}\n']
    for stream in (0, 7) if instances else ():
        edges_ns = np.sort(rng.integers(0, LENGTH_MS * MS, 60)).reshape(-1, 2)
        ids = rng.choice([0, 12345, *instances], len(edges_ns))
        rows = [
            [begin, end - begin, int(one), 0, stream] for (begin, end), one in zip(edges_ns.tolist(), ids, strict=True)
        ]
        lines.append(json.dumps({"device": ["gpu-0"], "number": 0, "segments": rows}) + "\n")
    (path / "gpu/00000000.jsonl").write_text("".join(lines))


def _step(thread: _Thread, t_ns: int, waiting: list[tuple[int, int]], rng: np.random.Generator, tasks: int) -> None:
    what = rng.random()
    if what < 0.45:
        _start(thread, t_ns, int(rng.integers(tasks)))
    elif what < 0.85 and len(thread.stack) > 1:
        thread.stack.pop()
        thread.note(t_ns, Kind.FINISH)
    elif what < 0.93 and len(thread.stack) > 1:
        waiting.append(thread.stack.pop())
        thread.note(t_ns, Kind.SUSPEND)
    elif waiting:
        thread.stack.append(waiting.pop(int(rng.integers(len(waiting)))))
        thread.note(t_ns, Kind.RESUME)


def _start(thread: _Thread, t_ns: int, task: int) -> None:
    thread.begun += 1
    thread.stack.append((((thread.number + 1) << 40) + thread.begun, task))
    thread.note(t_ns, Kind.START)


def _given(thread: _Thread, rng: np.random.Generator, lost: float) -> dict[str, Any]:
    t_ns, instance, task, kind = (np.array(values) for values in zip(*thread.samples, strict=True))
    cpu = rng.integers(0, 4, len(t_ns))
    used = np.concatenate(([0], np.cumsum(np.diff(t_ns) * rng.random(len(t_ns) - 1)))).astype(np.int64)
    cycles = used * 3 + np.arange(len(used))
    flags = np.where((kind == Kind.FINISH) & (rng.random(len(t_ns)) < 0.2), 1, 0)
    counters = {"instructions": np.cumsum(rng.integers(0, 9, len(t_ns))), "cycles": cycles}
    if lost:
        runs = np.repeat(rng.random(len(t_ns)) < lost, rng.integers(1, 40, len(t_ns)))[: len(t_ns)]
        flags = np.where(runs, flags | Flag.UNCOUNTED, flags)
    return {
        "t_ns": t_ns, "instance": instance.astype(np.uint64), "task": task, "kind": kind, "flags": flags, "cpu": cpu,
        "package": cpu // 2, "cpu_ns": used + thread.number * MS, "pid": 7, "tid": 7 + thread.number,
        **({} if thread.number == 2 else counters),
    }  # fmt: skip


def _readings(rng: np.random.Generator, step_ms: int, timed: float) -> tuple[np.ndarray, ...]:
    t_ns = np.arange(int(rng.integers(0, 3)) * MS, LENGTH_MS * MS + 1, step_ms * MS)
    t_ns = np.append(t_ns, LENGTH_MS * MS) if t_ns[-1] < LENGTH_MS * MS else t_ns
    t_ns[1:-1] += rng.integers(0, MS, len(t_ns) - 2)
    joules = np.cumsum(rng.random(len(t_ns)))
    return (t_ns, joules, (rng.random(len(t_ns)) * timed * step_ms * MS).astype(np.int64)) if timed else (t_ns, joules)


def _add_cpu_times(path: Path, rng: np.random.Generator, threads: int) -> None:
    """Add CPU time of the program and of the machine, more than the samples show."""
    t_ns = np.arange(0, LENGTH_MS + 1, 10) * MS
    program = np.cumsum(np.append(0, rng.random(len(t_ns) - 1))) * 10 * MS * threads
    for package in (0, 1):
        busy = ("busy", program * 0.7 + np.cumsum(rng.random(len(t_ns))) * MS, package)
        add_cpu_times(path, f"busy-{package}", (t_ns, busy[1].astype(np.int64)), quantity=busy[0], package=package)
    add_cpu_times(path, "program", (t_ns, program.astype(np.int64)), quantity="program", package=None)
