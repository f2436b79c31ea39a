"""One file of samples or readings: its header checked, its records read, nothing believed beyond what is there."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import layout

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Stream:
    """What the header of a file says, and how much of the file can be read.

    Attributes
    ----------
    path : the file.
    header : the header as a record of `layout.HEADER`.
    description : the JSON that describes columns or domain.
    count : committed records that the file really holds.
    flushed : of these, how many stand in the body; the rest in the window.
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
        """Read the committed records, by read(2): a file that shrinks meanwhile is short, not fatal.

        Parameters
        ----------
        dtype
            The record's dtype; its size is the header's `record_bytes`.

        Returns
        -------
        records : (count,) array of `dtype`; fewer if the file was cut since it was opened.
        """
        records = np.zeros(self.count, dtype)
        body_at = layout.HEADER_BYTES + self.number("window_bytes")
        fd = _open(self.path)
        try:
            got = _read_into(fd, records[: self.flushed], body_at)
            if got == self.flushed:
                got += _read_into(fd, records[self.flushed :], layout.HEADER_BYTES)
        finally:
            os.close(fd)
        return records[:got]


def open_stream(path: Path, kind: layout.StreamKind) -> Stream:
    """Read and check a file's header.

    Raises
    ------
    TraceError
        If it is no such file, of a newer version, or its header contradicts itself.
    """
    fd = _open(path)
    try:
        size = os.fstat(fd).st_size
        head = os.pread(fd, layout.HEADER_BYTES, 0)
    finally:
        os.close(fd)
    header = _check(path, head, kind)
    note = None
    committed, flushed = _available(header, size)
    if committed < int(header["committed"]):
        note = f"{path.name} is cut: {int(header['committed'])} records were committed, {committed} are there"
    elif int(header["minor"]) > layout.MINOR:
        note = f"{path.name} is of format {layout.MAJOR}.{int(header['minor'])}: what {_version()} does not know is left out"
    return Stream(path, header, _description(path, header), committed, flushed, note)


def _open(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise TraceError(message) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        message = f"cannot read {path}: it is not a regular file"
        raise TraceError(message)
    return fd


def _version() -> str:
    return f"format {layout.MAJOR}.{layout.MINOR}"


def _check(path: Path, head: bytes, kind: layout.StreamKind) -> np.void:
    if len(head) < layout.HEADER_BYTES or head[:8] != layout.MAGIC:
        message = f"{path} is not a tprof trace file (its first bytes are {head[:8]!r}): record again"
        raise TraceError(message)
    header: np.void = np.frombuffer(head, layout.HEADER)[0]
    if int(header["endian"]) != layout.ENDIAN:
        message = f"{path} was written with another byte order: read it on a machine like the one that wrote it"
        raise TraceError(message)
    if int(header["major"]) != layout.MAJOR:
        message = f"{path} is of format {int(header['major'])}.x, this tprof reads {layout.MAJOR}.x: update tprof"
        raise TraceError(message)
    record, window = int(header["record_bytes"]), int(header["window_bytes"])
    allowed = (64, 128) if kind == layout.StreamKind.SAMPLES else (32,)
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


def _available(header: np.void, size: int) -> tuple[int, int]:
    """Return committed and flushed records as far as the file's size bears them out."""
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
            described = json.loads(bytes(header["description"])[:count])
        except (ValueError, RecursionError):
            described = None
        if isinstance(described, dict):
            return described
    message = f"{path} is damaged: its description is not readable; leave the file out or record again"
    raise TraceError(message)


def _read_into(fd: int, records: np.ndarray[Any, np.dtype[np.void]], offset: int) -> int:
    """Fill the records from the file; returns how many came whole."""
    if len(records) == 0:
        return 0
    view = memoryview(records.view(np.uint8)).cast("B")
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done : done + (1 << 26)]], offset + done)
        if got == 0:
            break
        done += got
    return done // records.dtype.itemsize
