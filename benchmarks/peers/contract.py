"""What a peer is, and the work that all peers are given.

A peer measures the work alone, written as the peer's users write it. The work is an empty function, the kernels of the
tiled Cholesky in two orders, and empty tasks that depend on each other, in the order of Floyd and Warshall on the tiles
of a grid.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from tprof.benchmarks.programs import cholesky

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tprof.benchmarks.programs.cholesky import Tile, Tiles

    Position = tuple[int, int]
    Kernel = Callable[..., None]

_TASKS: tuple[Any, ...] = (cholesky.potrf, cholesky.trsm, cholesky.syrk, cholesky.gemm)
POTRF, TRSM, SYRK, GEMM = (task.__wrapped__ for task in _TASKS)


class Peer(ABC):
    """A way to run functions on threads.

    Times are of the work: handing it over, running it and taking the results. Starting and ending threads, which a
    program does once, is left out for all.

    Attributes
    ----------
    name : what tables call it.
    package : what has to be installed; empty for the standard library.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""

    def is_installed(self) -> bool:
        """Return whether it can be used here."""
        return not self.package or importlib.util.find_spec(self.package) is not None

    def load(self) -> Any:
        """Import what has to be installed."""
        return importlib.import_module(self.package)

    @abstractmethod
    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Replace the matrix by its factor and return the seconds that took."""


class BatchPeer(Peer):
    """One that is also given independent tasks.

    Attributes
    ----------
    most_empty : the largest batch of empty tasks, so that none takes much longer than a second.
    """

    most_empty: ClassVar[int] = 1_000_000

    @abstractmethod
    def run_empty(self, count: int, workers: int) -> float:
        """Return the seconds that so many independent empty tasks take."""


class GraphPeer(BatchPeer):
    """One that finds out by itself, or from a graph, which task may run."""

    @abstractmethod
    def run_grid(self, side: int, workers: int) -> float:
        """Return the seconds that the empty tasks of `grid_steps(side)` take."""


def empty(*_: object) -> None:
    """Do nothing: what is measured is the way there and back."""


def in_order(count: int) -> Iterator[tuple[Kernel, tuple[Position, ...]]]:
    """Yield each kernel and the places of its tiles, the last of which it updates; `cholesky.factor`'s order."""
    for step in range(count):
        yield POTRF, ((step, step),)
        for row in range(step + 1, count):
            yield TRSM, ((step, step), (row, step))
        for column in range(step + 1, count):
            yield SYRK, ((column, step), (column, column))
            for row in range(column + 1, count):
                yield GEMM, ((row, step), (column, step), (row, column))


def waves(tiles: Tiles) -> Iterator[list[tuple[Kernel, tuple[Tile, ...]]]]:
    """Yield calls that may run side by side, each list after the one before: potrf, all trsm, all updates."""
    wave: list[tuple[Kernel, tuple[Tile, ...]]] = []
    last: Kernel | None = None
    for kernel, places in in_order(len(tiles)):
        if wave and kernel is not last and not (kernel in {SYRK, GEMM} and last in {SYRK, GEMM}):
            yield wave
            wave = []
        wave.append((kernel, tuple(tiles[row][column] for row, column in places)))
        last = kernel
    yield wave


def returning(kernel: Kernel) -> Callable[..., Tile]:
    """Return the kernel as a function that returns the tile it updated, for graphs that pass on results."""

    def run(*tiles: Tile) -> Tile:
        kernel(*tiles)
        return tiles[-1]

    run.__name__ = kernel.__name__
    return run


def grid_steps(side: int) -> Iterator[tuple[Position, Position, Position]]:
    """Yield the three tiles of each task: two it reads, one it updates.

    From the fourth step on earlier tasks updated each of the three, so that the graph has three edges a task and is as
    wide as the grid. Whoever updates in place also has to wait for a tile's readers: two more edges a task on average.
    """
    for step in range(side):
        others = [index for index in range(side) if index != step]
        for row in others:
            for column in others:
                yield (row, step), (step, column), (row, column)


def grid_count(side: int) -> int:
    """Return how many tasks that makes."""
    return side * (side - 1) ** 2


def grid_side(tasks: int) -> int:
    """Return the largest grid that makes no more tasks, at least the smallest that makes any."""
    side = 2
    while grid_count(side + 1) <= tasks:
        side += 1
    return side
