"""A session as a stream of bytes, by which a part comes home from another host.

The stream is a tar archive, compressed by gzip, of a session's files and nothing else. The receiver trusts nothing in
it: what is no plain file of a session, has an odd name or is too large is refused, and then nothing stays. Both ends
hold a few chunks in memory, whatever the size of the session.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tarfile
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from tprof.errors import TprofError, TraceError, UsageError

from .directory import DISK_LOCK, OURS
from .manifest import MANIFEST
from .packed import ENDING
from .running import LIVE
from .segments import is_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

BLOCK = tarfile.BLOCKSIZE
LEVEL = 1
"""Of compression: samples shrink to a quarter of their size, in about a seventh of the time of the usual level."""
GZIP = 16 + zlib.MAX_WBITS
STEP_BYTES = 1 << 20
MOST_FILES = 1_000_000
MOST_BYTES = 256 << 30
"""Of a part, unpacked: some four billion samples."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")


def pack(session: Path, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
    """Yield a session as a compressed archive, in chunks of about this size.

    A session that is still recorded is packed as far as it has got.

    Raises
    ------
    TraceError
        If it is no session, or a file cannot be read.
    """
    if not (session / MANIFEST).is_file():
        raise TraceError(f"{session} is not a tprof session: it has no {MANIFEST}")
    squeezed = zlib.compressobj(LEVEL, wbits=GZIP)
    waiting = bytearray()
    for part in _archive(session):
        waiting += squeezed.compress(part)
        while len(waiting) >= chunk_bytes:
            yield bytes(waiting[:chunk_bytes])
            del waiting[:chunk_bytes]
    waiting += squeezed.flush()
    for begin in range(0, len(waiting), chunk_bytes):
        yield bytes(waiting[begin : begin + chunk_bytes])


class Unpacker:
    """Makes a session of an archive that comes in pieces.

    The directory appears when the archive is whole; until then its contents are beside it, in a hidden directory.

    Parameters
    ----------
    directory
        The session directory to make; its parent exists.
    most_bytes
        Most bytes that all files may have together.

    Raises
    ------
    UsageError
        If the directory exists.
    TprofError
        If it cannot be made.
    """

    def __init__(self, directory: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.directory = directory.absolute()
        self._most_bytes = most_bytes
        self._inflate = zlib.decompressobj(wbits=GZIP)
        self._buffer = bytearray()
        self._file: BinaryIO | None = None
        self._left = self._padding = self._files = self._bytes = self._end_blocks = 0
        if os.path.lexists(self.directory):
            raise UsageError(f"{self.directory} exists: choose another path, or remove it")
        try:
            self._incoming = Path(
                tempfile.mkdtemp(prefix=f".{self.directory.name}.", suffix=".incoming", dir=self.directory.parent)
            )
        except OSError as error:
            raise TprofError(f"cannot make the session {self.directory}: {error.strerror}") from error

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what came if the archive was not closed."""
        self.abandon()

    def feed(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises
        ------
        TraceError
            If they are no archive of a session; nothing of it stays.
        TprofError
            If a file cannot be written, as on a full disk; nothing stays.
        """
        try:
            while piece:
                self._take(self._inflate.decompress(piece, STEP_BYTES))
                piece = self._inflate.unconsumed_tail
            self._refuse_rest()
        except zlib.error as error:
            self.abandon()
            raise _refused("it is damaged") from error
        except OSError as error:
            self.abandon()
            raise TprofError(f"cannot write {self.directory}: {error.strerror}; make room there") from error
        except BaseException:
            self.abandon()
            raise

    def close(self, *, keep_partial: bool = False) -> str | None:
        """Let the session appear under its name.

        Parameters
        ----------
        keep_partial
            Keep what came of an archive that ended early, if it is a session that can be read.

        Returns
        -------
        str or None
            What is missing of a part that was kept; None if it is whole.

        Raises
        ------
        TraceError
            If the archive ended early, unless that is kept.
        """
        is_whole = self._end_blocks > 1 and self._inflate.eof
        has_manifest = (self._incoming / MANIFEST).is_file() and not (self._file is not None and self._files == 1)
        if not has_manifest or not (is_whole or keep_partial):
            self.abandon()
            raise _refused("it ended early" if not is_whole else f"it has no {MANIFEST}")
        try:
            self._end_file()
            self._incoming.rename(self.directory)
        except OSError as error:
            self.abandon()
            raise TprofError(f"cannot make the session {self.directory}: {error.strerror}") from error
        return None if is_whole else f"the transfer ended after {self._bytes:,} bytes: the rest is missing"

    def abandon(self) -> None:
        """Remove what came, unless it has been made a session."""
        with suppress(OSError):
            self._end_file()
        shutil.rmtree(self._incoming, ignore_errors=True)

    def _refuse_rest(self) -> None:
        if self._inflate.unused_data:
            raise _refused("there are bytes after its end")

    def _take(self, content: bytes) -> None:
        self._buffer += content
        while self._buffer:
            if self._left:
                self._write()
            elif self._padding:
                skipped = min(self._padding, len(self._buffer))
                del self._buffer[:skipped]
                self._padding -= skipped
            elif len(self._buffer) >= BLOCK:
                self._begin_file(bytes(self._buffer[:BLOCK]))
                del self._buffer[:BLOCK]
            else:
                return

    def _write(self) -> None:
        assert self._file is not None  # noqa: S101 - `_begin_file` has opened it
        part = self._buffer[: self._left]
        # A hole instead of zeros: files are preallocated in steps, whose rest holds nothing.
        if part.strip(b"\0"):
            self._file.write(part)
        else:
            self._file.seek(len(part), os.SEEK_CUR)
        self._left -= len(part)
        del self._buffer[: len(part)]
        if not self._left:
            self._end_file()

    def _begin_file(self, header: bytes) -> None:
        if not header.strip(b"\0"):
            self._end_blocks += 1
            return
        if self._end_blocks:
            raise _refused("it goes on after its end")
        try:
            entry = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeError) as error:
            raise _refused("it is damaged") from error
        path = self._path_of(entry)
        self._files += 1
        self._bytes += entry.size
        if self._files > MOST_FILES or self._bytes > self._most_bytes or entry.size < 0:
            raise _refused(f"it is larger than {self._most_bytes:,} bytes or {MOST_FILES:,} files")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "wb")
        self._left, self._padding = entry.size, -entry.size % BLOCK
        if not self._left:
            self._end_file()

    def _path_of(self, entry: tarfile.TarInfo) -> Path:
        """Return where a file goes. Raises TraceError if it is none of a session's."""
        parts = entry.name.split("/")
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise _refused("it has links, folders or devices in it")
        if len(parts) > 2 or parts[0] not in OURS or not all(map(_NAME.fullmatch, parts)):
            raise _refused(f"{entry.name[:100]!a} is no file of a session")
        path = self._incoming.joinpath(*parts)
        if os.path.lexists(path) or (path.parent != self._incoming and path.parent.is_file()):
            raise _refused(f"{entry.name} is in it twice")
        return path

    def _end_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.truncate(file.tell())  # a hole at the end counts
            file.close()


