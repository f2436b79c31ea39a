"""The end of a file that is being written: the records that were committed since the last look."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import layout
from tprof.trace.stream import open_stream

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.trace.kinds import StreamKind

Records = np.ndarray[Any, np.dtype[np.void]]

_FIELDS: Any = layout.HEADER.fields or {}
_FIRST = _FIELDS["committed"][1]
_BYTES = _FIELDS["modulus"][1] - _FIRST
_NUMBERS = struct.Struct(f"<2Q{_FIELDS['first_drop_ns'][1] - _FIRST - 16}xQ16xI4xQ{layout.MAX_COLUMNS}Q")
"""committed and flushed, first_drop_ns, end_reason, end_ns, end_columns."""


@dataclass(frozen=True, slots=True)
class State:
    """The part of a header that changes."""

    committed: int
    flushed: int
    first_drop_ns: int
    end_reason: int
    end_ns: int
    end_columns: tuple[int, ...]


class Tail:
    """A file of a running recording, read from where the last read ended.

    It is opened by name each time: a program may close every descriptor it finds, and have the number given to
    another file. The writer overwrites its window only after it has raised `flushed`, so what was read of the window
    counts if `flushed` still stands where it stood.
    """

    def __init__(self, path: Path, kind: StreamKind) -> None:
        """Read the header once. Raises TraceError."""
        self.stream = open_stream(path, kind)
        self._body_at = layout.HEADER_BYTES + self.stream.number("window_bytes")
        self._path = os.fspath(path)
        self.done = 0

    def read(self, dtype: np.dtype[np.void], most: int) -> tuple[Records, State]:
        """Return at most so many new records, and the header's state. Raises OSError."""
        fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            state = _state(fd)
            stop = min(state.committed, self.done + most)
            records = np.empty(max(stop - self.done, 0), dtype)
            while len(records):
                got = self._fill(fd, records, state.flushed)
                flushed, state = state.flushed, _state(fd)
                if flushed == state.flushed or flushed >= stop or got < len(records):
                    records = records[:got]
                    break
        finally:
            os.close(fd)
        self.done += len(records)
        return records, state

    def _fill(self, fd: int, records: Records, flushed: int) -> int:
        """Read what stands in the body, then what stands in the window; returns how many came whole."""
        size = records.dtype.itemsize
        in_body = min(max(flushed - self.done, 0), len(records))
        view = records.view(np.uint8).data.cast("B")
        got = 0
        if in_body:
            got = os.preadv(fd, [view[: in_body * size]], self._body_at + self.done * size) // size
        if got == in_body < len(records):
            at = layout.HEADER_BYTES + (self.done + in_body - flushed) * size
            got += os.preadv(fd, [view[in_body * size :]], at) // size
        return got


def joined(before: Records, after: Records) -> Records:
    """Put records of one dtype together; NumPy's own way asks at length whether they are."""
    records = np.empty(len(before) + len(after), before.dtype)
    records[: len(before)] = before
    records[len(before) :] = after
    return records


def _state(fd: int) -> State:
    committed, flushed, first_drop_ns, end_reason, end_ns, *columns = _NUMBERS.unpack(os.pread(fd, _BYTES, _FIRST))
    return State(committed, flushed, first_drop_ns, end_reason, end_ns, tuple(columns))
