"""The tables of tasks: one file per process, a line per task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import layout
from .manifest import open_file
from .plain_values import counted, parse_trace_json
from .short_names import short

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Numbers = np.ndarray[Any, np.dtype[np.uint32]]

# Places in a program, not instances: a program of a million lines has some ten thousand functions.
MAX_TASKS = 100_000
MAX_BYTES = 512 << 20
MAX_LINE_BYTES = 1 << 17
MAX_BUDGET_J = 1e15
MAX_NAME_CHARACTERS = 1000
MAX_TEXT_CHARACTERS = 8192
MOST_WORK = 1e30


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task's place in the program.

    Attributes
    ----------
    name : its name.
    file, line : its place; None if not recorded.
    source : its source text at the recording; None if not recorded.
    flops, bytes : declared constants of each instance, else None.
    calls : number of instances in `flops_sum` and `bytes_sum`.
    flops_sum, bytes_sum : sums over these calls, if they differ between calls; None if not declared.
    calls_failed : number of instances whose declared functions failed.
    failed, failure : "flops" or "bytes", and the reason, of the first failure; None without one.
    budget_j : joules that each instance may use; None without a budget.
    is_default : whether it stands for a program, or a thread of one, that defined no task itself.
    library : whose function it is, such as ``"MPI"``, if it is a task only since the recording was asked for that; None
        for the program's own.
    """

    name: str
    file: str | None = None
    line: int | None = None
    source: str | None = None
    flops: float | None = None
    bytes: float | None = None
    calls: int = 0
    flops_sum: float | None = None
    bytes_sum: float | None = None
    budget_j: float | None = None
    calls_failed: int = 0
    failed: str | None = None
    failure: str | None = None
    is_default: bool = False
    library: str | None = None

    @property
    def is_own(self) -> bool:
        """Whether the program itself defined it."""
        return not self.is_default and self.library is None

    def joined(self, other: TaskEntry) -> TaskEntry:
        """Return the same entry with the additional fields of another line or process."""
        return replace(
            self,
            source=self.source if self.source is not None else other.source,
            flops=self.flops if self.flops is not None else other.flops,
            bytes=self.bytes if self.bytes is not None else other.bytes,
            calls=self.calls + other.calls,
            flops_sum=_added(self.flops_sum, other.flops_sum),
            bytes_sum=_added(self.bytes_sum, other.bytes_sum),
            calls_failed=self.calls_failed + other.calls_failed,
            failed=self.failed if self.failure is not None else other.failed,
            failure=self.failure if self.failure is not None else other.failure,
        )


