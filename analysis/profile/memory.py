"""How much memory there is for a profile: what is free on the machine and within the limits of control groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAPH_BYTES = 1000
"""For an instance while chains of tasks are found."""
_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By the folder of control groups of version 2 and 1: limit and use, and what the kernel can read again of this."""


def available_bytes(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still take without swapping.

    Parameters
    ----------
    root : below which the kernel's files of control groups are
    """
    return min([psutil.virtual_memory().available, *_left_in_groups(root)])


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yield what each control group around this process leaves; what the kernel can read again counts as free."""
    for controllers, path in re.findall(r"^\d+:([^:\n]*):/(.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE):
        version = "memory" if "memory" in controllers.split(",") else controllers
        for below in (Path(path), *Path(path).parents) if version in _FILES else ():
            folder, (limit, used, cached) = root / "sys/fs/cgroup" / version / below, _FILES[version]
            texts = [_read(folder / name).strip() for name in (limit, used)]
            again = re.search(rf"^{cached} (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
            if all(map(str.isdecimal, texts)):  # "max" is no limit
                yield max(int(texts[0]) - int(texts[1]) + int(again[1] if again else 0), 0)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


def size_text(size: float) -> str:
    """Return a size in words, such as ``1.2 GB``."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def lacking(rows: int, row_bytes: int) -> str | None:
    """Return in words that a table of so many rows does not fit into memory; None if it does."""
    needed, free = rows * row_bytes, available_bytes()
    return f"would take {size_text(needed)} of memory and {size_text(free)} are free" if needed > free else None
