"""Columns of any length sorted by some of them: runs that fit into memory are sorted and then merged (Knuth, 1973).

A run is sorted in memory and written to temporary files. Values between two neighbours of a sample of all runs are few,
so they are taken from each run, sorted in memory and appended: O(rows log rows), files are read and written in order,
and memory holds a run. Ties stay in their order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import long_arrays
from .long_arrays import PLACES, AppendedColumns, blocks, empty, release

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Columns = tuple[NDArray[Any], ...]
SAMPLES = 1 << 10
"""Rows of a run that stand for all of it."""


def sorted_columns(
    count: int, read: Callable[[slice], Columns], *sources: NDArray[Any], keys: int = 1
) -> tuple[NDArray[Any], ...]:
    """Return columns sorted by the first ones of them, which are its keys.

    Parameters
    ----------
    count : of the rows
    read : returns the columns of some rows, each (rows,)
    sources : arrays that it reads, whose pages are released
    keys : number of keys; the first decides first
    """
    if count <= long_arrays.MOST_HELD:
        columns = _sorted(read(slice(0, count)), keys)
        release(*sources)
        return columns
    runs = _Runs(count, read(slice(0, 0)), keys)
    for at in _run_slices(count):
        runs.write(at, _sorted(read(at), keys))
        release(*sources)
    return runs.merged()


def sorted_arrays(arrays: Sequence[NDArray[Any]], keys: int = 1) -> tuple[NDArray[Any], ...]:
    """Return arrays of one length sorted by the first ones of them, as `sorted_columns`."""
    return sorted_columns(len(arrays[0]), lambda at: tuple(one[at] for one in arrays), *arrays, keys=keys)


def sorted_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of an array in increasing order."""
    return sorted_arrays([values])[0]


