"""The tables of tasks: one file a process, a line a task, names as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import layout
from .manifest import read_text

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 256 << 20
MAX_NAME_CHARACTERS = 1000
MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task's place in the program.

    Attributes
    ----------
    name : what it is called.
    file, line : where it stands; None where the writer did not say.
    source : its source text as it was when it was recorded; None where the writer did not say.
    """

    name: str
    file: str | None = None
    line: int | None = None
    source: str | None = None


class TaskTable:
    """The tasks of all processes, each place in a program once."""

    def __init__(self) -> None:
        """Begin with none."""
        self.entries: list[TaskEntry] = []
        self.notes: list[str] = []
        self._index: dict[tuple[str, str | None, int | None], int] = {}
        self._numbers: dict[int, dict[int, int]] = {}

    def read(self, path: Path, process: int) -> None:
        """Add a process's table. Lines that are not whole are left out and counted. Raises TraceError."""
        numbers = self._numbers.setdefault(process, {})
        damaged = 0
        for line in read_text(path, MAX_BYTES).split(b"\n"):
            if not line:
                continue
            parsed = _parse(line)
            if parsed is None or len(self.entries) >= MAX_TASKS:
                damaged += 1
            else:
                numbers[parsed[0]] = self._enter(parsed[1])
        if damaged:
            self.notes.append(f"{path.name}: {damaged} lines of the task table are damaged or too many, and left out")

    def numbers(self, process: int) -> dict[int, int]:
        """Return process-local number → index in `entries`."""
        return self._numbers.setdefault(process, {})

    def lost(self, process: int, number: int) -> int:
        """Return the index of a stand-in for a number that the table does not hold."""
        index = self._enter(TaskEntry(f"<lost name #{number}>"))
        self.numbers(process)[number] = index
        return index

    def _enter(self, entry: TaskEntry) -> int:
        key = (entry.name, entry.file, entry.line)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.entries)
            self.entries.append(entry)
        elif self.entries[index].source is None and entry.source is not None:
            self.entries[index] = entry
        return index


def _parse(line: bytes) -> tuple[int, TaskEntry] | None:
    try:
        content = json.loads(line)
        number, name = content["task"], content["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(number) is not int or not 0 <= number < layout.NO_TASK or not isinstance(name, str):
        return None
    return number, TaskEntry(
        _short(name),
        _text(content.get("file")),
        _line(content.get("line")),
        _text(content.get("source")),
    )


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME_CHARACTERS else name[: MAX_NAME_CHARACTERS - 1] + "…"


def _text(value: Any) -> str | None:  # noqa: ANN401 - JSON
    return value[:8192] if isinstance(value, str) else None


def _line(value: Any) -> int | None:  # noqa: ANN401 - JSON
    return value if type(value) is int and 0 <= value < 1 << 31 else None
