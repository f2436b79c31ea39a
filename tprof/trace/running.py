"""Whether a recording still runs in a session: its recorder holds a lock on the page that its processes share.

The kernel lets go of the lock when the recorder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIVE = "live"


class Lock:
    """Held from its making until `let_go`, or until the process ends.

    Raises
    ------
    OSError
        If the page is not there, or somebody holds it.
    """

    def __init__(self, session: Path) -> None:
        self._descriptor = os.open(session / LIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._file = os.fstat(self._descriptor)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def let_go(self) -> None:
        """Give the lock back, in forked children that hold it too."""
        try:
            file = os.fstat(self._descriptor)
        except OSError:
            return  # a program that closes all descriptors closed this one as well
        if (file.st_dev, file.st_ino) == (self._file.st_dev, self._file.st_ino):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)


def is_running(session: Path) -> bool:
    """Tell whether a recorder holds the session's lock."""
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
