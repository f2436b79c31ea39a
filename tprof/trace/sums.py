"""The sums that a recording with `keep="summary"` keeps instead of its samples: one file, to which blocks are appended.

A block is whole or damaged: it has a checksum. It says from when to when it is, blocks follow each other without a gap,
and one without rows and duration ends the file: so a reader knows what is lost. Rows of several blocks with the same
key add up, so a block never has to be changed.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from .directory import SUMS_FILE
from .layout import ENDIAN
from .user_files import UnreadableError, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Table = NDArray[np.void]

SUMMARY, THREADS = "summary", "threads"
"""The values of `keep` in the manifest of such a recording: sums of all threads of a process, or of each."""
NO_THREAD = 2**32 - 1
"""In place of a thread's number: of all threads of the process."""
MAJOR = 1
MAGIC = b"TPROFS\r\n"
BLOCK_MARK = 0x534D5553
MOST_ROWS = 1 << 24
"""Of a block; a header with more is damaged."""
PIECE_BYTES = 1 << 20
MOST_SEARCHED = 1 << 26
"""Bytes behind a damaged block in which the next one is looked for: a hostile file can be terabytes of holes."""

HEADER = np.dtype([("magic", "V8"), ("major", "<u4"), ("endian", "<u4"), ("begin_ns", "<i8"), ("span_ns", "<i8")])
"""The first 32 bytes: spans are counted from `begin_ns`."""


def _row(**columns: str) -> np.dtype[np.void]:
    """Return a dtype of little-endian columns, whose names are given by their type."""
    return np.dtype([(name, f"<{kind}") for kind, names in columns.items() for name in names.split()])


BLOCK = np.dtype(
    [*_row(u4="mark checksum tasks domains", i8="since_ns until_ns").descr, ("threads", "<u4"), ("", "V4")]
)
"""Before the rows of a block: of tasks, domains and threads; the checksum is the CRC-32 of all that follows it."""

TASK_SUMS = _row(
    u4="span process task thread begun ended resolved",
    f8="cpu_s own_s energy_j dynamic_j ended_s resolved_j resolved_s",
    f4="half_j2 energy_m2 duration_m2 both_m2",
)
"""What one task of one process did in one span, on one thread if threads are kept; an instance counts where it began.

`begun` and `ended` count instances. `cpu_s`, `own_s` (in which a thread ran it), `energy_j` and `dynamic_j` are of all
that ran in the span. `ended_s` sums the durations of the instances that ended in it. `resolved` of these have joules
that a sensor resolved: `resolved_j` and `resolved_s` are their joules and durations, `half_j2` the squares of half
their bounds, the last three the squares and products about the means. `task` is a number of the process's table.
"""

DOMAIN_SUMS = _row(u4="span domain", f8="seconds measured_j tasks_j runtime_j other_j idle_j")
"""The joules of one domain in one span, and the seconds that its readings cover; `domain` counts in the manifest."""

THREAD = _row(u4="process thread tid", S32="name")
"""A thread, in the first block with a row of it."""

TABLES = {"tasks": TASK_SUMS, "domains": DOMAIN_SUMS, "threads": THREAD}
"""The tables of a block, in their order."""


@dataclass(frozen=True)
class Block:
    """The sums of a part of the recording.

    Attributes
    ----------
    since_ns, until_ns : of which part
    tasks, domains, threads : of dtype `TASK_SUMS`, `DOMAIN_SUMS` and `THREAD`
    """

    since_ns: int
    until_ns: int
    tasks: Table
    domains: Table
    threads: Table = field(default_factory=lambda: np.empty(0, THREAD))

    @property
    def is_closing(self) -> bool:
        """Whether it ends the file: it has neither rows nor duration."""
        return self.since_ns == self.until_ns and not (len(self.tasks) or len(self.domains) or len(self.threads))

    def encode(self) -> bytes:
        """Return the block's bytes."""
        tables = (self.tasks, self.domains, self.threads)
        tasks, domains, threads = map(len, tables)
        head = np.array([(BLOCK_MARK, 0, tasks, domains, self.since_ns, self.until_ns, threads, b"")], BLOCK)
        checked = head.tobytes()[8:] + b"".join(table.tobytes() for table in tables)
        head["checksum"] = zlib.crc32(checked)
        return head.tobytes()[:8] + checked


