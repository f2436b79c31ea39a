"""A thread of a running recording: the tasks that ran on it since the last step, and the one that runs now."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.trace import layout
from tprof.trace.thread import open_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from tprof.trace.tasks import TaskTable
    from tprof.trace.thread import Packages

ROW = np.dtype(
    [
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
        ("cpu_s", "<f8"),
        ("task", "<i8"),
        ("instance", "<u8"),
        ("package", "<i8"),
        ("process", "<i8"),
        ("ends", "<u8"),
    ]
)
"""The struct tprof_row of csrc/follow.h."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The load of threads: a row for each task of a thread between two edges, or for each of its instances.

    Attributes
    ----------
    begin_ns, end_ns : (n,) int64
    cpu_s : (n,) float64, CPU seconds
    task : (n,) int64, index in the table; -1: none
    instance : (n,) uint64, one of those that the row stands for
    ends : (n,) bool, whether its instance ends with it; known only if each instance has its own rows
    package : (n,) int64, -1: not known
    process : (n,) int64
    """

    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    cpu_s: NDArray[np.float64]
    task: NDArray[np.int64]
    instance: NDArray[np.uint64]
    ends: NDArray[np.bool_]
    package: NDArray[np.int64]
    process: NDArray[np.int64]

    @classmethod
    def of(cls, rows: bytes) -> Stretch:
        """Decode the rows of the core."""
        table = np.frombuffer(rows, ROW)
        return cls(**{name: table[name].astype(bool) if name == "ends" else table[name] for name in cls.__slots__})


class LiveThread:
    """One file of samples."""

    def __init__(self, path: Path, table: TaskTable, packages: Packages, own_process: int) -> None:
        """Open it. Raises TraceError."""
        thread = open_thread(path, table, packages)
        names = thread.dtype.names or ()
        self.process = thread.process
        self._follower = _core.Follower(
            path=os.fspath(path),
            record_bytes=thread.dtype.itemsize,
            body_at=layout.HEADER_BYTES + thread.stream.number("window_bytes"),
            process=thread.process,
            pid=thread.pid,
            tid=thread.tid,
            own=thread.process == own_process,
            column=names.index("cpu_ns") - len(layout.SAMPLE_HEAD) if "cpu_ns" in names else -1,
            packages=np.asarray(packages, np.int16).tobytes(),
        )

    @property
    def first_ns(self) -> int | None:
        """Time of the first sample; None without one."""
        return self._follower.first_ns

    def follow(
        self, edges_ns: bytes, now_ns: int, learn: Callable[[int], tuple[int, bool]]
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the rows between the edges, and the number of starts of each task.

        Parameters
        ----------
        edges_ns : int64, increasing; the first is the last one of the step before
        now_ns : not before the last edge
        learn : called with the number of each new task; returns its index in the table and whether each of its
            instances gets its own rows

        Raises
        ------
        OSError
            If the file is gone.
        """
        return self._follower.follow(edges_ns, now_ns, learn)
