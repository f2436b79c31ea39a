"""The compressed records of a stream: a file beside it with blocks of records, documented in docs/trace-format.md.

What is in a block is the subject of `block_content`.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import zlib
from bisect import bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import TraceError

from . import layout
from .block_content import Plan, decode_content, encode_content
from .user_files import UnreadableError, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .block_content import Bytes

ENDING = ".packed"
MOST_RECORDS = 1 << 15
"""Of a block: as many have their columns in a processor's cache."""
LOST = -1
"""In place of the checksum of a block whose header is damaged."""
LEAST_BLOCK_BYTES = 1024
"""Of a block with the most records: zlib makes a thousandth of its bytes at best."""
NOWHERE = 0
"""The place of a block that is in no file."""
_WORD = 8
_SEARCHED = 1 << 20


class NewerFormatError(TraceError):
    """A trace of a newer version: rejected completely, not read in part."""


@dataclass(frozen=True)
class Block:
    """Where some records are.

    Attributes
    ----------
    first, count : the records
    at, length : bytes of the file that hold them, the block's header left out
    checksum, codec, plan : of these bytes, how they are compressed, and how columns are written
    """

    first: int
    count: int
    at: int
    length: int
    checksum: int
    codec: int
    plan: Plan

    @property
    def stop(self) -> int:
        """The record after the last one."""
        return self.first + self.count

    @property
    def header_at(self) -> int:
        """Where its header begins."""
        return self.at - layout.BLOCK_HEADER.itemsize

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self.at + self.length


def lost_block(first: int, count: int) -> Block:
    """Return the block of records that no file has."""
    return Block(first, count, NOWHERE, 0, LOST, layout.CODEC_DEFLATE, Plan(0, b""))


@dataclass(frozen=True)
class PackedFile:
    """The blocks of one file.

    Attributes
    ----------
    path : the file
    record_bytes : of a record
    blocks : from the first record on, without gaps
    segment : of a head, the first segment of whose records it has none
    """

    path: Path
    record_bytes: int
    blocks: tuple[Block, ...]
    segment: int = 0

    @property
    def stop(self) -> int:
        """The record after the last one."""
        return self.blocks[-1].stop if self.blocks else 0

    def read_into(self, records: Bytes, first: int) -> list[Block]:
        """Fill records, (n, record_bytes), from number `first` on; all are in the file. Raises TraceError, OSError.

        Returns the damaged blocks, whose records stay as they are.
        """
        stop, damaged = first + len(records), []
        fd = _open(self.path)
        try:
            after = bisect_right(self.blocks, first, key=attrgetter("stop"))
            for block in itertools.takewhile(lambda one: one.first < stop, itertools.islice(self.blocks, after, None)):
                begin, end = max(first, block.first), min(stop, block.stop)
                whole = self._block(fd, block)
                if whole is None:
                    damaged.append(block)
                else:
                    records[begin - first : end - first] = whole[begin - block.first : end - block.first]
        finally:
            os.close(fd)
        return damaged

    def _block(self, fd: int, block: Block) -> Bytes | None:
        """Return a block's records, None if it is damaged; the last one is kept: a bisection asks for it repeatedly."""
        status = os.fstat(fd)
        key = (status.st_dev, status.st_ino, status.st_mtime_ns, block)
        if _kept.key != key:
            _kept.records = _decode(block, os.pread(fd, block.length, block.at), self.record_bytes)
            _kept.key = key
        return _kept.records


class _Kept(threading.local):
    """The last block that a thread read."""

    key: object = None
    records: Bytes | None


_kept = _Kept()


def packed_path(stream: Path) -> Path:
    """Return the path of a stream's compressed records."""
    return stream.with_name(stream.name + ENDING)


def open_packed(stream: Path, record_bytes: int) -> PackedFile:
    """Find the blocks of a stream's compressed records, up to the first damage. Raises TraceError without the file."""
    path = packed_path(stream)
    fd = _open(path)
    try:
        head = os.pread(fd, layout.PACKED_HEADER.itemsize, 0)
        segment = _check(path, head, record_bytes)
        blocks = tuple(_blocks(fd, os.fstat(fd).st_size, record_bytes))
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    finally:
        os.close(fd)
    return PackedFile(path, record_bytes, blocks, segment)


def _open(path: Path) -> int:
    try:
        return open_regular(path, None, follow=False)
    except UnreadableError as error:
        raise TraceError(str(error)) from error


def _check(path: Path, head: bytes, record_bytes: int) -> int:
    """Return the header's segment. Raises TraceError."""
    whole = len(head) == layout.PACKED_HEADER.itemsize
    header = np.frombuffer(head, layout.PACKED_HEADER)[0] if whole else None
    if header is None or bytes(header["magic"]) != layout.PACKED_MAGIC:
        raise TraceError(f"{path} holds no compressed records of a trace: leave it and its stream out")
    if int(header["major"]) > layout.PACKED_MAJOR:
        raise NewerFormatError(f"{path} is compressed as by a newer tprof: update tprof")
    if int(header["endian"]) != layout.ENDIAN or int(header["record_bytes"]) != record_bytes:
        raise TraceError(f"{path} is damaged: its header contradicts its stream's; leave both out")
    return int(header["segment"])


