"""Runs work in a fresh process, so that its peak memory is its own, and reads it."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def in_child(work: Callable[..., T], *arguments: object) -> T:
    """Run in a fresh process; it may start processes itself."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def memory_bytes(field: str) -> int:
    """Return a field of this process's memory, such as VmHWM; a peak of `getrusage` begins with that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{field}:"))
