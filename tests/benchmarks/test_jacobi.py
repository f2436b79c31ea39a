"""Jacobi sweeps by tiles as one sweeps the whole grid, and notices a grid that is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.programs import jacobi
from tprof.benchmarks.programs.outcome import WrongResultError


def sweep(rows, tile_rows, sweeps):
    return jacobi.sweep_all(jacobi.make_grid(rows, tile_rows), jacobi.make_empty(rows, tile_rows), sweeps)


def test_the_paper_size_has_800_instances():
    assert PROGRAMS["jacobi"].instances("paper") == {"jacobi": 800}


@examples(30)
@given(
    count=st.integers(1, 4),
    tile_rows=st.integers(2, 20) | st.integers(jacobi.BAND_ROWS - 1, 2 * jacobi.BAND_ROWS + 2),
    sweeps=st.integers(0, 5),
)
def test_tiles_and_bands_change_no_bit(count, tile_rows, sweeps):
    whole = np.block(jacobi.make_grid(count * tile_rows, tile_rows))

    result = np.block(sweep(count * tile_rows, tile_rows, sweeps))

    assert np.array_equal(result, jacobi.sweep_plainly(whole, sweeps))


def test_a_plain_sweep_is_the_mean_of_five():
    points = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])

    assert jacobi.sweep_plainly(points, 1)[1, 1] == 5
    assert jacobi.sweep_plainly(points, 1)[0, 0] == pytest.approx((1 + 2 + 4) / 5)


def test_a_task_writes_nothing_but_its_tile():
    grid = jacobi.make_grid(64, 32)
    before = np.block(grid)

    jacobi.sweep_all(grid, jacobi.make_empty(64, 32), 1)

    assert np.array_equal(np.block(grid), before)


@pytest.mark.parametrize("rows", [256, 1280])
def test_a_right_grid_passes_whole_or_in_windows(rows):
    checks = jacobi.check(sweep(rows, rows // 4, 3), 3)

    assert checks[0].endswith("points against sweeps without tiles, bit for bit")
    assert checks[1] == "3 modes against their decay"


def test_one_bit_is_noticed():
    grid = sweep(64, 16, 2)
    grid[1][2][3, 4] = np.nextafter(grid[1][2][3, 4], 1)

    with pytest.raises(WrongResultError, match="jacobi got point 19, 36 wrong"):
        jacobi.check(grid, 2)


def test_a_wrong_point_outside_the_windows_is_noticed():
    grid = sweep(2048, 512, 1)
    grid[1][2][100, 101] += 1e-6

    with pytest.raises(WrongResultError, match="jacobi's mode 1, 1 became"):
        jacobi.check(grid, 1)


def test_a_tile_that_was_never_written_is_noticed():
    grid = sweep(64, 16, 2)
    grid[1][1][:] = np.nan

    with pytest.raises(WrongResultError, match="left 256 of 4096 points without a number"):
        jacobi.check(grid, 2)


def test_a_sweep_too_few_is_noticed():
    with pytest.raises(WrongResultError, match="jacobi got point 0, 0 wrong"):
        jacobi.check(sweep(64, 16, 2), 3)


def test_the_windows_of_the_paper_size_lie_around_every_corner_edge_and_middle():
    windows = list(jacobi.find_windows(5120, 5))

    assert len(windows) == 121
    assert (slice(1008, 1040), slice(4080, 4112)) in windows
    assert (slice(496, 528), slice(1520, 1552)) in windows
    assert (slice(0, 16), slice(5104, 5120)) in windows