def _blocks(fd: int, size: int, record_bytes: int) -> Iterator[Block]:
    """Yield the blocks; records between two sound headers that are of neither are a block that cannot be restored."""
    at, first = layout.PACKED_HEADER.itemsize, 0
    last: Block | None = None
    while at < size:
        block = _block(fd, at, size, record_bytes)
        if block is None or block.first != first:
            # The length in the header before may be wrong too: then this is no place of a header.
            since, least = (at, first) if last is None else (last.at, last.first + 1)
            block = _next_block(fd, since, size, record_bytes, least)
            if block is None:
                break
            if last is not None and block.header_at <= at:
                last = replace(last, count=block.first - last.first, checksum=LOST)
            elif block.first > first:
                if last is not None:
                    yield last
                last = replace(block, first=first, count=block.first - first, at=at, length=0, checksum=LOST)
        if last is not None:
            yield last
        last, at, first = block, block.end, block.stop
    if last is not None:
        yield last


def _block(fd: int, at: int, size: int, record_bytes: int) -> Block | None:
    """Return the block whose header is at a place of the file; None if none is, or it is damaged."""
    head = os.pread(fd, layout.BLOCK_HEADER.itemsize, at)
    if len(head) < layout.BLOCK_HEADER.itemsize:
        return None
    header = np.frombuffer(head, layout.BLOCK_HEADER)[0]
    block = Block(
        first=int(header["first"]),
        count=int(header["count"]),
        at=at + len(head),
        length=int(header["length"]),
        checksum=int(header["checksum"]),
        codec=int(header["codec"]),
        plan=Plan(int(header["grouped_by"]), bytes(header["methods"])),
    )
    sound = (
        int(header["mark"]) == layout.BLOCK_MARK
        and block.codec in (layout.CODEC_ZLIB, layout.CODEC_DEFLATE)
        and 0 < block.count <= MOST_RECORDS
        and block.end <= size
        and block.plan.is_sound(record_bytes // _WORD, block.codec)
    )
    return block if sound else None


def _next_block(fd: int, at: int, size: int, record_bytes: int, first: int) -> Block | None:
    """Return the next block from a place on, of records from `first` on, by the mark of its header; None without."""
    mark = layout.BLOCK_MARK.to_bytes(4, "little")
    for begin in range(at, size, _SEARCHED):
        part = os.pread(fd, _SEARCHED + len(mark) - 1, begin)
        place = part.find(mark)
        while place >= 0:
            block = _block(fd, begin + place, size, record_bytes)
            most = MOST_RECORDS * ((begin + place - at) // LEAST_BLOCK_BYTES + 2)
            if (
                block is not None
                and first <= block.first <= first + most
                and _is_followed(fd, block, size, record_bytes)
            ):
                return block
            place = part.find(mark, place + 1)
    return None


def _is_followed(fd: int, block: Block, size: int, record_bytes: int) -> bool:
    """Return whether what follows a block is the next one, or the end: then the records it names are right."""
    after = _block(fd, block.end, size, record_bytes)
    return block.end == size if after is None else after.first == block.stop


def file_header(record_bytes: int, segment: int = 0) -> bytes:
    """Return the header of a file of such records; of a head, with the segment that follows it."""
    header = np.zeros((), layout.PACKED_HEADER)
    header["magic"], header["major"] = np.void(layout.PACKED_MAGIC), layout.PACKED_MAJOR
    header["endian"], header["record_bytes"] = layout.ENDIAN, record_bytes
    header["segment"] = segment
    return header.tobytes()


def write_packed(stream: Path, record_bytes: int, blocks: Iterable[bytes], *, segment: int = 0) -> None:
    """Write the file of a stream's compressed records, whole and to the disk, or none. Raises OSError."""
    target = packed_path(stream)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(file_header(record_bytes, segment))
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def encode(records: Bytes, first: int) -> bytes:
    """Return the block, with its header, of records whose number is at most `MOST_RECORDS`.

    Parameters
    ----------
    records : (n, record_bytes) uint8
    first : number of the first one in its stream
    """
    plan, stored = encode_content(records)
    header = np.zeros((), layout.BLOCK_HEADER)
    header["mark"], header["count"], header["first"] = layout.BLOCK_MARK, len(records), first
    header["length"], header["checksum"], header["codec"] = len(stored), zlib.crc32(stored), layout.CODEC_DEFLATE
    header["grouped_by"], header["methods"] = plan.grouped_by, np.void(plan.methods)
    return header.tobytes() + stored


def _decode(block: Block, stored: bytes, record_bytes: int) -> Bytes | None:
    """Return a block's records, (count, record_bytes); None if it is damaged."""
    if zlib.crc32(stored) != block.checksum:
        return None
    return decode_content(stored, block.count, record_bytes, block.plan, block.codec)
