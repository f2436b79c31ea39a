"""Loops in C over samples, segments and the joules of intervals; they run without the interpreter's lock.

All arrays are contiguous; those that are written overlap no other one. ValueError says what is wrong with one.

Records are given as bytes (uint8): of samples as `layout` says, of `THREAD`, `INSTANCE` and `PART`. Layouts, blocks,
tables, segments, courses and owners are tuples of the fields of the structs in `csrc/engine.h`, in their order.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ThreadState: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint64], int]
"""A thread's running sample, of `THREAD`, its counts, (2, columns), the second of no meaning, and its number."""
Layout: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[Layout, tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]
"""A layout, a block, a table and segments."""
Reached: TypeAlias = tuple[int, int, int, int]
"""How many samples were taken, and how many instances, segments and parts there are then."""

def close(
    thread: ThreadState, end_cpu_ns: int, end_counts: NDArray[np.uint64], cpu_s: float, place: Place, /
) -> Reached:
    """Close a thread's last segment at its end.

    Its clock and its counts are given; CPU seconds that are not negative take the place of what the clock says.
    """

def count_running(course: tuple[Any, ...], slot: NDArray[np.int32], running: NDArray[np.int64], /) -> None:
    """Add to `running`, (edges + 2,), whose sums say how many segments of slots but 0 run in each interval, padded."""

def end_part(place: Place, /) -> Reached:
    """End a thread's segments in a block, of which there are some."""

def fill_index(table: tuple[Any, ...], /) -> None:
    """Fill the index of a table anew."""

def find(table: tuple[Any, ...], ids: NDArray[np.uint64], rows: NDArray[np.int32], /) -> None:
    """Set `rows`, (n,), to those of instances, -1 where they are not there."""

def find_ends(
    instances: NDArray[np.uint8],
    edges_ns: NDArray[np.int64],
    before: int,
    kept: NDArray[np.float64],
    begin: int,
    width: int,
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    /,
) -> None:
    """Find in which intervals instances, (rows,), begin and end.

    `before` intervals come before those between the edges. `kept`, (rows, width), has four numbers of each instance
    from `begin` on: those of both intervals plus 1, which are set if they are known, and the joules in these. `first`
    and `last`, (rows,), are set to places among these intervals, from 1, or -1.
    """

def follow(
    threads: tuple[tuple[Any, ...], ...],
    before: tuple[Any, ...],
    places: NDArray[np.int64],
    place: tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]],
    /,
) -> Reached:
    """Let threads go on, one after the other, to the end of a block; returns as `take`, with 0 samples.

    Each thread is a tuple: its state, its layout, its samples, where its segments in the block before began and ended,
    its CPU clock at a time and that time, whether it ends then, and how many seconds a clock adds at most that is not
    known, -1. `place` has a block, a table and segments. `places`, (threads, 4), are set to where the segments of each
    begin and end, to its first part, and to how many samples were taken.
    """

def gather(
    course: tuple[Any, ...],
    values: NDArray[np.float64],
    rates: NDArray[np.float64],
    energies: NDArray[np.float64],
    /,
) -> None:
    """Set energies, (n,), to values, (n,), times the rates, (edges + 1,), of the intervals that segments overlap."""

def retain(thread: ThreadState, before: tuple[Any, ...], begin: int, end: int, place: Place, /) -> Reached:
    """Begin a thread's part of a block with those segments of the block before that it needs."""

def share(
    course: tuple[Any, ...],
    values: NDArray[np.float64],
    rates: NDArray[np.float64],
    owners: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], tuple[Any, ...] | None],
    /,
) -> None:
    """Add values times rates to the energies of owners.

    `owners` are the slot of each segment, the row of each slot, (rows,) energies, and what is wanted apart: the number
    of each interval (or None), the first and the last one of each row, and their (rows,) energies.
    """

def spread(
    course: tuple[Any, ...],
    values: NDArray[np.float64],
    row: NDArray[np.int32] | None,
    rows: int,
    sums: NDArray[np.float64],
    /,
) -> None:
    """Add values to sums, (rows, edges + 1), of the intervals that segments overlap; `row` says to which of each."""

def take(thread: ThreadState, records: NDArray[np.uint8], place: Place, /) -> Reached:
    """Go on with a thread, up to the first sample that is not before the block's end, or while there is room."""
