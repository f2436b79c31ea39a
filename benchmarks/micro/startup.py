"""What `import tprof` adds to the start of Python, in child processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tprof.session.process_state import SESSION

if TYPE_CHECKING:
    from pathlib import Path


def time_import(directory: Path, rounds: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Start Python with and without `import tprof`, in turn.

    Parameters
    ----------
    directory
        Where the children run, so that no source folder shadows what is installed.
    rounds
        Measured ones; one before them fills the file cache.

    Returns
    -------
    start_ms : (rounds,), Python's own start and end, milliseconds.
    import_ms : (rounds,), what the import adds, milliseconds.
    """
    starts, imports = [], []
    for turn in range(-1, rounds):
        start_ms = _time_child("pass", directory)
        with_tprof_ms = _time_child("import tprof", directory)
        if turn >= 0:
            starts.append(start_ms)
            imports.append(with_tprof_ms - start_ms)
    return tuple(starts), tuple(imports)


def _time_child(code: str, directory: Path) -> float:
    environment = {name: value for name, value in os.environ.items() if name != SESSION}
    begin_ns = time.perf_counter_ns()
    # Without a timeout: waiting with one polls in steps as long as what is measured.
    subprocess.run(  # noqa: S603 - this interpreter and a fixed line
        [sys.executable, "-c", code], check=True, cwd=directory, env=environment
    )
    return (time.perf_counter_ns() - begin_ns) / 1e6
