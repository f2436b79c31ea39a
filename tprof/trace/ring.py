"""Keeps the folder of a running session below a size: what is oldest goes, of all threads together.

A moment T is chosen so that enough segments end before it. These are removed from every stream, so that what remains is
a whole recording from T on: each thread's samples since T, and the one before that says what ran at T. Before any file
goes, gone.json says so; a removal that is cut short leaves more files than are needed, never fewer.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import TraceError

from . import layout
from .digests import digest
from .gone import Gone, read_gone, write_gone
from .kinds import EndReason, StreamKind
from .packed import ENDING, MOST_RECORDS, encode, packed_path, write_packed
from .segments import find_segments, head_path, read_segment, segment_path, segments_of
from .stream import open_stream
from .stream_files import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

HIGH, LOW = 0.85, 0.7
"""Parts of the limit: above the first one files go until the second is reached."""
LEAST_S, LONGEST_S = 0.01, 0.25
SCANS = 20
"""A scan takes at most one part in so many of the time."""
THINNED_NS = 1_000_000_000
AT_ONCE = 16
"""Segments that are joined to a head at a time."""
HEADS = 64
"""A head may have one part in so many of the limit; above that readings become sparser."""


@dataclass(frozen=True)
class _Item:
    """Something that can go: a segment, or with `number` None all of a stream that has ended."""

    end_ns: int
    size: int
    stream: Path
    number: int | None
    records: int


@dataclass
class _Files:
    """What a scan found: bytes of the whole folder, and of each stream's file and segments."""

    total: int = 0
    streams: dict[Path, int] = field(default_factory=dict)
    segments: dict[Path, dict[int, int]] = field(default_factory=dict)


