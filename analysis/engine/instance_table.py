"""The instances that may run on: their sums so far, found by id.

A block may hold any part of an instance. Its sums go on here until its end was seen and no later block can have a part
of it, so it matters neither where blocks begin nor on which threads it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Records = np.ndarray[Any, np.dtype[np.void]]

INSTANCE = np.dtype(
    [
        ("instance", "<u8"), ("parent", "<u8"), ("start_ns", "<i8"), ("end_ns", "<i8"), ("last_ns", "<i8"),
        ("own_s", "<f8"), ("cpu_s", "<f8"), ("dynamic_j", "<f8"), ("static_j", "<f8"),
        ("thread", "<i4"), ("task", "<u4"), ("cpu", "<u2"), ("package", "<i2"),
        ("begun", "?"), ("failed", "?"), ("ended", "?"), ("", "V1"),
    ]
)  # fmt: skip
"""An instance: thread, processor, package and parent are those of its first sample; `begun` and `ended`: whether
samples say so; `last_ns`: where its last segment begins."""
LEAST_ROOM = 1 << 10


@dataclass
class InstanceTable:
    """The instances.

    Attributes
    ----------
    columns : counters that are summed
    widths : further sums of each instance, and how many numbers each has
    count : of the instances
    """

    columns: int
    widths: Mapping[str, int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        """Begin without any."""
        self._records = np.zeros(LEAST_ROOM, INSTANCE)
        self._bytes = self._records.view(np.uint8)
        self._counts = np.zeros((LEAST_ROOM, self.columns))
        self._index = np.full(2 * LEAST_ROOM, -1, np.int32)
        self._sums = {name: np.zeros((LEAST_ROOM, width)) for name, width in self.widths.items()}

    @property
    def records(self) -> Records:
        """Those that are there, (count,) of `INSTANCE`."""
        return self._records[: self.count]

    @property
    def counts(self) -> NDArray[np.float64]:
        """Their counts, (count, columns)."""
        return self._counts[: self.count]

    @property
    def sums(self) -> dict[str, NDArray[np.float64]]:
        """Their further sums by name, (count, width)."""
        return {name: values[: self.count] for name, values in self._sums.items()}

    @property
    def given(self) -> tuple[Any, ...]:
        """What the loops take."""
        return self._bytes, self._counts, self._index, self.count, self.columns

    def make_room(self, more: int) -> None:
        """Make room for so many more: twice as many as there was, or the next power of 2."""
        if self.count + more <= len(self._records):
            return
        room = 1 << (self.count + more - 1).bit_length()
        records, counts = np.empty(room, INSTANCE), np.empty((room, self.columns))
        records[: self.count], counts[: self.count] = self.records, self.counts
        self._records, self._bytes, self._counts = records, records.view(np.uint8), counts
        for name, values in self._sums.items():
            self._sums[name] = np.zeros((room, values.shape[1]))
            self._sums[name][: self.count] = values[: self.count]
        self._index = np.empty(2 * room, np.int32)
        _engine.fill_index(self.given)

    def find(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the row of each id, -1 without."""
        rows = np.empty(len(ids), np.int32)
        _engine.find(self.given, np.ascontiguousarray(ids, np.uint64), rows)
        return rows

    def add(self, records: Records) -> None:
        """Enter instances that are not there, without counts."""
        self.make_room(len(records))
        at = slice(self.count, self.count + len(records))
        self._records[at], self._counts[at] = records, 0.0
        self.count = at.stop
        _engine.fill_index(self.given)

    def taken(self, which: NDArray[np.bool_]) -> tuple[Records, NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """Return copies of some, with their counts and further sums."""
        at = np.flatnonzero(which)
        # As rows of bytes: NumPy copies records field by field.
        plain = self.records.view(np.uint8).reshape(self.count, INSTANCE.itemsize)
        records = plain.take(at, axis=0).view(INSTANCE)[:, 0]
        return (
            records,
            self.counts.take(at, axis=0),
            {name: values.take(at, axis=0) for name, values in self.sums.items()},
        )

    def keep(self, which: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Forget all others; returns the new row of each, -1 without."""
        rows = np.where(which, np.cumsum(which, dtype=np.int32) - np.int32(1), np.int32(-1))
        records, counts, sums = self.taken(which)
        before, self.count = self.count, len(records)
        self._records[: self.count], self._counts[: self.count] = records, counts
        for name, values in self._sums.items():
            values[: self.count], values[self.count : before] = sums[name], 0.0  # zeros for those to come
        _engine.fill_index(self.given)
        return rows
