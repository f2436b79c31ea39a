"""Cholesky factors by tiles what NumPy factors whole, and notices a factor that is wrong."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.programs import cholesky
from tprof.benchmarks.programs.outcome import WrongResultError


def test_the_paper_size_has_5984_instances_of_tiles_with_the_papers_footprint():
    instances = PROGRAMS["cholesky"].instances("paper")

    assert instances == {"potrf": 32, "trsm": 496, "syrk": 496, "gemm": 4960}
    assert sum(instances.values()) == 5984
    assert 3 * cholesky.TILE_ROWS["paper"] ** 2 * 8 == 2_457_600


@examples(25)
@given(count=st.integers(1, 6), tile_rows=st.integers(1, 24))
def test_any_number_of_tiles_gives_the_factor_of_the_whole_matrix(count, tile_rows):
    tiles = cholesky.make_matrix(count * tile_rows, tile_rows)

    cholesky.factor(tiles)

    assert cholesky.check(tiles, whole=True)[1] == "every number of L against NumPy's factor of the whole matrix"


def test_the_matrix_is_always_the_same_and_well_conditioned():
    first, second = (cholesky.make_matrix(512, 64) for _ in range(2))
    lower = np.block([row + [np.zeros((64, 64))] * (8 - len(row)) for row in first])
    whole = np.tril(lower) + np.tril(lower, -1).T

    assert all(map(np.array_equal, chain(*first), chain(*second)))
    assert np.linalg.cond(whole) < 4


def test_tiles_lie_as_the_kernels_need_them_and_share_nothing():
    tiles = list(chain(*cholesky.make_matrix(64, 16)))

    assert len(tiles) == 10
    assert all(tile.flags.f_contiguous for tile in tiles)
    assert not any(np.shares_memory(one, other) for index, one in enumerate(tiles) for other in tiles[:index])


def test_a_wrong_number_is_noticed():
    tiles = cholesky.make_matrix(64, 16)
    cholesky.factor(tiles)
    tiles[2][1][3, 5] *= 1 + 1e-7

    with pytest.raises(WrongResultError, match=r"row 21 of L·.* is .* off A·x"):
        cholesky.check(tiles, whole=False)


def test_a_factor_with_the_same_products_is_noticed_where_every_number_is_compared():
    tiles = cholesky.make_matrix(64, 16)
    cholesky.factor(tiles)
    for row in tiles[1:]:
        row[1][:, 4] *= -1

    with pytest.raises(WrongResultError, match=r"cholesky got L\[20, 20\] wrong"):
        cholesky.check(tiles, whole=True)


def test_a_task_that_was_lost_is_noticed(monkeypatch):
    monkeypatch.setattr(cholesky, "gemm", without_the_last(cholesky.gemm, calls=4))
    tiles = cholesky.make_matrix(64, 16)

    cholesky.factor(tiles)

    with pytest.raises(WrongResultError, match=r"row 32 of L·.* off A·x"):
        cholesky.check(tiles, whole=False)


def without_the_last(task, calls):
    done = []

    def call(*arguments):
        done.append(arguments)
        if len(done) < calls:
            task(*arguments)

    return call


def test_a_number_that_is_none_is_noticed():
    tiles = cholesky.make_matrix(64, 16)
    cholesky.factor(tiles)
    tiles[3][3][9, 2] = np.nan

    with pytest.raises(WrongResultError, match="cholesky's factor is wrong"):
        cholesky.check(tiles, whole=False)


def test_a_matrix_without_a_factor_is_named_by_its_minor():
    tiles = cholesky.make_matrix(64, 16)
    tiles[1][1][4, 4] = -1

    with pytest.raises(WrongResultError, match="whose minor of order 5 is not positive"):
        cholesky.factor(tiles)
