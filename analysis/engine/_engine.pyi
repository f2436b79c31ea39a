"""Loops in C over samples, segments and the joules of intervals; they run without the interpreter's lock.

All arrays are contiguous; those that are written overlap no other one. ValueError says what is wrong with one.

Records are given as bytes (uint8): of samples as `layout` says, of `THREAD` and `INSTANCE`. Layouts, blocks,
tables, segments, courses and owners are tuples of the fields of the structs in `csrc/engine.h`, in their order.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ThreadState: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint64], int]
"""A thread's running sample, of `THREAD`, its counts, (2, columns), the second of no meaning, and its number."""
Layout: TypeAlias = tuple[Any, ...]

def count_running(course: tuple[Any, ...], slot: NDArray[np.int32], running: NDArray[np.int64], /) -> None:
    """Add to `running`, (edges + 2,), whose sums say how many segments of slots but 0 run in each interval, padded."""

def fill_index(table: tuple[Any, ...], /) -> None:
    """Fill the index of a table anew."""

def find(table: tuple[Any, ...], ids: NDArray[np.uint64], rows: NDArray[np.int32], /) -> None:
    """Set `rows`, (n,), to those of instances, -1 where they are not there."""

def follow(
    threads: tuple[tuple[Any, ...], ...],
    before: tuple[Any, ...],
    places: NDArray[np.int64],
    place: tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]],
    /,
) -> tuple[int, int]:
    """Let threads go on to the end of a block, one after the other; returns the instances and segments there.

    Each thread is a tuple: its state, its layout, its samples, where its segments in the block before, `before`, began
    and ended, and what comes after its samples: 0: it runs on; 1: it ends then, or runs on if that is after the block;
    2: it ends; 3: more samples, which are not needed. Then come a time after its samples, its CPU clock at that, -1 if
    it is not known, the most seconds that it then took, and its counts at its end or None. `place` has a block, a table
    and segments. `places`, (threads, 4), are set to where the segments of each begin, where the new ones do, where they
    end, and how many samples were taken: those up to the first that is not before the block's end.
    """

def gather(
    course: tuple[Any, ...],
    values: NDArray[np.float64],
    rates: NDArray[np.float64],
    energies: NDArray[np.float64],
    /,
) -> None:
    """Set energies, (n,), to values, (n,), times the rates, (edges + 1,), of the intervals that segments overlap."""

def share(
    course: tuple[Any, ...],
    values: NDArray[np.float64],
    rates: NDArray[np.float64],
    owners: tuple[NDArray[np.int32], NDArray[np.float64], tuple[Any, ...] | None],
    /,
) -> None:
    """Add values times rates to the energies of owners.

    `owners` are the row of each segment, (rows,) energies, of which the first is no owner's, and None or what is wanted
    of their first and last intervals: the number of each interval, -1 if it does not count, the most that any may have
    there, and what is kept of each row but the first, (rows - 1, `WIDTH` of `instance_bounds`).
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
