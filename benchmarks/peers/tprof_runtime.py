"""tprof's runtime."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.programs import cholesky
from tprof.runtime import Runtime

import tprof

from . import contract
from .contract import GraphPeer, grid_steps

if TYPE_CHECKING:
    from tprof.benchmarks.programs.cholesky import Tile, Tiles


@tprof.task(name="empty")
def empty() -> None:
    """Do nothing."""


@tprof.task(name="touch", reads=("left", "right"), updates=("tile",))
def touch(left: Tile, right: Tile, tile: Tile) -> None:
    """Do nothing to three tiles."""
    contract.empty(left, right, tile)


class Ours(GraphPeer):
    """Tasks whose order follows from the arrays they are given."""

    name = "tprof"

    def run_empty(self, count: int, workers: int) -> float:
        """Spawn all, keep the futures, take the results."""
        with Runtime(workers=workers):
            begin_s = time.perf_counter()
            futures: list[Any] = [empty() for _ in range(count)]
            for future in futures:
                future.result()
            return time.perf_counter() - begin_s

    def run_grid(self, side: int, workers: int) -> float:
        """Spawn over tiles of their own memory and wait for all."""
        tiles = [[np.zeros(8) for _ in range(side)] for _ in range(side)]
        with Runtime(workers=workers) as runtime:
            begin_s = time.perf_counter()
            for left, right, tile in grid_steps(side):
                touch(tiles[left[0]][left[1]], tiles[right[0]][right[1]], tiles[tile[0]][tile[1]])
            runtime.wait()
            return time.perf_counter() - begin_s

    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Run the benchmark program's own loop."""
        with Runtime(workers=workers) as runtime:
            begin_s = time.perf_counter()
            cholesky.factor(tiles)
            runtime.wait()
            return time.perf_counter() - begin_s
