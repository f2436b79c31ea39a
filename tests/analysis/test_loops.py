"""The loops in C give what NumPy gives, and refuse arrays that do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution import _loops
from tprof.analysis.attribution.segment_energy import locate, sums_by


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


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 60), st.integers(0, 20))
def test_times_are_located_among_edges_in_whatever_order(seed, size, edges) -> None:
    rng = np.random.default_rng(seed)
    edges_ns = np.unique(rng.integers(0, 50, edges))
    t_ns = rng.integers(-5, 60, size)
    t_ns = np.sort(t_ns) if seed % 2 else t_ns
    extremes = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    t_ns = np.concatenate((t_ns, extremes))

    np.testing.assert_array_equal(locate(t_ns, edges_ns), np.searchsorted(edges_ns, t_ns, side="right"))


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200))
def test_segments_without_power_weigh_by_cpu_time_and_those_of_no_length_not(seed, size) -> None:
    rng = np.random.default_rng(seed)
    t_ns, cpu_s = np.cumsum(rng.integers(0, 2, size + 1)), rng.random(size)
    modelled = rng.choice([np.nan, -1.0, 0.0, 2.0], size)
    expected = np.where(modelled > 0, modelled, cpu_s * 1e-3)
    expected[np.diff(t_ns) == 0] = 0.0

    _loops.weigh(t_ns, cpu_s, 1e-3, modelled)

    np.testing.assert_array_equal(modelled, expected)


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 200), st.floats(0.0, 1e3), st.booleans())
def test_cpu_time_adds_up_to_each_time_but_for_falls_and_segments_of_no_length(seed, size, used_s, cut) -> None:
    rng = np.random.default_rng(seed)
    records = np.zeros(size + 1, [("t_ns", "<u8"), ("other", "<u8"), ("cpu_ns", "<u8")])
    records["t_ns"] = np.cumsum(rng.integers(0, 3, size + 1))
    records["cpu_ns"] = np.cumsum(rng.integers(-2, 9, size + 1)) + 2 * size
    end_ns = int(records["t_ns"][-1]) - (size if cut else 0)
    t_ns = np.minimum(records["t_ns"].astype(np.int64), max(end_ns, 0))
    grid_ns = np.arange(t_ns[0], t_ns[-1])
    total_s = np.full(len(grid_ns), np.nan)
    first, later = records[0], records[1:]

    before = (int(t_ns[0]), int(first["cpu_ns"]), used_s)
    after = _loops.accumulate(later["t_ns"], later["cpu_ns"], before, max(end_ns, 0), grid_ns, total_s)

    more_s = np.maximum(np.diff(records["cpu_ns"].astype(np.int64)), 0) * 1e-9
    cumulative_s = used_s + np.concatenate(([0.0], np.cumsum(np.where(np.diff(t_ns) > 0, more_s, 0.0))))
    assert after[:2] == (t_ns[-1], records["cpu_ns"][-1])
    np.testing.assert_allclose(after[2], cumulative_s[-1], rtol=1e-12)
    lasting = np.concatenate(([True], np.diff(t_ns) > 0))
    np.testing.assert_allclose(total_s, np.interp(grid_ns, t_ns[lasting], cumulative_s[lasting]), rtol=1e-12)


def test_a_time_that_decreases_counts_as_that_of_the_sample_before() -> None:
    t_ns, cpu_ns = np.array([7, 6, 9], np.uint64), np.array([2, 3, 5], np.uint64)
    total_s = np.empty(3)

    after = _loops.accumulate(t_ns, cpu_ns, (5, 0, 0.0), 9, np.array([6, 7, 8]), total_s)

    assert after == (9, 5, pytest.approx(4e-9))
    np.testing.assert_allclose(total_s, [1e-9, 2e-9, 3e-9], rtol=1e-12)


def test_samples_of_two_dimensions_have_no_cpu_time() -> None:
    t_ns = np.zeros((2, 2), np.uint64)

    with pytest.raises(ValueError, match="the times must have one dimension, got 2"):
        _loops.accumulate(t_ns, t_ns, (5, 0, 0.0), 9, np.empty(0, np.int64), np.empty(0))
