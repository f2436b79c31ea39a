"""The segments of a stream: files of equally many records beside it, which a running recording leaves one by one.

Whole segments are compressed or removed while the recording runs. A file that a reader has open keeps its bytes, so a
reader gets the records, or finds that they are gone; it never gets others. Of readings, native threads and stacks a
head keeps what later records need of removed segments; see docs/trace-format.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import TraceError

from .directory import GONE
from .packed import ENDING, NewerFormatError, PackedFile, lost_block, open_packed, packed_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .block_content import Bytes
    from .packed import Block

HEAD = ".head"
MOST_RECORDS = 1 << 24
"""Of a segment; more is damage."""
AGAIN = 3
"""How often the segments are looked for, if some of them go meanwhile."""


def segment_path(stream: Path, number: int) -> Path:
    """Return the path of a segment that is not compressed."""
    return stream.with_name(f"{stream.name}.{number:08d}")


def head_path(stream: Path) -> Path:
    """Return the path of the head, whose packed file has `ENDING` at its end."""
    return stream.with_name(stream.name + HEAD)


def is_segment(name: str) -> bool:
    """Return whether a file's name is that of a segment or a head, compressed or not."""
    number = name.removesuffix(ENDING).rpartition(".")[2]
    return number.isdecimal() or name.removesuffix(ENDING).endswith(HEAD)


