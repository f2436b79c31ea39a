"""Reads untrusted files completely, or rejects them with the reason as a clause. Writes files whole or not at all.

The path of a power model, a machine, a table, a plan or a trace may be a pipe, a device, a directory or an endless
file. Reading it takes bounded time and memory in any case; `plain_values` parses its text. Both modules are in
`tprof.trace`, which `tprof` and `analysis` may import, and which reads the files of a trace in the same way.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError

from .plain_values import counted, decoded, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedIOBase, BufferedReader

MOST_BYTES = 1 << 20
"""Limit for a file of settings; a power model and a machine have some kilobytes."""
MOST_TABLE_BYTES = 128 << 20


class UnreadableError(TprofError):
    """A file cannot be read, or has no usable content.

    Attributes
    ----------
    path : of the file.
    reason : a clause.
    """

    def __init__(self, path: Path, reason: str) -> None:
        """Build the sentence without a remedy, which the caller adds."""
        super().__init__(f"cannot read {path}: {reason}")
        self.path = path
        self.reason = reason


def open_regular(path: Path, most_bytes: int | None, *, follow: bool = True) -> int:
    """Return a descriptor of a regular file of limited size.

    Parameters
    ----------
    path
        Of the file.
    most_bytes
        Largest size; None: unlimited.
    follow
        Whether to follow links; a link in a session could lead anywhere.

    Raises
    ------
    UnreadableError
        If there is no such file.
    """
    try:
        # Opening a pipe would wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        is_link = error.errno == errno.ELOOP and not follow
        raise UnreadableError(path, "it is a link" if is_link else error.strerror or str(error)) from error
    except ValueError as error:
        raise UnreadableError(path, "no file can be called so") from error
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and (most_bytes is None or status.st_size <= most_bytes):
        return fd
    os.close(fd)
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableError(path, "it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError(path, "it is not a regular file")
    raise UnreadableError(path, f"it has {counted(status.st_size, 'byte')}, at most {most_bytes} are read")


def read_bytes(path: Path, most_bytes: int = MOST_BYTES, *, unpacked: bool = False) -> bytes:
    """Return the content of a file.

    Parameters
    ----------
    path
        Of the file.
    most_bytes
        Largest size, also of the content of a compressed file.
    unpacked
        Decompress a file that ends in .gz, .bz2 or .xz.

    Raises
    ------
    UnreadableError
        If it is not a regular file, is larger, or cannot be read.
    """
    with os.fdopen(open_regular(path, most_bytes), "rb") as file:
        try:
            # None: a file below /proc that would block.
            content = (_unpacked(path, file, most_bytes) if unpacked else file.read(most_bytes + 1)) or b""
        except OSError as error:
            raise UnreadableError(path, error.strerror or str(error)) from error
    # It may grow meanwhile, and endless files below /proc have size 0.
    if len(content) > most_bytes:
        raise UnreadableError(path, f"it has more than {most_bytes} bytes")
    return content


def read_text(path: Path, most_bytes: int = MOST_BYTES, *, unpacked: bool = False) -> str:
    """Return a file's text, without a byte order mark. Raises UnreadableError."""
    try:
        return decoded(read_bytes(path, most_bytes, unpacked=unpacked))
    except ValueError as error:
        raise UnreadableError(path, str(error)) from error


def read_json(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """Parse a user's JSON file. Raises UnreadableError."""
    text = read_text(path, most_bytes)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UnreadableError(path, str(error)) from error


def _unpacked(path: Path, file: BufferedReader, most_bytes: int) -> bytes:
    import bz2  # noqa: PLC0415 - few tables are compressed
    import gzip  # noqa: PLC0415
    import lzma  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    openers: dict[str, Callable[[BufferedReader], BufferedIOBase]] = {
        ".gz": lambda packed: gzip.GzipFile(fileobj=packed),
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
    }
    if path.suffix not in openers:
        return file.read(most_bytes + 1)
    try:
        with openers[path.suffix](file) as unpacked:
            return unpacked.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableError(path, f"what is compressed in it is damaged ({error})") from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of the file by `data`; it is unchanged until all is written. Raises OSError."""
    import tempfile  # noqa: PLC0415 - children of a recorded program read a file here, and write none

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
