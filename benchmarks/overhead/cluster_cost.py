"""What a task of the runtime costs on a cluster, beside the same written by hand: behind `scripts/bench cluster`.

The cluster is dask's own on this machine: worker processes with one thread each. By hand means `client.submit` on the
futures of earlier calls, of functions that return a changed copy, as dask's documentation asks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.measured_figures import Figure, result_of
from tprof.benchmarks.programs import cholesky
from tprof.benchmarks.programs.local_cluster import local_cluster
from tprof.runtime import Runtime

import tprof
from benchmarks.peers.contract import empty, in_order
from tprof.trace.plain_values import counted

from .timing import ratios, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.benchmarks.programs.cholesky import Tile

OVER_HAND = 1.3
OURS, HAND = "tprof", "by hand"


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes
    ----------
    rows, tile_rows, rounds : of the tiled Cholesky.
    tasks : empty ones in a batch.
    workers : processes of the cluster.
    """

    rows: int = 4_096
    tile_rows: int = 512
    rounds: int = 5
    tasks: int = 2_000
    workers: int = 2


FULL = Extent()
QUICK = Extent(rows=256, tile_rows=64, rounds=1, tasks=50)


def measure(extent: Extent = FULL) -> dict[str, Any]:
    """Measure the Cholesky and empty tasks on a cluster of this machine, in interleaved rounds.

    Returns
    -------
    dict
        `machine`, `effort`, and `figures` as `Figure.as_plain`.

    Raises
    ------
    UsageError
        If dask.distributed is not installed.
    WrongResultError
        If one of the two got a wrong factor.
    """
    with local_cluster(extent.workers) as client:
        factored = take_turns(
            {
                OURS: partial(_factor, partial(_on_runtime, client), extent),
                HAND: partial(_factor, partial(_by_hand, client), extent),
            },
            rounds=extent.rounds,
        )
        called = take_turns(
            {
                OURS: partial(_call_on_runtime, client, extent.tasks),
                HAND: partial(_call_by_hand, client, extent.tasks),
            },
            rounds=extent.rounds,
        )
    count = extent.rows // extent.tile_rows
    label = f"Cholesky, {count} × {count} tiles of {extent.tile_rows}, {counted(extent.workers, 'worker')}"
    return result_of(extent, [*_figures(label, factored, "s", OVER_HAND), *_figures("an empty task", called, "ms")])


def _figures(label: str, taken: dict[str, tuple[float, ...]], unit: str, target: float | None = None) -> list[Figure]:
    return [
        Figure(f"{label}: {OURS}", taken[OURS], unit),
        Figure(f"{label}: {HAND}", taken[HAND], unit),
        Figure(f"{label}: {OURS} over {HAND}", ratios(taken[OURS], taken[HAND]), "×", target),
    ]


def _factor(factor: Callable[[list[list[Tile]]], None], extent: Extent) -> float:
    tiles = cholesky.make_matrix(extent.rows, extent.tile_rows)
    begin_s = time.perf_counter()
    factor(tiles)
    duration_s = time.perf_counter() - begin_s
    cholesky.check(tiles, whole=False)
    return duration_s


def _on_runtime(client: Any, tiles: list[list[Tile]]) -> None:
    with Runtime(cluster=client):
        cholesky.factor(tiles)


def _by_hand(client: Any, tiles: list[list[Tile]]) -> None:
    places = [(row, column) for row in range(len(tiles)) for column in range(row + 1)]
    futures = dict(zip(places, client.scatter([tiles[row][column] for row, column in places]), strict=True))
    for kernel, taken in in_order(len(tiles)):
        inputs = [futures[place] for place in taken]
        futures[taken[-1]] = client.submit(_changed, kernel, *inputs, pure=False)
    for (row, column), tile in client.gather(futures).items():
        tiles[row][column][...] = tile


def _changed(kernel: Callable[..., None], *tiles: Tile) -> Tile:
    """Return a copy of the last tile, changed by the kernel."""
    copy = np.copy(tiles[-1], order="K")
    kernel(*tiles[:-1], copy)
    return copy


@tprof.task
def _nothing() -> None:
    """Do nothing."""


def _call_on_runtime(client: Any, tasks: int) -> float:
    with Runtime(cluster=client) as runtime:
        begin_s = time.perf_counter()
        for _ in range(tasks):
            _nothing()
        runtime.wait()
        return (time.perf_counter() - begin_s) * 1e3 / tasks


def _call_by_hand(client: Any, tasks: int) -> float:
    begin_s = time.perf_counter()
    client.gather([client.submit(empty, pure=False) for _ in range(tasks)])
    return (time.perf_counter() - begin_s) * 1e3 / tasks
