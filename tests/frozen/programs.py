"""Programs of tasks as arrays for `write_trace`, from integers alone, so that they are the same on every machine.

`RandomState` is used since NumPy promises that its stream never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import Flag, Kind, NativeThread, PoolCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int = NDArray[np.int64]

US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
PID, FIRST_TID = 7, 100


class _Thread:
    """One thread's stack of running instances, and its samples so far."""

    def __init__(self, number: int) -> None:
        self.number, self.begun = number, 0
        self.stack: list[tuple[int, int]] = []
        self.samples: list[tuple[int, int, int, int]] = []

    def note(self, t_ns: int, kind: Kind) -> None:
        instance, task = self.stack[-1] if self.stack else (0, -1)
        self.samples.append((t_ns, instance, task, int(kind)))

    def start(self, t_ns: int, task: int) -> None:
        self.begun += 1
        self.stack.append((((self.number + 1) << 40) + self.begun, task))
        self.note(t_ns, Kind.START)


def nested(
    seed: int,
    *,
    threads: int = 3,
    events: int = 200,
    length_ns: int = 300 * MS,
    tasks: int = 4,
    moves: bool = True,
    processes: int = 1,
) -> list[dict[str, Any]]:
    """Return threads whose instances nest; with `moves` some are suspended, and go on in another thread.

    Some instances fail, some are open at the end. A thread of three has no counters besides CPU time.
    """
    rng = np.random.RandomState(seed)
    running, waiting = [_Thread(number) for number in range(threads)], []
    for t_ns in np.sort(rng.randint(0, length_ns, events)).tolist():
        thread, what = running[rng.randint(threads)], rng.randint(100)
        if what < 45 or not thread.stack:
            thread.start(t_ns, rng.randint(tasks))
        elif what < 80 or not moves:
            thread.stack.pop()
            thread.note(t_ns, Kind.FINISH)
        elif what < 90:
            waiting.append(thread.stack.pop())
            thread.note(t_ns, Kind.SUSPEND)
        elif waiting:
            thread.stack.append(waiting.pop(rng.randint(len(waiting))))
            thread.note(t_ns, Kind.RESUME)
    for thread in running:
        thread.stack = thread.stack[: rng.randint(2)]
        thread.note(length_ns, Kind.FINISH)
    return [_arrays(rng, thread, processes) for thread in running]


def _arrays(rng: np.random.RandomState, thread: _Thread, processes: int) -> dict[str, Any]:
    t_ns, instance, task, kind = (np.array(column, np.int64) for column in zip(*thread.samples, strict=True))
    count = len(t_ns)
    busy_ns = np.diff(t_ns) * rng.randint(30, 101, count - 1) // 100
    cpu_ns = np.concatenate(([0], np.cumsum(busy_ns)))
    counters = {
        "instructions": np.cumsum(rng.randint(0, 900_000, count)),
        "cycles": cpu_ns * 3 + np.arange(count),
        "stalls_frontend": np.cumsum(rng.randint(0, 300_000, count)),
        "l2_refs": np.cumsum(rng.randint(0, 90_000, count)),
        "llc_refs": np.cumsum(rng.randint(0, 9_000, count)),
    }
    cpu = rng.randint(0, 4, count)
    process = thread.number % processes
    return {
        "t_ns": t_ns, "instance": instance.astype(np.uint64), "task": task, "kind": kind, "cpu": cpu,
        "flags": np.where((kind == Kind.FINISH) & (rng.randint(0, 5, count) == 0), int(Flag.FAILED), 0),
        "package": cpu // 2, "cpu_ns": cpu_ns + thread.number * MS, "pid": PID + process,
        "tid": FIRST_TID + thread.number, "name": f"worker-{thread.number}",
        **({} if thread.number == 2 else counters),
    }  # fmt: skip


