"""Files and folders that get their name when they are whole: an export that fails leaves nothing behind."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file that gets this name at the end, and replaces what has it. Raises TprofError."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("xb") as file:
                yield file
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TprofError(f"cannot write {target}: {reason}; name another file with -o") from error


@contextmanager
def written_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder whose files are those of this one at the end, beside others that it has. Raises TprofError."""
    target = Path(path).absolute()
    place = target if target.is_dir() else target.parent
    part = place / f".{target.name}.{os.getpid()}.part"
    try:
        try:
            part.mkdir(mode=0o700, parents=True)
            yield part
            if place == target:
                for file in sorted(part.iterdir()):
                    file.replace(target / file.name)
            else:
                part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TprofError(f"cannot write the tables to {path}: {reason}; name another directory") from error
