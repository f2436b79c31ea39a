"""A thread of a running recording: who ran on it since the joules were shared out last, and who runs now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import layout
from tprof.trace.kinds import EndReason, Kind, StreamKind
from tprof.trace.thread import open_thread

from .tail import Tail, joined

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from tprof.trace.tasks import TaskTable
    from tprof.trace.thread import Packages

    from .tail import Records, State

THREAD_CLOCK = 0b110  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel's posix-timers.h


@dataclass(frozen=True, slots=True)
class Stretch:
    """What threads ran, one row a segment that has a length.

    Attributes
    ----------
    begin_ns, end_ns : (n,) int64
    cpu_s : (n,) float64, CPU seconds
    task : (n,) int64, index in the table; -1: nobody
    instance : (n,) uint64
    ends : (n,) bool, whether its instance ends with it
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
    def joined(cls, parts: list[Stretch]) -> Stretch:
        """Put the threads one after the other."""
        parts = parts or [NOBODY]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


NOBODY = Stretch(*(np.empty(0, kind) for kind in ("i8", "i8", "f8", "i8", "u8", "?", "i8", "i8")))

POINT = np.dtype(
    [("t_ns", "<i8"), ("cpu_ns", "<i8"), ("instance", "<u8"), ("task", "<i8"), ("package", "<i8"), ("ends", "?")]
)
"""A moment from which on a thread runs somebody; `ends`: the instance before it ended there."""
NOTHING = np.empty(0, np.int64)


class LiveThread:
    """One file of samples."""

    def __init__(self, path: Path, table: TaskTable, packages: Packages, own_process: int) -> None:
        """Open it. Raises TraceError."""
        thread = open_thread(path, table, packages)
        self.process = thread.process
        self.first_ns: int | None = None
        self._thread = thread
        self._dtype = thread.dtype
        self._tail = Tail(path, StreamKind.SAMPLES)
        self._own = thread.process == own_process
        names = thread.dtype.names or ()
        self._column = names.index("cpu_ns") - len(layout.SAMPLE_HEAD) if "cpu_ns" in names else None
        self._points = np.empty(0, POINT)
        self._ended = False
        self.behind = False

    @property
    def last_ns(self) -> int | None:
        """Up to when it is known who ran; None before the first sample."""
        return int(self._points["t_ns"][-1]) if len(self._points) else None

    def look(self, now_ns: int, most: int, know: Callable[[int, list[int]], None]) -> NDArray[np.int64]:
        """Read what is new, and what the thread has used by now.

        Parameters
        ----------
        now_ns : when the look began
        most : records at a time; `behind` says whether there are more
        know : is told the numbers of the tasks that the samples name, before they are looked up

        Returns
        -------
        (k,) int64, the tasks whose instances have begun

        Raises
        ------
        OSError
            If the file is gone.
        """
        if self._ended:
            return NOTHING
        # The clock before the samples: one that comes later says more than the clock does.
        cpu_ns = self._cpu_ns()
        records, state = self._tail.read(self._dtype, most)
        self.behind = self._tail.done < state.committed
        starts = NOTHING
        if len(records):
            numbers = records["task"][records["instance"] != 0]
            know(self.process, np.unique(numbers).tolist())
            starts = self._add(records)
        if not self.behind:
            self._close(now_ns, cpu_ns, state)
        return starts

    def take(self, since_ns: int, until_ns: int) -> Stretch | None:
        """Take what ran before a moment; None if nothing did. What came too late for `since_ns` counts from there."""
        points = self._points
        if not len(points) or points["t_ns"][0] >= until_ns:
            return None
        if points["t_ns"][0] < since_ns:
            np.maximum(points["t_ns"], since_ns, out=points["t_ns"])
        stop = int(np.searchsorted(points["t_ns"], until_ns, side="right"))
        taken = points[:stop].copy()
        if stop < len(points) and taken["t_ns"][-1] < until_ns:
            taken = joined(taken, _between(points[stop - 1 : stop], points[stop : stop + 1], until_ns))
        self._points = joined(taken[-1:], points[stop:])
        # What ended there has been told.
        self._points["ends"][0] = False
        return self._stretch(taken)

    def _add(self, records: Records) -> NDArray[np.int64]:
        points = np.empty(len(records), POINT)
        points["t_ns"] = records["t_ns"]
        points["cpu_ns"] = records["cpu_ns"] if self._column is not None else 0
        points["instance"] = records["instance"]
        points["task"] = self._thread.table.to_indices(self.process, records["task"])
        points["task"][records["instance"] == 0] = -1
        points["package"] = self._thread.package(records)
        points["ends"] = records["kind"] == Kind.FINISH
        if self.first_ns is None:
            self.first_ns = int(points["t_ns"][0])
        self._extend(points)
        return np.asarray(points["task"][records["kind"] == Kind.START])

    def _extend(self, points: NDArray[Any]) -> None:
        self._points = joined(self._points, points)
        for name in ("t_ns", "cpu_ns"):
            np.maximum.accumulate(self._points[name], out=self._points[name])

    def _close(self, now_ns: int, cpu_ns: int | None, state: State) -> None:
        """Add the moment of the look, or that of the thread's end."""
        if not len(self._points):
            return
        if state.end_reason != EndReason.OPEN or state.first_drop_ns:
            self._ended = True
            now_ns = state.first_drop_ns or state.end_ns
            cpu_ns = state.end_columns[self._column] if self._column is not None and not state.first_drop_ns else None
        last = self._points[-1:].copy()
        if now_ns <= last["t_ns"][0]:
            return
        last["t_ns"], last["ends"] = now_ns, False
        last["cpu_ns"] = last["cpu_ns"] if cpu_ns is None else cpu_ns
        if self._ended:
            last["instance"], last["task"] = 0, -1
        self._extend(last)

    def _cpu_ns(self) -> int | None:
        """Return what the thread has used by now; None if nobody says."""
        thread = self._thread
        try:
            if self._own:
                return time.clock_gettime_ns(~thread.tid << 3 | THREAD_CLOCK)
            with open(f"/proc/{thread.pid}/task/{thread.tid}/schedstat", "rb") as file:  # noqa: PTH123 - it is hot
                return int(file.read().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _stretch(self, points: NDArray[Any]) -> Stretch:
        t_ns, cpu_ns = points["t_ns"], points["cpu_ns"]
        # What a segment without length counted goes to the next one.
        keep = np.flatnonzero(t_ns[1:] > t_ns[:-1])
        count = len(keep)
        return Stretch(
            t_ns[keep],
            t_ns[keep + 1],
            (cpu_ns[keep + 1] - cpu_ns[keep]) * 1e-9,
            points["task"][keep],
            points["instance"][keep],
            points["ends"][keep + 1],
            points["package"][keep],
            np.full(count, self.process, np.int64),
        )


def _between(before: NDArray[Any], after: NDArray[Any], t_ns: int) -> NDArray[Any]:
    """Return a moment in the midst of a segment."""
    middle = before.copy()
    part = (t_ns - int(before["t_ns"][0])) / int(after["t_ns"][0] - before["t_ns"][0])
    middle["t_ns"], middle["ends"] = t_ns, False
    middle["cpu_ns"] += round(part * int(after["cpu_ns"][0] - before["cpu_ns"][0]))
    return middle
