"""The session directory: made private, never through a link, replaced only when it is one of ours."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from tprof.errors import TprofError, UsageError

from .manifest import MANIFEST


def create_session(path: Path, *, overwrite: bool = False) -> None:
    """Make an empty session directory of mode 0700.

    Parameters
    ----------
    path
        Where; its parent exists.
    overwrite
        Remove a session that stands there. Anything else that stands there stays.

    Raises
    ------
    UsageError
        If the path is taken.
    TprofError
        If the directory cannot be made.
    """
    if overwrite and _is_session(path):
        shutil.rmtree(path)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise UsageError(_taken(path, overwrite=overwrite)) from None
    except OSError as error:
        message = f"cannot make the session {path}: {error.strerror}; choose another place with -o SESSION"
        raise TprofError(message) from error


def _is_session(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and (path / MANIFEST).is_file()


def _taken(path: Path, *, overwrite: bool) -> str:
    if overwrite:
        return f"{path} is not a tprof session of yours, so it is not overwritten: choose another path"
    return f"{path} exists: choose another path, or replace it with overwrite=True (tprof run --overwrite)"