class Ring:
    """The size limit of one session.

    Attributes
    ----------
    gone : what was removed so far
    """

    def __init__(self, session: Path, max_bytes: int) -> None:
        """Begin, and end a removal that was cut short. Raises TraceError if it cannot be read, and OSError."""
        self._session, self._max_bytes = session, max_bytes
        self.gone = read_gone(session) or Gone(max_bytes=max_bytes, thinned_ns=THINNED_NS)
        self._begins: dict[Path, dict[int, int]] = {}
        self._floor: dict[Path, int] = {}
        self._before: tuple[float, int] | None = None
        if self.gone.until_ns:
            files = self._scan()
            self._take([one for one in self._items(files) if one.end_ns <= self.gone.until_ns], files)

    def keep(self) -> float:
        """Remove what is necessary now; returns after how many seconds to look again. Raises OSError, TraceError."""
        began_s = time.monotonic()
        files = self._scan()
        grown = max(files.total - self._before[1], 0) if self._before else files.total
        rate = grown / max(began_s - self._before[0], LEAST_S) if self._before else grown / LEAST_S
        if files.total > self.gone.max_bytes and files.total > self.gone.most_bytes:
            self.gone = replace(self.gone, most_bytes=files.total)
            write_gone(self._session, self.gone)
        # What may come until the next look counts as if it were here.
        if files.total + min(2 * grown, self._max_bytes / 4) > HIGH * self._max_bytes:
            files.total -= self._remove(files)
        self._before = began_s, files.total
        room = max(HIGH * self._max_bytes - files.total, 0)
        took_s = time.monotonic() - began_s
        return max(min(room / max(rate, 1.0) / 3, LONGEST_S), LEAST_S, min(SCANS * took_s, LONGEST_S))

    def _scan(self) -> _Files:
        files = _Files()
        for folder in (self._session, *(self._session / name for name in os.listdir(self._session))):  # noqa: PTH208
            with suppress(NotADirectoryError, FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        size = entry.stat(follow_symlinks=False).st_size
                        files.total += size
                        self._sort(files, folder, entry.name, size)
        return files

    @staticmethod
    def _sort(files: _Files, folder: Path, name: str, size: int) -> None:
        ending = PLACES[folder.name][0] if folder.name in PLACES else None
        if ending is None:
            return
        stem, _, rest = name.partition(ending)
        stream = folder / (stem + ending)
        number = rest.removesuffix(ENDING).removeprefix(".")
        if not rest and name.endswith(ending):
            files.streams[stream] = size
        elif number.isdecimal():
            found = files.segments.setdefault(stream, {})
            found[int(number)] = found.get(int(number), 0) + size

    def _remove(self, files: _Files) -> int:
        """Remove the oldest; returns how many bytes less there are."""
        self._remove_late(files)
        items = sorted(self._items(files), key=lambda one: one.end_ns)
        until_ns, size, least = self.gone.until_ns, 0, files.total - LOW * self._max_bytes
        for item in items:
            if size >= least:
                break
            size += item.size
            until_ns = max(until_ns, item.end_ns)
        taken = [one for one in items if one.end_ns <= until_ns]
        if not taken:
            return 0
        self._note(until_ns, taken)
        self._take(taken, files)
        return sum(one.size for one in taken)

    def _take(self, taken: list[_Item], files: _Files) -> None:
        for item in taken:
            if _kind(item.stream) in (StreamKind.SAMPLES, StreamKind.EVENTS) or item.number is None:
                self._unlink(item, files)
        self._make_heads(taken)

    def _note(self, until_ns: int, taken: list[_Item]) -> None:
        counts = {kind: sum(one.records for one in taken if _kind(one.stream) == kind) for kind in StreamKind}
        threads = sum(one.number is None and _kind(one.stream) == StreamKind.SAMPLES for one in taken)
        self.gone = replace(
            self.gone,
            until_ns=until_ns,
            samples=self.gone.samples + counts[StreamKind.SAMPLES],
            events=self.gone.events + counts[StreamKind.EVENTS],
            threads=self.gone.threads + threads,
        )
        write_gone(self._session, self.gone)

    def _remove_late(self, files: _Files) -> None:
        """Remove compressed segments that appeared when their plain ones had gone."""
        for stream, segments in files.segments.items():
            for number in sorted(segments):
                if number < self._floor.get(stream, 0) or stream not in files.streams:
                    _unlink_segment(stream, number)
                    del segments[number]

    def _unlink(self, item: _Item, files: _Files) -> None:
        numbers = [item.number] if item.number is not None else [*files.segments.get(item.stream, ())]
        for number in sorted(numbers):
            _unlink_segment(item.stream, number)
            self._floor[item.stream] = max(self._floor.get(item.stream, 0), number + 1)
            self._begins.get(item.stream, {}).pop(number, None)
        if item.number is None:
            self._begins.pop(item.stream, None)
            self._floor.pop(item.stream, None)
            packed_path(head_path(item.stream)).unlink(missing_ok=True)
            item.stream.unlink(missing_ok=True)

    def _items(self, files: _Files) -> Iterator[_Item]:
        mapped: dict[int, bytes] = {}
        for stream, size in files.streams.items():
            segments = files.segments.get(stream, {})
            header = _header(stream)
            if header is None:
                continue
            records, flushed = int(header["segment_records"]), int(header["flushed"])
            for number in sorted(segments):
                end_ns = self._begin_ns(stream, number + 1, header) if (number + 1) * records <= flushed else None
                if end_ns is not None:
                    yield _Item(end_ns, segments.pop(number), stream, number, records)
            ended_ns = self._ended_ns(stream, header, mapped)
            if ended_ns is not None and _kind(stream) != StreamKind.READINGS:
                left = int(header["committed"]) - (min(segments) * records if segments else flushed)
                yield _Item(ended_ns, size + sum(segments.values()), stream, None, left)

    def _begin_ns(self, stream: Path, number: int, header: np.void) -> int | None:
        """Return the time of a segment's first record; None if it is not there yet."""
        known = self._begins.setdefault(stream, {})
        if number not in known:
            record = np.zeros((1, int(header["record_bytes"])), np.uint8)
            try:
                if read_segment(segment_path(stream, number), record, 0) != []:
                    return None
            except TraceError:
                return None  # its first records are not there yet
            known[number] = int(record[0, :8].view("<u8")[0])
        return known[number]

    def _ended_ns(self, stream: Path, header: np.void, mapped: dict[int, bytes]) -> int | None:
        """Return when a stream ended; None if it is still written. A killed one ended with what it wrote last."""
        if int(header["end_reason"]) != EndReason.OPEN:
            return int(header["end_ns"])
        pid = int(header["pid"])
        if pid not in mapped:
            try:
                mapped[pid] = Path(f"/proc/{pid}/maps").read_bytes()
            except PermissionError:
                mapped[pid] = os.fsencode(self._session)
            except OSError:
                mapped[pid] = b""
        if os.fsencode(stream) in mapped[pid] or mapped[pid] == os.fsencode(self._session):
            return None
        try:
            left = open_stream(stream, _kind(stream))
        except TraceError:
            return None
        last = left.read_part(np.dtype((np.void, left.number("record_bytes"))), left.count - 1, left.count)
        return int(last.view(np.uint8)[:8].view("<u8")[0]) if len(last) else left.number("start_ns")

    def _make_heads(self, taken: list[_Item]) -> None:
        """Replace segments by what is kept of them in their stream's head."""
        until: dict[Path, int] = {}
        for one in taken:
            if one.number is not None and _kind(one.stream) not in (StreamKind.SAMPLES, StreamKind.EVENTS):
                until[one.stream] = max(until.get(one.stream, 0), one.number + 1)
        for stream, stop in until.items():
            header = _header(stream)
            if header is not None:
                self._make_head(stream, header, stop)

    def _make_head(self, stream: Path, header: np.void, stop: int) -> None:
        records, size = int(header["segment_records"]), int(header["record_bytes"])
        first = find_segments(stream, size, records, stop * records).first
        while first < stop:
            first = min(first + AT_ONCE, stop)
            found = find_segments(stream, size, records, first * records)
            kept = np.zeros((found.count, size), np.uint8)
            if found.read_into(kept, 0):
                raise TraceError(f"{stream} has a damaged block: nothing of it is removed")
            kept = digest(_kind(stream), kept, self.gone.thinned_ns)
            blocks = (encode(kept[at : at + MOST_RECORDS], at) for at in range(0, len(kept), MOST_RECORDS))
            write_packed(head_path(stream), size, blocks, segment=first)
            for number, _, _ in list(segments_of(stream)):
                if number < first:
                    _unlink_segment(stream, number)
        head = packed_path(head_path(stream))
        is_large = head.exists() and head.stat().st_size > self._max_bytes / HEADS
        if is_large and _kind(stream) == StreamKind.READINGS:
            self.gone = replace(self.gone, thinned_ns=2 * self.gone.thinned_ns)


def _unlink_segment(stream: Path, number: int) -> None:
    path = segment_path(stream, number)
    path.unlink(missing_ok=True)
    packed_path(path).unlink(missing_ok=True)


def _kind(stream: Path) -> StreamKind:
    return PLACES[stream.parent.name][1]


def _header(stream: Path) -> np.void | None:
    try:
        with stream.open("rb") as file:
            head = file.read(layout.HEADER_BYTES)
    except FileNotFoundError:
        return None
    if len(head) < layout.HEADER_BYTES or head[:8] != layout.MAGIC:
        return None
    header: np.void = np.frombuffer(head, layout.HEADER)[0]
    return header if int(header["segment_records"]) else None
