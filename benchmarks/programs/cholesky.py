"""Cholesky: factors a symmetric positive definite matrix by tiles, as BLAS kernels on the task runtime.

The paper factors 10,240 rows and columns in tiles of 320: 32 potrf, 496 trsm, 496 syrk and 4,960 gemm, and a task
touches at most three tiles of 0.8 MB, the paper's footprint. Only the lower half of the matrix is kept. Each tile lies
contiguous in memory: with tiles as parts of one whole matrix, whose columns lie pages apart, potrf took 10 % longer
where it was measured, and gemm, trsm and syrk 2 to 5 %.

References
----------
TProf, sections 4.1 and 4.2, table 5.
A. Buttari, J. Langou, J. Kurzak, J. Dongarra: A class of parallel tiled linear algebra algorithms for multicore
architectures (2009).
LAPACK's test routine DPOT01, threshold 30: what rounding may leave of A - L·Lᵀ.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from tprof.benchmarks.programs import blas

import tprof

from .outcome import Checked, WrongResultError, on_runtime

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    Tile = NDArray[np.float64]
    Tiles = list[list[Tile]]

ROWS = {"small": 1_536, "paper": 10_240}
TILE_ROWS = {"small": 128, "paper": 320}
SEED = 1924
VECTORS = 4


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Factor the matrix of that size on a runtime, inside `during`, and check the factor."""
    tiles = make_matrix(ROWS[size], TILE_ROWS[size])
    with on_runtime(workers, during) as watch:
        factor(tiles)
    return Checked(
        duration_s=watch.duration_s,
        checks=check(tiles, whole=size == "small"),
        facts={"rows": ROWS[size], "tile_rows": TILE_ROWS[size], "footprint_bytes": 3 * TILE_ROWS[size] ** 2 * 8},
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of each task."""
    count = ROWS[size] // TILE_ROWS[size]
    return {"potrf": count, "trsm": math.comb(count, 2), "syrk": math.comb(count, 2), "gemm": math.comb(count, 3)}


def make_matrix(rows: int, tile_rows: int) -> Tiles:
    """Return the tiles of the lower half, by row and column, always the same ones; `rows` is a multiple of `tile_rows`.

    Off the diagonal stand independent numbers between -1/2 and 1/2, of variance 1/12: by Wigner's law the eigenvalues
    lie within sqrt(rows / 3) of the diagonal, which is sqrt(rows). So the matrix is positive definite, without a
    product of matrices to make it so, and its condition is below 4, so that a wrong factor cannot pass as rounding.
    """
    count = rows // tile_rows
    # One block for all tiles, so that the system backs it with large pages.
    store = np.empty((math.comb(count + 1, 2), tile_rows, tile_rows))
    tiles = [[store[math.comb(row + 1, 2) + column].T for column in range(row + 1)] for row in range(count)]
    for row in range(count):
        for column in range(row + 1):
            _fill(tiles[row][column], row, column, math.sqrt(rows))
    return tiles


def _fill(tile: Tile, row: int, column: int, diagonal: float) -> None:
    np.random.default_rng([SEED, row, column]).random(out=tile.T)
    tile -= 0.5
    if row == column:
        below = np.tril(tile, -1)
        tile[...] = below + below.T + diagonal * np.eye(len(tile))


def factor(tiles: Tiles) -> None:
    """Replace the matrix by its factor: tasks in an order that is right one after the other, whatever runs them."""
    count = len(tiles)
    for step in range(count):
        potrf(tiles[step][step])
        for row in range(step + 1, count):
            trsm(tiles[step][step], tiles[row][step])
        for column in range(step + 1, count):
            syrk(tiles[column][step], tiles[column][column])
            for row in range(column + 1, count):
                gemm(tiles[row][step], tiles[column][step], tiles[row][column])


# The critical path is potrf, trsm, syrk, potrf, ...: each of these frees more work than the gemm beside it.
@tprof.task(updates=("diagonal",), priority=3)
def potrf(diagonal: Tile) -> None:
    """Factor a tile on the diagonal."""
    minor = blas.factor(diagonal)
    if minor:
        raise WrongResultError(
            f"cholesky met a tile whose minor of order {minor} is not positive: an update of it was lost or wrong"
        )


@tprof.task(reads=("diagonal",), updates=("tile",), priority=2)
def trsm(diagonal: Tile, tile: Tile) -> None:
    """Finish a tile below the diagonal."""
    blas.solve(diagonal, tile)


@tprof.task(reads=("left",), updates=("diagonal",), priority=1)
def syrk(left: Tile, diagonal: Tile) -> None:
    """Take a finished tile's part out of the tile on its row's diagonal."""
    blas.subtract_square(left, diagonal)


@tprof.task(reads=("left", "right"), updates=("tile",))
def gemm(left: Tile, right: Tile, tile: Tile) -> None:
    """Take two finished tiles' part out of the tile in the row of one and the column of the other's row."""
    blas.subtract_product(left, right, tile)


def check(tiles: Tiles, *, whole: bool) -> tuple[str, ...]:
    """Compare L·(Lᵀ·x) with A·x for random vectors x; A is made anew, so that no copy need be kept.

    Parameters
    ----------
    tiles
        What `factor` left.
    whole
        Compare every number with NumPy's factor of the whole matrix as well.

    Raises
    ------
    WrongResultError
        If they differ.
    """
    rows = sum(len(row[0]) for row in tiles)
    matrix = make_matrix(rows, len(tiles[0][0]))
    lower = [[*row[:-1], np.tril(row[-1])] for row in tiles]
    _check_products(matrix, lower, np.random.default_rng(SEED).choice([-1.0, 1.0], (rows, VECTORS)))
    products = f"L·(Lᵀ·x) against A·x for {VECTORS} random vectors x"
    if not whole:
        return (products,)
    _check_whole(matrix, lower)
    return (products, "every number of L against NumPy's factor of the whole matrix")


def _check_products(matrix: Tiles, lower: Tiles, vectors: Tile) -> None:
    right = _multiply(matrix, vectors) + _multiply_transposed([row[:-1] for row in matrix], vectors)
    error = np.abs(_multiply(lower, _multiply_transposed(lower, vectors)) - right)
    # LAPACK's own test allows 15 times this and more: no |A·x| exceeds the norm of A where every |x| is 1.
    tolerance = len(vectors) * np.finfo(float).eps * np.abs(right).max()
    if not error.max() <= tolerance:
        wrong = int(np.flatnonzero(~(error <= tolerance).all(axis=1))[0])
        off = error[wrong].max()
        raise WrongResultError(
            f"cholesky's factor is wrong: row {wrong} of L·(Lᵀ·x) is {off} off A·x, rounding at most {tolerance}"
        )


def _check_whole(matrix: Tiles, lower: Tiles) -> None:
    right = np.linalg.cholesky(_assemble(matrix))
    error = np.abs(_assemble(lower) - right)
    # The matrix's condition is below 4, and rounding's share of a number grows slower than the rows.
    tolerance = len(right) * np.finfo(float).eps * right.max()
    if not error.max() <= tolerance:
        row, column = (int(index) for index in np.argwhere(~(error <= tolerance))[0])
        raise WrongResultError(
            f"cholesky got L[{row}, {column}] wrong by {error[row, column]}, rounding at most {tolerance}"
        )


def _multiply(tiles: Tiles, vectors: Tile) -> Tile:
    parts = np.split(vectors, len(tiles))
    return np.concatenate([sum(tile @ part for tile, part in zip(row, parts, strict=False)) for row in tiles])


def _multiply_transposed(tiles: Tiles, vectors: Tile) -> Tile:
    sums = np.zeros_like(vectors)
    parts = np.split(sums, len(tiles))
    for row, part in zip(tiles, np.split(vectors, len(tiles)), strict=True):
        for column, tile in enumerate(row):
            parts[column] += tile.T @ part
    return sums


def _assemble(tiles: Tiles) -> Tile:
    """Return one array of the tiles, zero above those of the diagonal."""
    empty = np.zeros_like(tiles[0][0])
    return np.block([row + [empty] * (len(tiles) - len(row)) for row in tiles])


if __name__ == "__main__":
    from .outcome import main

    main()
