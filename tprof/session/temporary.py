"""Folders for sessions that nobody named: they last as long as the process, and are removed as it ends.

All of a process are in one folder, whose name contains the process, and in which the process holds a lock. A killed
process cannot remove its own, so the next one that makes such a folder removes those without a process and without a
lock.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tprof.trace.running import LIVE, Lock, is_running

PREFIX = "tprof-session-"

_homes: dict[Path, tuple[int, Lock | None]] = {}
"""The folders of this interpreter, with the process that made each, since a forked child inherits the table; and its
lock, if the file system has any. One, unless $TMPDIR changes or somebody else removes it."""


def make_place() -> Path:
    """Make an empty folder of mode 0700 below ``$TMPDIR`` that is removed at the end of this process.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    _remove_stale()
    below = Path(tempfile.gettempdir())
    own = (home for home, (maker, _) in _homes.items() if maker == os.getpid() and home.parent == below)
    home = next((home for home in own if home.is_dir()), None) or _make_home()
    return Path(tempfile.mkdtemp(prefix="", dir=home))


def _make_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    (home / LIVE).touch(mode=0o600)
    lock = None
    with suppress(OSError):
        lock = Lock(home)
    _homes[home] = os.getpid(), lock
    return home


def remove_place(place: Path) -> None:
    """Remove a folder of this process now; a folder of another process stays."""
    home = place.parent
    if _homes.get(home, (0, None))[0] != os.getpid():
        return
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):
        if [one.name for one in home.iterdir()] == [LIVE]:
            _remove_home(home)


def _remove_home(home: Path) -> None:
    maker, lock = _homes.pop(home)
    if maker == os.getpid():
        shutil.rmtree(home, ignore_errors=True)
        if lock is not None:
            lock.release()


def _remove_all() -> None:
    for home in list(_homes):
        _remove_home(home)


def _remove_stale() -> None:
    """Remove the folders of this user's dead processes."""
    for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = place.name.removeprefix(PREFIX).partition("-")[0]
        # Check the lock too: a process of another container with the same folder is not visible here.
        if pid.isdigit() and _is_ours(place) and not _is_alive(int(pid)) and not is_running(place):
            shutil.rmtree(place, ignore_errors=True)


def _is_ours(place: Path) -> bool:
    """Return whether it is a folder, not a link, of this user."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_alive(pid: int) -> bool:
    """Return whether a process with this number is visible here."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def copy_session(session: Path, target: Path, *, overwrite: bool) -> None:
    """Copy a session whole, or not at all.

    Raises
    ------
    UsageError
        If the target exists and is not to be replaced, or cannot be.
    OSError
        If it cannot be written.
    """
    from tprof.trace.directory import create_session  # noqa: PLC0415 - kept off the start of recordings

    if not overwrite:
        create_session(target)  # before the copy, which may take long
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        # Nobody changes the files of a session that has ended, so both may have the same ones.
        shutil.copytree(session, part, copy_function=_link_or_copy, dirs_exist_ok=True)
        part.chmod(0o700)
        if overwrite:
            create_session(target, overwrite=True)
        part.rename(target)  # over the empty folder
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if not overwrite:
            with suppress(OSError):
                target.rmdir()
        raise


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


atexit.register(_remove_all)
