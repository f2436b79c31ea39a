"""joblib's `Parallel` on threads, a call of it for each phase where tasks depend on each other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .contract import BatchPeer
from .work import empty, waves

if TYPE_CHECKING:
    from tprof.benchmarks.programs.cholesky import Tiles


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
