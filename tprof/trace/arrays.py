"""Checks a caller's arrays and converts them to whole numbers, never truncated, wrapped or rounded silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

LARGEST_FLOAT_STEP = 2.0**63


def refuse_if(wrong: bool, message: str) -> None:  # noqa: FBT001 - a condition
    """Raise UsageError with the message if something is wrong."""
    if wrong:
        raise UsageError(message)


def first_where(values: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> int:
    """Return the first of the values that are marked, for a message."""
    return int(values[where][0]) if where.any() else 0


def numbers(where: str, key: str, values: Any, length: int | None = None) -> npt.NDArray[Any]:
    """Return finite numbers as a one-dimensional array, of this length if it is given. Raises UsageError."""
    try:
        array = np.asarray(values)
    except ValueError:
        message = f"{where}: {key} must be one-dimensional, got rows of different lengths"
        raise UsageError(message) from None
    refuse_if(array.ndim != 1, f"{where}: {key} must be one-dimensional, got shape {array.shape}")
    refuse_if(array.size > 0 and array.dtype.kind not in "iuf", f"{where}: {key} must hold numbers, got {array.dtype}")
    wrong = length is not None and len(array) != length
    refuse_if(wrong, f"{where}: t_ns has {length} entries, {key} {len(array)}")
    if array.dtype.kind == "f":
        refuse_if(not bool(np.isfinite(array).all()), f"{where}: {key} must be finite")
    return array


def whole(where: str, key: str, values: Any, length: int | None = None) -> npt.NDArray[np.int64]:
    """Return whole numbers that fit into 64 bits with sign. Raises UsageError."""
    array = numbers(where, key, values, length)
    if array.dtype.kind == "f":
        refuse_if(bool((array != np.trunc(array)).any()), f"{where}: {key} must hold whole numbers")
        outside = np.abs(array) >= LARGEST_FLOAT_STEP
    elif array.dtype.kind == "u":
        outside = array > np.uint64(2**63 - 1)
    else:
        return array.astype(np.int64, copy=False)
    refuse_if(bool(outside.any()), f"{where}: {key} must be below 2**63")
    return array.astype(np.int64)


def unsigned(
    where: str,
    key: str,
    values: Any,
    length: int,
    *,
    below: int = 2**64,
    cut: bool = False,
) -> npt.NDArray[np.uint64]:
    """Return whole numbers from 0 to before `below`; with `cut`, fractions are cut off. Raises UsageError."""
    array = numbers(where, key, values, length)
    if not len(array):
        return array.astype(np.uint64)
    if array.dtype.kind == "f" and not cut:
        refuse_if(bool((array != np.trunc(array)).any()), f"{where}: {key} must hold whole numbers")
    lowest, highest = array.min(), array.max()
    refuse_if(bool(lowest < 0), f"{where}: {key} must not be negative, got {lowest}")
    refuse_if(int(highest) >= below, f"{where}: {key} must be below {below}, got {highest}")
    return array.astype(np.uint64, copy=False)