def order_of(*keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the first of some keys sorted, and the stable order of the rows by all keys."""
    columns = sorted_columns(len(keys[0]), lambda at: (*(key[at] for key in keys), places(at)), *keys, keys=len(keys))
    return columns[0], columns[-1]


def places(at: slice) -> NDArray[np.int32]:
    """Return the numbers of some rows."""
    return np.arange(at.start, at.stop, dtype=np.int32)


def distinct_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of an array without repetitions, increasing."""
    return first_rows([sorted_values(values)])[0]


def first_rows(columns: Sequence[NDArray[Any]], keys: int = 1) -> Columns:
    """Return of columns in order the first row with each value of the first ones of them, which are its keys."""
    found = AppendedColumns(*(column.dtype for column in columns))
    for at in blocks(len(columns[0]), *columns):
        is_first = np.logical_or.reduce([changes(column, at) for column in columns[:keys]])
        found.add(*(column[at][is_first] for column in columns))
    return found.finish()


def rows_of(ids: NDArray[np.uint64], sought: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where each of some ids is among increasing ones; -1 if it is 0 or not there."""
    if not len(ids):
        return np.full(len(sought), -1)
    at = np.minimum(np.searchsorted(ids, sought), len(ids) - 1)
    found = np.where((ids[at] == sought) & (sought != 0), at, -1)
    release(ids)
    return found


class Places:
    """Finds the rows of ids that are in any order."""

    def __init__(self, ids: NDArray[np.uint64]) -> None:
        """Sort them."""
        order = np.argsort(ids, kind="stable")
        self._ids, self._row = ids[order], np.append(order, -1)

    def rows(self, sought: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each id, -1 if it is 0 or not there."""
        return self._row[rows_of(self._ids, sought)]


def changes(values: NDArray[Any], at: slice) -> NDArray[np.bool_]:
    """Return which of some values differ from the one before."""
    before = values[max(at.start - 1, 0) : at.stop - 1]
    changed = values[at.stop - len(before) : at.stop] != before
    return np.concatenate(([True], changed)) if at.start == 0 else np.asarray(changed)


def firsts(increasing: NDArray[Any], rows: int) -> NDArray[np.int32]:
    """Return where each of the numbers from 0 to `rows` begins, or would, among increasing ones, (rows + 1,) int32."""
    return long_arrays.computed(
        rows + 1, np.int32, lambda at: np.searchsorted(increasing, np.arange(at.start, at.stop)), increasing
    )


def _run_slices(count: int) -> list[slice]:
    length = long_arrays.BLOCK
    return [slice(begin, min(begin + length, count)) for begin in range(0, count, length)]


def _sorted(columns: Columns, keys: int) -> Columns:
    if len(columns) == 1:
        return (np.sort(columns[0]),)
    if keys == 1 and bool((columns[0][1:] >= columns[0][:-1]).all()):
        return columns
    order = np.argsort(columns[0], kind="stable") if keys == 1 else np.lexsort(columns[keys - 1 :: -1])
    return tuple(column[order] for column in columns)


class _Runs:
    """Sorted runs, one after the other in each column, and a sample of their keys."""

    def __init__(self, count: int, columns: Columns, keys: int) -> None:
        self._columns = [empty(count, column.dtype) for column in columns]
        self._keys = keys
        self._runs: list[slice] = []
        self._sample: list[Columns] = []

    def write(self, at: slice, columns: Columns) -> None:
        """Add a run."""
        for column, values in zip(self._columns, columns, strict=True):
            column[at] = values
        step = max((at.stop - at.start) // SAMPLES, 1)
        place = np.arange(at.start, at.stop, step)
        number = np.full(len(place), len(self._runs))
        self._sample.append((*(column[::step].copy() for column in columns[: self._keys]), number, place))
        self._runs.append(at)
        release(*self._columns)

    def merged(self) -> tuple[NDArray[Any], ...]:
        """Return the columns in order; values between two bounds are in memory together."""
        found = [empty(len(column), column.dtype) for column in self._columns]
        done = 0
        for begins, ends in pairwise(self._bounds()):
            pieces = [slice(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]
            if not pieces:
                continue
            together = tuple(np.concatenate([column[piece] for piece in pieces]) for column in self._columns)
            at = slice(done, done + len(together[0]))
            for column, values in zip(found, _sorted(together, self._keys), strict=True):
                column[at] = values
            done = at.stop
            release(*self._columns, *found)
        return tuple(found)

    def _bounds(self) -> list[Sequence[int]]:
        """Return places of all runs, which have the same values before them: at the begin, between, and at the end."""
        sample = _sorted(tuple(np.concatenate(column) for column in zip(*self._sample, strict=True)), self._keys)
        step = len(self._sample[0][0])
        chosen = range(step, len(sample[0]), step)
        between = [self._places([column[one] for column in sample]) for one in chosen]
        return [[run.start for run in self._runs], *between, [run.stop for run in self._runs]]

    def _places(self, bound: Sequence[Any]) -> list[int]:
        """Return where a sampled row is in its run, and where it would be in the others."""
        *values, number, place = bound
        found = []
        for other, run in enumerate(self._runs):
            low, high = self._near(other, values[0])
            for column, value in zip(self._columns[: self._keys], values, strict=True):
                some = column[low:high]
                low, high = low + int(np.searchsorted(some, value)), low + int(np.searchsorted(some, value, "right"))
            # Of equal values those of earlier runs come first.
            found.append(int(place) if other == number else high if other < number else low)
            if other % PLACES == PLACES - 1 or run is self._runs[-1]:
                release(*self._columns)
        return found

    def _near(self, number: int, value: Any) -> tuple[int, int]:
        """Return between which sampled rows of a run those with a value of the first key are."""
        run, known = self._runs[number], self._sample[number][0]
        step = max((run.stop - run.start) // SAMPLES, 1)
        before, behind = int(np.searchsorted(known, value)), int(np.searchsorted(known, value, "right"))
        return run.start + max(before - 1, 0) * step, min(run.start + behind * step, run.stop)
