"""The kernels of a calibration: so unlike each other that instructions and traffic vary apart; sized by the caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _stress

if TYPE_CHECKING:
    from collections.abc import Callable


LINE_BYTES = 64
MOST_BYTES = 256 << 20
BUSY = 12
"""Multiply-adds on each number of a line, where a kernel computes on what it moves."""
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    Attributes
    ----------
    name : what it loads.
    bytes : its working set, of each core; 0 without one.
    prepare : makes what one core works on, and returns what runs it for so many seconds and returns work and a sum.
    """

    name: str
    bytes: int
    prepare: Callable[[], Callable[[float], tuple[float, float]]]


def kernels(caches: Caches, cores: int) -> tuple[Kernel, ...]:
    """Return the kernels for a processor.

    Parameters
    ----------
    caches
        Their sizes decide over the working sets.
    cores
        That may run at once: they share the LLC.
    """
    l1, l2 = caches.l1_bytes // 2, int(0.6 * caches.l2_bytes)
    # Beyond the core's own L2, and small enough that all cores' sets stay in the LLC where it is large enough for that.
    llc = max(2 * caches.l2_bytes, int(0.6 * caches.llc_bytes / cores))
    memory = min(4 * caches.llc_bytes, MOST_BYTES)
    return (
        Kernel("pipeline", 0, lambda: _stress.pipeline),
        Kernel("chain", 0, lambda: _stress.chain),
        Kernel("branches", 0, lambda: _stress.branches),
        _sweep("l1", l1, 1),
        _sweep("l2", l2, 0),
        _sweep("l2-busy", l2, BUSY),
        _chase("l2-chase", l2),
        _sweep("llc", llc, 0),
        _sweep("llc-busy", llc, BUSY),
        _chase("llc-chase", llc),
        _sweep("memory", memory, 0),
        _sweep("memory-busy", memory, BUSY),
        _chase("memory-chase", memory),
    )


def _sweep(name: str, size: int, work: int) -> Kernel:
    def prepare() -> Callable[[float], tuple[float, float]]:
        working_set = np.ones(_lines(size) * LINE_BYTES // 8)
        return lambda seconds: _stress.sweep(working_set, work, seconds)

    return Kernel(name, size, prepare)


def _chase(name: str, size: int) -> Kernel:
    def prepare() -> Callable[[float], tuple[float, float]]:
        chain = ring(_lines(size))
        return lambda seconds: _stress.chase(chain, seconds)

    return Kernel(name, size, prepare)


def ring(lines: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return (lines, 8) uint64: lines of 64 bytes that lead through each other in one random ring."""
    order = np.random.default_rng(0).permutation(lines).astype(np.uint64)
    chain = np.zeros((lines, LINE_BYTES // 8), np.uint64)
    chain[order, 0] = np.roll(order, -1)
    return chain


def _lines(size: int) -> int:
    return max(size // LINE_BYTES, 1)


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
            continue  # a level that cannot be read has a common size
    usual = Caches()
    l1, l2 = sizes.get(1, usual.l1_bytes), sizes.get(2, usual.l2_bytes)
    largest = sizes[max(sizes)] if sizes and max(sizes) > 2 else usual.llc_bytes
    return Caches(l1, l2, max(largest, 2 * l2))


def _bytes(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
