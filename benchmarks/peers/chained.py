"""`concurrent.futures.ThreadPoolExecutor`, with dependences kept by hand."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .contract import Peer
from .work import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from tprof.benchmarks.programs.cholesky import Tile, Tiles


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