@dataclass(frozen=True)
class Segments:
    """The segments of one stream that are there, as a list of records from 0 on.

    Attributes
    ----------
    stream : the file beside which they are
    record_bytes, records : of a record; in a segment that is whole
    head : what is kept of removed segments, before all others; None: nothing
    first, flushed : the first segment of the trace; records of the stream's body, removed ones too
    """

    stream: Path
    record_bytes: int
    records: int
    head: PackedFile | None
    first: int
    flushed: int

    @property
    def before(self) -> int:
        """Number of the records in the head."""
        return 0 if self.head is None else self.head.stop

    @property
    def gone(self) -> int:
        """Number of the records in removed segments."""
        return min(self.first * self.records, self.flushed)

    def is_cut(self, committed: int) -> bool:
        """Whether the last segment is not there, of a stream with so many records: a size limit leaves it."""
        return self.gone == self.flushed > 0 and (self.flushed % self.records > 0 or committed == self.flushed)

    @cached_property
    def count(self) -> int:
        """Number of records: what the last segment lacks is not there."""
        length = self.flushed - self.gone
        last = (self.flushed - 1) // self.records
        if length > 0:
            whole = self.flushed - last * self.records
            length += min(_records_in(segment_path(self.stream, last), self.record_bytes) - whole, 0)
        return self.before + length

    def files(self) -> Iterator[tuple[int, Path, bool]]:
        """Yield number, path and whether it is compressed of each segment that is there now, in order."""
        for number in range(self.first, (self.flushed + self.records - 1) // self.records):
            path = segment_path(self.stream, number)
            if os.path.lexists(path):
                yield number, path, False
            elif os.path.lexists(packed_path(path)):
                yield number, packed_path(path), True

    def read_into(self, records: Bytes, first: int) -> list[Block]:
        """Fill records, (n, record_bytes), from place `first` on; all are there. Raises TraceError, OSError.

        Returns the damaged blocks, by their places here, whose records stay as they are. What a file lacks that nobody
        removed for a size limit is a block too.
        """
        done, damaged = 0, []
        if self.head is not None and first < self.before:
            done = min(len(records), self.before - first)
            damaged += self.head.read_into(records[:done], first)
        number = self.gone + max(first - self.before, 0)
        while done < len(records):
            segment, at = divmod(number, self.records)
            taken = min(self.records - at, len(records) - done)
            whole = min(self.records, self.flushed - segment * self.records)
            lost = read_segment(segment_path(self.stream, segment), records[done : done + taken], at, whole)
            if lost is None and not _has_limit(self.stream):
                lost = [lost_block(0, whole)]
            if lost is None:
                raise TraceError(
                    f"the oldest records of {self.stream} were removed while they were read, as its recording has a "
                    "size limit: load it again"
                )
            place = self.before + segment * self.records - self.gone
            damaged += [replace(block, first=place + block.first) for block in lost]
            done, number = done + taken, number + taken
        return damaged


def find_segments(stream: Path, record_bytes: int, records: int, flushed: int) -> Segments:
    """Find the segments of a stream whose body has `flushed` records.

    Segments before a gap, such as a removal for a size limit leaves that was interrupted, are not part of the trace.
    Where there was no limit, what is missing is lost.

    Raises
    ------
    TraceError
        If a head is there but cannot be read.
    """
    for _ in range(AGAIN):
        head = _head(stream, record_bytes)
        least = 0 if head is None else head.segment
        first = (flushed + records - 1) // records
        while first > least and _is_there(segment_path(stream, first - 1)):
            first -= 1
        if head is None or first == least or first * records >= flushed:
            break
    if first > least and not _has_limit(stream):
        first = least
    return Segments(stream, record_bytes, records, head, first, flushed)


def _head(stream: Path, record_bytes: int) -> PackedFile | None:
    path = head_path(stream)
    return open_packed(path, record_bytes) if os.path.lexists(packed_path(path)) else None


def _has_limit(stream: Path) -> bool:
    """Return whether a size limit removed something of the stream's session: before that, a file there says so."""
    return os.path.lexists(stream.parent.parent / GONE)


def _is_there(path: Path) -> bool:
    return os.path.lexists(path) or os.path.lexists(packed_path(path))


def _records_in(path: Path, record_bytes: int) -> int:
    """Return the number of records of a segment. Raises TraceError if it is compressed and cannot be read."""
    try:
        return path.lstat().st_size // record_bytes
    except OSError:
        return open_packed(path, record_bytes).stop if os.path.lexists(packed_path(path)) else 0


def read_segment(path: Path, records: Bytes, at: int, whole: int | None = None) -> list[Block] | None:
    """Fill records, (n, record_bytes), from place `at` of a segment on; returns damaged blocks, None if it is gone.

    Where it is known how many records the whole segment has, those that its file lacks are a damaged block. A segment
    may be compressed between two looks, and is removed only after that, so the plain file comes first.

    Raises
    ------
    TraceError
        If it has too few records, and it is not known how many there were.
    OSError
        If it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return _read_packed(path, records, at, whole)
    try:
        view, size, done = records.data.cast("B"), records.shape[1], 0
        while done < len(view):
            got = os.preadv(fd, [view[done : done + (1 << 26)]], at * size + done)
            if not got:
                break
            done += got
        if done < len(view):
            return _cut(path, at + done // size, whole)
    finally:
        os.close(fd)
    return []


def _read_packed(path: Path, records: Bytes, at: int, whole: int | None) -> list[Block] | None:
    if not os.path.lexists(packed_path(path)):
        return None
    try:
        packed = open_packed(path, records.shape[1])
    except NewerFormatError:
        raise
    except TraceError:
        if not os.path.lexists(packed_path(path)):
            return None
        if whole is None:
            raise
        return [lost_block(0, whole)]
    there = min(max(packed.stop - at, 0), len(records))
    damaged = packed.read_into(records[:there], at) if there else []
    return damaged if there == len(records) else damaged + _cut(packed.path, packed.stop, whole)


def _cut(path: Path, count: int, whole: int | None) -> list[Block]:
    """Return the block of what a file lacks that has so many records. Raises TraceError if it is not known."""
    if whole is None:
        raise TraceError(f"{path} is cut: it has {count} whole records, and more are needed; record again")
    return [lost_block(count, whole - count)]


def segments_of(stream: Path) -> Iterator[tuple[int, Path, bool]]:
    """Yield number, path and whether it is compressed of each segment in the stream's folder, in order."""
    prefix = stream.name + "."
    found = []
    with os.scandir(stream.parent) as entries:
        for entry in entries:
            number = entry.name.removeprefix(prefix).removesuffix(ENDING)
            if entry.name.startswith(prefix) and number.isdecimal():
                found.append((int(number), Path(entry.path), entry.name.endswith(ENDING)))
    yield from sorted(found)
