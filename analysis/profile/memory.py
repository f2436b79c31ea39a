"""How much memory there is for a profile: what is free on the machine and within the limits of control groups."""

from __future__ import annotations

from pathlib import Path

import psutil

GRAPH_BYTES = 1000
"""For an instance while chains of tasks are found."""
_LIMITS = ("memory.max", "memory.limit_in_bytes")
_USED = ("memory.current", "memory.usage_in_bytes")
_CACHED = ("inactive_file ", "total_inactive_file ")


def available_bytes(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still take without swapping.

    Parameters
    ----------
    root : below which the kernel's files of control groups are
    """
    return min([psutil.virtual_memory().available, *_left_in_groups(root)])


def _left_in_groups(root: Path) -> list[int]:
    """Return what each control group around this process leaves; what the kernel can read again counts as free."""
    left = []
    for folder in _groups(root):
        limit, used = (_number(folder, names) for names in (_LIMITS, _USED))
        if limit is not None and used is not None:
            left.append(max(limit - used + _cached(folder), 0))
    return left


def _groups(root: Path) -> list[Path]:
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        below = Path(path.lstrip("/"))
        found += [top / one for one in (below, *below.parents)]
    return found


def _number(folder: Path, names: tuple[str, ...]) -> int | None:
    for name in names:
        try:
            return int((folder / name).read_text("utf-8"))
        except (OSError, ValueError):  # "max" is no limit
            continue
    return None


def _cached(folder: Path) -> int:
    try:
        lines = (folder / "memory.stat").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.rpartition(" ")[2]) for line in reversed(lines) if line.startswith(_CACHED)), 0)


def size_text(size: float) -> str:
    """Return a size in words, such as ``1.2 GB``."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def lacking(rows: int, row_bytes: int) -> str | None:
    """Return in words that a table of so many rows does not fit into memory; None if it does."""
    needed, free = rows * row_bytes, available_bytes()
    return f"would take {size_text(needed)} of memory and {size_text(free)} are free" if needed > free else None
