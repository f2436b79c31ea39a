"""One thread of a trace: what its file says, and its samples when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from .stream import Stream

Samples = np.ndarray[Any, np.dtype[np.void]]


@dataclass(frozen=True)
class Thread:
    """A thread's part of a trace.

    Attributes
    ----------
    ordinal, process : numbers within the session.
    pid, tid, name : as the system knew it.
    count : committed samples that can be read.
    columns : names of the columns that were recorded; absent ones are left out.
    end_reason, end_ns, end_columns : how it ended, and the columns at that moment; empty where it did not.
    dropped : samples that could not be written, by reason.
    first_drop_ns : when the first of these was lost; the file holds nothing after it.
    """

    ordinal: int
    process: int
    pid: int
    tid: int
    name: str
    count: int
    columns: tuple[str, ...]
    end_reason: layout.EndReason
    end_ns: int | None
    end_columns: dict[str, int]
    dropped: dict[str, int]
    first_drop_ns: int | None
    stream: Stream = field(repr=False)
    dtype: np.dtype[np.void] = field(repr=False)
    packages_of_cpus: np.ndarray[Any, np.dtype[np.int16]] = field(repr=False)
    task_numbers: Callable[[np.ndarray[Any, np.dtype[np.uint32]]], np.ndarray[Any, np.dtype[np.uint32]]] = field(
        repr=False
    )

    def read(self) -> Samples:
        """Read the samples from the file; nothing is kept, so that a large trace need not fit twice.

        Returns
        -------
        samples : (n,) structured array
            t_ns, instance, task (index in `Trace.tasks`, 0xFFFFFFFF: none), cpu, kind, flags and one
            uint64 field per declared column.
        """
        samples = self.stream.read(self.dtype)
        samples["task"] = self.task_numbers(samples["task"])
        return samples

    def package(self, samples: Samples) -> np.ndarray[Any, np.dtype[np.int16]]:
        """Return the package on which each sample was taken, -1 where it is not known; (n,) int16."""
        cpu = samples["cpu"]
        known = len(self.packages_of_cpus)
        packages = self.packages_of_cpus[np.minimum(cpu, known - 1)]
        return np.where(cpu < known, packages, np.int16(-1)).astype(np.int16)
