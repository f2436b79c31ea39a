"""The private recording of budgets outside any recording: shared by overlapping blocks, removed after the last one.

It is a temporary folder whose name contains the process. A program that ends inside the block removes it at its exit; a
killed one cannot, so the next private recording removes those of processes that no longer exist.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import TprofError
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from tprof.session.recording import Recording

PREFIX = "tprof-budget-"
SESSION = "budget.tprof"


def join() -> bool:
    """Use the private recording, and begin it if necessary. Returns False if the program records itself.

    Raises
    ------
    TprofError
        If it cannot be begun.
    """
    shared = this_process.budgets
    with shared.recording_lock:
        member = this_process.membership
        if member is None:
            _end()  # it was ended meanwhile, for example by a signal handler
            shared.recording = _begin()
        elif shared.recording is None or member.plan.directory != shared.recording.path:
            return False
        shared.recording_users += 1
        return True


def leave() -> None:
    """Stop using it; the last user ends it. Raises TprofError."""
    shared = this_process.budgets
    with shared.recording_lock:
        shared.recording_users -= 1
        if shared.recording_users == 0:
            _end()


def _begin() -> Recording:
    from tprof.session.recording import record  # noqa: PLC0415 - kept off `import tprof`

    _remove_stale()
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    recording = record(place / SESSION, counters="none", idle_s=0)
    recording.before_replacement = None  # nobody reads this one, so nothing is said of its end
    try:
        recording.__enter__()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return recording


def _end() -> None:
    shared = this_process.budgets
    recording, shared.recording = shared.recording, None
    if recording is not None:
        try:
            recording.__exit__(None, None, None)
        finally:
            shutil.rmtree(recording.path.parent, ignore_errors=True)


def _remove_stale() -> None:
    """Remove the recordings of this user's dead processes that no recorder has locked."""
    from tprof.trace.running import is_running  # noqa: PLC0415 - kept off `import tprof`

    for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = place.name.removeprefix(PREFIX).partition("-")[0]
        # Check the lock too: a process of another container with the same folder is not visible here.
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
    with suppress(TprofError):  # at exit, nothing can handle it
        _end()


atexit.register(_end_with_program)
