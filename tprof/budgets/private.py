"""The recording that budgets make where none runs: one for all whose blocks overlap, gone with the last of them.

It lies in the folder for temporary files under a name that holds the process. A program that ends without leaving the
block takes it away at its exit; one that a signal kills cannot, so whoever makes the next one takes away what is left
of processes that are gone.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import forks, membership
from tprof.errors import TprofError

if TYPE_CHECKING:
    from tprof.recording import Recording

PREFIX = "tprof-budget-"
SESSION = "budget.tprof"

# Re-entrant: a signal's handler may begin a budget in the midst of another's beginning.
_lock = threading.RLock()
_recording: Recording | None = None
_users = 0


def join() -> bool:
    """Use the private recording; begin it where none runs. Returns False where the program makes one of its own.

    Raises
    ------
    TprofError
        If it cannot be begun.
    """
    global _recording, _users  # noqa: PLW0603 - one for the process
    with _lock:
        member = membership.current()
        if member is None:
            _end()  # somebody ended it, as a handler of signals may
            _recording = _begin()
        elif _recording is None or member.plan.directory != _recording.path:
            return False
        _users += 1
        return True


def leave() -> None:
    """Use it no longer; the last one ends it. Raises TprofError."""
    global _users  # noqa: PLW0603 - see above
    with _lock:
        _users -= 1
        if _users == 0:
            _end()


def _begin() -> Recording:
    from tprof.recording import record  # noqa: PLC0415 - kept off `import tprof`

    _remove_stale()
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    recording = record(place / SESSION, counters="none", idle_s=0)
    try:
        recording.__enter__()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return recording


def _end() -> None:
    global _recording
    recording, _recording = _recording, None
    if recording is not None:
        try:
            recording.__exit__(None, None, None)
        finally:
            shutil.rmtree(recording.path.parent, ignore_errors=True)


def _remove_stale() -> None:
    """Remove what processes of this user left that are gone, and that no recorder holds."""
    from tprof.trace.running import is_running  # noqa: PLC0415 - kept off `import tprof`

    for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = place.name.removeprefix(PREFIX).partition("-")[0]
        # The lock too: a process of another container, which has the same folder, is not seen here.
        if pid.isdigit() and _is_ours(place) and not _is_alive(int(pid)) and not is_running(place / SESSION):
            shutil.rmtree(place, ignore_errors=True)


def _is_ours(place: Path) -> bool:
    try:
        status = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _end_with_program() -> None:
    with suppress(TprofError):  # nobody is left to be told
        _end()


def _forget_in_child() -> None:
    """A forked child takes part in it, but it is its parent's."""
    global _lock, _recording, _users  # noqa: PLW0603 - see above
    _lock = threading.RLock()
    _recording, _users = None, 0


forks.reset_in_child(_forget_in_child)
atexit.register(_end_with_program)
