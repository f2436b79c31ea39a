"""The database's features, made from its images once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from tprof.trace.user_files import replace_file

from .features import FEATURES, SEGMENTS, extract
from .images import make_image
from .ranking import Database

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

VERSION = 1  # of the file's layout
CHUNK = 64  # images that a thread makes before it takes others
_PROBES = 5
_TOLERANCE = 1e-3  # of features that were made with other versions of the libraries
_HEAD_BYTES = 4_096  # more than the first line has


def kept_database(images: int, workers: int) -> Database:
    """Return the database of the first `images` images: as kept, or made on threads and kept."""
    path = cache_folder() / f"ferret-{images}.table"
    table = read_table(path, images)
    if table is None:
        table = make_table(images, workers)
        _keep(path, table)
    return Database.of(table[:, :FEATURES], table[:, FEATURES])


def cache_folder() -> Path:
    """Return where tables are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification of XDG_CACHE_HOME asks to ignore a relative one.
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "tprof"


def make_table(images: int, workers: int) -> Floats:
    """Return features and weights of the first images: (SEGMENTS, FEATURES + 1, images), weights last."""
    from rich.console import Console  # noqa: PLC0415 - needed only where there is no table yet
    from rich.progress import track  # noqa: PLC0415

    table = np.empty((SEGMENTS, FEATURES + 1, images), np.float32)

    def fill(begin: int) -> None:
        for index in range(begin, min(begin + CHUNK, images)):
            table[:, :, index] = _row(index)

    chunks = range(0, images, CHUNK)
    with threadpool_limits(1), ThreadPoolExecutor(workers, thread_name_prefix="ferret-database") as pool:
        console = Console(file=sys.stderr)
        about = f"making {images:,} images' features"
        silent = not console.is_terminal
        for _ in track(pool.map(fill, chunks), about, len(chunks), console=console, transient=True, disable=silent):
            pass
    return table


def _row(index: int) -> Floats:
    segments = extract(make_image(index))
    return np.hstack([segments.features, segments.weights[:, None]])


def read_table(path: Path, images: int) -> Floats | None:
    """Return the table kept in that file, None where it is missing, damaged or not what would be made today."""
    try:
        with path.open("rb") as file:
            head = file.readline(_HEAD_BYTES)
            data = file.read()
    except OSError:
        return None
    if head != _head(images, data) or len(data) != SEGMENTS * (FEATURES + 1) * images * 4:
        return None
    table = np.frombuffer(data, "<f4").reshape(SEGMENTS, FEATURES + 1, images)
    probes = np.linspace(0, images - 1, _PROBES).astype(int)
    fresh = all(np.allclose(table[:, :, index], _row(index), rtol=0, atol=_TOLERANCE) for index in probes)
    return table if fresh else None


def write_table(path: Path, table: Floats) -> None:
    """Keep it in that file, which is whole or as it was before. Raises OSError."""
    data = table.astype("<f4", copy=False).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, _head(table.shape[2], data) + data)


def _keep(path: Path, table: Floats) -> None:
    try:
        write_table(path, table)
    except OSError as error:
        message = f"the image database was not kept in {path}, so that the next run makes it again: {error}"
        warnings.warn(message, stacklevel=3)


def _head(images: int, data: bytes) -> bytes:
    digest = hashlib.sha256(data).hexdigest()
    return json.dumps({"ferret": VERSION, "images": images, "sha256": digest}).encode() + b"\n"
