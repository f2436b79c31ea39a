"""The keys of an engine's tasks in columns: a key is 64 bits of its hash, and its text stays in a file.

A text of 60 characters takes 110 bytes in memory, and as much again where it is looked up; a hash takes 8, and two of
ten million keys share one with a probability of 3 in a million. An instance with a key takes 32 bytes, and each key
that it needed 16, in temporary files where these are many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.keys import read_keys
from tprof.trace.long_arrays import Appended, AppendedRows, release
from tprof.trace.long_sorts import first_rows, rows_of, sorted_arrays

if TYPE_CHECKING:
    from tprof.trace import Trace

Ids = NDArray[np.uint64]
WRITTEN = 1 << 16
"""Bytes of texts that are kept at a time."""


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
    _places: list[NDArray[np.int64]] = field(repr=False)
    _texts: NDArray[np.uint8] = field(repr=False)

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.instance)

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(self.instance, self.key, self.waiting, self.needs, *self._places, self._texts)

    def of(self, instances: Ids) -> list[str | None]:
        """Return the key of each of some instances, (m,); None for one without a key."""
        rows, (begins, ends) = rows_of(self.instance, instances), self._places
        texts = [
            self._texts[begins[row] : ends[row]].tobytes().decode("utf-8", "surrogatepass") if row >= 0 else None
            for row in rows.tolist()
        ]
        self.release()
        return texts


def read_instance_keys(trace: Trace) -> InstanceKeys:
    """Read the keys of a trace's instances; of several of one instance the first counts. Raises TraceError."""
    notes: list[str] = []
    texts, held, done = Appended(np.uint8), bytearray(), 0
    made, needed_by = AppendedRows(np.uint64, np.uint64, np.int64, np.int64), AppendedRows(np.uint64, np.uint64)
    for number, name, needed in read_keys(trace.key_files, notes):
        encoded = name.encode("utf-8", "surrogatepass")
        made.add(number, _hash(encoded), done, done + len(encoded))
        held += encoded
        done += len(encoded)
        if len(held) >= WRITTEN:
            texts.add(np.frombuffer(held, np.uint8))
            held = bytearray()
        for one in needed:
            needed_by.add(number, _hash(one.encode("utf-8", "surrogatepass")))
    texts.add(np.frombuffer(held, np.uint8))
    ids, keys, *places = first_rows(sorted_arrays(made.finish()))
    waiting, needs = needed_by.finish()
    return InstanceKeys(tuple(notes), ids, keys, waiting, needs, places, texts.finish())


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")
