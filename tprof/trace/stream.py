"""One file of samples, readings or events: checks its header and reads its records, limited by the file's size."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .metadata import MAX_NS
from .packed import NOWHERE, NewerFormatError, open_packed
from .plain_values import counted, parse_trace_json
from .segments import MOST_RECORDS, find_segments
from .user_files import UnreadableError, open_regular

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    from .packed import Block, PackedFile
    from .segments import Segments

HOLES_FROM_BYTES = 1 << 30
PIECE = 1 << 15
"""Records that are read at a time, where they are read in pieces: 1 to 2 MB, which the last cache holds."""
_FIELDS = tuple(layout.HEADER.names or ())

Header = dict[str, Any]


class UnwrittenError(TraceError):
    """The file is empty: its writer was stopped before the first byte, so nothing is lost."""


@dataclass(frozen=True)
class Damage:
    """Records that cannot be restored, of a compressed block.

    Attributes
    ----------
    first, count : the records
    begin_ns, end_ns : times of the records before and after them; None: there are none
    stand_in : the record that stands for each of them
    is_there : whether a damaged file has them; else it is missing or was cut
    """

    first: int
    count: int
    begin_ns: int | None
    end_ns: int | None
    stand_in: bytes
    is_there: bool


@dataclass(frozen=True)
class Stream:
    """The header of a file, and its readable part.

    Attributes
    ----------
    path : the file.
    header : the header's fields by name.
    description : the JSON that describes columns or domain.
    count : committed records that are there.
    flushed : number of these in the body; the rest are in the window.
    packed : the first ones of these, which are compressed beside the file; None if there are none.
    note : a sentence on the state of the file, or None.
    segments : the files with all of these; None if the body is in this file.
    damaged : by its first record, each damage that was met so far.
    """

    path: Path
    header: Header
    description: dict[str, Any]
    count: int
    flushed: int
    packed: PackedFile | None
    note: str | None
    segments: Segments | None = None
    damaged: dict[int, Damage] = field(default_factory=dict, repr=False, compare=False)

    def losses(self, what: str, start_ns: int, reach_ns: tuple[int, int] = (0, MAX_NS)) -> list[str]:
        """Return a sentence for each damage that was met, as far as it lies in a window.

        Parameters
        ----------
        what : of which something is lost
        start_ns : begin of the recording, from which times are given
        reach_ns : the window
        """
        found = []
        for one in _joined([damage for _, damage in sorted(self.damaged.items())]):
            begin_ns, end_ns = start_ns if one.begin_ns is None else one.begin_ns, one.end_ns
            if begin_ns >= reach_ns[1] or (end_ns is not None and end_ns <= reach_ns[0]):
                continue
            begin_s, end_s = ((t_ns - start_ns) * 1e-9 for t_ns in (begin_ns, begin_ns if end_ns is None else end_ns))
            until = "its end" if end_ns is None else f"{end_s:.6g} s"
            lost = f"{what} lost {counted(one.count, 'record')} from {begin_s:.6g} s to {until} of the recording"
            why = f"a compressed block of {self.path.name} is damaged"
            found.append(f"{lost}: {why if one.is_there else f'a file of {self.path.name} is missing, or cut'}")
        return found

    def number(self, field: str) -> int:
        """Return a whole-number field of the header."""
        return int(self.header[field])

    @property
    def gone(self) -> int:
        """Number of the first record that is there, as the header counts: those before were removed."""
        return 0 if self.segments is None else self.segments.gone

    @property
    def kept(self) -> int:
        """Number of the records that stand for those that were removed."""
        return 0 if self.segments is None else self.segments.before

    @property
    def _body_at(self) -> int:
        return layout.HEADER_BYTES + self.number("window_bytes")

    @property
    def _beside(self) -> PackedFile | Segments | None:
        return self.packed if self.segments is None else self.segments

    @property
    def _reach(self) -> int:
        """Number of the records that are in files beside this one."""
        return 0 if self._beside is None else self.packed.stop if self.packed is not None else self.flushed

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

    def first_at(self, dtype: np.dtype[np.void], t_ns: int) -> int:
        """Return the first record that is not before a time, by bisection; `count` if there is none."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            record = self.read_part(dtype, middle, middle + 1)
            if len(record) and int(record["t_ns"][0]) < t_ns:
                low = middle + 1
            else:
                high = middle
        return low

    def read_every(self, dtype: np.dtype[np.void], places: range) -> np.ndarray[Any, np.dtype[np.void]]:
        """Read single committed records, as `read` does; fewer if the file was cut."""
        if self._beside is not None:
            parts = [self.read_part(dtype, at, at + 1) for at in places]
            return np.concatenate([np.empty(0, dtype), *parts])
        records, size, done = np.empty(len(places), dtype), dtype.itemsize, 0
        plain = records.view(np.uint8).data
        body_at = self._body_at
        fd = _open(self.path)
        try:
            for at in places:
                if at < self.flushed:
                    there = os.preadv(fd, [plain[done * size : done * size + size]], body_at + at * size) == size
                else:
                    there = self._read_open(fd, records[done : done + 1], at) == 1
                if not there:
                    break
                done += 1
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror}") from error
        finally:
            os.close(fd)
        return records[:done]

    def read_pieces(
        self, dtype: np.dtype[np.void], first: int, stop: int
    ) -> Iterator[np.ndarray[Any, np.dtype[np.void]]]:
        """Yield the records of `read_part` in pieces that stay in the last cache; each may overwrite the one before."""
        stop = min(stop, self.count)
        pieces = [(begin, min(begin + PIECE, stop)) for begin in range(first, stop, PIECE)]
        if self._beside is not None:
            yield from (self.read_part(dtype, begin, end) for begin, end in pieces)
            return
        records = np.empty(max(min(PIECE, stop - first), 0), dtype)
        fd = _open(self.path)
        try:
            for begin, end in pieces:
                yield records[: self._read_open(fd, records[: end - begin], begin)]
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror}") from error
        finally:
            os.close(fd)

    def read_part(self, dtype: np.dtype[np.void], first: int, stop: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """Read the committed records from `first` to before `stop`; as `read`.

        Records of damaged blocks are replaced, so that the others keep their places: samples by ones of no task at the
        time of the last record before them, readings by failed ones, others by ones of no kind.
        """
        first, stop = min(first, self.count), min(stop, self.count)
        try:
            done = max(min(stop, self._reach) - first, 0)
            records = (np.zeros if done else np.empty)(max(stop - first, 0), dtype)
            if self._beside is not None and done:
                plain = records[:done].view(np.uint8).reshape(done, -1)
                for block in self._beside.read_into(plain, first):
                    begin, end = max(block.first - first, 0), min(block.stop - first, done)
                    plain[begin:end] = np.frombuffer(self._damage(block).stand_in, np.uint8)
            return records[: done + self._read_plain(records[done:], first + done)]
        except OSError as error:
            message = f"cannot read {self.path}: {error.strerror}"
            raise TraceError(message) from error
        except MemoryError:
            message = f"cannot read {self.path}: its {self.count} records do not fit into memory"
            raise TraceError(message) from None

    def _damage(self, block: Block) -> Damage:
        """Note a damaged block, and return what stands for its records."""
        known = self.damaged.get(block.first)
        if known is None:
            before, after = self._record(block.first - 1, -1), self._record(block.stop, 1)
            begin_ns, end_ns = (None if one is None else int.from_bytes(one[:8], "little") for one in (before, after))
            like = (
                before
                or after
                or self.header["start_ns"].to_bytes(8, "little").ljust(self.header["record_bytes"], b"\0")
            )
            stand_in = _stand_in(like, kinds.StreamKind(self.header["kind"]))
            is_there = block.at != NOWHERE
            known = self.damaged[block.first] = Damage(block.first, block.count, begin_ns, end_ns, stand_in, is_there)
        return known

    def _record(self, at: int, step: int) -> bytes | None:
        """Return the nearest record that can be restored, from a place on or back to it; None without any."""
        while 0 <= at < self.count:
            record = np.zeros((1, self.header["record_bytes"]), np.uint8)
            if self._beside is None or at >= self._reach:
                plain = record.view(np.dtype((np.void, record.shape[1])))[:, 0]
                return record.tobytes() if self._read_plain(plain, at) else None
            damaged = self._beside.read_into(record, at)
            if not damaged:
                return record.tobytes()
            at = damaged[0].stop if step > 0 else damaged[0].first - 1
        return None

    def _read_plain(self, records: np.ndarray[Any, np.dtype[np.void]], first: int) -> int:
        """Fill records from the file's body and window; returns the number of complete ones. Raises OSError."""
        if len(records) == 0:
            return 0
        fd = _open(self.path)
        try:
            return self._read_open(fd, records, first)
        finally:
            os.close(fd)

    def _read_open(self, fd: int, records: np.ndarray[Any, np.dtype[np.void]], first: int) -> int:
        in_body = max(min(first + len(records), self.flushed) - first, 0)
        got = _read_into(fd, records[:in_body], self._body_at + first * records.dtype.itemsize)
        return got if got < in_body else got + self._read_window(fd, records[in_body:], first + in_body)

    def _read_window(self, fd: int, records: np.ndarray[Any, np.dtype[np.void]], first: int) -> int:
        """Fill records from the window, or from the body, to which a running recording may have moved them."""
        size = records.dtype.itemsize
        if not len(records):
            return 0
        got = _read_into(fd, records, layout.HEADER_BYTES + (first - self.flushed) * size)
        now = np.frombuffer(os.pread(fd, layout.HEADER_BYTES, 0).ljust(layout.HEADER_BYTES, b"\0"), layout.HEADER)[0]
        if int(now["packed"]) or int(now["flushed"]) <= self.number("flushed"):
            return got
        if self.segments is None:
            return _read_into(fd, records, self._body_at + first * size)
        moved = replace(self.segments, flushed=int(now["flushed"]))
        moved.read_into(records.view(np.uint8).reshape(len(records), -1), first)
        return len(records)


def _joined(damages: Sequence[Damage]) -> list[Damage]:
    """Return damages in their order, those that follow each other or overlap as one: they were met in parts."""
    found: list[Damage] = []
    for one in damages:
        last = found[-1] if found else None
        if last is None or one.first > last.first + last.count or one.is_there != last.is_there:
            found.append(one)
        elif one.first + one.count > last.first + last.count:
            found[-1] = replace(last, count=one.first + one.count - last.first, end_ns=one.end_ns)
    return found


def open_stream(path: Path, kind: kinds.StreamKind) -> Stream:
    """Read and check a file's header.

    Raises
    ------
    TraceError
        If it is not such a file, or its header is inconsistent; NewerFormatError for a newer version, UnwrittenError
        where nothing was written. A file of readings always has some.
    """
    fd = _open(path)
    try:
        head = os.pread(fd, layout.HEADER_BYTES, 0)
        header = _check(path, head, kind)
        size = _solid_bytes(fd, layout.HEADER_BYTES + header["window_bytes"])
        record, flushed = header["record_bytes"], header["flushed"]
        packed = open_packed(path, record) if header["packed"] else None
        each = header["segment_records"]
        segments = find_segments(path, record, each, flushed) if each else None
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise TraceError(message) from error
    finally:
        os.close(fd)
    in_files = packed.stop if packed is not None else None if segments is None else segments.count
    there, flushed = _available(header, size, in_files, 0 if segments is None else segments.gone - segments.before)
    note = _note(path, header, there, segments)
    return Stream(path, header, _description(path, header), there, flushed, packed, note, segments)


def _open(path: Path) -> int:
    try:
        return open_regular(path, None, follow=False)
    except UnreadableError as error:
        raise TraceError(str(error)) from error


def _solid_bytes(fd: int, body_at: int) -> int:
    """Return the file's size; of a huge one only what comes before the first hole of its body.

    A hostile file can be terabytes of holes. No writer leaves holes in a body; only huge files are checked, since some
    file systems have reported holes in place of new data.
    """
    size = os.fstat(fd).st_size
    if size < HOLES_FROM_BYTES or body_at >= size:
        return size
    return os.lseek(fd, body_at, os.SEEK_HOLE)


def _note(path: Path, header: Header, there: int, segments: Segments | None) -> str | None:
    left = header["committed"] - (0 if segments is None else segments.gone - segments.before)
    if segments is not None and segments.is_cut(header["committed"]):
        return f"{path.name} is cut: its last segment is not there"
    if there < left:
        return f"{path.name} is cut: {left} records were committed, {there} are there"
    if header["minor"] > layout.MINOR:
        version = f"format {layout.MAJOR}.{header['minor']}"
        return f"{path.name} is of {version}: what {layout.MAJOR}.{layout.MINOR} does not know is left out"
    return None


def _check(path: Path, head: bytes, kind: kinds.StreamKind) -> Header:
    if not head and kind != kinds.StreamKind.READINGS and not any(path.parent.glob(f"{glob.escape(path.name)}.*")):
        message = f"{path} is empty: nothing was written to it"
        raise UnwrittenError(message)
    if head[:8] != layout.MAGIC[: len(head)]:
        message = f"{path} is not a tprof trace file (its first bytes are {head[:8]!r}): leave the file out"
        raise TraceError(message)
    if len(head) < layout.HEADER_BYTES:
        message = f"{path} is cut inside its header ({len(head)} of {layout.HEADER_BYTES} bytes): record again"
        raise TraceError(message)
    # As Python's numbers, which are read far more often than converted.
    header: Header = dict(zip(_FIELDS, np.frombuffer(head, layout.HEADER)[0].item(), strict=True))
    if header["endian"] != layout.ENDIAN:
        message = f"{path} was written with another byte order: read it on a machine like the one that wrote it"
        raise TraceError(message)
    record, window = header["record_bytes"], header["window_bytes"]
    is_samples = kind == kinds.StreamKind.SAMPLES
    has_beside = header["packed"] or header["segment_records"]
    is_fitted = is_samples and record not in layout.FIRST_SAMPLE_BYTES
    check_major(path, header["major"], layout.BESIDE_MAJOR if has_beside or is_fitted else layout.MAJOR)
    allowed: Container[int] = (32,)
    if is_samples:
        allowed = layout.FIRST_SAMPLE_BYTES if header["major"] == layout.MAJOR else layout.SAMPLE_BYTES
    sound = (
        header["kind"] == kind
        and header["header_bytes"] == layout.HEADER_BYTES
        and record in allowed
        and window % record == 0
        and header["flushed"] <= header["committed"]
        and header["packed"] in (0, 0 if header["segment_records"] else header["flushed"])
        and header["segment_records"] <= MOST_RECORDS
    )
    if not sound:
        message = f"{path} is damaged: its header contradicts itself; leave the file out or record again"
        raise TraceError(message)
    return header


def check_major(path: Path, major: int, newest: int = layout.MAJOR) -> None:
    """Reject another major version. Raises NewerFormatError, or TraceError for one that never existed."""
    if major > newest:
        message = f"{path} is of format {major}.x, this tprof reads {layout.MAJOR}.x: update tprof"
        raise NewerFormatError(message)
    if major < layout.MAJOR:
        message = f"{path} is damaged: there is no format {major}; record again"
        raise TraceError(message)


def _available(header: Header, size: int, in_files: int | None, gone: int) -> tuple[int, int]:
    """Return committed and flushed records, limited by the file's size and by those that are in files beside it.

    Removed ones count in neither, if they have no head that stands for them.
    """
    record, window = header["record_bytes"], header["window_bytes"]
    committed, flushed = header["committed"] - gone, header["flushed"] - gone
    in_body = max(size - layout.HEADER_BYTES - window, 0) // record if in_files is None else in_files
    if in_body < flushed:
        return in_body, in_body
    in_window = min(max(size - layout.HEADER_BYTES, 0), window) // record
    return flushed + min(committed - flushed, in_window), flushed


def _description(path: Path, header: Header) -> dict[str, Any]:
    count = header["description_bytes"]
    if count <= layout.DESCRIPTION_BYTES:
        described = _parsed(header["description"][:count])
        if described is not None:
            return described
    message = f"{path} is damaged: its description is not readable; leave the file out or record again"
    raise TraceError(message)


def _stand_in(like: bytes, kind: kinds.StreamKind) -> bytes:
    """Return a record at the time of another one that says nothing but that time."""
    if kind == kinds.StreamKind.SAMPLES:
        head = np.frombuffer(like, np.dtype(layout.SAMPLE_HEAD), count=1).copy()
        head["instance"], head["task"], head["kind"], head["flags"] = 0, layout.NO_TASK, kinds.Kind.FINISH, 0
        return head.tobytes() + like[head.itemsize :]
    record = np.zeros(1, layout.READING if kind == kinds.StreamKind.READINGS else layout.NATIVE)
    record["t_ns"] = int.from_bytes(like[:8], "little")
    if kind == kinds.StreamKind.READINGS:
        record["flags"] = kinds.ReadingFlag.MISSING
    if kind == kinds.StreamKind.NATIVE:
        # Calls may be among them.
        record["kind"] = kinds.NativeKind.MISSED
    return record.tobytes()


@lru_cache(maxsize=16)
def _parsed(text: bytes) -> dict[str, Any] | None:
    """Return the object; that of all threads is the same, so it is not to be changed."""
    try:
        described = parse_trace_json(text)
    except ValueError:
        return None
    return described if isinstance(described, dict) else None


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
