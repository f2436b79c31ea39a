"""The recordings in which single rules decide: of idle time, of edges between readings, and of who uses a pool."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from frozen import programs
from frozen.programs import FIRST_TID, MS, PID, SECOND, US
from frozen.recordings import KINDS, LENGTH_NS, LENGTHS, frozen, mark_gpus, with_gpus, write
from support import traces

from tprof.trace import NativeThread, PoolCalls, layout
from tprof.trace.writer import add_cpu_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Int = NDArray[np.int64]

# Edges between readings, and idle time.


@frozen({"model": "fitted"})
def edges_that_are_known_badly(path: Path) -> None:
    """Windows of updates are up to half an interval, some narrow; one interval is not valid."""
    length_ns = SECOND // 2
    threads = programs.in_turns(150, LENGTHS, gap_ns=2 * MS, length_ns=length_ns)
    t_ns, joules, window_ns = programs.read(
        threads, [3000, 8000, 12_000], static_mw=9000, seed=150, length_ns=length_ns, timed=True,
        windows_ns=(20 * US, 500 * US),
    )  # fmt: skip
    joules[200:] += 50.0
    write(path, threads, {"package-0": (t_ns, joules, window_ns)}, tasks=KINDS, quality="simulated")
    _add_busy(path, threads, 151, percent=15, length_ns=length_ns)


@frozen({"model": "fitted"})
def edges_that_nothing_tells(path: Path) -> None:
    """Tasks draw alike, so that no reading says where an edge between two lies."""
    threads = programs.in_turns(167, [700 * US, 1500 * US, 2300 * US], gap_ns=200 * US, length_ns=LENGTH_NS)
    power = programs.read(
        threads, [6000, 6200, 6100], static_mw=9000, seed=167, length_ns=LENGTH_NS, timed=True,
        windows_ns=(500 * US, 950 * US),
    )  # fmt: skip
    write(path, threads, {"package-0": power}, tasks=KINDS, quality="simulated")


def _add_busy(
    path: Path, threads: list[dict[str, Any]], seed: int, *, percent: int, length_ns: int, quiet_ns: Sequence[int] = ()
) -> None:
    """Add CPU time: of the program a little besides its tasks, of others so much, nothing of either in quiet time."""
    rng = np.random.RandomState(seed)
    t_ns = np.arange(0, length_ns + 1, 10 * MS)
    used_ns = sum(programs.between(t_ns, one["t_ns"], one["cpu_ns"]) for one in threads)
    loud = np.ones(len(t_ns), bool)
    for begin_ns, end_ns in zip(quiet_ns[::2], quiet_ns[1::2], strict=True):
        loud &= (t_ns <= begin_ns) | (t_ns > end_ns)
    other_ns = np.cumsum(rng.randint(0, 2 * percent * MS // 10, len(t_ns)) * loud)
    program_ns = used_ns + np.cumsum(np.full(len(t_ns), MS // 2) * loud)
    add_cpu_times(path, "program", (t_ns, program_ns), quantity="program", package=None)
    add_cpu_times(path, "busy-0", (t_ns, program_ns + other_ns), quantity="busy", package=0)


def _later(threads: list[dict[str, Any]], shift_ns: int) -> list[dict[str, Any]]:
    return [one | {"t_ns": one["t_ns"] + shift_ns} for one in threads]


LEAD_NS = 300 * MS


def _idle_first(seed: int, every_ns: int = 5 * MS) -> tuple[Int, Any]:
    """Return readings of a domain that draws little at first, more or less."""
    t_ns = np.arange(0, 2 * LEAD_NS + 1, every_ns)
    watts = np.random.RandomState(seed).randint(3, 7, len(t_ns)) + np.where(t_ns > LEAD_NS, 25, 0)
    return t_ns, np.cumsum(watts) * (every_ns * 1e-9)


@frozen({"model": "cputime"}, {"model": "ipc"})
def idle_time_before_the_block(path: Path) -> None:
    """Another process is busy for a while; the power of one of two GPUs is given."""
    threads = _later(programs.nested(152, threads=2), LEAD_NS)
    energy = {"package-0": _idle_first(152), "dram-0": _idle_first(153, 15 * MS)}
    with_gpus(path, 154, 0, threads=threads, energy=energy | {"gpu-0": _idle_first(155), "gpu-1": _idle_first(156)})
    _add_busy(path, threads, 157, percent=40, length_ns=2 * LEAD_NS, quiet_ns=[0, 100 * MS, 170 * MS, 290 * MS])
    mark_gpus(path, threads, 158)
    manifest = json.loads((path / "manifest.json").read_text())
    traces.set_json(path / "manifest.json", clock=manifest["clock"] | {"block_start_ns": LEAD_NS})


ESTIMATE = {"idle_w": 5.0, "per_core_w": 6.0, "idle_factor": 1.4, "per_core_factor": 1.7}


@frozen({"model": "cputime"})
def idle_time_before_the_first_task(path: Path) -> None:
    """One domain is estimated, the others are measured, with errors of their own."""
    threads = _later(programs.nested(160, threads=2), LEAD_NS)
    energy = {"package-0": _idle_first(160), "dram-0": _idle_first(161), "package-1": _idle_first(162)}
    write(path, [one | {"package": 0} for one in threads], energy, quality="measured")
    _describe(path, "package-0", relative_error=0.05)
    _describe(path, "package-1", relative_error=0.2)
    _describe(path, "dram-0", quality="estimated")
    manifest = json.loads((path / "manifest.json").read_text())
    clock = manifest["clock"] | {"block_start_ns": 0}
    traces.set_json(path / "manifest.json", estimate=ESTIMATE, clock=clock)


def _describe(path: Path, domain: str, **known: Any) -> None:
    """Say more of a domain in the header of its readings."""
    file = path / "readings" / f"{domain}.readings"
    header = np.frombuffer(file.read_bytes(), layout.HEADER, count=1)[0]
    text = bytes(header["description"])[: int(header["description_bytes"])]
    text = json.dumps(json.loads(text) | known).encode()
    description = np.void(text.ljust(layout.DESCRIPTION_BYTES, b"\0"))
    traces.set_header(file, description=description, description_bytes=len(text))


@frozen({"model": "cputime"}, {"model": "ipc"})
def less_than_a_core_is_busy(path: Path) -> None:
    """Tasks compute, wait, or nearly wait, with pauses in which other processes take a third of a core or nothing."""
    threads, rng = programs.in_turns(163, [15 * MS, 45 * MS], threads=1, gap_ns=50 * MS), np.random.RandomState(163)
    for thread in threads:
        ran_ns = np.diff(thread["cpu_ns"])
        busy_ns = ran_ns * np.array([0, 1, 50, 1000])[rng.randint(0, 4, len(ran_ns))] // 1000
        for name, factor in (("cpu_ns", 1), ("instructions", 2), ("cycles", 3)):
            thread[name] = np.concatenate(([0], np.cumsum(busy_ns))) * factor
    energy = {"package-0": programs.random_readings(163, 5 * MS, length_ns=SECOND)}
    write(path, threads, energy, tasks=["short", "long"], static_power_w={"package-0": 1.5})
    _add_busy(path, threads, 164, percent=33, length_ns=SECOND, quiet_ns=[200 * MS, 400 * MS, 700 * MS, 900 * MS])


@frozen({"model": "cputime"})
def gpus_without_another_sensor(path: Path) -> None:
    """Streams are marked for a small part of the time, and in some of it nobody uses the GPU."""
    threads = programs.nested(165)
    mark_gpus(path, with_gpus(path, 165, 2, threads=threads, energy={}), 166, edges=4)


# Who uses a pool.


def _two_tasks(seed: int, length_ns: int = SECOND) -> list[dict[str, Any]]:
    """Return two threads that solve, read, or pause."""
    return programs.in_turns(seed, [20 * MS, 30 * MS], length_ns=length_ns, gap_ns=30 * MS)


def _uses(threads: list[dict[str, Any]], task: int) -> list[tuple[int, int, int]]:
    """Return the thread, the begin and the end of each instance of a task."""
    return [
        (one["tid"], int(begin_ns), int(end_ns))
        for one in threads
        for begin_ns, end_ns, which in zip(one["t_ns"][:-1], one["t_ns"][1:], one["task"][:-1], strict=True)
        if which == task
    ]


def _clock(seed: int, works: Callable[[Any], Any], *, length_ns: int, begin_ns: int = 0) -> tuple[Int, Int]:
    """Return when a native thread's clock was read, and what it said: `works` says when it works, by millisecond."""
    ms = np.arange(begin_ns // MS, length_ns // MS)
    so_far_ns = np.concatenate(([0], np.cumsum(works(ms).astype(np.int64)) * MS * 9 // 10))
    t_ns = np.cumsum(np.random.RandomState(seed).randint(3, 7, SECOND // MS)) * MS
    t_ns = np.concatenate(([begin_ns], t_ns[(t_ns > begin_ns) & (t_ns < length_ns)], [length_ns]))
    return t_ns, so_far_ns[(t_ns - begin_ns) // MS]


def _pool(seed: int, tids: range, users: Sequence[tuple[int, int, int]], library: str, spin_ns: int = 0) -> list[Any]:
    """Return the threads of a pool that work while one of their users runs, and spin for a while; read together."""

    def works(ms: Any) -> Any:
        return np.logical_or.reduce(
            [(ms * MS >= begin_ns) & (ms * MS < end_ns + spin_ns) for _, begin_ns, end_ns in users]
        )

    return [_native(tid, _clock(seed, works, length_ns=SECOND), library=library) for tid in tids]


def _native(
    tid: int, clock: tuple[Int, Int], *, library: str = "", name: str = "python3", **known: Any
) -> NativeThread:
    given = {name: known.get(name) for name in ("created_ns", "creator_tid", "creator_task", "creator_instance")}
    return NativeThread(
        PID, tid, name, library, **given, ended_ns=known.get("ended_ns"), t_ns=clock[0], cpu_ns=clock[1]
    )


def _write_pools(path: Path, threads: list[dict[str, Any]], native: list[Any], seed: int) -> None:
    write(path, threads, {"package-0": programs.random_readings(seed, 7 * MS, length_ns=SECOND)},
          tasks=["solve", "read"], native=native)  # fmt: skip


@frozen({"model": "cputime"}, {"model": "cputime", "start_s": 0.2, "end_s": 0.7})
def pools_whose_onsets_tell(path: Path) -> None:
    """One pool works for one of two tasks, another for either, and sleeps at once."""
    threads = _two_tasks(170)
    native = [
        *_pool(170, range(500, 502), _uses(threads, 0), "/lib/libpolars.so"),
        *_pool(170, range(600, 601), _uses(threads, 0) + _uses(threads, 1), "/lib/libarrow.so"),
    ]
    _write_pools(path, threads, native, 170)


@frozen({"model": "cputime"})
def pools_of_nobody(path: Path) -> None:
    """A pool works as much while no task runs; another never rests, and two have no known library."""
    threads = _two_tasks(172)[:1]
    in_bursts, always, rarely, often = (_clock(173, works, length_ns=SECOND) for works in (
        lambda ms: ms // 17 % 2, np.ones_like, lambda ms: ms // 40 % 3 == 0, lambda ms: ms // 25 % 4 == 0))  # fmt: skip
    native = [
        _native(500, in_bursts, library="/lib/a.so"),
        _native(501, always, library="/lib/b.so", created_ns=50 * MS, creator_tid=FIRST_TID, creator_task=1,
                creator_instance=1),
        _native(502, rarely, name="rayon-3"),
        _native(503, often),
    ]  # fmt: skip
    _write_pools(path, threads, native, 172)


@frozen({"model": "cputime"}, {"model": "cputime", "start_s": 0.15, "end_s": 0.62})
def threads_that_tasks_created(path: Path) -> None:
    """Some live shortly, some are a calling thread's own pool, and some were started by Python, or by one of these."""
    threads = _two_tasks(177)
    first, second = (int(one["instance"][0]) for one in threads)
    always: Callable[[Any], Any] = np.ones_like
    native = [
        _native(500, _clock(177, always, begin_ns=20 * MS, length_ns=80 * MS), library="/lib/c.so", created_ns=20 * MS,
                ended_ns=80 * MS, creator_tid=FIRST_TID, creator_task=0, creator_instance=first),
        _native(501, _clock(177, lambda ms: ms // 30 % 2, length_ns=SECOND), library="/lib/libgomp.so.1",
                created_ns=5 * MS, creator_tid=FIRST_TID, creator_task=0, creator_instance=first),
        _native(502, _clock(177, lambda ms: ms // 50 % 2, length_ns=SECOND), library="/lib/libgomp.so.1",
                created_ns=5 * MS, creator_tid=FIRST_TID + 1, creator_task=1, creator_instance=second),
        _native(503, _clock(177, always, begin_ns=100 * MS, length_ns=700 * MS), library="/usr/bin/python3.12",
                created_ns=100 * MS, creator_tid=FIRST_TID + 1, creator_task=1, creator_instance=second),
        _native(504, _clock(177, always, begin_ns=300 * MS, length_ns=600 * MS), library="/usr/bin/python3.12",
                created_ns=300 * MS, creator_tid=503),
        _native(505, _clock(177, lambda ms: ms // 60 % 2, begin_ns=250 * MS, length_ns=900 * MS), library="/lib/d.so"),
    ]  # fmt: skip
    _write_pools(path, threads, native, 177)


def _calls(seed: int, users: Sequence[tuple[int, int, int]], task: int, library: str) -> PoolCalls:
    """Return calls in pieces of a few milliseconds: some are of several tasks, of another, or of none."""
    rng = np.random.RandomState(seed)
    rows = []
    for tid, begin_ns, end_ns in sorted(users):
        edges_ns = np.append(np.arange(begin_ns, end_ns, 6 * MS), end_ns)
        rows += [(tid, a, b - MS // 5) for a, b in itertools.pairwise(edges_ns) if b - a > MS]
    tid, begin_ns, end_ns = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    drawn = rng.randint(0, 10, len(tid))
    of = np.where(drawn < 2, -1, np.where(drawn == 2, 1 - task, task))
    inside = np.where(drawn < 6, rng.randint(20, 100, len(tid)) / 100, 1.0)
    return PoolCalls(
        PID,
        library,
        10 * MS,
        complete=True,
        tid=tid,
        task=of,
        begin_ns=begin_ns,
        end_ns=end_ns,
        inside=inside,
        several=drawn == 1,
    )


@frozen({"model": "cputime"}, {"model": "cputime", "start_s": 0.101, "end_s": 0.5004})
def calls_that_were_noted_together(path: Path) -> None:
    """Of two tasks, and of two threads without samples; threads of one pool spin after them."""
    threads, library, other = _two_tasks(183), "/lib/libopenblas.so.0", "/lib/libgomp.so.1"
    strange = [
        (FIRST_TID + 50 * (-1) ** number, begin_ns, begin_ns + 25 * MS)
        for number, begin_ns in enumerate(range(60 * MS, SECOND, 130 * MS))
    ]
    blas, gomp = [*_uses(threads, 0), *strange], [*_uses(threads, 1), *strange[:4]]
    native = [
        *_pool(183, range(500, 502), blas, library, 7 * MS), *_pool(183, range(600, 601), gomp, other),
        _calls(185, blas, 0, library), _calls(186, gomp, 1, other),
    ]  # fmt: skip
    _write_pools(path, threads, native, 183)
