"""Arrays with a value for each reading or instance: in memory while they are short, else in temporary files.

A sensor that is read each millisecond has 86 million readings a day. A file has no name, so it is gone when nothing
uses it, however the process ends. Its pages are mapped into memory: the kernel writes them when it needs the memory,
and `release` leaves them to it, so that what is computed block by block takes the memory of a block.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

BLOCK = 1 << 18
"""Values that are computed at a time."""
MOST_HELD = 1 << 20
"""Values of an array in memory."""
PLACES = 32
"""Places that are looked at before pages are released: the kernel maps 64 kB around each, and a search looks at 30."""
_NO_SPACE = (
    "cannot make a temporary file of {megabytes:,.0f} MB in {folder}, which the many readings or instances of this "
    "recording need (set TMPDIR to another folder)"
)


def empty(count: int, kind: DTypeLike) -> NDArray[Any]:
    """Return an array without values. Raises TprofError if there is no space for its file."""
    kind = np.dtype(kind)
    if count <= MOST_HELD:
        return np.empty(count, kind)
    folder, size = temporary_folder(), count * kind.itemsize
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            # Without its blocks on the disk, a write to the mapping would end the process when the disk is full.
            os.posix_fallocate(file.fileno(), 0, size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        message = _NO_SPACE.format(megabytes=size / 1e6, folder=folder)
        raise TprofError(f"{message}: {error.strerror}") from error
    return np.frombuffer(mapped, kind)


def zeros(count: int, kind: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros, as `empty`."""
    # A file's blocks are zeros until they are written.
    return np.zeros(count, kind) if count <= MOST_HELD else empty(count, kind)


def temporary_folder() -> str:
    """Return where large temporary files belong: that for small ones may be in memory."""
    large = "/var/tmp"  # noqa: S108 - a file without a name
    return large if not os.environ.get("TMPDIR") and os.access(large, os.W_OK) else tempfile.gettempdir()


def blocks(count: int, *arrays: NDArray[Any], backwards: bool = False) -> Iterator[slice]:
    """Yield slices of so many values, block by block; pages of the arrays are released after each block."""
    begins = range(0, count, BLOCK)
    for begin in reversed(begins) if backwards else begins:
        yield slice(begin, min(begin + BLOCK, count))
        release(*arrays)


def release(*arrays: NDArray[Any]) -> None:
    """Leave the pages of arrays, or of the arrays whose parts they are, to the kernel; their values stay."""
    for one in arrays:
        base: object = one
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)


def computed(
    count: int, kind: DTypeLike, values: Callable[[slice], NDArray[Any]], *sources: NDArray[Any]
) -> NDArray[Any]:
    """Return an array of what a function returns for its parts, whose pages are released as those of the sources."""
    found = empty(count, kind)
    for block in blocks(count, found, *sources):
        found[block] = values(block)
    return found


def differences(values: NDArray[Any]) -> NDArray[Any]:
    """Return what each value has more than the one before, as `numpy.diff`."""
    count = max(len(values) - 1, 0)
    return computed(count, values.dtype, lambda at: np.diff(values[at.start : at.stop + 1]), values)


def joined(parts: Sequence[NDArray[Any]], kind: DTypeLike) -> NDArray[Any]:
    """Return arrays one after the other."""
    found, done = empty(sum(map(len, parts)), kind), 0
    for part in parts:
        for block in blocks(len(part), part, found):
            found[done + block.start : done + block.stop] = part[block]
        done += len(part)
    return found


def running_sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of all values before each, and last that of all: (n + 1,)."""
    found = zeros(len(values) + 1, values.dtype)
    for block in blocks(len(values), values, found):
        # The sum before is the first that is added, as in one `numpy.cumsum`.
        part = np.concatenate((found[block.start : block.start + 1], values[block]))
        found[block.start : block.stop + 1] = np.cumsum(part)
    return found


def kept(values: NDArray[Any], which: Callable[[slice], NDArray[np.bool_]]) -> NDArray[Any]:
    """Return the values of which a function says so, of their parts."""
    found, done = empty(len(values), values.dtype), 0
    for block in blocks(len(values), values, found):
        part = values[block][which(block)]
        found[done : done + len(part)] = part
        done += len(part)
    return found[:done]


def ordered(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values in increasing order.

    Blocks are sorted, then merged in parts: between the values at every so many places of each block lie few of others.
    """
    count = len(values)
    if count <= MOST_HELD:
        return np.sort(values)
    runs = computed(count, values.dtype, lambda block: np.sort(values[block]), values)
    parts = [runs[block] for block in blocks(count)]
    step = max(BLOCK // len(parts), 1)
    cuts = np.sort(np.concatenate([part[step::step] for part in parts]))[:: len(parts)]
    places = np.array([[0, *np.searchsorted(part, cuts), len(part)] for part in parts])
    release(runs)
    found, done = empty(count, values.dtype), 0
    for begins, ends in itertools.pairwise(places.T):
        some = [part[begin:end] for part, begin, end in zip(parts, begins, ends, strict=True)]
        length = int((ends - begins).sum())
        found[done : done + length] = np.sort(np.concatenate(some))
        done += length
        release(found, runs)
    return found


def taken(values: NDArray[Any], at: NDArray[np.intp]) -> NDArray[Any]:
    """Return the values at increasing places; pages are released, since the kernel maps some around each place."""
    return _in_parts(values, at, lambda places: values[places], values.dtype)


def searched(values: NDArray[Any], keys: NDArray[Any]) -> NDArray[np.intp]:
    """Return where increasing keys belong among increasing values, as `numpy.searchsorted`; pages as in `taken`."""
    return _in_parts(values, keys, lambda some: np.searchsorted(values, some), np.intp)


def _in_parts(
    values: NDArray[Any], keys: NDArray[Any], of: Callable[[NDArray[Any]], NDArray[Any]], kind: DTypeLike
) -> NDArray[Any]:
    found = np.empty(len(keys), kind)
    for first in range(0, len(keys), PLACES):
        found[first : first + PLACES] = of(keys[first : first + PLACES])
        release(values)
    return found


def total(values: NDArray[Any]) -> float:
    """Return the sum of values."""
    return float(sum(values[block].sum() for block in blocks(len(values), values)))


def is_any(flags: NDArray[np.bool_]) -> bool:
    """Return whether any flag is set."""
    return any(flags[block].any() for block in blocks(len(flags), flags))


def median(values: NDArray[np.int64]) -> float:
    """Return the median of whole numbers that are not negative, as `numpy.median` does, or 0 without any.

    The values in the middle are found digit by digit, from numbers of values with each digit: O(values).
    """
    if len(values) <= BLOCK:
        return float(np.median(values)) if len(values) else 0.0
    return (_ranked(values, (len(values) - 1) // 2) + _ranked(values, len(values) // 2)) / 2


def _ranked(values: NDArray[np.int64], rank: int) -> int:
    """Return the value that so many come before in increasing order."""
    prefix = 0
    for shift in range(48, -1, -_DIGIT):
        counts = np.zeros(1 << _DIGIT, np.int64)
        for block in blocks(len(values), values):
            part = values[block] >> shift
            counts += np.bincount(part[part >> _DIGIT == prefix] & ((1 << _DIGIT) - 1), minlength=1 << _DIGIT)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, rank, side="right"))
        rank -= int(below[digit - 1]) if digit else 0
        prefix = prefix << _DIGIT | digit
    return prefix


_DIGIT = 16
"""Bits of a number that are looked at in a pass."""
