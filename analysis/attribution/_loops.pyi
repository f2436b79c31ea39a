"""Loops in C over samples and instances, for which NumPy needs several passes; they run without the interpreter's lock.

All arrays are contiguous; those that are written overlap no other one. ValueError says what is wrong with one, or that
a key is no group; sums that were begun are left as they are then.
"""

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
) -> tuple[int, int, float]:
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
    tuple
        The same as `before` of the last sample. A time that decreases counts as that of the sample before. Segments of
        no length count nothing, nor does CPU time that falls.
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

def locate(t_ns: NDArray[np.int64], edges_ns: NDArray[np.int64], place: NDArray[np.int32], /) -> None:
    """Set place, (n,), to how many of increasing edges are at or before each time, (n,).

    It is quick where times mostly increase.
    """

def weigh(
    t_ns: NDArray[np.int64], cpu_s: NDArray[np.float64], nothing: float, modelled: NDArray[np.float64], /
) -> None:
    """Give segments without modelled power so much of their CPU time instead, and those of no length none, in place.

    `cpu_s` and `modelled` are (n,), `t_ns` (n + 1,) with the last end.
    """
