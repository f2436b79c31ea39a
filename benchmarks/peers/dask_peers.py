"""dask by `dask.delayed`, as its tutorial has it; by a plain graph, the least that it costs; and distributed.

All run on threads of this process.
"""

from __future__ import annotations

import importlib
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .contract import BatchPeer, GraphPeer, empty, grid_steps, in_order, returning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tprof.benchmarks.programs.cholesky import Tiles


class DaskDelayed(BatchPeer):
    """Delayed calls, computed together."""

    name = "dask threaded, delayed"
    package = "dask"
    most_empty = 2_000

    def run_empty(self, count: int, workers: int) -> float:
        """Compute all at once."""
        dask = self.load()
        begin_s = time.perf_counter()
        delayed = dask.delayed(empty, pure=False)
        dask.compute(*[delayed() for _ in range(count)], scheduler="threads", num_workers=workers)
        return time.perf_counter() - begin_s

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Compute the lower half; each call is given what the earlier ones return."""
        dask = self.load()
        begin_s = time.perf_counter()
        lazy: dict[tuple[int, int], Any] = {
            (row, column): tile for row, tiles_of_row in enumerate(tiles) for column, tile in enumerate(tiles_of_row)
        }
        for kernel, places in in_order(len(tiles)):
            lazy[places[-1]] = dask.delayed(returning(kernel), pure=False)(*(lazy[place] for place in places))
        dask.compute(*lazy.values(), scheduler="threads", num_workers=workers)
        return time.perf_counter() - begin_s


class DaskGraph(GraphPeer):
    """`dask.threaded.get` on a dictionary of calls; making the dictionary is a part of the work."""

    name = "dask threaded, plain graph"
    package = "dask"
    most_empty = 10_000

    def run_empty(self, count: int, workers: int) -> float:
        """Ask for all results."""
        return _time(lambda: dict.fromkeys(range(count), (empty,)), workers)

    def run_grid(self, side: int, workers: int) -> float:
        """Refer, for each tile, to the call that last updated it."""

        def make() -> dict[Any, Any]:
            graph: dict[Any, Any] = {}
            latest: dict[tuple[int, int], int] = {}
            for key, places in enumerate(grid_steps(side)):
                graph[key] = (empty, *(latest.get(place) for place in places))
                latest[places[-1]] = key
            return graph

        return _time(make, workers)

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Pass each tile on from the call that updated it."""

        def make() -> dict[Any, Any]:
            graph: dict[Any, Any] = {}
            latest: dict[tuple[int, int], str] = {}
            for index, (kernel, places) in enumerate(in_order(len(tiles))):
                taken = [latest.get(place, tiles[place[0]][place[1]]) for place in places]
                latest[places[-1]] = f"{kernel.__name__}-{index}"
                graph[latest[places[-1]]] = (returning(kernel), *taken)
            return graph

        return _time(make, workers)


def _time(make: Callable[[], Mapping[Any, Any]], workers: int) -> float:
    get = importlib.import_module("dask.threaded").get
    get({0: (empty,)}, 0, num_workers=workers)  # its pool of threads stays for later calls
    begin_s = time.perf_counter()
    graph = make()
    get(graph, list(graph), num_workers=workers)
    return time.perf_counter() - begin_s


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
            futures = dict(zip(places, client.scatter([tiles[row][column] for row, column in places]), strict=True))
            for kernel, taken in in_order(len(tiles)):
                futures[taken[-1]] = client.submit(returning(kernel), *(futures[place] for place in taken), pure=False)
            results = client.gather(futures)
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
