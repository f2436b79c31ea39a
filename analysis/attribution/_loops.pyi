"""Loops in C over samples and instances, for which NumPy needs several passes; they run without the interpreter's lock.

All arrays are contiguous; those that are written overlap no other one. ValueError says what is wrong with one, or that
a key is no group; sums that were begun are left as they are then.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def accumulate(
    t_ns: NDArray[np.uint64],
    cpu_ns: NDArray[np.uint64],
    before: tuple[int, int, float],
    end_ns: int,
    grid_ns: NDArray[np.int64],
    used_s: NDArray[np.float64],
    /,
) -> tuple[int, int, float] | None:
    """Add up the CPU time of a thread's segments between samples.

    Parameters
    ----------
    t_ns, cpu_ns : of samples, (n,) each, which may be fields of records
    before : t_ns and cpu_ns of the sample before them, and the CPU seconds of all segments up to it
    end_ns : later times count as this; 0 or later
    grid_ns : (m,), do not decrease
    used_s : (m,), is set to the CPU seconds up to each of these times from `before` to before the last sample

    Returns
    -------
    tuple or None
        The same as `before` of the last sample; None if the times of samples decrease. Segments of no length count
        nothing, nor does CPU time that falls.
    """

def add_by(
    key: NDArray[np.int32], columns: tuple[NDArray[np.float64], ...], groups: int, sums: NDArray[np.float64], /
) -> None:
    """Add elements of columns, each (n,), to sums of their groups, in order.

    `key` (n,) says which group, from 0, each belongs to; `sums` is (columns, groups).
    """

def add_products_by(
    key: NDArray[np.int32],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    centre_x: NDArray[np.float64],
    centre_y: NDArray[np.float64],
    groups: int,
    sums: NDArray[np.float64],
    /,
) -> None:
    """Add the squares of x and y, each (n,), about centres, each (groups,), and their products, to (3, groups) sums."""

def advance_paths(
    net: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]],
    paths: tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    progress: NDArray[np.int64],
    steps: int,
    /,
) -> bool:
    """Find the greatest sums of two weights along a path to each node, and the last edges of these paths.

    Parameters
    ----------
    net : first, (nodes + 1,), and row, (nodes,); target and share, (m,), of edges, those from a node beginning at its
        `first`; weight, (rows, 2). An edge weighs its share of the weights of the row of its source
    paths : reached and came, (nodes, 2), 0 and -1 before; missing, (nodes,), edges into each node, 0 in the end unless
        it is on a cycle or behind one; queue, (nodes,), of any values
    progress : (5,), what was done: 0, 0, 0, -1, 0 before
    steps : nodes and edges after which it returns

    Returns
    -------
    whether all is done
    """

def compact(columns: tuple[NDArray[Any], ...], begin: NDArray[Any], end: NDArray[Any], /) -> None:
    """Move some elements of threads in columns, each (n,), to follow those of the thread before, in place.

    `begin` and `end`, (threads,) int64, say which; they do not overlap, and the first stay where they are.
    """

def count_edges(target: NDArray[np.int32], missing: NDArray[np.int32], /) -> None:
    """Add to `missing`, (nodes,), the number of edges into each node."""

def count_until(
    first: NDArray[np.int32],
    t_ns: NDArray[np.int64],
    row: NDArray[np.int32],
    until_ns: NDArray[np.int64],
    inclusive: bool,
    counts: NDArray[np.int32],
    /,
) -> None:
    """Set counts, (q,), to the times of a row that are before another time, or at it.

    `t_ns`, (m,), do not decrease within a row; `first`, (rows + 1,), is where those of each row begin.
    """

def fill_instances(
    slot: NDArray[np.int32],
    samples: tuple[NDArray[Any], ...],
    t_ns: NDArray[np.int64],
    rows: tuple[NDArray[Any], ...],
    /,
) -> None:
    """Fill a row for each slot that samples have.

    A sample that says that an instance began has its parent before it. One that says that an instance finished names
    the next one, so it ends the slot of the sample before it.

    Parameters
    ----------
    slot : (n,)
    samples : instance, task, cpu, kind, flags of the samples, (n,) each
    t_ns : (n + 1,), where their segments begin, and the last end
    rows : (slots,) each: the place of the first sample (int64), -1 before; instance, parent, task, cpu, start_ns,
        end_ns, last_ns, begun, failed, ended, as of `InstanceRows`. The last two are False before
    """

def find_last(
    waits: NDArray[np.int32],
    waits_for: NDArray[np.int32],
    done_ns: NDArray[np.int64],
    last: NDArray[np.int32],
    /,
) -> None:
    """Set `last`, (rows,), -1 before, to that one for which a row waits that was done last; of several the last one."""

def find_members(slot: NDArray[np.int32], is_member: NDArray[np.bool_], found: NDArray[Any], /) -> int:
    """Set `found`, (n,) int64, to the places of slots, (n,), that are members, (slots,); return how many there are."""

def increase(values: NDArray[np.uint64], scale: float, increments: NDArray[np.float64], /) -> None:
    """Set increments, (n,), to the increases of a cumulative count, (n + 1,), times a scale; 0 where it falls."""

def join(parts: tuple[NDArray[Any], ...], gap: int, target: NDArray[Any], /) -> None:
    """Fill target with the bytes of contiguous arrays, and so many bytes of zero between each two."""

def limit(
    t_ns: NDArray[np.uint64],
    begin: NDArray[Any],
    end: NDArray[Any],
    ends_ns: NDArray[np.int64],
    limited: NDArray[np.int64],
    falls: NDArray[Any],
    /,
) -> None:
    """Limit the times of threads to their ends, and count those that are before the one before.

    Parameters
    ----------
    t_ns : (n,), of all threads
    begin, end : (threads,) int64, where those of each thread are, with a place after them
    ends_ns : (threads,), 0 or later
    limited : (n,), is set to the times, and behind each thread's to its end
    falls : (threads,) int64, is set to the counts
    """

def locate(t_ns: NDArray[np.int64], edges_ns: NDArray[np.int64], place: NDArray[np.int32], /) -> None:
    """Set place, (n,), to how many of increasing edges are at or before each time, (n,).

    It is quick where times mostly increase.
    """

def multiply_by(
    key: NDArray[np.int32],
    factors: NDArray[np.float64],
    values: NDArray[np.float64],
    products: NDArray[np.float64],
    /,
) -> None:
    """Set products, (n,), to values, (n,), times the factors, (groups,), of the groups that `key` says, from 0."""

def number(
    ids: NDArray[np.uint64], begin: NDArray[Any], end: NDArray[Any], most: int, slot: NDArray[np.int32], /
) -> int | None:
    """Number the ids of instances of each thread from 1 on, after those of the threads before; returns how many.

    Parameters
    ----------
    ids : of the samples, (n,); 0: none
    begin, end : (threads,) int64, where the samples of each thread are; they do not overlap
    most : numbers that may be needed; None is returned if it would be more, as ids are numbered by their distance from
        the least one of their thread
    slot : (n,), is set to the numbers; 0 where there is no id
    """

def raise_parents(parent: NDArray[np.int32], first_row: int, backwards: bool, t_ns: NDArray[np.int64], /) -> int:
    """Raise the times, (rows,), of the parents of some rows to those of the rows, if they are later; return how many.

    `parent`, (n,), of the rows from `first_row` on, -1: none. Row after row, or backwards.
    """

def search(
    t_ns: NDArray[np.int64], begin: NDArray[Any], end: NDArray[Any], times_ns: tuple[int, int], found: NDArray[Any], /
) -> None:
    """Find in the times of each thread, which do not decrease, the first that is not before each of two times.

    Parameters
    ----------
    t_ns : (n,), of all threads
    begin, end : (threads,) int64, where those of each thread are
    times_ns : the two
    found : (threads, 2) int64, is set to the places in `t_ns`; to the thread's end where none is
    """

def weigh(
    t_ns: NDArray[np.int64], cpu_s: NDArray[np.float64], nothing: float, modelled: NDArray[np.float64], /
) -> None:
    """Give segments without modelled power so much of their CPU time instead, and those of no length none, in place.

    `cpu_s` and `modelled` are (n,), `t_ns` (n + 1,) with the last end.
    """
