"""The keys of an engine's tasks in columns: a key is 64 bits of its hash, and its text stays in a file.

A text of 60 characters takes 110 bytes in memory, and as much again where it is looked up; a hash takes 8, and two of
ten million keys share one with a probability of 3 in a million. An instance with a key takes 24 bytes, and each key
that it needed 16, in temporary files where these are many.
"""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.errors import TprofError
from tprof.trace.keys import read_keys
from tprof.trace.long_arrays import AppendedColumns, AppendedRows, blocks, release, temporary_folder
from tprof.trace.long_sorts import changes, sorted_arrays

if TYPE_CHECKING:
    from tprof.trace import Trace

Ids = NDArray[np.uint64]
MOST_IN_MEMORY = 1 << 24
"""Bytes of texts that are kept in memory."""
WRITTEN = 1 << 20
"""Bytes of texts that are written at a time."""


@dataclass(frozen=True)
class InstanceKeys:
    """The keys of instances.

    Attributes
    ----------
    notes : sentences on what was left out
    instance : (n,) instances that have a key, increasing
    key : (n,) their keys' hashes
    waiting, needs : (m,) instances that needed a key, and its hash
    """

    notes: tuple[str, ...]
    instance: Ids = field(repr=False)
    key: Ids = field(repr=False)
    waiting: Ids = field(repr=False)
    needs: Ids = field(repr=False)
    _text: NDArray[np.int64] = field(repr=False)
    _texts: _Texts = field(repr=False)

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.instance)

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(self.instance, self.key, self.waiting, self.needs, self._text)
        self._texts.release()

    def of(self, instances: Ids) -> list[str | None]:
        """Return the key of each of some instances, (m,); None for one without a key."""
        if not len(self):
            return [None] * len(instances)
        place = np.minimum(np.searchsorted(self.instance, instances), len(self) - 1)
        known = self.instance[place] == instances
        texts = [
            self._texts.read(at) if is_known else None
            for at, is_known in zip(self._text[place].tolist(), known.tolist(), strict=True)
        ]
        self.release()
        return texts


class _Texts:
    """Texts one after the other, each behind its length in two bytes."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MOST_IN_MEMORY, dir=temporary_folder())  # noqa: SIM115 - it stays
        self._parts = bytearray()
        self._done = 0
        self._bytes: bytes | mmap.mmap = b""

    def add(self, text: bytes) -> int:
        """Append a text of at most 64 kB, and return its place."""
        at = self._done + len(self._parts)
        self._parts += len(text).to_bytes(2, "little") + text
        if len(self._parts) >= WRITTEN:
            self._write()
        return at

    def _write(self) -> None:
        try:
            self._file.write(self._parts)
        except OSError as error:
            raise TprofError(
                f"cannot write the keys of tasks into a temporary file in {temporary_folder()} (set TMPDIR to another "
                f"folder): {error.strerror}"
            ) from error
        self._done += len(self._parts)
        self._parts.clear()

    def finish(self) -> None:
        """Make the texts readable."""
        self._write()
        if self._done > MOST_IN_MEMORY:
            self._file.flush()
            self._bytes = mmap.mmap(self._file.fileno(), self._done, prot=mmap.PROT_READ)
        else:
            self._file.seek(0)
            self._bytes = self._file.read()
        self._file.close()

    def read(self, at: int) -> str:
        """Return the text at a place."""
        length = int.from_bytes(self._bytes[at : at + 2], "little")
        return self._bytes[at + 2 : at + 2 + length].decode("utf-8", "surrogatepass")

    def release(self) -> None:
        """Leave the pages to the kernel."""
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.madvise(mmap.MADV_DONTNEED)


def read_instance_keys(trace: Trace) -> InstanceKeys:
    """Read the keys of a trace's instances; of several of one instance the first counts. Raises TraceError."""
    notes: list[str] = []
    texts = _Texts()
    made, needed_by = AppendedRows(np.uint64, np.uint64, np.int64), AppendedRows(np.uint64, np.uint64)
    for number, name, needed in read_keys(trace.key_files, notes):
        encoded = name.encode("utf-8", "surrogatepass")
        made.add(number, _hash(encoded), texts.add(encoded))
        for one in needed:
            needed_by.add(number, _hash(one.encode("utf-8", "surrogatepass")))
    texts.finish()
    given = made.finish()
    ids, keys, places = _firsts(sorted_arrays(given))
    waiting, needs = needed_by.finish()
    return InstanceKeys(tuple(notes), ids, keys, waiting, needs, places, texts)


def _firsts(columns: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    """Return of columns by the first one those rows that have another value there than the row before."""
    found = AppendedColumns(*(column.dtype for column in columns))
    for at in blocks(len(columns[0]), *columns):
        is_first = changes(columns[0], at)
        found.add(*(column[at][is_first] for column in columns))
    return found.finish()


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")
