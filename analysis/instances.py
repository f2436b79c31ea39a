"""The table of instances, filled thread by thread: one row each, whatever threads it ran on.

The recorder numbers instances thread by thread, so a row is found by arithmetic; other writers' numbers are
looked up in a sorted list. Cost: O(samples), or O(samples log instances) for foreign numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from .segments import Segments

    Integers = npt.NDArray[np.int64]

SHIFT = 40
NOT_YET = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Rows:
    """How an instance's number becomes a row.

    Attributes
    ----------
    count : number of rows.
    find : (n,) uint64 numbers, none of them 0, to (n,) int32 rows; -1 for one that never began.
    """

    count: int
    find: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.int32]]


def number_rows(started: list[npt.NDArray[np.uint64]]) -> Rows:
    """Give each instance a row.

    Parameters
    ----------
    started
        For each thread, the numbers of the instances that began on it, in order.
    """
    total = sum(len(one) for one in started)
    fast = _recorder_numbers(started, total)
    return fast if fast is not None else _any_numbers(started, total)


def _recorder_numbers(started: list[npt.NDArray[np.uint64]], total: int) -> Rows | None:
    """Rows by arithmetic: a block for each thread, a row for each count; None where the numbers are not ours."""
    blocks: dict[int, int] = {}
    for one in started:
        if not len(one):
            continue
        owner, last = int(one[0]) >> SHIFT, int(one.max())
        if owner == 0 or owner > 1 << 23 or last >> SHIFT != owner or int(one.min()) >> SHIFT != owner or owner in blocks:
            return None
        blocks[owner] = (last & ((1 << SHIFT) - 1)) + 1
    if sum(blocks.values()) > 2 * total + 1000:
        return None
    top = max(blocks, default=0)
    offset = np.zeros(top + 2, np.int64)
    size = np.zeros(top + 2, np.int64)
    count = 0
    for owner in sorted(blocks):
        offset[owner], size[owner] = count, blocks[owner]
        count += blocks[owner]

    def find(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        owner = np.minimum(numbers >> np.uint64(SHIFT), np.uint64(top + 1)).astype(np.int32)
        index = (numbers & np.uint64((1 << SHIFT) - 1)).astype(np.int64)
        if len(owner) and owner[0] == owner[-1] and (owner == owner[0]).all():
            block, length = offset[owner[0]], size[owner[0]]
            return np.where(index < length, index + block, -1).astype(np.int32)
        return np.where(index < size[owner], index + offset[owner], -1).astype(np.int32)

    return Rows(count, find)


def _any_numbers(started: list[npt.NDArray[np.uint64]], total: int) -> Rows:
    """Rows by look-up, in the order in which the threads began the instances."""
    every = np.concatenate(started) if started else np.zeros(0, np.uint64)
    numbers, first = np.unique(every, return_index=True)
    order = np.argsort(first, kind="stable")
    row = np.empty(len(numbers), np.int32)
    row[order] = np.arange(len(numbers), dtype=np.int32)

    def find(wanted: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        if not len(numbers):
            return np.full(len(wanted), -1, np.int32)
        at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        return np.where(numbers[at] == wanted, row[at], np.int32(-1))

    return Rows(len(numbers), find)


class Instances:
    """Columns of the table, one entry a row."""

    def __init__(self, rows: Rows, counters: tuple[str, ...]) -> None:
        """Make room for all rows."""
        count = rows.count
        self.rows = rows
        self.number = np.zeros(count, np.uint64)
        self.parent = np.zeros(count, np.uint64)
        self.task = np.zeros(count, np.uint32)
        self.thread = np.zeros(count, np.int32)
        self.cpu = np.zeros(count, np.uint16)
        self.package = np.full(count, -1, np.int16)
        self.start_ns = np.full(count, NOT_YET, np.int64)
        self.end_ns = np.zeros(count, np.int64)
        self.cpu_s = np.zeros(count)
        self.own_s = np.zeros(count)
        self.failed = np.zeros(count, bool)
        self.counters = {name: np.zeros(count) for name in counters}
        self.twice = 0

    def row_of_segments(self, segments: Segments) -> npt.NDArray[np.int32]:
        """Return each segment's row; -1 where nobody runs."""
        row = self.rows.find(segments.instance)
        row[segments.instance == 0] = -1
        return row

    def add(self, thread: int, segments: Segments, row: npt.NDArray[np.int32]) -> None:
        """Enter what a thread's segments say."""
        starts = np.flatnonzero(segments.start & (row >= 0))
        at = row[starts]
        self.twice += int((self.number[at] != 0).sum())
        earlier = segments.edges_ns[starts] < self.start_ns[at]
        starts, at = starts[earlier], at[earlier]
        before = np.concatenate([np.zeros(1, np.uint64), segments.instance[:-1]])
        self.number[at] = segments.instance[starts]
        self.parent[at] = before[starts]
        self.task[at] = segments.task[starts]
        self.thread[at] = thread
        self.cpu[at] = segments.cpu[starts]
        self.package[at] = segments.package[starts]
        self.start_ns[at] = segments.edges_ns[starts]
        ran = np.flatnonzero(row >= 0)
        at = row[ran]
        # Where a row occurs more than once the last assignment stands, and ends increase along a thread.
        self.end_ns[at] = np.maximum(self.end_ns[at], segments.edges_ns[ran + 1])
        self.failed[row[segments.failed & (row >= 0)]] = True
        if segments.aborted:
            aborted = self.rows.find(np.array([segments.aborted], np.uint64))
            self.failed[aborted[aborted >= 0]] = True
        add_by_row(self.cpu_s, row, segments.running_s)
        add_by_row(self.own_s, row, np.diff(segments.edges_ns) * 1e-9)
        for name, values in self.counters.items():
            add_by_row(values, row, segments.counters[name] if name in segments.counters else np.full(len(row), np.nan))

    def known(self) -> npt.NDArray[np.bool_]:
        """Which rows stand for an instance that really began, (rows,) bool."""
        return self.start_ns != NOT_YET


def add_by_row(column: npt.NDArray[np.float64], row: npt.NDArray[np.int32], amount: npt.NDArray[Any]) -> None:
    """Add each segment's amount to its row; a thread's rows lie close together, and only these are touched."""
    low, high = _span(row)
    if low < 0:
        return
    place = np.maximum(row - (low - 1), 0)  # 0 takes what is nobody's
    sums = np.bincount(place, weights=amount, minlength=high - low + 2)
    column[low : high + 1] += sums[1 : high - low + 2]


def _span(row: npt.NDArray[np.int32]) -> tuple[int, int]:
    high = int(row.max(initial=-1))
    if high < 0:
        return -1, -1
    return int(row[row >= 0].min()), high
