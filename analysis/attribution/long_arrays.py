"""Arrays with a value for each reading of a sensor or each sample: in memory while they are short, else in files.

A sensor that is read each millisecond has 86 million readings a day. A file has no name, so it is gone when nothing
uses it, however the process ends. Its pages are mapped into memory: the kernel writes them when it needs the memory.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

MOST_HELD = 1 << 20
"""Values of an array in memory."""


def empty(count: int, kind: DTypeLike) -> NDArray[Any]:
    """Return an array without values. Raises TprofError if there is no space for its file."""
    kind = np.dtype(kind)
    if count <= MOST_HELD:
        return np.empty(count, kind)
    size, folder = count * kind.itemsize, temporary_folder()
    try:
        return np.frombuffer(_mapped(size, folder), kind)
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise TprofError(
                "this recording needs more temporary files than this process may have open: let it have more (such as "
                "by ulimit -n 65536, as root)"
            ) from error
        raise TprofError(
            f"cannot make a temporary file of {size / 1e6:,.0f} MB in {folder}, which the many readings or samples of "
            f"this recording need (set TMPDIR to another folder): {error.strerror}"
        ) from error


def stored(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy, as `empty`."""
    found = empty(len(values), values.dtype)
    found[:] = values
    return found


def concatenated(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the values of arrays one after the other, as `empty`."""
    return np.concatenate(parts, out=empty(sum(map(len, parts)), parts[0].dtype))


def _mapped(size: int, folder: str) -> mmap.mmap:
    """Map a new file; if this process has as many as it may, let it have as many as it could let itself have."""
    try:
        return _new(size, folder)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return _new(size, folder)


def _new(size: int, folder: str) -> mmap.mmap:
    with tempfile.TemporaryFile(dir=folder) as file:
        # Without its blocks on the disk, a write to the mapping would end the process when the disk is full.
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def temporary_folder() -> str:
    """Return where large temporary files belong: that for small ones may be in memory."""
    large = "/var/tmp"  # noqa: S108 - a file without a name
    return large if not os.environ.get("TMPDIR") and os.access(large, os.W_OK) else tempfile.gettempdir()
