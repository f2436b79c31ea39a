"""What a trace knows of GPUs: for which instance a stream worked when, and which processes used a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .directory import USERS
from .metadata import MAX_NS
from .plain_values import counted, is_finite, parse_numbers
from .tasks import MAX_NAME_CHARACTERS, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy.typing as npt

    from .tasks import TaskTable

MAX_BYTES = 1 << 34
"""Of a file; what follows is left out."""
MAX_INSTANCE = 2**64 - 1
MOST_NAMES = 4
"""Of a device."""


@dataclass(frozen=True)
class GpuSegments:
    """The segments of one process on one device, as they begin.

    Attributes
    ----------
    process : its ordinal.
    device : the device's UUID and PCI address, as far as they are known.
    number : the device's number in that process.
    stream : (n,) int64, which stream; segments of one do not overlap.
    begin_ns, end_ns : (n,) int64, CLOCK_MONOTONIC; `begin_ns` does not decrease.
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


@dataclass(frozen=True)
class GpuUsers:
    """Which processes used a device from when to when, in the order in which it was noted.

    Attributes
    ----------
    domain : of the device.
    since_ns, t_ns : (n,) int64, CLOCK_MONOTONIC.
    processes : (n,) int64, how many used it then.
    pid : (m,) int64, those of each time one after the other.
    part : (m,) float64, of that time; NaN: not known.
    """

    domain: str
    since_ns: npt.NDArray[np.int64]
    t_ns: npt.NDArray[np.int64]
    processes: npt.NDArray[np.int64]
    pid: npt.NDArray[np.int64]
    part: npt.NDArray[np.float64]


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
        self._segments: dict[tuple[int, tuple[str, ...], int], list[npt.NDArray[np.uint64]]] = {}
        self._users: dict[str, list[tuple[int, int, list[tuple[int, float]]]]] = {}
        self._said: list[GpuNote] = []
        self.notes: list[str] = []

    def read(self, path: Path, process: int, length: int = MAX_BYTES) -> None:
        """Read a file, up to so many bytes, with a note on what was left out. Raises TraceError."""
        take = self._take_users if path.name == USERS else partial(self._take, process)
        damaged = sum(not _parsed(line, take) for line in lines_of(path, MAX_BYTES, length=length))
        if damaged:
            lines = counted(damaged, "line on GPUs is", "lines on GPUs are")
            self.notes.append(f"{path.name}: {lines} damaged, and left out")

    def _take_users(self, record: dict[str, Any]) -> bool:
        domain, since_ns, t_ns = record.get("domain"), _whole(record.get("since_ns")), _whole(record.get("t_ns"))
        processes = [_user(one) for one in _items(record.get("processes"))]
        if not isinstance(domain, str) or since_ns is None or t_ns is None or since_ns >= t_ns or None in processes:
            return False
        self._users.setdefault(domain, []).append((since_ns, t_ns, [one for one in processes if one is not None]))
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
        self._segments.setdefault((process, device, number), []).append(rows)
        return True

    def found(self) -> GpuTrace:
        """Return what was read."""
        return GpuTrace(
            tuple(self._sorted(*key, np.concatenate(rows)) for key, rows in self._segments.items()),
            tuple(_users_of(domain, times) for domain, times in self._users.items()),
            tuple(self._said),
        )

    def _sorted(self, process: int, device: tuple[str, ...], number: int, rows: npt.NDArray[np.uint64]) -> GpuSegments:
        begin, length, instance, task, stream = rows[np.argsort(rows[:, 0], kind="stable")].T
        begin_ns, length_ns = (np.minimum(one, MAX_NS).astype(np.int64) for one in (begin, length))
        end_ns = np.minimum(begin_ns, MAX_NS - length_ns) + length_ns
        tasks = self._table.to_indices(process, np.minimum(task, layout.NO_TASK).astype(np.uint32))
        return GpuSegments(process, device, number, stream.astype(np.int64), begin_ns, end_ns, instance.copy(), tasks)


def _users_of(domain: str, times: list[tuple[int, int, list[tuple[int, float]]]]) -> GpuUsers:
    since_ns, t_ns, users = zip(*times, strict=True)
    counts = np.array([len(one) for one in users])
    pid, part = zip(*chain.from_iterable(users), strict=True) if counts.any() else ((), ())
    return GpuUsers(
        domain, np.array(since_ns), np.array(t_ns), counts, np.array(pid, np.int64), np.array(part, np.float64)
    )


def _parsed(line: bytes, take: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        record = parse_numbers(line)
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


def _user(one: object) -> tuple[int, float] | None:
    if not isinstance(one, list) or len(one) != 2:
        return None
    pid, part = _whole(one[0]), one[1]
    if pid is None or not (part is None or (is_finite(part) and 0 <= part <= 1)):
        return None
    return pid, np.nan if part is None else float(part)


def _segments(value: object) -> npt.NDArray[np.uint64] | None:
    """Return begin, length, instance, task and stream of each, (n, 5) uint64."""
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 5 for one in value):
        return None
    numbers = list(chain.from_iterable(value))
    if not set(map(type, numbers)) <= {int}:
        return None
    if min(numbers, default=0) < 0 or max(numbers, default=0) > MAX_INSTANCE:
        return None
    return np.array(numbers, np.uint64).reshape(-1, 5)


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
