"""The work that all peers are given: an empty function, and the kernels of the tiled Cholesky in two orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.benchmarks.programs import cholesky

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tprof.benchmarks.programs.cholesky import Tile, Tiles

    Position = tuple[int, int]
    Kernel = Callable[..., None]

_TASKS: tuple[Any, ...] = (cholesky.potrf, cholesky.trsm, cholesky.syrk, cholesky.gemm)
POTRF, TRSM, SYRK, GEMM = (task.__wrapped__ for task in _TASKS)


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
