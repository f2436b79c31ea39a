"""Native threads of random libraries that work now and then, and calls of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from tprof.trace import NativeCounts, NativeThread, PoolCalls

PID, FIRST_TID = 7, 7
LIBRARIES = ("/lib/libopenblas.so.0", "/lib/libgomp.so.1", "/lib/polars.so", "/usr/bin/python3.11")
Times = np.ndarray[Any, np.dtype[np.int64]]


def random_pool(rng: np.random.Generator, number: int, threads: int, length_ns: int) -> list[NativeThread | PoolCalls]:
    """Return the native threads of a library, which work when it is called, about, and its calls, if it notes them."""
    library = LIBRARIES[number % len(LIBRARIES)]
    calls = _calls(rng, threads, length_ns)
    works = np.sort(np.array([(begin, end + int(rng.integers(0, 3)) * 4_000_000) for _, begin, end in calls]), axis=0)
    if rng.random() < 0.2:
        works = np.array([(0, length_ns)])
    found: list[NativeThread | PoolCalls] = [
        _thread(rng, library, FIRST_TID + 100 * (number + 1) + at, threads, works, length_ns)
        for at in range(int(rng.integers(1, 4)))
    ]
    if rng.random() < 0.5:
        tid, begin_ns, end_ns = np.array(calls, np.int64).T
        inside, several = rng.choice([1.0, 0.3], len(tid)), np.ones(len(tid), bool)
        task = np.full(len(tid), -1)
        found.append(PoolCalls(PID, library, 0, bool(rng.random() < 0.9), tid, task, begin_ns, end_ns, inside, several))
    return found


def _calls(rng: np.random.Generator, threads: int, length_ns: int) -> list[tuple[int, int, int]]:
    """Return the threads that call, and from when to when; those of a thread do not overlap."""
    found = []
    for thread in rng.choice(threads + 1, int(rng.integers(1, threads + 1)), replace=False).tolist():
        edges = np.unique(rng.integers(0, length_ns, 2 * int(rng.integers(1, 15))))
        found += [(FIRST_TID + thread, int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    return found


def _thread(
    rng: np.random.Generator, library: str, tid: int, threads: int, works: Times, length_ns: int
) -> NativeThread:
    first_ns = int(rng.integers(0, length_ns // 3)) if rng.random() < 0.4 else 0
    last_ns = int(rng.integers(2 * length_ns // 3, length_ns))
    passes = np.cumsum(rng.integers(3_000_000, 7_000_000, length_ns // 3_000_000)) + tid % 100
    t_ns = np.concatenate(([first_ns], passes[(passes > first_ns) & (passes < last_ns)], [last_ns]))
    # A clock that stands still is not read.
    edges = np.unique(np.concatenate((works.ravel(), [0, length_ns])))
    busy = np.array([((works[:, 0] <= a) & (works[:, 1] > a)).any() for a in edges[:-1]])
    cpu_ns = np.interp(t_ns, edges, np.concatenate(([0], np.cumsum(np.diff(edges) * busy)))).astype(np.int64)
    kept = np.concatenate(([True], (cpu_ns[1:-1] > cpu_ns[:-2]) | (cpu_ns[2:] > cpu_ns[1:-1]), [True]))
    t_ns, cpu_ns = t_ns[kept], (cpu_ns - cpu_ns[0])[kept]
    created = first_ns > 0 and rng.random() < 0.7
    has_task = created and rng.random() < 0.5
    counts = None
    if rng.random() < 0.3:
        at = np.arange(len(t_ns))
        values = {"cycles": 3 * cpu_ns, "instructions": (cpu_ns * rng.uniform(0.5, 2)).astype(np.int64)}
        counts = NativeCounts(at, values, np.zeros(len(at), bool))
    return NativeThread(
        PID, tid, "python3", library, first_ns if created else None,
        FIRST_TID + int(rng.integers(threads)) if created else None, int(rng.integers(4)) if has_task else None,
        1 if has_task else None, last_ns if rng.random() < 0.3 else None, t_ns, cpu_ns, counts,
    )  # fmt: skip