class TaskTable:
    """The tasks of all processes, one for each place in a program."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self.entries: list[TaskEntry] = []
        self.notes: list[str] = []
        self._index: dict[tuple[str, str | None, int | None, float | None, bool, str | None], int] = {}
        self._numbers: dict[int, dict[int, int]] = {}
        self._sorted: dict[int, tuple[Numbers, Numbers]] = {}

    def read(self, path: Path, process: int, length: int = MAX_BYTES) -> None:
        """Add a process's table, up to so many bytes. Incomplete lines are left out and counted. Raises TraceError."""
        numbers = self._numbers.setdefault(process, {})
        damaged = 0
        for count, line in enumerate(lines_of(path, length=length)):
            if count >= MAX_TASKS or len(self.entries) >= MAX_TASKS:
                self.notes.append(f"{path.name}: what follows {MAX_TASKS} tasks is left out of the task table")
                break
            parsed = _parse(line)
            if parsed is None:
                damaged += 1
            else:
                numbers[parsed[0]] = self._enter(parsed[1])
        if damaged:
            lines = counted(damaged, "line of the task table is", "lines of the task table are")
            self.notes.append(f"{path.name}: {lines} damaged, and left out")

    def left_out(self) -> list[int]:
        """Return the indices of the default tasks, if the program has tasks of its own."""
        if not any(entry.is_own for entry in self.entries):
            return []
        return [index for index, entry in enumerate(self.entries) if entry.is_default]

    def numbers(self, process: int) -> dict[int, int]:
        """Return process-local number → index in `entries`."""
        return self._numbers.setdefault(process, {})

    def lost(self, process: int, number: int) -> int:
        """Return the index of a placeholder for a number that is not in the table."""
        index = self._enter(TaskEntry(f"<lost name #{number}>"))
        self.numbers(process)[number] = index
        return index

    def to_indices(self, process: int, tasks: Numbers) -> Numbers:
        """Convert a process's task numbers to indices of `entries`; unknown ones to NO_TASK.

        Parameters
        ----------
        process
            Its ordinal.
        tasks : (n,) uint32, as in a file.
        """
        if not self.numbers(process):
            return np.full(len(tasks), layout.NO_TASK, np.uint32)
        lookup = self.lookup(process)
        if lookup is not None:
            return lookup.take(tasks, mode="clip")
        known, index = self._known(process)
        place = np.minimum(np.searchsorted(known, tasks), len(known) - 1)
        return np.where(known[place] == tasks, index[place], np.uint32(layout.NO_TASK))

    def lookup(self, process: int) -> Numbers | None:
        """Return the index of each of a process's numbers, and last NO_TASK for larger ones; None: they are sparse."""
        if self.is_sparse(process):
            return None
        known, index = self._known(process)
        top = int(known[-1]) if len(known) else 0
        lookup = np.full(top + 2, layout.NO_TASK, np.uint32)
        lookup[known] = index
        return lookup

    def is_sparse(self, process: int) -> bool:
        """Return whether a process's numbers are too far apart for a lookup."""
        numbers = self.numbers(process)
        return max(numbers, default=0) > max(4 * len(numbers), 1 << 16)

    def _known(self, process: int) -> tuple[Numbers, Numbers]:
        """Return a process's numbers, increasing, and their indices."""
        numbers = self.numbers(process)
        if process not in self._sorted or len(self._sorted[process][0]) < len(numbers):
            known = sorted(numbers)
            self._sorted[process] = np.array(known, np.uint32), np.array([numbers[one] for one in known], np.uint32)
        return self._sorted[process]

    def _enter(self, entry: TaskEntry) -> int:
        key = (entry.name, entry.file, entry.line, entry.budget_j, entry.is_default, entry.library)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.entries)
            self.entries.append(entry)
        else:
            self.entries[index] = self.entries[index].joined(entry)
        return index


def lines_of(path: Path, most_bytes: int = MAX_BYTES, *, length: int = MAX_BYTES) -> Iterator[bytes]:
    """Yield the lines that begin in so many bytes; an empty one in place of one that is too long. Raises TraceError."""
    with open_file(path, most_bytes) as file:
        try:
            # What is not given a length may grow while it is read.
            while file.tell() < min(length, most_bytes) and (line := file.readline(MAX_LINE_BYTES)):
                whole = line
                while not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
                    whole = b""
                    line = file.readline(MAX_LINE_BYTES)
                yield whole
        except OSError as error:
            message = f"cannot read {path}: {error.strerror}"
            raise TraceError(message) from error


def _parse(line: bytes) -> tuple[int, TaskEntry] | None:
    try:
        content = parse_trace_json(line)
        number, name = content["task"], content["name"]
    except (ValueError, KeyError, TypeError):
        return None
    if type(number) is not int or not 0 <= number < layout.NO_TASK or not isinstance(name, str):
        return None
    return number, TaskEntry(
        short(name, MAX_NAME_CHARACTERS),
        _text(content.get("file")),
        _line(content.get("line")),
        _text(content.get("source")),
        _amount(content.get("flops")),
        _amount(content.get("bytes")),
        _count(content.get("calls")),
        _amount(content.get("flops_sum")),
        _amount(content.get("bytes_sum")),
        _joules(content.get("budget_j")),
        _count(content.get("calls_failed")),
        failed if (failed := content.get("failed")) in ("flops", "bytes") else None,
        _text(content.get("failure")),
        is_default=content.get("default") is True,
        library=_text(content.get("library")),
    )


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT_CHARACTERS] if isinstance(value, str) else None


def _joules(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < MAX_BUDGET_J
    return float(value) if good else None


def _amount(value: Any) -> float | None:
    good = type(value) in (int, float) and 0 <= value <= MOST_WORK
    return float(value) if good else None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _added(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


def _line(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None
