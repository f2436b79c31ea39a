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
MATCHES = "matches"  # created with the first match of a --task
GPU = "gpu"  # created with the first line on a device
HOSTS = "hosts"  # in a job: the parts of its hosts
LABELS = "labels"  # created with the first label of a process
KEYS = "keys"  # created with the first key of an engine's task
RECORDER_LOG = "recorder.txt"  # what the host recorder printed, if it printed anything
USERS = "processes.jsonl"  # in GPU: which processes used a device
# Files of a recorder in a session; any other file belongs to the user.
OURS = {
    *SUBDIRECTORIES,
    DECISIONS,
    MATCHES,
    GPU,
    LABELS,
    KEYS,
    RECORDER_LOG,
    LIVE,
    MANIFEST,
    END,
    "manifest.tmp",
    "end.tmp",
}


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time create or join a session in this folder, so that none finds an incomplete one.

    On a file system without locks all proceed at once.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
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
    return f"{path} exists: choose another path, or replace it with overwrite=True (tprof run --overwrite)"
