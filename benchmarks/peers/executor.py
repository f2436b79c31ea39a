"""`concurrent.futures.ThreadPoolExecutor`, with a barrier after each phase where tasks depend on each other."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .contract import BatchPeer
from .work import empty, waves

if TYPE_CHECKING:
    from tprof.benchmarks.programs.cholesky import Tiles


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
