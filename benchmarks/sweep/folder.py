"""A sweep's folder: held by one sweep at a time, and emptied of an earlier one, never of anything else."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tprof.errors import TprofError, UsageError

from .plan_file import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = ("sweep.csv", "sweep-points.csv", "sweep.json", "sweep.html")
POINTS = "points"
WARM_UP = "warm-up"
_OF_A_RUN = re.compile(rf"(?:(?:\d+[kM]Hz-)?\d+w-\d+|{WARM_UP})\.(?:tprof|json|log)|\..*\.json\.new")


def make(folder: Path) -> None:
    """Make the folder and its parents. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        message = f"{folder} is a file: name a folder with -o DIR"
        raise UsageError(message) from None
    except OSError as error:
        message = f"cannot write to {folder}: {error.strerror}; choose another folder with -o DIR"
        raise UsageError(message) from error


@contextmanager
def claimed(folder: Path) -> Iterator[str | None]:
    """Hold the folder against other sweeps; the kernel lets go of it however this process ends.

    Yields why it is not held where its file system locks no folders (NFS), else None. Raises UsageError where another
    sweep holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another sweep is running in {folder}: wait for it, or choose another folder with -o DIR"
            raise UsageError(message) from None
        except OSError as error:
            yield f"{folder} cannot be locked ({error.strerror}): start no other sweep in it"
        else:
            yield None
    finally:
        os.close(descriptor)


def clear(folder: Path) -> None:
    """Take away an earlier sweep: its tables first, so that none is ever read beside another's plan.

    Raises
    ------
    TprofError
        If something cannot be taken away.
    """
    points = folder / POINTS
    runs = sorted(points.iterdir()) if points.is_dir() else []
    ours = [path for path in runs if _OF_A_RUN.fullmatch(path.name)]
    for path in [*(folder / name for name in FILES), folder / FILE, *ours]:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            message = f"cannot remove {path} of the earlier sweep: {error.strerror}; choose another folder with -o DIR"
            raise TprofError(message) from error
