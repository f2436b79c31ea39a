"""Compresses the streams of a session that has ended; see docs/trace-format.md."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import TprofError, TraceError, UsageError

from . import kinds, layout
from .directory import HOSTS, one_at_a_time
from .kinds import StreamKind
from .packed import MOST_RECORDS, encode, packed_path, write_packed
from .reader import check_session
from .running import is_running
from .segments import head_path, segment_path
from .stream import open_stream
from .stream_files import PLACES
from .user_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from .block_content import Bytes
    from .segments import Segments
    from .stream import Stream

LEAST_BYTES = 1 << 13
"""Of records: fewer are not worth a file of their own."""


@dataclass(frozen=True)
class Compressed:
    """What compressing a session did.

    Attributes
    ----------
    before_bytes, after_bytes : of the files of all streams, on the disk
    samples : records of samples that are compressed now, also those that were before
    sample_bytes : of the files with them
    """

    before_bytes: int
    after_bytes: int
    samples: int
    sample_bytes: int

    def joined(self, other: Compressed) -> Compressed:
        """Return the sums."""
        return Compressed(
            self.before_bytes + other.before_bytes,
            self.after_bytes + other.after_bytes,
            self.samples + other.samples,
            self.sample_bytes + other.sample_bytes,
        )


def compress(path: str | os.PathLike[str]) -> Compressed:
    """Compress the streams of a session, or of each part of a job; those that are compressed stay as they are.

    A stream's records are in one form or the other at every moment, whatever interrupts this.

    Raises
    ------
    TraceError
        If it is no session.
    UsageError
        If a program still records there.
    TprofError
        If a file cannot be written, as on a full disk; the session is whole nevertheless.
    """
    directory = Path(path).absolute()
    hosts = directory / HOSTS
    parts = [directory]
    if hosts.is_dir() and not (directory / "manifest.json").exists():
        parts = sorted(part for part in hosts.iterdir() if part.is_dir() and not part.name.startswith("."))
    total = Compressed(0, 0, 0, 0)
    for part in parts:
        check_session(part)
        with one_at_a_time(part):
            total = total.joined(_compress_session(part))
    return total


def _compress_session(session: Path) -> Compressed:
    found = list(_streams(session))
    if is_running(session) or any(_is_written(stream) for stream in found):
        raise UsageError(f"a program still records in {session}: compress it when it has ended")
    before = after = samples = sample_bytes = 0
    _remove_left({stream.path for stream in found})
    for stream in found:
        before += _bytes_of(stream)
        try:
            is_packed = _compress_stream(stream)
        except OSError as error:
            raise TprofError(
                f"cannot compress {stream.path}: {error.strerror}; nothing is lost, make room and compress again"
            ) from error
        after += _bytes_of(stream)
        if is_packed and stream.number("kind") == StreamKind.SAMPLES:
            samples += stream.count
            sample_bytes += _bytes_of(stream)
    return Compressed(before, after, samples, sample_bytes)


def _streams(session: Path) -> Iterator[Stream]:
    """Yield the readable streams; what cannot be read stays as it is."""
    for name, (ending, kind) in PLACES.items():
        place = session / name
        if not place.is_dir() or place.is_symlink():
            continue
        for path in sorted(place.iterdir()):
            if path.suffix != ending:
                continue
            try:
                yield open_stream(path, kind)
            except TraceError:
                continue


def _is_written(stream: Stream) -> bool:
    """Return whether its writer may still run: a process survives the one that read the sensors for it."""
    if stream.number("end_reason") != kinds.EndReason.OPEN:
        return False
    try:
        return os.fsencode(stream.path) in Path(f"/proc/{stream.number('pid')}/maps").read_bytes()
    except OSError:
        return False


def _compress_stream(stream: Stream) -> bool:
    """Compress its records; returns whether they are. Raises OSError and TraceError."""
    size = stream.number("record_bytes")
    if stream.packed is not None:
        return True
    # A file that is cut stays as it is: what a header says of it is no longer true.
    if stream.count < stream.number("committed") - stream.gone + stream.kept:
        return False
    if stream.segments is not None:
        return _compress_segments(stream, stream.segments, size)
    if stream.count * size < LEAST_BYTES:
        _replace(stream, flushed=stream.count, body=stream.read(np.dtype((np.void, size))).tobytes())
        return False
    write_packed(stream.path, size, _blocks(stream, size, 0))
    _replace(stream, flushed=stream.count, packed=stream.count)
    return True


def _blocks(stream: Stream, size: int, first: int) -> Iterator[bytes]:
    """Yield the blocks of a stream's records from `first` on; they count from 0."""
    for at in range(first, stream.count, MOST_RECORDS):
        yield encode(_records(stream, size, at), at - first)