def files_of(session: Path) -> list[str]:
    """Return the names of a session's plain files, relative to it; what is no recorder's stays out.

    Raises
    ------
    TraceError
        If a folder cannot be read.
    """
    found: list[Path] = []
    try:
        for place in session.iterdir():
            if place.name in OURS - {LIVE, DISK_LOCK}:
                inside = place.iterdir() if _is(stat.S_ISDIR, place) else [place]
                found += [path for path in inside if _is(stat.S_ISREG, path) and _NAME.fullmatch(path.name)]
    except OSError as error:
        raise TraceError(f"cannot read {session}: {error.strerror}") from error
    # The manifest first: of a stream that ends early a session can be read then.
    return sorted((path.relative_to(session).as_posix() for path in found), key=lambda name: (name != MANIFEST, name))


def _archive(session: Path) -> Iterator[bytes]:
    """Yield the archive, uncompressed."""
    for name in files_of(session):
        try:
            now = _now(session, name)
            with open(session / now, "rb") as file:  # noqa: PTH123 - the same as `Path.open`, for a plain reader
                yield from _entry(now, file)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and is_segment(name):
                continue  # it was removed: the recording has a size limit
            raise TraceError(f"cannot read {session / name}: {error.strerror}") from error
    yield bytes(2 * BLOCK)


def _now(session: Path, name: str) -> str:
    """Return the name of a file, which has another one if it is a segment that was compressed meanwhile."""
    is_there = os.path.lexists(session / name) or not os.path.lexists(session / (name + ENDING))
    return name if is_there else name + ENDING


def _entry(name: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield a file with its header; as many bytes as it had when it was opened, whatever its recorder does then."""
    entry = tarfile.TarInfo(name)
    entry.size = left = os.fstat(file.fileno()).st_size
    yield entry.tobuf(tarfile.USTAR_FORMAT if entry.size < 8 << 30 else tarfile.GNU_FORMAT)
    while left:
        content = file.read(min(left, STEP_BYTES)) or bytes(min(left, STEP_BYTES))
        left -= len(content)
        yield content
    yield bytes(-entry.size % BLOCK)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    return kind(path.lstat().st_mode)


def _refused(reason: str) -> TraceError:
    return TraceError(f"the archive of a session is refused: {reason}; send the session again")
