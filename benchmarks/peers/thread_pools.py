"""Pools of threads: `concurrent.futures`, with barriers or with dependences kept by hand, and joblib's `Parallel`.

A barrier, or a call of `Parallel`, ends each phase where tasks depend on each other.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .contract import BatchPeer, Peer, empty, in_order, waves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from tprof.benchmarks.programs.cholesky import Tile, Tiles


class Executor(BatchPeer):
    """The standard library's pool of threads."""

    name = "ThreadPoolExecutor"

    def run_empty(self, count: int, workers: int) -> float:
        """Submit all, keep the futures, take the results."""
        with ThreadPoolExecutor(workers) as pool:
            begin_s = time.perf_counter()
            futures = [pool.submit(empty) for _ in range(count)]
            for future in futures:
                future.result()
            return time.perf_counter() - begin_s

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Submit a phase, wait for it, submit the next."""
        with ThreadPoolExecutor(workers) as pool:
            begin_s = time.perf_counter()
            for wave in waves(tiles):
                futures = [pool.submit(kernel, *taken) for kernel, taken in wave]
                for future in futures:
                    future.result()
            return time.perf_counter() - begin_s


class Chained(Peer):
    """Each call first waits, on its thread, for the futures of the tiles it needs.

    It cannot lock up: the pool begins calls in the order of submission, and each needs earlier ones only.
    """

    name = "ThreadPoolExecutor, futures chained by hand"

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Keep the last future of each tile."""
        latest: dict[tuple[int, int], Future[None]] = {}
        with ThreadPoolExecutor(workers) as pool:
            begin_s = time.perf_counter()
            for kernel, places in in_order(len(tiles)):
                needed = [latest[place] for place in places if place in latest]
                taken = [tiles[row][column] for row, column in places]
                latest[places[-1]] = pool.submit(_run, needed, kernel, taken)
            for future in latest.values():
                future.result()
            return time.perf_counter() - begin_s


def _run(needed: Sequence[Future[None]], kernel: Callable[..., None], tiles: Sequence[Tile]) -> None:
    for future in needed:
        future.result()
    kernel(*tiles)


class JoblibThreads(BatchPeer):
    """Batches of calls, their length found by joblib; `Parallel` as a with-block keeps its threads."""

    name = "joblib, threads"
    package = "joblib"
    most_empty = 20_000

    def run_empty(self, count: int, workers: int) -> float:
        """Run all in one call."""
        joblib = self.load()
        with joblib.Parallel(n_jobs=workers, backend="threading") as parallel:
            begin_s = time.perf_counter()
            parallel(joblib.delayed(empty)() for _ in range(count))
            return time.perf_counter() - begin_s

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Run a phase in a call."""
        joblib = self.load()
        with joblib.Parallel(n_jobs=workers, backend="threading") as parallel:
            begin_s = time.perf_counter()
            for wave in waves(tiles):
                parallel(joblib.delayed(kernel)(*taken) for kernel, taken in wave)
            return time.perf_counter() - begin_s
