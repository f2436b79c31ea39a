"""The bytes of a foreign trace, unpacked if gzip packed them, and how far they are read."""

from __future__ import annotations

import gzip
import os
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, cast

from tprof.errors import TraceError
from tprof.trace.user_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[[str, int, int], None]

CHUNK = 1 << 20
GZIP = b"\x1f\x8b"


class Source:
    """A file that is read from its begin to its end."""

    def __init__(self, file: IO[bytes], packed: IO[bytes], size: int, progress: Progress | None) -> None:
        """Read `file`, whose place is that of `packed`."""
        self._file, self._packed, self._size, self._progress = file, packed, size, progress

    def read(self, count: int = CHUNK) -> bytes:
        """Return the next bytes, fewer at the end. Raises TraceError if they cannot be unpacked."""
        if self._progress is not None:
            self._progress("reading", self._packed.tell(), self._size)
        try:
            return self._file.read(count)
        except EOFError as error:
            raise TraceError("it is cut off: its gzip data has no end") from error
        except (OSError, zlib.error) as error:
            raise TraceError(f"its bytes cannot be read ({error})") from error


@contextmanager
def opened(path: Path, progress: Progress | None) -> Iterator[tuple[Source, bytes]]:
    """Open a regular file; yields it with its first bytes, which are read again. Raises UnreadableError."""
    with os.fdopen(open_regular(path, None), "rb") as packed:
        size = os.fstat(packed.fileno()).st_size
        is_packed = packed.peek(2)[:2] == GZIP
        file: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=packed)) if is_packed else packed
        source = Source(file, packed, size, progress)
        first = source.read(64)
        yield _Again(source, first), first


class _Again(Source):
    """A source whose first bytes were read already."""

    def __init__(self, source: Source, first: bytes) -> None:
        self._source, self._first = source, first

    def read(self, count: int = CHUNK) -> bytes:
        """Return the next bytes, fewer at the end."""
        if not self._first:
            return self._source.read(count)
        taken, self._first = self._first[:count], self._first[count:]
        return taken
