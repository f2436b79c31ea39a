"""dask.distributed on threads of this process."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .contract import BatchPeer
from .work import empty, in_order, returning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.benchmarks.programs.cholesky import Tiles


class DistributedClient(BatchPeer):
    """One worker with as many threads; tiles stay in this process, since nothing is sent between processes."""

    name = "dask.distributed, threads of this process"
    package = "distributed"
    most_empty = 1_000

    def run_empty(self, count: int, workers: int) -> float:
        """Submit all, keep the futures, gather the results."""
        with self._start(workers) as client:
            begin_s = time.perf_counter()
            client.gather([client.submit(empty, pure=False) for _ in range(count)])
            return time.perf_counter() - begin_s

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Submit calls on the futures of earlier ones."""
        with self._start(workers) as client:
            begin_s = time.perf_counter()
            places = [(row, column) for row in range(len(tiles)) for column in range(row + 1)]
            held = dict(zip(places, client.scatter([tiles[row][column] for row, column in places]), strict=True))
            for kernel, taken in in_order(len(tiles)):
                held[taken[-1]] = client.submit(returning(kernel), *(held[place] for place in taken), pure=False)
            results = client.gather(held)
            duration_s = time.perf_counter() - begin_s
        for (row, column), tile in results.items():
            tiles[row][column] = tile
        return duration_s

    @contextmanager
    def _start(self, workers: int) -> Iterator[Any]:
        distributed = self.load()
        options = {"n_workers": 1, "threads_per_worker": workers, "processes": False, "dashboard_address": None}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            yield client
