"""What recording costs many threads: those that come and go, those that live at once, those that compete."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

from tprof.benchmarks.measured_figures import Figure

import tprof

from .call_cost import task
from .timing import differences, ratios, take_turns

COMPETING = 64


def measure_threads(directory: Path, *, threads: int, calls: int, rounds: int) -> list[Figure]:
    """Measure so many threads; each that competes makes so many calls.

    Without a recording a thread that calls a task is begun and joined in the same way, in the same rounds.
    """
    taken = take_turns(
        {
            "plain": partial(_short_s, threads),
            "recorded": partial(_recorded_s, directory, threads),
            "one": partial(_competing_s, directory, 1, calls * COMPETING),
            "competing": partial(_competing_s, directory, COMPETING, calls),
        },
        rounds=rounds,
    )
    more_s = differences(taken["recorded"], taken["plain"], divisor=threads)
    descriptors, bytes_each = _held(directory, threads)
    return [
        Figure(
            f"{threads:,} threads one after the other, of one task each: more a thread",
            tuple(value * 1e6 for value in more_s),
            "µs",
        ),
        Figure("the same, space on the disk a thread", (bytes_each,), "bytes", note="a file each"),
        Figure(f"{threads:,} threads at once: descriptors they hold", (descriptors,), "descriptors", 0),
        Figure(
            f"calls of {COMPETING} threads, recorded, over as many calls of one thread",
            ratios(taken["competing"], taken["one"]),
            "×",
        ),
    ]


def _short_s(threads: int) -> float:
    begin_s = time.perf_counter()
    for _ in range(threads):
        thread = threading.Thread(target=task)
        thread.start()
        thread.join()
    return time.perf_counter() - begin_s


def _recorded_s(directory: Path, threads: int) -> float:
    with tprof.record(directory / "threads.tprof", counters="none", overwrite=True):
        return _short_s(threads)


def _competing_s(directory: Path, threads: int, calls: int) -> float:
    def call() -> None:
        for _ in range(calls):
            task()

    workers = [threading.Thread(target=call) for _ in range(threads)]
    with tprof.record(directory / "threads.tprof", counters="none", overwrite=True):
        begin_s = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - begin_s


def _held(directory: Path, threads: int) -> tuple[float, float]:
    """Return the descriptors that living threads hold, and the bytes that each takes on the disk after its end."""
    session = directory / "threads.tprof"
    begun, go_on = threading.Barrier(threads + 1), threading.Event()

    def work() -> None:
        task()
        begun.wait()
        go_on.wait()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    with tprof.record(session, counters="none", overwrite=True):
        before = _descriptors()
        for worker in workers:
            worker.start()
        begun.wait()
        held = _descriptors() - before
        go_on.set()
        for worker in workers:
            worker.join()
    files = list((session / "threads").iterdir())
    return float(held), sum(file.stat().st_blocks for file in files) * 512 / len(files)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
