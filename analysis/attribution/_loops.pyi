"""Loops in C over samples and instances, for which NumPy needs several passes; they run without the interpreter's lock.

All arrays are contiguous; those that are written overlap no other one. ValueError says what is wrong with one, or that
a key is no group; sums that were begun are left as they are then.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def accumulate(
    t_ns: NDArray[np.int64],
    cpu_s: NDArray[np.float64],
    grid_ns: NDArray[np.int64],
    used_s: float,
    total_s: NDArray[np.float64],
    /,
) -> float | None:
    """Add CPU seconds of segments, (n,), to those used before; returns the sum, None if the times decrease.

    `t_ns`, (n + 1,), are the begins of the segments and the last end; those of no length count nothing. `total_s`,
    (m,), is set to the sum up to each of the times of `grid_ns`, (m,), which do not decrease and lie between the first
    and the last of these.
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

def find_extents(
    slot: NDArray[np.int32],
    kind: NDArray[np.uint8],
    flags: NDArray[np.uint8],
    first: NDArray[Any],
    last: NDArray[Any],
    failed: NDArray[np.bool_],
    ended: NDArray[np.bool_],
    /,
) -> None:
    """Find the first and the last sample of each slot, whether it failed and whether it ended.

    `slot`, `kind` and `flags` are of the samples, (n,). Of the rest, each (slots,), `first` and `last` are int64;
    `first` is -1, `failed` and `ended` are False before. A sample that finishes an instance names the next one, so it
    ends the slot of the sample before it.
    """

def increase(values: NDArray[np.uint64], scale: float, increments: NDArray[np.float64], /) -> None:
    """Set increments, (n,), to the increases of a cumulative count, (n + 1,), times a scale; 0 where it falls."""

def weigh(
    t_ns: NDArray[np.int64], cpu_s: NDArray[np.float64], nothing: float, modelled: NDArray[np.float64], /
) -> None:
    """Give segments without modelled power so much of their CPU time instead, and those of no length none, in place.

    `cpu_s` and `modelled` are (n,), `t_ns` (n + 1,) with the last end.
    """
