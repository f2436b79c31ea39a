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


def hold(session: Path) -> int:
    """Take the lock for as long as the returned descriptor is open. Raises OSError."""
    descriptor = os.open(session / LIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def let_go(descriptor: int) -> None:
    """Give the lock back, in forked children that hold it too."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


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
