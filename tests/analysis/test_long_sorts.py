"""Columns that do not fit into memory are sorted in runs, with the order of those that do."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples

from benchmarks.overhead.children import in_child
from tprof.errors import TprofError
from tprof.trace import long_arrays, long_sorts

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def short_runs() -> Iterator[None]:
    """Let runs be of 7 rows, of which each third one is sampled, and all longer arrays be in files."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BLOCK", "MOST_HELD"):
            patch.setattr(long_arrays, name, 7)
        patch.setattr(long_arrays, "_MOST_ROWS", 3)
        patch.setattr(long_sorts, "SAMPLES", 3)
        yield


def columns_of(seed: int, count: int, keys: int) -> list[np.ndarray]:
    """Return keys of several types, of which some hardly have two values, and the places of the rows."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice([np.int32, np.int64, np.uint64, np.float64], keys)
    most = rng.choice([0, 1, 4, 1000], keys)
    values = [rng.integers(0, high + 1, count).astype(kind) for kind, high in zip(kinds, most, strict=True)]
    return [np.sort(values[0]) if rng.random() < 0.3 else values[0], *values[1:], np.arange(count, dtype=np.int32)]


@examples(100)
@given(st.integers(0, 2**31), st.integers(0, 120), st.integers(1, 3))
def test_runs_are_merged_to_the_stable_order_of_all_rows(seed, count, keys) -> None:
    columns = columns_of(seed, count, keys)

    found = long_sorts.sorted_columns(count, lambda at: tuple(one[at] for one in columns), keys=keys)

    order = np.lexsort(columns[keys - 1 :: -1])
    for ours, theirs in zip(found, columns, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs[order])


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 120))
def test_distinct_values_and_where_numbers_begin_are_those_of_numpy(seed, count) -> None:
    values = columns_of(seed, count, 1)[0]

    distinct = long_sorts.distinct_values(values)
    first = long_sorts.firsts(np.sort(values).astype(np.int64), 20)

    np.testing.assert_array_equal(distinct, np.unique(values))
    np.testing.assert_array_equal(first, np.searchsorted(np.sort(values).astype(np.int64), np.arange(21)))


@examples(50)
@given(st.lists(st.lists(st.integers(0, 255), max_size=9), max_size=9))
def test_an_array_that_came_in_parts_has_all_of_them_in_order(parts) -> None:
    found, rows = long_arrays.Appended(np.uint8), long_arrays.AppendedRows(np.uint64, np.int32)

    for part in parts:
        found.add(part)
        for value in part:
            rows.add(2**63 + value, -value)

    values = [value for part in parts for value in part]
    assert found.finish().tolist() == values
    assert [one.tolist() for one in rows.finish()] == [[2**63 + one for one in values], [-one for one in values]]


def test_an_array_in_parts_for_which_there_is_no_space_says_so_in_one_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    found = long_arrays.Appended(np.int64)

    with pytest.raises(TprofError, match="/none, which the many readings or instances of this recording need"):
        found.add(range(8))


def _megabytes_more(count: int) -> float:
    """Return by how much sorting so many numbers increases the peak of memory; they are made block by block."""
    values = long_arrays.computed(count, np.int64, lambda at: np.arange(at.start, at.stop) * 2654435761 % 2**31)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    long_sorts.order_of(values)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024e-6


def test_six_million_numbers_more_are_sorted_in_less_memory_than_they_take(monkeypatch) -> None:
    """They are 48 MB, and as much and half of that again in a result in memory."""
    monkeypatch.undo()
    many, few = (in_child(_megabytes_more, count) for count in (8_000_000, 2_000_000))

    assert many - few < 48


def test_rows_are_found_among_ids_in_any_order():
    places = long_sorts.Places(np.array([70, 3, 2**63, 9], np.uint64))

    assert places.rows(np.array([9, 0, 70, 4], np.uint64)).tolist() == [3, -1, 0, -1]
