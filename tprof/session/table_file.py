"""Files of lines, as a process's task table, whose descriptor the program may close and reuse for another file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tprof import _core

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

to_json = json.JSONEncoder(separators=(",", ":")).encode
"""As `json.dumps`, which a pattern of ``--task`` may make a task of the program."""
_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class TableFile:
    """A file to which whole lines are appended, also by other interpreters of this process that have opened it.

    Daemons close every descriptor, and its number may then belong to a file of the program. So each append checks the
    descriptor's file, and opens the table again by its name if necessary.
    """

    def __init__(self, path: Path, *, new: bool = True) -> None:
        """Make the file, or open one that is there. Raises OSError."""
        self.path = path
        self._fd = _core.raise_descriptor(os.open(path, _APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o600))
        self._identity = _identity(self._fd)

    def append(self, line: bytes) -> bool:
        """Append the line, and return whether all of it was written."""
        try:
            if not self._is_open() and not self._open_again():
                return False
            # A newline ends the rest of a line that a full disk cut off.
            data = b"\n" + line if self._is_torn() else line
            return os.write(self._fd, data) == len(data)
        except OSError:
            return False

    def close(self) -> None:
        """Close the descriptor, if it still is this file's."""
        if self._is_open():
            os.close(self._fd)
        self._fd = -1

    def _open_again(self) -> bool:
        fd = os.open(self.path, _APPEND)
        if _identity(fd) == self._identity:
            self._fd = _core.raise_descriptor(fd)
            return True
        os.close(fd)
        return False

    def _is_torn(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def _is_open(self) -> bool:
        return self._fd >= 0 and _identity(self._fd) == self._identity


class JsonLines:
    """A file of JSON objects, made with its first line; nothing is written after one that failed, as on a full disk."""

    def __init__(self, path: Path) -> None:
        """Store the path; its folder is made too."""
        self._path = path
        self._file: TableFile | None = None
        self._failed = False

    def append(self, line: Mapping[str, object]) -> None:
        """Write a line."""
        if self._failed:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(mode=0o700, exist_ok=True)
                self._file = TableFile(self._path)
        except OSError:
            self._failed = True
            return
        self._failed = not self._file.append(to_json(line).encode() + b"\n")

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()


def _identity(fd: int) -> tuple[int, int]:
    try:
        status = os.fstat(fd)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
