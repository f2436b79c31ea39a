"""dask's threaded scheduler, given a graph as plain as it takes one: the least that dask costs."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

from . import grid
from .contract import GraphPeer
from .work import empty, in_order, returning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.benchmarks.programs.cholesky import Tiles


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
            for key, places in enumerate(grid.steps(side)):
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
