"""How long `fitted` takes beside `cputime`, on a trace of millions of samples and twenty tasks."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tprof.benchmarks.virtual import ICE_LAKE, Mix, Package, Run, random_mix, stated, write

from tprof.trace import load

TASKS = tuple(stated(f"task {number}", 20e-6 * 1.2**number, 4.0 + number / 2) for number in range(20))
SAMPLES = 5_000_000
PER_SECOND = 117_000.0
"""Samples a second that four busy cores make of these tasks."""


def measure_speed(samples: int = SAMPLES, *, rounds: int = 3) -> tuple[int, tuple[float, ...]]:
    """Return how many samples there were, and the time of `fitted` over that of `cputime` in each round."""
    mix = Mix(duration_s=samples / PER_SECOND)
    run = Run(Package(), [task.kernel for task in TASKS], random_mix(TASKS, mix, seed=0), mix.idle_s + mix.duration_s)
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        path = Path(folder) / "long.tprof"
        write(path, [task.name for task in TASKS], run, sensor=ICE_LAKE, seed=0, counters=False)
        del run
        found = load(path)
        written = sum(thread.count for thread in found.threads)
        _seconds(path, "cputime")  # what is loaded on first use is no part of either
        return written, tuple(_seconds(path, "fitted") / _seconds(path, "cputime") for _ in range(rounds))


def _seconds(path: Path, model: str) -> float:
    begin_s = time.perf_counter()
    len(load(path).profile(model=model).tasks)
    return time.perf_counter() - begin_s
