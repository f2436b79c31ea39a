"""Instances as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class InstanceRows:
    """One row for each instance that a thread (or, joined, the trace) ran; times in ns, rows of equal length.

    `own_s` is the time in which its thread ran it: without nested tasks and suspension. `begun`, `ended`: whether a
    sample says so; `last_ns`: where its last segment begins.
    """

    instance: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    task: NDArray[np.uint32]
    cpu: NDArray[np.uint16]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    failed: NDArray[np.bool_]
    own_s: Floats
    cpu_s: Floats
    counts: dict[str, Floats]
    begun: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    last_ns: NDArray[np.int64]
    package: NDArray[np.int16] | None = None
    thread: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.instance)

    @property
    def numbers(self) -> NDArray[np.int32]:
        """The number of each row's thread: 0, where all are of one."""
        return np.zeros(len(self), np.int32) if self.thread is None else self.thread

    def copied(self) -> InstanceRows:
        """Return contiguous columns."""
        arrays: dict[str, Any] = {
            name: np.ascontiguousarray(value) for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **arrays)

    def view(self, place: slice | NDArray[Any]) -> InstanceRows:
        """Return some of the rows; of a slice without a copy."""
        arrays: dict[str, Any] = {
            name: value[place] if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
            if name != "counts"
        }
        return InstanceRows(**arrays, counts={name: value[place] for name, value in self.counts.items()})
