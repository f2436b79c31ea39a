"""From the slices of a thread to its samples: who runs from each begin and end on."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import Flag, Kind

from .timeline import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .timeline import ThreadSlices

SHORTER = "slices that outlast the one around them (cut off at its end)"


@dataclass
class Samples:
    """The samples of all threads, and what had to be changed.

    Attributes
    ----------
    threads : as `write_trace` takes them
    running : of each thread, the times at which it begins and ceases to run anything, in turn
    instances : how many there are
    cut : how many slices were cut off
    """

    threads: list[dict[str, Any]] = field(default_factory=list)
    running: list[np.ndarray[Any, np.dtype[np.int64]]] = field(default_factory=list)
    instances: int = 0
    cut: int = 0


@dataclass
class _Columns:
    t_ns: array[int] = field(default_factory=lambda: array("q"))
    instance: array[int] = field(default_factory=lambda: array("Q"))
    task: array[int] = field(default_factory=lambda: array("q"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    cpu: array[int] = field(default_factory=lambda: array("q"))
    flags: array[int] = field(default_factory=lambda: array("b"))
    cpu_ns: array[int] = field(default_factory=lambda: array("q"))
    begins: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def samples_of(threads: Iterable[ThreadSlices], packages: dict[int, int]) -> Samples:
    """Return the samples of threads; `packages` are those of processors, if they are known."""
    given = [one for one in threads if len(one.begin_ns)]
    pieces = Counter(number for one in given for number in one.instance if number)
    highest = max(pieces, default=0)
    made, following = Samples(), highest + 1
    all_columns = []
    for one in given:
        columns, following, cut = _columns(one, pieces, following)
        all_columns.append(columns)
        made.cut += cut
        made.running.append(_running(columns))
    _join_pieces(all_columns)
    made.threads += [_given(one, columns, packages) for one, columns in zip(given, all_columns, strict=True)]
    made.instances = following - 1 - highest + len(pieces)
    return made


def _join_pieces(threads: list[_Columns]) -> None:
    """Mark the first begin of each instance that has several pieces, and its last end."""
    begins = [
        (columns.t_ns[place], instance, columns, place)
        for columns in threads
        for instance, place in columns.begins.items()
    ]
    ends = [
        (columns.t_ns[place], instance, columns, place)
        for columns in threads
        for instance, place in columns.ends.items()
    ]
    first = {instance: (columns, place) for _, instance, columns, place in sorted(begins, key=_time, reverse=True)}
    last = {instance: (columns, place) for _, instance, columns, place in sorted(ends, key=_time)}
    for columns, place in first.values():
        columns.kind[place] = Kind.START
    for columns, place in last.values():
        columns.kind[place] = Kind.FINISH


def _time(entry: tuple[int, int, _Columns, int]) -> int:
    return entry[0]


def _given(one: ThreadSlices, columns: _Columns, packages: dict[int, int]) -> dict[str, Any]:
    """Return a thread as `write_trace` takes it."""
    thread: dict[str, Any] = {
        "t_ns": columns.t_ns, "instance": columns.instance, "task": columns.task, "kind": columns.kind,
        "flags": columns.flags, "pid": one.pid, "tid": one.tid, "name": one.name,
    }  # fmt: skip
    if UNKNOWN not in columns.cpu:
        thread["cpu"] = columns.cpu
        if packages:
            thread["package"] = [packages.get(cpu, 0) for cpu in columns.cpu]
    if UNKNOWN not in columns.cpu_ns:
        thread["cpu_ns"] = np.maximum.accumulate(columns.cpu_ns)
    return thread


def _columns(one: ThreadSlices, pieces: Counter[int], following: int) -> tuple[_Columns, int, int]:
    """Return a thread's samples, the next free number of an instance, and how many slices were cut off."""
    thread = _Thread(one, pieces)
    order = np.lexsort((np.arange(len(one.begin_ns)), -np.array(one.end_ns), np.array(one.begin_ns)))
    cut = 0
    for place in order.tolist():
        instance = one.instance[place] or following
        following += instance == following
        cut += thread.begin(place, instance)
    thread.mark(float("inf"))
    thread.leave(float("inf"))
    return thread.columns, following, cut


class _Thread:
    """Follows which slice of a thread runs."""

    def __init__(self, one: ThreadSlices, pieces: Counter[int]) -> None:
        self.columns = _Columns()
        self._one, self._pieces = one, pieces
        self._marks = deque(one.marks)
        self._stack: list[tuple[int, int, int]] = []  # end, instance, place of the slice

    def begin(self, place: int, instance: int) -> bool:
        """Begin a slice; returns whether it is cut off by the one around it."""
        one, stack = self._one, self._stack
        begin_ns, end_ns = one.begin_ns[place], one.end_ns[place]
        self.mark(begin_ns)
        self.leave(begin_ns)
        is_cut = bool(stack) and end_ns > stack[-1][0]
        stack.append((stack[-1][0] if is_cut else end_ns, instance, place))
        has_pieces = self._pieces[instance] > 1
        if has_pieces:
            self.columns.begins.setdefault(instance, len(self.columns.t_ns))
        self._sample(begin_ns, one.begin_cpu_ns[place], Kind.RESUME if has_pieces else Kind.START)
        return is_cut

    def mark(self, until_ns: float) -> None:
        """Add the times at which only the CPU time is known."""
        while self._marks and self._marks[0][0] <= until_ns:
            t_ns, cpu_ns = self._marks.popleft()
            self.leave(t_ns)
            outside = Kind.FINISH if self.columns.t_ns else Kind.JOIN
            self._sample(t_ns, cpu_ns, Kind.RESUME if self._stack else outside)

    def leave(self, until_ns: float) -> None:
        """End the slices that end until then."""
        while self._stack and self._stack[-1][0] <= until_ns:
            end_ns, instance, place = self._stack.pop()
            has_pieces = self._pieces[instance] > 1
            if has_pieces:
                self.columns.ends[instance] = len(self.columns.t_ns)
            self._sample(end_ns, self._one.end_cpu_ns[place], Kind.SUSPEND if has_pieces else Kind.FINISH)
            self.columns.flags[-1] = int(Flag.FAILED) if self._one.failed[place] else 0

    def _sample(self, t_ns: int, cpu_ns: int, kind: Kind) -> None:
        columns, one = self.columns, self._one
        _, instance, place = self._stack[-1] if self._stack else (0, 0, UNKNOWN)
        columns.t_ns.append(t_ns)
        columns.instance.append(instance)
        columns.task.append(one.task[place] if instance else -1)
        columns.kind.append(kind)
        # Between slices it is where the last one was.
        columns.cpu.append(one.cpu[place] if instance else columns.cpu[-1] if columns.cpu else one.cpu[0])
        columns.flags.append(0)
        columns.cpu_ns.append(cpu_ns)


def _running(columns: _Columns) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return when the thread begins and ceases to run anything, in turn."""
    runs = np.array(columns.instance, np.uint64) != 0
    changes = np.flatnonzero(np.diff(runs, prepend=False))
    return np.array(columns.t_ns, np.int64)[changes]