def in_turns(
    seed: int,
    lengths_ns: Sequence[int],
    *,
    threads: int = 2,
    length_ns: int = SECOND,
    gap_ns: int = 0,
    spread: int = 10,
) -> list[dict[str, Any]]:
    """Return threads that run instances of the tasks one after the other, in random order.

    Lengths vary by so many percent either way; `gap_ns` lies between two instances.
    """
    rng, found = np.random.RandomState(seed), []
    for number in range(threads):
        count = 2 * length_ns // min(lengths_ns)
        task = rng.randint(0, len(lengths_ns), count)
        ran_ns = np.array(lengths_ns)[task] * rng.randint(100 - spread, 101 + spread, count) // 100
        gaps_ns = rng.randint(gap_ns // 2, gap_ns + 1, count) if gap_ns else np.zeros(count, np.int64)
        end_ns = np.cumsum(ran_ns + gaps_ns)
        count = int(np.searchsorted(end_ns, length_ns))
        begin_ns = (end_ns - ran_ns)[:count]
        t_ns = np.stack((begin_ns, end_ns[:count]), 1).ravel()
        ids = np.arange(1, count + 1) + number * 1_000_000
        instance = np.stack((ids, np.zeros(count, np.int64)), 1).ravel()
        tasks = np.stack((task[:count], np.full(count, -1)), 1).ravel()
        runs = np.concatenate(([0], np.cumsum(np.diff(t_ns) * (instance[:-1] != 0))))
        found.append({
            "t_ns": t_ns, "instance": instance.astype(np.uint64), "task": tasks, "cpu": np.full(len(t_ns), number),
            "package": 0, "cpu_ns": runs, "instructions": runs * 2, "cycles": runs * 3, "pid": PID,
            "tid": FIRST_TID + number, "name": f"worker-{number}",
        })  # fmt: skip
    return found


def between(t_ns: Int, known_ns: Int, values: Int) -> Int:
    """Return what a clock said at some times, from what it said at known ones: evenly in between, in integers."""
    place = np.clip(np.searchsorted(known_ns, t_ns, side="right") - 1, 0, len(known_ns) - 2)
    length_ns = np.maximum(np.diff(known_ns)[place], 1)
    since_ns = np.clip(t_ns - known_ns[place], 0, length_ns)
    return np.asarray(values[place] + np.diff(values)[place] * since_ns // length_ns)


def drawn_uj(threads: list[dict[str, Any]], milliwatts: Sequence[int], static_mw: int, t_ns: Int) -> Int:
    """Return what a package drew until each time, microjoules: static power and that of each running task."""
    total_pj = t_ns * static_mw
    for thread in threads:
        at_ns, watts = thread["t_ns"], np.append(milliwatts, 0)[thread["task"]]
        so_far_pj = np.concatenate(([0], np.cumsum(np.diff(at_ns) * watts[:-1])))
        place = np.clip(np.searchsorted(at_ns, t_ns, side="right") - 1, 0, len(at_ns) - 1)
        since_ns = np.where(t_ns > at_ns[0], t_ns - at_ns[place], 0)
        total_pj = total_pj + so_far_pj[place] + since_ns * watts[place]
    return np.asarray(total_pj // 1_000_000)


def read(threads: list[dict[str, Any]], milliwatts: Sequence[int], *, static_mw: int, every_ns: int = MS,
         length_ns: int = SECOND, seed: int = 0, timed: bool = False,
         windows_ns: tuple[int, int] = (20 * US, 60 * US)) -> tuple[Any, ...]:  # fmt: skip
    """Return readings of a package that draws what the tasks do; each is up to a fifth of the interval late."""
    rng = np.random.RandomState(seed)
    t_ns = np.arange(0, length_ns + 1, every_ns)
    t_ns[1:-1] = np.minimum(t_ns[1:-1] + rng.randint(0, every_ns // 5, len(t_ns) - 2), length_ns)
    window_ns = rng.randint(*windows_ns, len(t_ns))
    before_ns = window_ns * rng.randint(0, 1000, len(t_ns)) // 1000 if timed else 0
    joules = drawn_uj(threads, milliwatts, static_mw, np.maximum(t_ns - before_ns, 0)) * 1e-6
    return (t_ns, joules, window_ns) if timed else (t_ns, joules)


def random_readings(seed: int, every_ns: int, *, length_ns: int = 300 * MS, begin_ns: int = 0) -> tuple[Int, Any]:
    """Return readings of a domain whose power is random in each interval."""
    rng = np.random.RandomState(seed)
    t_ns = np.append(np.arange(begin_ns, length_ns, every_ns), length_ns)
    t_ns[1:-1] = np.minimum(t_ns[1:-1] + rng.randint(0, every_ns // 5, len(t_ns) - 2), length_ns)
    return t_ns, np.cumsum(rng.randint(1, 900_000, len(t_ns))) * 1e-6


def cpu_times(seed: int, threads: int, *, length_ns: int = 300 * MS) -> dict[str, tuple[Int, Int, str, int | None]]:
    """Return CPU time of the program and of the machine, by name: times, nanoseconds, quantity and package."""
    rng = np.random.RandomState(seed)
    t_ns = np.arange(0, length_ns + 1, 10 * MS)
    program_ns = np.cumsum(rng.randint(0, 10 * MS, len(t_ns))) * threads
    found: dict[str, tuple[Int, Int, str, int | None]] = {"program": (t_ns, program_ns, "program", None)}
    for package in (0, 1):
        busy_ns = program_ns * 7 // 10 + np.cumsum(rng.randint(0, MS, len(t_ns)))
        found[f"busy-{package}"] = (t_ns, busy_ns, "busy", package)
    return found


def pool(
    seed: int, *, users: Sequence[tuple[int, int, int]], workers: int = 2, spin_ns: int = 0, noted: bool = False,
    length_ns: int = 300 * MS, library: str = "/lib/libopenblas.so.0", first_tid: int = 500,
) -> list[NativeThread | PoolCalls]:  # fmt: skip
    """Return the native threads of a library that work while it is called, and spin for a while after.

    `users` are (tid of the caller, begin, end) of each call in ns. With `noted` the calls are in the recording.
    """
    rng = np.random.RandomState(seed)
    found: list[NativeThread | PoolCalls] = []
    for number in range(workers):
        edges_ns = np.unique([0, length_ns, *(t for _, a, b in users for t in (a, min(b + spin_ns, length_ns)))])
        works = np.array([any(x <= a < y + spin_ns for _, x, y in users) for a in edges_ns[:-1]])
        so_far_ns = np.concatenate(([0], np.cumsum(np.diff(edges_ns) * works)))
        t_ns = np.unique(
            np.concatenate(([0], np.cumsum(rng.randint(3 * MS, 7 * MS, length_ns // (3 * MS))), [length_ns]))
        )
        t_ns = t_ns[t_ns <= length_ns]
        place = np.clip(np.searchsorted(edges_ns, t_ns, side="right") - 1, 0, len(works) - 1)
        cpu_ns = so_far_ns[place] + (t_ns - edges_ns[place]) * works[place]
        found.append(
            NativeThread(PID, first_tid + number, "python3", library, None, None, None, None, None, t_ns, cpu_ns, None)
        )
    if noted:
        tid, begin_ns, end_ns = (np.array(column, np.int64) for column in zip(*sorted(users), strict=True))
        ones = np.ones(len(tid))
        found.append(
            PoolCalls(PID, library, 0, noted, tid, np.full(len(tid), -1), begin_ns, end_ns, ones, ones.astype(bool))
        )
    return found
