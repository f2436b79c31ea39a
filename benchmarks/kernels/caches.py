"""Sizes of the processor's caches, from sysfs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Caches:
    """Bytes: of a core's own L1 and L2, of the LLC, and how many processors share that."""

    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    llc_bytes: int = 16 << 20


def read_caches(root: Path = Path("/")) -> Caches:
    """Read the first processor's caches below `root`; what cannot be read is a common size."""
    sizes: dict[int, int] = {}
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text(encoding="ascii").strip() for name in ("type", "level", "size")
            )
            if kind != "Instruction":
                sizes[int(level)] = _bytes(size)
        except (OSError, ValueError):
            continue  # a level that says nothing has a common size
    usual = Caches()
    l1, l2 = sizes.get(1, usual.l1_bytes), sizes.get(2, usual.l2_bytes)
    largest = sizes[max(sizes)] if sizes and max(sizes) > 2 else usual.llc_bytes
    return Caches(l1, l2, max(largest, 2 * l2))


def _bytes(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
