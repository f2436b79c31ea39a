"""The session directory: private, never created through a link, and replaced only if it is a session of tprof."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tprof.errors import TprofError, TraceError, UsageError

from .manifest import END, MANIFEST, read_manifest
from .running import LIVE, is_running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUBDIRECTORIES = ("threads", "tasks", "readings", "graph", "native")
DECISIONS = "decisions"  # created with the first decision
MATCHES = "matches"  # created with the first match of a --task, or if none made a task
UNMATCHED = "unmatched.jsonl"  # in MATCHES: why none did
GPU = "gpu"  # created with the first line on a device
HOSTS = "hosts"  # in a job: the parts of its hosts
LABELS = "labels"  # created with the first label of a process
KEYS = "keys"  # created with the first key of an engine's task
STACKS = "stacks"  # created by each process whose stacks are sampled
GONE = "gone.json"  # what a size limit removed
DISK_LOCK = "disk.lock"  # held by the helper that limits or compresses a session, or keeps its sums
RECORDER_LOG = "recorder.txt"  # what the host recorder printed, if it printed anything
SUMS_FILE = "sums"  # with keep="summary": the sums of what was recorded
USERS = "processes.jsonl"  # in GPU: which processes used a device
# Files of a recorder in a session; any other file belongs to the user.
OURS = {
    *SUBDIRECTORIES,
    DECISIONS,
    MATCHES,
    GPU,
    LABELS,
    KEYS,
    STACKS,
    RECORDER_LOG,
    LIVE,
    MANIFEST,
    END,
    SUMS_FILE,
    DISK_LOCK,
    GONE,
    "manifest.tmp",
    "end.tmp",
    "gone.tmp",
}


@contextmanager
def one_at_a_time(folder: Path, name: str | None = None) -> Iterator[None]:
    """Let one process at a time create or join a session in this folder, so that none finds an incomplete one.

    With a name the lock is on a file of this name there, which is made: processes of several hosts have locks of their
    own, and NFS locks exclusively only what is open for writing. On a file system without locks all proceed at once.
    """
    place = folder if name is None else folder / name
    flags = os.O_RDONLY | os.O_DIRECTORY if name is None else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    try:
        descriptor = os.open(place, flags | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def has_helper(session: Path) -> bool:
    """Return whether a process limits or compresses this session, or keeps its sums."""
    try:
        descriptor = os.open(session / DISK_LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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


def await_disk_helper(session: Path, *, remove: bool = True) -> None:
    """Wait until this session has no helper any more; a signal ends the wait only. Without `remove` its lock stays."""
    try:
        descriptor = os.open(session / DISK_LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if remove:
                (session / DISK_LOCK).unlink(missing_ok=True)  # of a helper that was killed
    finally:
        os.close(descriptor)


def create_session(path: Path, *, overwrite: bool = False) -> None:
    """Create an empty session directory of mode 0700.

    Parameters
    ----------
    path
        Its path; the parent exists.
    overwrite
        Remove an existing session. Anything else stays: a link, another user's directory, one without a manifest
        of tprof, one with a file that does not belong to a session.

    Raises
    ------
    UsageError
        If the path exists, or a recording runs there.
    TprofError
        If the directory cannot be created, or the old one cannot be removed.
    """
    why_not = why_not_session(path) if overwrite else None
    if overwrite and is_running(path):
        message = f"a recording runs in {path}: end it first, or choose another path"
        raise UsageError(message)
    try:
        if overwrite and why_not is None and os.path.lexists(path):
            import shutil  # noqa: PLC0415 - kept off the start of recordings

            await_disk_helper(path)
            shutil.rmtree(path)
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise UsageError(_taken(path, why_not)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot make the session {path}: {reason}; choose another place with -o SESSION"
        raise TprofError(message) from error


def why_not_session(path: Path) -> str | None:
    """Return the reason why this is not a removable session; None if it is one, or the path does not exist."""
    try:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return "it is no directory"
        if status.st_uid != os.geteuid():
            return "it belongs to another user"
        foreign = sorted({entry.name for entry in path.iterdir()} - OURS)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    if not _has_manifest(path):
        return "it has no manifest of a session"
    return f"it also holds {foreign[0]!r}" if foreign else None


def _has_manifest(path: Path) -> bool:
    try:
        manifest = read_manifest(path)
    except TraceError:
        return False
    return isinstance(manifest.get("format"), list) and isinstance(manifest.get("clock"), dict)


def _taken(path: Path, why_not: str | None) -> str:
    if why_not is not None:
        return f"{path} is not only a tprof session of yours ({why_not}), so it is not overwritten: choose another path"
    return f"{path} exists: choose another path, or replace it by --overwrite (in Python overwrite=True)"
