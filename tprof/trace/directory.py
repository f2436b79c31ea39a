"""The session directory: made private, never through a link, replaced only when it is one of ours."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tprof.errors import TprofError, TraceError, UsageError

from .manifest import END, MANIFEST, read_manifest
from .running import LIVE, is_running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUBDIRECTORIES = ("threads", "tasks", "readings", "graph")
DECISIONS = "decisions"  # made with the first one
MATCHES = "matches"  # made with the first function that a --task meets
# What a recorder may leave in a session; anything else there belongs to somebody.
OURS = {*SUBDIRECTORIES, DECISIONS, MATCHES, LIVE, MANIFEST, END, "manifest.tmp", "end.tmp"}


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time make or join a session in this folder, so that none meets half of one.

    Where the file system knows no locks, all go on at once.
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
    """Make an empty session directory of mode 0700.

    Parameters
    ----------
    path
        Where; its parent exists.
    overwrite
        Remove a session that stands there. Anything else that stands there stays: a link, another user's
        directory, one without a manifest of ours, one that holds a file that is not part of a session.

    Raises
    ------
    UsageError
        If the path is taken, or a recording runs there.
    TprofError
        If the directory cannot be made, or the old one not be removed.
    """
    why_not = _why_not_ours(path) if overwrite else None
    if overwrite and is_running(path):
        message = f"a recording runs in {path}: end it first, or choose another path"
        raise UsageError(message)
    try:
        if overwrite and why_not is None and os.path.lexists(path):
            shutil.rmtree(path)
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise UsageError(_taken(path, why_not)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot make the session {path}: {reason}; choose another place with -o SESSION"
        raise TprofError(message) from error


def _why_not_ours(path: Path) -> str | None:
    """Return why this is no session that may be removed; None if it is one, or nothing is there."""
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
