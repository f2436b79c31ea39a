"""Arrays with a value for each reading or instance: in memory while they are short, else in temporary files.

A sensor that is read each millisecond has 86 million readings a day. A file has no name, so it is gone when nothing
uses it, however the process ends. Its pages are mapped into memory: the kernel writes them when it needs the memory,
and `release` leaves them to it, so that what is computed block by block takes the memory of a block.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

Opened = TypeVar("Opened")
BLOCK = 1 << 18
"""Values that are computed at a time."""
MOST_HELD = 1 << 20
"""Values of an array in memory."""
PLACES = 32
"""Places that are looked at before pages are released: the kernel maps 64 kB around each, and a search looks at 30."""
_MOST_ROWS = 1 << 14
"""Rows that are kept as objects."""
_MOST_PARTS = 1 << 10
"""Parts that are kept in memory before they are joined."""
_NO_SPACE = (
    "cannot make a temporary file of {megabytes:,.0f} MB in {folder}, which the many readings or instances of this "
    "recording need (set TMPDIR to another folder)"
)
_NO_FILES = (
    "this recording needs more temporary files than this process may have open: let it have more (such as by ulimit "
    "-n 65536, as root)"
)


def empty(count: int, kind: DTypeLike) -> NDArray[Any]:
    """Return an array without values. Raises TprofError if there is no space for its file."""
    kind = np.dtype(kind)
    if count <= MOST_HELD:
        return np.empty(count, kind)
    size = count * kind.itemsize
    with with_space(_no_space(size)), temporary_file() as file:
        # Without its blocks on the disk, a write to the mapping would end the process when the disk is full.
        os.posix_fallocate(file.fileno(), 0, size)
        mapped = _mapped(file, size)
    return np.frombuffer(mapped, kind)


def stored(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy, as `empty`."""
    found = empty(len(values), values.dtype)
    found[:] = values
    return found


def concatenated(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the values of arrays one after the other, as `empty`."""
    return np.concatenate(parts, out=empty(sum(map(len, parts)), parts[0].dtype))


class Appended:
    """An array whose values come in parts: in memory while they are few, else in a temporary file."""

    def __init__(self, kind: DTypeLike) -> None:
        self._kind = np.dtype(kind)
        self._parts: list[NDArray[Any]] = []
        self._held = self._written = 0
        self._file: IO[bytes] | None = None

    def add(self, values: NDArray[Any] | Sequence[Any]) -> None:
        """Add some values. Raises TprofError if there is no space for their file."""
        if len(values):
            # A copy, since what it is a part of may be long.
            self._parts.append(np.array(values, self._kind))
            self._held += len(values)
        if self._held > MOST_HELD:
            self._write()
        elif len(self._parts) > _MOST_PARTS:
            self._parts = [np.concatenate(self._parts)]

    def _write(self) -> None:
        size = (self._written + self._held) * self._kind.itemsize
        with with_space(_no_space(size)):
            if self._file is None:
                self._file = temporary_file()
            for part in self._parts:
                self._file.write(part.tobytes())
            self._file.flush()
        self._written, self._held, self._parts = self._written + self._held, 0, []

    def finish(self) -> NDArray[Any]:
        """Return all values; no more may be added."""
        if self._file is None:
            return np.concatenate(self._parts) if self._parts else np.empty(0, self._kind)
        self._write()
        size = self._written * self._kind.itemsize
        with self._file, with_space(_no_space(size)):
            mapped = _mapped(self._file, size)
        return np.frombuffer(mapped, self._kind)


class AppendedColumns:
    """Arrays of one length whose values come in parts, as many of each at a time."""

    def __init__(self, *kinds: DTypeLike) -> None:
        self._columns = [Appended(kind) for kind in kinds]

    def add(self, *values: NDArray[Any] | Sequence[Any]) -> None:
        """Add a part of each. Raises as `Appended`."""
        for column, some in zip(self._columns, values, strict=True):
            column.add(some)

    def finish(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays; no more may be added."""
        return tuple(column.finish() for column in self._columns)


class AppendedRows:
    """Arrays whose values come one by one, a row of all of them at a time."""

    def __init__(self, *kinds: DTypeLike) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._columns = AppendedColumns(*kinds)

    def add(self, *row: Any) -> None:
        """Add a row. Raises as `Appended`."""
        self._rows.append(row)
        if len(self._rows) == _MOST_ROWS:
            self._store()

    def _store(self) -> None:
        if self._rows:
            self._columns.add(*zip(*self._rows, strict=True))
        self._rows = []

    def finish(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays; no more rows may be added."""
        self._store()
        return self._columns.finish()


@contextmanager
def with_space(sentence: str) -> Iterator[None]:
    """Raise TprofError where a temporary file has no space: with a sentence that has a place for its `folder`."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise TprofError(_NO_FILES) from error
        raise TprofError(f"{sentence.format(folder=temporary_folder())}: {error.strerror}") from error


def _no_space(size: int) -> str:
    return _NO_SPACE.format(megabytes=size / 1e6, folder="{folder}")


def temporary_file(*, buffering: int = -1) -> IO[bytes]:
    """Return a new file without a name. Raises OSError."""
    return _with_files(lambda: tempfile.TemporaryFile(dir=temporary_folder(), buffering=buffering))


def _mapped(file: IO[bytes], size: int) -> mmap.mmap:
    # It keeps a descriptor of its own.
    return _with_files(lambda: mmap.mmap(file.fileno(), size))


def _with_files(opened: Callable[[], Opened]) -> Opened:
    """Open a file; if this process has as many as it may, let it have as many as it could let itself have."""
    try:
        return opened()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return opened()


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


def filled(count: int, kind: DTypeLike, value: Any) -> NDArray[Any]:
    """Return an array of one value, as `empty`."""
    return computed(count, kind, lambda at: np.full(at.stop - at.start, value, kind))


def joined(kind: DTypeLike, parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the values of arrays one after the other; their pages are released."""
    found = Appended(kind)
    for part in parts:
        for at in blocks(len(part), part):
            found.add(part[at])
    return found.finish()


def differences(values: NDArray[Any]) -> NDArray[Any]:
    """Return what each value has more than the one before, as `numpy.diff`."""
    count = max(len(values) - 1, 0)
    return computed(count, values.dtype, lambda at: np.diff(values[at.start : at.stop + 1]), values)


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
    found = Appended(values.dtype)
    for block in blocks(len(values), values):
        found.add(values[block][which(block)])
    return found.finish()


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
    return is_somewhere(len(flags), lambda at: flags[at], flags)


def is_somewhere(count: int, flags: Callable[[slice], NDArray[np.bool_]], *sources: NDArray[Any]) -> bool:
    """Return whether any flag is set that a function returns for parts of so many, as `computed` does."""
    return any(flags(block).any() for block in blocks(count, *sources))


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
