"""The FFT program is the discrete Fourier transform, in whatever order its tasks run, and its check notices errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import orders
from support.properties import examples
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.programs import fft
from tprof.benchmarks.programs.outcome import WrongResultError

ONE, TWO = ((), (0,)), ((), (0, 1))
TASKS = {
    "transp_blk": ONE,
    "transp_swp": TWO,
    "tw_transp_blk": ONE,
    "tw_transp_swp": TWO,
    "fft1": ONE,
    "fft2": ONE,
}


def difference(matrix, vector):
    """Return the largest difference from the vector's transform by NumPy, in roots of the vector's energy."""
    return np.abs(matrix.ravel() - np.fft.fft(vector)).max() / np.linalg.norm(vector)


@examples()
@given(side=st.integers(1, 40), block=st.integers(1, 45))
def test_it_transforms_vectors_of_any_square_length_in_blocks_of_any_size(side, block):
    matrix = fft.make_input(side)
    vector = matrix.ravel().copy()

    fft.transform(matrix, block)

    assert difference(matrix, vector) < 1e-14


def test_the_small_size_is_the_transform_that_numpy_calculates():
    matrix = fft.make_input(fft.SIDE["small"])
    vector = matrix.ravel().copy()

    fft.transform(matrix, fft.BLOCK["small"])

    assert difference(matrix, vector) < 1e-14


@pytest.mark.parametrize("seed", range(4))
def test_every_order_that_the_shared_blocks_and_rows_allow_gives_the_transform(seed, monkeypatch):
    matrix = fft.make_input(50)
    vector = matrix.ravel().copy()
    calls = orders.collect(monkeypatch, fft, TASKS)

    fft.transform(matrix, 12)
    orders.run_in_some_order(calls, seed)

    assert len(calls) == 3 * 15 + 2 * 5
    assert difference(matrix, vector) < 1e-14


def test_the_paper_size_has_1363_instances_of_six_tasks():
    instances = PROGRAMS["fft"].instances("paper")

    assert sum(instances.values()) == 1363
    assert instances == {
        "transp_blk": 58,
        "transp_swp": 812,
        "fft1": 29,
        "tw_transp_blk": 29,
        "tw_transp_swp": 406,
        "fft2": 29,
    }


@pytest.mark.parametrize(("row", "column"), [(0, 0), (5600, 0), (2800, 5400), (5600, 5600)])
def test_twiddle_factors_are_right_to_a_few_roundings_in_every_corner(row, column):
    order = 5656**2
    block = np.arange(56)
    corner = np.exp(np.multiply.outer(block, block) * (-2j * np.pi / order))
    # In more digits than the program has, from the exact product of the indices.
    turns = np.multiply.outer(row + block, column + block).astype(np.longdouble) / order
    angles = -2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) * turns

    factors = fft.Twiddles(corner, order, row, column).of((56, 56))

    assert np.abs(factors.real - np.cos(angles)).max() < 2e-15
    assert np.abs(factors.imag - np.sin(angles)).max() < 2e-15


def small_result():
    matrix = fft.make_input(30)
    expected = fft.Expected.of(matrix)
    fft.transform(matrix, 8)
    return matrix, expected


def test_the_check_accepts_the_transform_and_says_what_it_compared():
    assert "Parseval's theorem" in fft.check(*small_result())


def test_the_check_notices_numbers_in_each_others_place():
    matrix, expected = small_result()
    flat = matrix.ravel()
    first, second = np.setdiff1d(np.arange(matrix.size), expected.chosen)[[5, 400]]
    flat[[first, second]] = flat[[second, first]]

    with pytest.raises(WrongResultError, match="fft: the inverse at"):
        fft.check(matrix, expected)


def test_the_check_notices_a_wrong_frequency():
    matrix, expected = small_result()
    matrix.ravel()[expected.chosen[3]] += 1

    with pytest.raises(WrongResultError, match=f"fft: the transform at {expected.chosen[3]} is"):
        fft.check(matrix, expected)


def test_the_check_notices_a_number_that_is_none():
    matrix, expected = small_result()
    matrix[-1, -1] = np.nan

    with pytest.raises(WrongResultError, match="fft: the"):
        fft.check(matrix, expected)


@pytest.mark.parametrize("lost", range(3 * 10 + 2 * 4))
def test_the_check_notices_whichever_task_is_lost(lost, monkeypatch):
    matrix = fft.make_input(30)
    expected = fft.Expected.of(matrix)
    calls = orders.collect(monkeypatch, fft, TASKS)

    fft.transform(matrix, 8)
    del calls[lost]
    orders.run_in_some_order(calls, 0)

    with pytest.raises(WrongResultError, match="fft"):
        fft.check(matrix, expected)