def _replace(stream: Stream, *, flushed: int, packed: int = 0, window: int = 0, body: bytes = b"") -> None:
    """Let the stream's file be a header and a body, if there is one, of whose bytes the first are the window.

    The other names of this file, as of a copy that shares it, keep its records: it is replaced, not cut.
    """
    header = np.fromfile(stream.path, layout.HEADER, count=1)
    former = header.tobytes()
    if packed:
        header["major"], header["minor"] = layout.BESIDE_MAJOR, layout.MINOR
    header["flushed"], header["packed"], header["window_bytes"] = flushed, packed, window
    if header.tobytes() != former:
        replace_file(stream.path, header.tobytes() + body)


def _remove_left(streams: Collection[Path]) -> None:
    """Remove half-written files of a compression that was killed; no other runs here now.

    A folder is listed once: there may be a stream for each of thousands of threads.
    """
    for folder in {stream.parent for stream in streams}:
        hidden = [name for name in os.listdir(folder) if name.startswith(".")]  # noqa: PTH208 - names are enough
        if not hidden:
            continue
        # Of the names of blocks, of segments and of the stream.
        prefixes = tuple(f".{stream.name}." for stream in streams if stream.parent == folder)
        for name in hidden:
            if name.startswith(prefixes):
                (folder / name).unlink(missing_ok=True)


def _records(stream: Stream, size: int, first: int) -> Bytes:
    """Return the records of the block that begins with `first`. Raises TraceError if they are not there any more."""
    stop = min(first + MOST_RECORDS, stream.count)
    records = stream.read_part(np.dtype((np.void, size)), first, stop)
    if len(records) < stop - first:
        raise TraceError(f"{stream.path} changed while it was compressed: it stays as it is")
    return records.view(np.uint8).reshape(-1, size)


def compress_sealed(session: Path, *, most: int = 1) -> int:
    """Compress segments that the programs of a running session have left for good; returns how many, at most so many.

    Only those of samples and events, which are nearly all bytes.

    Raises
    ------
    OSError
        If a file cannot be written; the records are where they were.
    """
    done = 0
    for name in ("threads", "graph"):
        for stream, numbers in _plain_segments(session / name, PLACES[name][0]).items():
            with suppress(TraceError):
                found = open_stream(stream, PLACES[name][1])
                each = found.number("segment_records")
                sealed = [number for number in sorted(numbers) if (number + 1) * each <= found.number("flushed")]
                for number in sealed[: most - done]:
                    done += _compress_segment(segment_path(stream, number), found.number("record_bytes"))
            if done == most:
                return done
    return done


def _plain_segments(folder: Path, ending: str) -> dict[Path, list[int]]:
    """Return the numbers of the segments in a folder that are not compressed, by the path of their stream."""
    found: dict[Path, list[int]] = {}
    for name in os.listdir(folder) if folder.is_dir() else ():  # noqa: PTH208 - names are enough
        stem, _, number = name.rpartition(".")
        if number.isdecimal() and stem.endswith(ending):
            found.setdefault(folder / stem, []).append(int(number))
    return {stream: numbers for stream, numbers in found.items() if len(numbers) > 1}


def _compress_segments(stream: Stream, segments: Segments, size: int) -> bool:
    """Compress the segments of a stream that has ended, and its window with the last of them."""
    if not stream.count:
        return False
    last = segment_path(stream.path, segments.flushed // segments.records)
    if _is_small(stream, segments, last, size):
        records = stream.read(np.dtype((np.void, size)))
        _replace(stream, flushed=0, window=records.nbytes, body=records.tobytes())
        last.unlink(missing_ok=True)
        return False
    for number, path, is_packed in list(segments.files()):
        if not is_packed and (number + 1) * segments.records <= segments.flushed:
            _compress_segment(path, size)
    first = stream.flushed - segments.flushed % segments.records
    if stream.count > stream.flushed or last.exists():
        # Both hold the records of the body until the stream's file says that it has those of the window too.
        write_packed(last, size, _blocks(stream, size, first))
        last.unlink(missing_ok=True)
    _replace(stream, flushed=stream.number("committed"))
    return True


def _is_small(stream: Stream, segments: Segments, last: Path, size: int) -> bool:
    """Return whether it has few records, in its window and its first segment, as of a thread that ends soon.

    To write a file of their own and wait for the disk takes some 10 ms each, and more room than their window.
    """
    is_first = segments.flushed < segments.records and not packed_path(last).exists()
    return is_first and stream.count * size < LEAST_BYTES


def _compress_segment(path: Path, size: int) -> bool:
    """Write a segment's compressed file, then remove the plain one; returns False if it is gone."""
    try:
        with path.open("rb") as file:
            content = np.frombuffer(file.read(), np.uint8)
        records = content[: len(content) // size * size].reshape(-1, size)
        blocks = (encode(records[at : at + MOST_RECORDS], at) for at in range(0, len(records), MOST_RECORDS))
        write_packed(path, size, blocks)
    except FileNotFoundError:
        return False
    path.unlink(missing_ok=True)
    return True


def _bytes_of(stream: Stream) -> int:
    """Return the bytes of a stream's files."""
    paths = [stream.path, packed_path(stream.path), packed_path(head_path(stream.path))]
    paths += [path for _, path, _ in stream.segments.files()] if stream.segments is not None else []
    return sum(path.stat().st_size for path in paths if path.exists())
