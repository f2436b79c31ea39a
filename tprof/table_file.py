"""The file of a process's task table: appended to by a descriptor that may have been closed and given to another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class TableFile:
    """A file to which whole lines are appended, also by other interpreters of this process that have opened it.

    Daemons close every descriptor, and the number of this one then names a file of the program. So it is
    asked which file it is each time; a file that is no longer open is opened again by its name.
    """

    def __init__(self, path: Path, *, new: bool = True) -> None:
        """Make the file, or open one that is there. Raises OSError."""
        self.path = path
        self._fd = os.open(path, _APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
        self._identity = _identity(self._fd)

    def append(self, line: bytes) -> bool:
        """Append the line, and return whether all of it was written."""
        try:
            if not self._is_open() and not self._open_again():
                return False
            # What was left of a line by a full disk must not swallow the next one.
            data = b"\n" + line if self._is_torn() else line
            return os.write(self._fd, data) == len(data)
        except OSError:
            return False

    def close(self) -> None:
        """Give the descriptor back, if it still is this file's."""
        if self._is_open():
            os.close(self._fd)
        self._fd = -1

    def _open_again(self) -> bool:
        fd = os.open(self.path, _APPEND)
        if _identity(fd) == self._identity:
            self._fd = fd
            return True
        os.close(fd)
        return False

    def _is_torn(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def _is_open(self) -> bool:
        return self._fd >= 0 and _identity(self._fd) == self._identity


def _identity(fd: int) -> tuple[int, int]:
    try:
        status = os.fstat(fd)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
