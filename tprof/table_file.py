"""The file of a process's task table: appended to by a descriptor that may have been closed and given to another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class TableFile:
    """A new file to which whole lines are appended.

    Daemons close every descriptor, and the number of this one then names a file of the program. So it is
    asked which file it is each time; a file that is no longer open is opened again by its name.
    """

    def __init__(self, path: Path) -> None:
        """Make the file. Raises OSError."""
        self._path = path
        self._fd = os.open(path, _APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._identity = _identity(self._fd)
        self._torn = False

    def append(self, line: bytes) -> bool:
        """Append the line, and return whether all of it was written."""
        # What was left of a line by a full disk must not swallow the next one.
        data = b"\n" + line if self._torn else line
        try:
            if not self._is_open() and not self._open_again():
                return False
            written = os.write(self._fd, data)
        except OSError:
            return False
        self._torn = written < len(data) and (written > 0 or self._torn)
        return written == len(data)

    def close(self) -> None:
        """Give the descriptor back, if it still is this file's."""
        if self._is_open():
            os.close(self._fd)
        self._fd = -1

    def _open_again(self) -> bool:
        fd = os.open(self._path, _APPEND)
        if _identity(fd) == self._identity:
            self._fd = fd
            return True
        os.close(fd)
        return False

    def _is_open(self) -> bool:
        return self._fd >= 0 and _identity(self._fd) == self._identity


def _identity(fd: int) -> tuple[int, int]:
    try:
        status = os.fstat(fd)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
