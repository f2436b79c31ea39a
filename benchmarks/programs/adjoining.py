"""Arrays that stand side by side, as one array: no copy where they are parts of one, as on threads.

Tasks declare the smallest parts that any task writes, so that the same parts are the data of all tasks, and on a
cluster, where parts lie in the memory of several workers, each is sent by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def join(parts: NDArray[Any] | Sequence[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """Return one array of the parts: a view of their memory if they adjoin there, else a copy.

    Parameters
    ----------
    parts
        Arrays of the same shape but for this axis; or one array, which is returned.
    axis
        Along which they follow each other.
    """
    if isinstance(parts, np.ndarray):
        return parts
    if not _adjoin(parts, axis):
        return np.concatenate(parts, axis)
    first = parts[0]
    shape = list(first.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return np.lib.stride_tricks.as_strided(first, shape, first.strides)


def put_back(joined: NDArray[Any], parts: NDArray[Any] | Sequence[NDArray[Any]], axis: int = 0) -> None:
    """Copy what was written to the joined array into the parts, unless it is their memory."""
    if isinstance(parts, np.ndarray) or _adjoin(parts, axis):
        return
    ends = np.cumsum([part.shape[axis] for part in parts])
    for part, piece in zip(parts, np.split(joined, ends[:-1], axis), strict=True):
        part[...] = piece


def _adjoin(parts: Sequence[NDArray[Any]], axis: int) -> bool:
    """Return whether each part begins in memory where the one before would go on."""
    first = parts[0]
    steps = np.cumsum([0, *(part.shape[axis] for part in parts[:-1])]) * first.strides[axis]
    return all(
        part.strides == first.strides and part.ctypes.data == first.ctypes.data + step
        for part, step in zip(parts, steps.tolist(), strict=True)
    )
