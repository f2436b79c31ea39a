"""Jacobi: sweeps of a 5-point stencil over a square grid in tiles, as NumPy kernels on the task runtime.

A sweep makes every point the mean of itself and its four neighbours: Jacobi's method with weight 4/5 for Laplace's
equation, with zero around the grid. Two grids take turns, so that a task waits for the neighbours' last sweep only.
The paper sweeps 5,120 points squared in tiles of 1,024 squared: 25 tiles and 800 instances are 32 sweeps. It gives a
task 32.8 MB, four tiles; here a task reads a tile and four edges of others and writes a tile, 16.8 MB.
The grids are stored tile by tile, as the paper's are. Each ufunc works with the interpreter's lock released.

References
----------
TProf, sections 4.1 and 4.2, table 5.
Y. Saad: Iterative Methods for Sparse Linear Systems (2003), section 13.2: the damped method and its eigenvectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tprof

from .outcome import Checked, WrongResultError, on_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Grid = list[list[Floats]]

ROWS = {"small": 512, "paper": 5_120}
TILE_ROWS = {"small": 128, "paper": 1_024}
SWEEPS = {"small": 8, "paper": 32}
SEED = 1845
# Rows of a tile that stay in a core's cache from the first ufunc to the last; fewer cost more calls.
BAND_ROWS = 32
WINDOW_ROWS = 32
WHOLE_ROWS = 1_024
MODES = ((1, 1), (2, 3), (7, 4))


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Sweep the grid of that size on a runtime, inside `during`, and check what became of it."""
    grid, other = make_grid(ROWS[size], TILE_ROWS[size]), make_empty(ROWS[size], TILE_ROWS[size])
    with on_runtime(workers, during) as watch:
        result = sweep_all(grid, other, SWEEPS[size])
    return Checked(
        duration_s=watch.duration_s,
        checks=check(result, SWEEPS[size]),
        facts={
            "rows": ROWS[size],
            "tile_rows": TILE_ROWS[size],
            "sweeps": SWEEPS[size],
            "footprint_bytes": (2 * TILE_ROWS[size] + 4) * TILE_ROWS[size] * 8,
        },
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of the one task: a tile and a sweep each."""
    return {"jacobi": (ROWS[size] // TILE_ROWS[size]) ** 2 * SWEEPS[size]}


def make_grid(rows: int, tile_rows: int) -> Grid:
    """Return tiles of random numbers by row and column, always the same; `rows` is a multiple of `tile_rows`."""
    grid = make_empty(rows, tile_rows)
    for row, tiles in enumerate(grid):
        for column, tile in enumerate(tiles):
            np.random.default_rng([SEED, row, column]).random(out=tile)
    return grid


def make_empty(rows: int, tile_rows: int) -> Grid:
    """Return tiles of NaN: what no task wrote cannot pass for a result."""
    count = rows // tile_rows
    return [[np.full((tile_rows, tile_rows), np.nan) for _ in range(count)] for _ in range(count)]


def sweep_all(grid: Grid, other: Grid, sweeps: int) -> Grid:
    """Sweep to and fro, in an order that is right one after the other, whatever runs the tasks.

    Returns
    -------
    list of list of array
        The one of the two that the last sweep writes.
    """
    for _ in range(sweeps):
        for row, tiles in enumerate(grid):
            for column, tile in enumerate(tiles):
                jacobi(tile, find_neighbours(grid, row, column), other[row][column])
        grid, other = other, grid
    return grid


def find_neighbours(grid: Grid, row: int, column: int) -> list[Floats | None]:
    """Return the tiles above, below, left and right; None outside the grid."""
    last = len(grid) - 1
    return [
        grid[row - 1][column] if row > 0 else None,
        grid[row + 1][column] if row < last else None,
        grid[row][column - 1] if column > 0 else None,
        grid[row][column + 1] if column < last else None,
    ]


@tprof.task(reads=("tile", "neighbours"), writes=("new",))
def jacobi(tile: Floats, neighbours: list[Floats | None], new: Floats) -> None:
    """Fill `new` with the means, band by band; outside the grid are zeros."""
    up, down, west, east = neighbours
    above, below = _row(up, -1, len(tile)), _row(down, 0, len(tile))
    left, right = _column(west, -1, len(tile)), _column(east, 0, len(tile))
    for begin in range(0, len(tile), BAND_ROWS):
        band = slice(begin, begin + BAND_ROWS)
        here, sums = tile[band], new[band]
        _add_vertical(tile, above, below, new, begin)
        sums[:, 1:] += here[:, :-1]
        sums[:, 0] += left[band]
        sums[:, :-1] += here[:, 1:]
        sums[:, -1] += right[band]
        sums += here
        sums *= 0.2


def _row(tile: Floats | None, at: int, length: int) -> Floats:
    """Return a row of a tile, zeros without one."""
    return np.zeros(length) if tile is None else tile[at]


def _column(tile: Floats | None, at: int, length: int) -> Floats:
    """Return a column of a tile, zeros without one."""
    return np.zeros(length) if tile is None else tile[:, at]


def _add_vertical(tile: Floats, above: Floats, below: Floats, new: Floats, begin: int) -> None:
    """Fill a band of `new` with the sums of what stands above and below."""
    last = len(tile) - 1
    first, end = max(begin, 1), min(begin + BAND_ROWS, last)
    np.add(tile[first - 1 : end - 1], tile[first + 1 : end + 1], out=new[first:end])
    if begin == 0:
        np.add(above, tile[1], out=new[0])
    if begin + BAND_ROWS > last:
        np.add(tile[-2], below, out=new[-1])


def check(grid: Grid, sweeps: int) -> tuple[str, ...]:
    """Compare the grid with what other ways lead to from the same beginning.

    Raises
    ------
    WrongResultError
        If a number was not written, or differs.
    """
    result = np.block(grid)
    beginning = np.block(make_grid(len(result), len(grid[0][0])))
    missing = int(np.isnan(result).sum())
    if missing:
        raise WrongResultError(f"jacobi left {missing} of {result.size} points without a number: a task was lost")
    points = _check_windows(beginning, result, sweeps, len(grid))
    _check_modes(beginning, result, sweeps)
    return (f"{points:,} points against sweeps without tiles, bit for bit", f"{len(MODES)} modes against their decay")


def _check_windows(beginning: Floats, result: Floats, sweeps: int, count: int) -> int:
    """Sweep windows on their own, each with as many points around it as the sweeps carry an influence."""
    points = 0
    for row, column in find_windows(len(result), count):
        wide = tuple(slice(max(side.start - sweeps, 0), side.stop + sweeps) for side in (row, column))
        inside = tuple(
            slice(side.start - around.start, side.stop - around.start)
            for side, around in zip((row, column), wide, strict=True)
        )
        right = sweep_plainly(beginning[wide], sweeps)[inside]
        wrong = np.argwhere(result[row, column] != right)
        points += right.size
        if wrong.size:
            at = wrong[0] + (row.start, column.start)
            raise WrongResultError(
                f"jacobi got point {at[0]}, {at[1]} wrong: {result[*at]}, sweeps without tiles give {right[*wrong[0]]}"
            )
    return points


def find_windows(rows: int, count: int) -> Iterator[tuple[slice, slice]]:
    """Return the whole of a small grid; of a large one, what lies around corners, edges and middles of tiles."""
    if rows <= WHOLE_ROWS:
        yield slice(0, rows), slice(0, rows)
        return
    middles = [rows * half // (2 * count) for half in range(2 * count + 1)]
    sides = [slice(max(middle - WINDOW_ROWS // 2, 0), min(middle + WINDOW_ROWS // 2, rows)) for middle in middles]
    yield from ((row, column) for row in sides for column in sides)


def sweep_plainly(points: Floats, sweeps: int) -> Floats:
    """Sweep one array with zero around it; sums in the kernel's order, so that both round equally."""
    for _ in range(sweeps):
        wide = np.pad(points, 1)
        sums = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:] + points
        points = sums * 0.2
    return points


def _check_modes(beginning: Floats, result: Floats, sweeps: int) -> None:
    """A sweep is a symmetric matrix: its eigenvectors' parts shrink by their eigenvalues, and hang on every point."""
    step = np.pi / (len(result) + 1)
    points = np.arange(1, len(result) + 1) * step
    # Every point is below 1, and a sweep moves it by three units of rounding at most.
    tolerance = 3 * sweeps * np.finfo(float).eps * result.size
    for down, across in MODES:
        before, after = (np.sin(down * points) @ grid @ np.sin(across * points) for grid in (beginning, result))
        right = before * (0.2 * (1 + 2 * np.cos(down * step) + 2 * np.cos(across * step))) ** sweeps
        if not abs(after - right) <= tolerance:
            raise WrongResultError(f"jacobi's mode {down}, {across} became {after}, its decay gives {right}")


if __name__ == "__main__":
    from .outcome import main

    main()
