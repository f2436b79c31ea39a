"""One file of samples, readings or events: checks its header and reads its records, limited by the file's size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .plain_values import parse_trace_json
from .user_files import UnreadableError, open_regular

if TYPE_CHECKING:
    from pathlib import Path


HOLES_FROM_BYTES = 1 << 30


class NewerFormatError(TraceError):
    """A trace of a newer version: rejected completely, not read in part."""


@dataclass(frozen=True)
class Stream:
    """The header of a file, and its readable part.

    Attributes
    ----------
    path : the file.
    header : the header as a record of `layout.HEADER`.
    description : the JSON that describes columns or domain.
    count : committed records that the file contains.
    flushed : number of these in the body; the rest are in the window.
    note : a sentence on the state of the file, or None.
    """

    path: Path
    header: np.void
    description: dict[str, Any]
    count: int
    flushed: int
    note: str | None

    def number(self, field: str) -> int:
        """Return a whole-number field of the header."""
        return int(self.header[field])

    def read(self, dtype: np.dtype[np.void]) -> np.ndarray[Any, np.dtype[np.void]]:
        """Read the committed records, by read(2): a file that shrinks meanwhile gives fewer, not a fault.

        Parameters
        ----------
        dtype
            The record's dtype; its size is the header's `record_bytes`.

        Returns
        -------
        records : (count,) array of `dtype`; fewer if the file was cut since it was opened.
        """
        return self.read_part(dtype, 0, self.count)

    def read_part(self, dtype: np.dtype[np.void], first: int, stop: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """Read the committed records from `first` to before `stop`; as `read`."""
        first, stop = min(first, self.count), min(stop, self.count)
        in_body = max(min(stop, self.flushed) - first, 0)
        body_at = layout.HEADER_BYTES + self.number("window_bytes") + first * dtype.itemsize
        window_at = layout.HEADER_BYTES + max(first - self.flushed, 0) * dtype.itemsize
        fd = _open(self.path)
        try:
            records = np.zeros(stop - first, dtype)
            got = _read_into(fd, records[:in_body], body_at)
            if got == in_body:
                got += _read_into(fd, records[in_body:], window_at)
        except OSError as error:
            message = f"cannot read {self.path}: {error.strerror}"
            raise TraceError(message) from error
        except MemoryError:
            message = f"cannot read {self.path}: its {self.count} records do not fit into memory"
            raise TraceError(message) from None
        finally:
            os.close(fd)
        return records[:got]


def open_stream(path: Path, kind: kinds.StreamKind) -> Stream:
    """Read and check a file's header.

    Raises
    ------
    TraceError
        If it is not such a file, or its header is inconsistent; NewerFormatError for a newer version.
    """
    fd = _open(path)
    try:
        head = os.pread(fd, layout.HEADER_BYTES, 0)
        header = _check(path, head, kind)
        size = _solid_bytes(fd, layout.HEADER_BYTES + int(header["window_bytes"]))
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise TraceError(message) from error
    finally:
        os.close(fd)
    committed, flushed = _available(header, size)
    return Stream(path, header, _description(path, header), committed, flushed, _note(path, header, committed))


def _open(path: Path) -> int:
    try:
        return open_regular(path, None, follow=False)
    except UnreadableError as error:
        raise TraceError(str(error)) from error


def _solid_bytes(fd: int, body_at: int) -> int:
    """Return the file's size; of a huge one only what comes before the first hole of its body.

    A hostile file can be terabytes of holes. No writer leaves holes; only huge files are checked, since some file
    systems have reported holes in place of new data.
    """
    size = os.fstat(fd).st_size
    if size < HOLES_FROM_BYTES or body_at >= size:
        return size
    return os.lseek(fd, body_at, os.SEEK_HOLE)


def _note(path: Path, header: np.void, committed: int) -> str | None:
    if committed < int(header["committed"]):
        return f"{path.name} is cut: {int(header['committed'])} records were committed, {committed} are there"
    if int(header["minor"]) > layout.MINOR:
        version = f"format {layout.MAJOR}.{int(header['minor'])}"
        return f"{path.name} is of {version}: what {layout.MAJOR}.{layout.MINOR} does not know is left out"
    return None


def _check(path: Path, head: bytes, kind: kinds.StreamKind) -> np.void:
    if head[:8] != layout.MAGIC[: len(head)]:
        message = f"{path} is not a tprof trace file (its first bytes are {head[:8]!r}): leave the file out"
        raise TraceError(message)
    if len(head) < layout.HEADER_BYTES:
        message = f"{path} is cut inside its header ({len(head)} of {layout.HEADER_BYTES} bytes): record again"
        raise TraceError(message)
    header: np.void = np.frombuffer(head, layout.HEADER)[0]
    if int(header["endian"]) != layout.ENDIAN:
        message = f"{path} was written with another byte order: read it on a machine like the one that wrote it"
        raise TraceError(message)
    check_major(path, int(header["major"]))
    record, window = int(header["record_bytes"]), int(header["window_bytes"])
    allowed = (64, 128) if kind == kinds.StreamKind.SAMPLES else (32,)
    sound = (
        int(header["kind"]) == kind
        and int(header["header_bytes"]) == layout.HEADER_BYTES
        and record in allowed
        and window % record == 0
        and int(header["flushed"]) <= int(header["committed"])
    )
    if not sound:
        message = f"{path} is damaged: its header contradicts itself; leave the file out or record again"
        raise TraceError(message)
    return header


def check_major(path: Path, major: int) -> None:
    """Reject another major version. Raises NewerFormatError, or TraceError for one that never existed."""
    if major > layout.MAJOR:
        message = f"{path} is of format {major}.x, this tprof reads {layout.MAJOR}.x: update tprof"
        raise NewerFormatError(message)
    if major < layout.MAJOR:
        message = f"{path} is damaged: there is no format {major}; record again"
        raise TraceError(message)


def _available(header: np.void, size: int) -> tuple[int, int]:
    """Return committed and flushed records, limited by the file's size."""
    record, window = int(header["record_bytes"]), int(header["window_bytes"])
    committed, flushed = int(header["committed"]), int(header["flushed"])
    in_body = max(size - layout.HEADER_BYTES - window, 0) // record
    if in_body < flushed:
        return in_body, in_body
    in_window = min(max(size - layout.HEADER_BYTES, 0), window) // record
    return flushed + min(committed - flushed, in_window), flushed


def _description(path: Path, header: np.void) -> dict[str, Any]:
    count = int(header["description_bytes"])
    if count <= layout.DESCRIPTION_BYTES:
        try:
            described = parse_trace_json(bytes(header["description"])[:count])
        except ValueError:
            described = None
        if isinstance(described, dict):
            return described
    message = f"{path} is damaged: its description is not readable; leave the file out or record again"
    raise TraceError(message)


def _read_into(fd: int, records: np.ndarray[Any, np.dtype[np.void]], offset: int) -> int:
    """Fill the records from the file; returns the number of complete ones."""
    if len(records) == 0:
        return 0
    view = records.view(np.uint8).data.cast("B")
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done : done + (1 << 26)]], offset + done)
        if got == 0:
            break
        done += got
    return done // records.dtype.itemsize
