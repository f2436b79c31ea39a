"""The lock of a running recording, which its recorder holds on the processes' shared page.

The kernel releases the lock when the recorder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from tprof import _core

if TYPE_CHECKING:
    from pathlib import Path

LIVE = "live"


class Lock:
    """Held from its creation until `release`, or until the process ends.

    Raises
    ------
    OSError
        If the page does not exist, or another process has the lock.
    """

    def __init__(self, session: Path) -> None:
        # Open for writing: NFS has exclusive locks only on such descriptors.
        self._descriptor = _core.raise_descriptor(os.open(session / LIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))
        self._file = os.fstat(self._descriptor)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Release the lock, also in forked children that share it."""
        try:
            file = os.fstat(self._descriptor)
        except OSError:
            return  # a program that closes all descriptors has closed this one too
        if (file.st_dev, file.st_ino) == (self._file.st_dev, self._file.st_ino):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)


def is_running(session: Path) -> bool:
    """Return whether a recorder holds the session's lock."""
    try:
        descriptor = os.open(session / LIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