class SumsFile:
    """The file, for the one process that writes it."""

    def __init__(self, session: Path, begin_ns: int, span_ns: int) -> None:
        """Begin it, or go on after its last whole block; `until_ns` is then the end of that. Raises OSError."""
        self.path = session / SUMS_FILE
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.until_ns: int | None = None
        if os.fstat(self._descriptor).st_size >= HEADER.itemsize:
            known = SumsReader(session)
            for block in known.blocks():
                self.until_ns = block.until_ns
            # Behind the last whole block is what a writer that was killed began.
            self._bytes, self.begin_ns, self.span_ns = known.whole_bytes, known.begin_ns, known.span_ns
            os.ftruncate(self._descriptor, self._bytes)
            return
        head = np.zeros(1, HEADER)
        head["magic"], head["major"], head["endian"] = np.void(MAGIC), MAJOR, ENDIAN
        head["begin_ns"], head["span_ns"] = begin_ns, span_ns
        self._bytes, self.begin_ns, self.span_ns = 0, begin_ns, span_ns
        self._append(head.tobytes())

    def append(self, block: Block) -> None:
        """Append a block, or leave the file as it was. Raises OSError, as on a full disk."""
        self._append(block.encode())
        self.until_ns = block.until_ns

    def end(self, until_ns: int) -> None:
        """Append the block that ends the file. Raises OSError."""
        self.append(Block(until_ns, until_ns, np.empty(0, TASK_SUMS), np.empty(0, DOMAIN_SUMS)))

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def _append(self, content: bytes) -> None:
        try:
            done = 0
            while done < len(content):
                done += os.pwrite(self._descriptor, content[done:], self._bytes + done)
        except OSError:
            os.ftruncate(self._descriptor, self._bytes)
            raise
        self._bytes += len(content)


class SumsReader:
    """The file, for readers, also while it is written.

    Attributes
    ----------
    path : of the file
    begin_ns, span_ns : when the first span begins, and how long each is
    whole_bytes, until_ns : up to the end of the blocks that were read so far
    lost_ns : from when to when there are no sums, since blocks are damaged
    is_closed : whether the last of them ends the file
    """

    def __init__(self, session: Path) -> None:
        """Read its header. Raises TraceError."""
        self.path = session / SUMS_FILE
        head = self._read(0, HEADER.itemsize)
        if len(head) < HEADER.itemsize:
            raise TraceError(f"{self.path} is cut inside its header: nothing was kept of this recording")
        header = np.frombuffer(head, HEADER)[0]
        if bytes(header["magic"]) != MAGIC or int(header["endian"]) != ENDIAN:
            raise TraceError(f"{self.path} is no file of sums, or of another byte order: leave the session out")
        if int(header["major"]) != MAJOR:
            raise TraceError(f"{self.path} is of format {int(header['major'])}, this tprof reads {MAJOR}: update tprof")
        self.begin_ns, self.span_ns = int(header["begin_ns"]), int(header["span_ns"])
        if self.begin_ns < 0 or self.span_ns <= 0:
            raise TraceError(f"{self.path} is damaged: its header contradicts itself; leave the session out")
        self.whole_bytes, self.until_ns = HEADER.itemsize, self.begin_ns
        self.lost_ns: list[tuple[int, int]] = []
        self.is_closed = False

    def blocks(self) -> Iterator[Block]:
        """Yield the whole blocks that were not read yet. Raises TraceError."""
        while (found := self._next()) is not None:
            block, self.whole_bytes = found
            if block.since_ns != self.until_ns:
                self.lost_ns.append((self.until_ns, block.since_ns))
            self.until_ns, self.is_closed = block.until_ns, block.is_closing
            yield block

    def _next(self) -> tuple[Block, int] | None:
        """Return the next whole block, and where it ends; by the mark of its header if damage is before it."""
        at = self.whole_bytes
        while (found := self._block(at)) is None:
            place = self._mark_behind(at)
            if place is None:
                return None
            at = place
        return found

    def _mark_behind(self, at: int) -> int | None:
        mark = BLOCK_MARK.to_bytes(4, "little")
        for begin in range(at + 1, self.whole_bytes + MOST_SEARCHED, PIECE_BYTES):
            piece = self._read(begin, PIECE_BYTES + len(mark) - 1)
            if (place := piece.find(mark)) >= 0:
                return begin + place
            if len(piece) < PIECE_BYTES:
                return None
        return None

    def _block(self, at: int) -> tuple[Block, int] | None:
        """Return the block at a place of the file, and where it ends; None if none is, or it is damaged."""
        head = self._read(at, BLOCK.itemsize)
        if len(head) < BLOCK.itemsize:
            return None
        block = np.frombuffer(head, BLOCK)[0]
        counts = [int(block[name]) for name in TABLES]
        if int(block["mark"]) != BLOCK_MARK or max(counts) > MOST_ROWS:
            return None
        size = sum(count * of.itemsize for count, of in zip(counts, TABLES.values(), strict=True))
        rows = self._read(at + BLOCK.itemsize, size)
        if len(rows) < size or zlib.crc32(head[8:] + rows) != int(block["checksum"]):
            return None
        tables: list[Table] = []
        for count, of in zip(counts, TABLES.values(), strict=True):
            tables.append(np.frombuffer(rows, of, count, sum(one.nbytes for one in tables)))
        return Block(int(block["since_ns"]), int(block["until_ns"]), *tables), at + BLOCK.itemsize + size

    def _read(self, offset: int, size: int) -> bytes:
        try:
            descriptor = open_regular(self.path, None, follow=False)
        except UnreadableError as error:
            raise TraceError(str(error)) from error
        try:
            return os.pread(descriptor, size, offset)
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror}") from error
        finally:
            os.close(descriptor)


def keeps_summary(manifest: dict[str, Any]) -> bool:
    """Return whether a session keeps sums instead of its samples."""
    return manifest.get("keep") in (SUMMARY, THREADS)
