"""The loops in C give what NumPy gives, and refuse arrays that do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution import _loops
from tprof.analysis.attribution.segment_energy import sums_by

FINISH, FAILED = 2, 1


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(1, 20), st.integers(0, 19))
def test_sums_of_columns_are_those_of_bincount(seed, size, groups, columns) -> None:
    rng = np.random.default_rng(seed)
    key, values = rng.integers(0, groups, size).astype(np.int32), rng.normal(size=(columns, size))

    sums = sums_by(key, list(values), groups)

    expected = [np.bincount(key, weights=one, minlength=groups) for one in values]
    np.testing.assert_array_equal(sums, np.reshape(expected, (columns, groups)))


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(1, 20))
def test_products_are_about_the_centres_of_groups(seed, size, groups) -> None:
    rng = np.random.default_rng(seed)
    key, (x, y) = rng.integers(0, groups, size).astype(np.int32), rng.normal(size=(2, size))
    centres, sums = rng.normal(size=(2, groups)), np.zeros((3, groups))

    _loops.add_products_by(key, x, y, *centres, groups, sums)

    off_x, off_y = x - centres[0][key], y - centres[1][key]
    for found, product in zip(sums, (off_x * off_x, off_y * off_y, off_x * off_y), strict=True):
        np.testing.assert_array_equal(found, np.bincount(key, weights=product, minlength=groups))


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 200), st.integers(1, 20))
def test_extents_are_the_first_and_last_samples_of_slots(seed, size, slots) -> None:
    rng = np.random.default_rng(seed)
    slot, kind, flags = rng.integers(0, slots, size).astype(np.int32), *rng.integers(0, 4, (2, size)).astype(np.uint8)
    first, last = np.full(slots, -1), np.full(slots, -1)
    failed, ended = np.zeros(slots, bool), np.zeros(slots, bool)

    _loops.find_extents(slot, kind, flags, first, last, failed, ended)

    ends = [at for at in range(1, size) if kind[at] == FINISH]
    for number in range(slots):
        places = np.flatnonzero(slot == number).tolist() or [-1]
        assert (first[number], last[number]) == (places[0], places[-1])
        assert ended[number] == any(slot[at - 1] == number for at in ends)
        assert failed[number] == any(slot[at - 1] == number and flags[at] & FAILED for at in ends)


@pytest.mark.parametrize("key", [-1, 2])
def test_a_key_that_is_no_group_is_refused(key) -> None:
    with pytest.raises(ValueError, match="a key is negative, or not less than the number of groups"):
        sums_by(np.array([0, key], np.int32), [np.ones(2)], 2)


def test_arrays_of_another_kind_or_size_are_refused() -> None:
    key = np.zeros(3, np.int32)

    with pytest.raises(ValueError, match="a column must have 3 elements, got 2"):
        sums_by(key, [np.ones(2)], 1)
    with pytest.raises(ValueError, match="the keys must have the format i, got l"):
        sums_by(key.astype(np.int64), [np.ones(3)], 1)
