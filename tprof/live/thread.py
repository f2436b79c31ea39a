"""A thread of a running recording: who ran on it since the joules were shared out last, and who runs now."""

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
    """What threads ran: a row for each task of a thread between two edges, or for each of its instances.

    Attributes
    ----------
    begin_ns, end_ns : (n,) int64
    cpu_s : (n,) float64, CPU seconds
    task : (n,) int64, index in the table; -1: nobody
    instance : (n,) uint64, one of those that the row stands for
    ends : (n,) bool, whether its instance ends with it; told where each instance has rows of its own
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
        """Make it of rows as the core gives them."""
        said = np.frombuffer(rows, ROW)
        return cls(**{name: said[name].astype(bool) if name == "ends" else said[name] for name in cls.__slots__})


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
        """When its first sample was taken; None before that."""
        return self._follower.first_ns

    def follow(
        self, edges_ns: bytes, now_ns: int, learn: Callable[[int], tuple[int, bool]]
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """Return rows of who ran between the edges, and which tasks began how often.

        Parameters
        ----------
        edges_ns : int64, increasing; the first is the last one of the look before
        now_ns : not before the last edge
        learn : is told the number of each task that is new; returns its index in the table and whether each of its
            instances is to have rows of its own

        Raises
        ------
        OSError
            If the file is gone.
        """
        return self._follower.follow(edges_ns, now_ns, learn)
