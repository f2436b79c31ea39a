"""dask's threaded scheduler behind `dask.delayed`, as its tutorial has it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .contract import BatchPeer
from .work import empty, in_order, returning

if TYPE_CHECKING:
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
