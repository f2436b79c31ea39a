"""What a trace knows of GPUs: for which instance a stream worked when, and which processes used a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .directory import USERS
from .metadata import MAX_NS
from .plain_values import is_finite, parse_trace_json
from .tasks import MAX_BYTES, MAX_NAME_CHARACTERS, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy.typing as npt

    from .tasks import TaskTable

MAX_SEGMENTS = 20_000_000
"""In a trace; a line more is left out."""
MAX_USERS = 2_000_000
MAX_INSTANCE = 2**64 - 1
MOST_NAMES = 4
"""Of a device."""


@dataclass(frozen=True)
class GpuSegments:
    """The segments of one process on one device.

    Attributes
    ----------
    process : its ordinal.
    device : the device's UUID and PCI address, as far as they are known.
    number : the device's number in that process.
    stream : (n,) int64, which stream; segments of one do not overlap.
    begin_ns, end_ns : (n,) int64, CLOCK_MONOTONIC.
    instance : (n,) uint64; 0: of no task.
    task : (n,) uint32, index in `Trace.tasks`.
    """

    process: int
    device: tuple[str, ...]
    number: int
    stream: npt.NDArray[np.int64]
    begin_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]
    instance: npt.NDArray[np.uint64]
    task: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class GpuNote:
    """What a process knew of GPUs when it left the recording.

    Attributes
    ----------
    process : its ordinal.
    used : libraries through which it used a GPU.
    lost : marks without a time.
    captured : marks that were left out, since the stream was being captured into a graph.
    overlapped : whether several threads marked one stream at a time.
    problem : the error that ended the marking; None without one.
    """

    process: int
    used: tuple[str, ...]
    lost: int
    captured: int
    overlapped: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class GpuUsers:
    """Which processes used a device from when to when, each with its part of that time; None: not known."""

    domain: str
    since_ns: int
    t_ns: int
    processes: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True)
class GpuTrace:
    """All that a trace has on GPUs."""

    segments: tuple[GpuSegments, ...] = ()
    users: tuple[GpuUsers, ...] = ()
    notes: tuple[GpuNote, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.segments or self.users or self.notes)


class GpuReader:
    """Collects the files of one trace."""

    def __init__(self, table: TaskTable) -> None:
        """Begin; `table` has the tasks of all processes."""
        self._table = table
        self._rows: dict[tuple[int, tuple[str, ...], int], list[npt.NDArray[np.uint64]]] = {}
        self._users: list[GpuUsers] = []
        self._said: list[GpuNote] = []
        self._count = 0
        self.notes: list[str] = []

    def read(self, path: Path, process: int, length: int = MAX_BYTES) -> None:
        """Read a file, up to so many bytes, with a note on what was left out. Raises TraceError."""
        take = self._take_users if path.name == USERS else partial(self._take, process)
        damaged = sum(not _parsed(line, take) for line in lines_of(path, length=length))
        if damaged:
            self.notes.append(f"{path.name}: {damaged} lines on GPUs are damaged, and left out")

    def _take_users(self, record: dict[str, Any]) -> bool:
        domain, since_ns, t_ns = record.get("domain"), _whole(record.get("since_ns")), _whole(record.get("t_ns"))
        processes = [_user(one) for one in _items(record.get("processes"))]
        if not isinstance(domain, str) or since_ns is None or t_ns is None or since_ns >= t_ns:
            return False
        if len(self._users) >= MAX_USERS or None in processes:
            return False
        self._users.append(GpuUsers(domain, since_ns, t_ns, tuple(one for one in processes if one is not None)))
        return True

    def _take(self, process: int, record: dict[str, Any]) -> bool:
        if "segments" not in record:
            note = _note(process, record)
            if note is not None:
                self._said.append(note)
            return note is not None
        device, number = _names(record.get("device")), _whole(record.get("number"))
        rows = _segments(record["segments"])
        if rows is None or number is None or device is None:
            return False
        self._count += len(rows)
        if self._count > MAX_SEGMENTS:
            return False
        self._rows.setdefault((process, device, number), []).append(rows)
        return True

    def found(self) -> GpuTrace:
        """Return what was read."""
        return GpuTrace(
            tuple(self._joined(*key, np.concatenate(rows)) for key, rows in self._rows.items()),
            tuple(sorted(self._users, key=lambda one: one.t_ns)),
            tuple(self._said),
        )

    def _joined(self, process: int, device: tuple[str, ...], number: int, rows: npt.NDArray[np.uint64]) -> GpuSegments:
        begin_ns, length_ns = (np.minimum(rows[:, at], MAX_NS).astype(np.int64) for at in (0, 1))
        end_ns = np.minimum(begin_ns, MAX_NS - length_ns) + length_ns
        task = self._table.to_indices(process, np.minimum(rows[:, 3], layout.NO_TASK).astype(np.uint32))
        stream = rows[:, 4].view(np.int64)
        order = np.lexsort((begin_ns, stream))
        return GpuSegments(
            process, device, number, stream[order], begin_ns[order], end_ns[order], rows[order, 2], task[order]
        )


def _parsed(line: bytes, take: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        record = parse_trace_json(line)
    except ValueError:
        return False
    return isinstance(record, dict) and take(record)


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_NS else None


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else [None]


def _names(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > MOST_NAMES or not all(isinstance(one, str) for one in value):
        return None
    return tuple(one[:MAX_NAME_CHARACTERS] for one in value)


def _user(one: object) -> tuple[int, float | None] | None:
    if not isinstance(one, list) or len(one) != 2:
        return None
    pid, part = _whole(one[0]), one[1]
    if pid is None or not (part is None or (is_finite(part) and 0 <= part <= 1)):
        return None
    return pid, None if part is None else float(part)


def _segments(value: object) -> npt.NDArray[np.uint64] | None:
    """Return begin, length, instance, task and stream of each, (n, 5) uint64."""
    if not isinstance(value, list) or not all(_is_segment(one) for one in value):
        return None
    return np.array(value, np.uint64).reshape(-1, 5)


def _is_segment(one: object) -> bool:
    return isinstance(one, list) and len(one) == 5 and all(type(it) is int and 0 <= it <= MAX_INSTANCE for it in one)


def _note(process: int, record: dict[str, Any]) -> GpuNote | None:
    used: Iterable[object] = record.get("used", ())
    if not isinstance(used, list) or not all(isinstance(one, str) for one in used):
        return None
    problem = record.get("problem")
    return GpuNote(
        process,
        tuple(str(one)[:MAX_NAME_CHARACTERS] for one in used),
        _whole(record.get("lost")) or 0,
        _whole(record.get("captured")) or 0,
        record.get("overlapped") is True,
        problem[:MAX_NAME_CHARACTERS] if isinstance(problem, str) else None,
    )
