"""One thread a core, each on a processor of its own and with data that it has touched itself; and how much it runs.

NumPy's copy and matrix product on the same cores show what the kernels have to reach.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from . import _polynomial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.benchmarks.kernels import Caches

    from tprof.sensors.topology import Cpu


T = TypeVar("T")
TYPES = {"single": np.float32, "double": np.float64}
SIZES = {"single": 4, "double": 8}
"""Bytes of a number."""
MOST_BYTES = 256 << 20


def one_a_core(topology: Sequence[Cpu]) -> tuple[int, ...]:
    """Return one usable processor of each core of all packages."""
    usable = os.sched_getaffinity(0)
    cores: dict[tuple[int, int], int] = {}
    for cpu in topology:
        if cpu.cpu in usable:
            cores.setdefault((cpu.package, cpu.core), cpu.cpu)
    return tuple(cores.values()) or tuple(sorted(usable))


class ThreadTeam:
    """The threads, as a context manager; their runs begin together."""

    def __init__(self, cpus: Sequence[int], stream_bytes: int) -> None:
        """Begin with none."""
        self.cpus = tuple(cpus)
        self._bytes = stream_bytes
        self._together = threading.Barrier(len(cpus))
        self._places = iter(cpus)
        self._lock = threading.Lock()
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(len(cpus), "roofline", self._settle)

    def __enter__(self) -> Self:
        """Let each thread make its data."""
        self.all(lambda: None)
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self._pool.shutdown()

    def all(self, work: Callable[[], T]) -> list[T]:
        """Let each thread do this once, all at the same time, and return their results."""

        def together() -> T:
            # No thread runs it twice: the barrier holds each until all are there.
            self._together.wait()
            return work()

        return [turn.result() for turn in [self._pool.submit(together) for _ in self.cpus]]

    def stream(self, precision: str) -> np.ndarray[Any, Any]:
        """Return the calling thread's numbers, from a quarter to three quarters."""
        view: np.ndarray[Any, Any] = self._own.streams[precision]
        return view

    def other(self) -> np.ndarray[Any, Any]:
        """Return the calling thread's buffer for a copy of its float64 stream."""
        buffer: np.ndarray[Any, Any] = self._own.buffer
        return buffer

    def polynomial(self, precision: str, degree: int, seconds: float) -> float:
        """Return numbers a second, of all threads together."""
        found = self.all(lambda: _polynomial.polynomial(self.stream(precision), degree, seconds))
        return sum(numbers / took_s for numbers, took_s, _ in found)

    def _settle(self) -> None:
        with self._lock:
            cpu = next(self._places)
        os.sched_setaffinity(0, {cpu})
        generator = np.random.default_rng(cpu)
        # One draw for all of a stream would take longer than its runs.
        block = generator.uniform(0.25, 0.75, 1 << 14)
        counts = {name: max(self._bytes // size, len(block)) for name, size in SIZES.items()}
        self._own.streams = {name: np.resize(block.astype(TYPES[name]), counts[name]) for name in SIZES}
        self._own.buffer = np.ones_like(self._own.streams["double"])


@dataclass(frozen=True)
class Extent:
    """What is run.

    Attributes
    ----------
    degrees : of the polynomials: 2 degree + 1 flops a number.
    seconds : of each run.
    repeats : of each run; the fastest counts.
    most_bytes : of each core's stream, at most.
    matrix : rows of the matrices that NumPy multiplies.
    """

    degrees: tuple[int, ...]
    seconds: float
    repeats: int
    most_bytes: int
    matrix: int

    def stream_bytes(self, caches: Caches, cores: int) -> int:
        """Return the bytes of each core's stream: together four times the caches, where that is allowed."""
        own = 4 * (caches.llc_bytes // max(cores, 1) + caches.l2_bytes)
        return min(max(own, 4 * caches.l2_bytes), self.most_bytes, MOST_BYTES)


FULL = Extent((0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128), 0.4, 3, 128 << 20, 1536)
QUICK = Extent((0, 1, 4, 32, 64, 128), 0.05, 1, 64 << 20, 768)


def flops_of(degree: int) -> int:
    """Return the flops on each number."""
    return 2 * degree + 1


def copy_bytes_per_s(team: ThreadTeam, seconds: float) -> float:
    """Return the bytes a second that all cores' copies read and write; what a write reads first is not counted."""

    def work() -> float:
        source, target = team.stream("double"), team.other()
        begin = now = time.perf_counter()
        done = 0
        while now - begin < seconds:
            np.copyto(target, source)
            done += 2 * source.nbytes
            now = time.perf_counter()
        return done / (now - begin)

    return sum(team.all(work))


def product_flops_per_s(precision: str, rows: int, seconds: float) -> float:
    """Return the flops a second of the fastest of NumPy's matrix products, on as many threads as its library takes."""
    left = np.full((rows, rows), 0.5, TYPES[precision])
    product = left @ left
    begin, best_s = time.perf_counter(), np.inf
    while time.perf_counter() - begin < seconds:
        before = time.perf_counter()
        np.matmul(left, left, out=product)
        best_s = min(best_s, time.perf_counter() - before)
    return 2.0 * rows**3 / best_s if np.isfinite(best_s) else float("nan")
