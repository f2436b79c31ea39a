"""How much is run: degrees of the polynomials, how long, how often, on how much data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.benchmarks.kernels import Caches

SIZES = {"single": 4, "double": 8}
"""Bytes of a number."""
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Effort:
    """What is run.

    Attributes
    ----------
    degrees : of the polynomials: 2 degree + 1 flops a number.
    seconds : of each run.
    repeats : of each run; the fastest counts.
    most_bytes : of each core's stream, at most.
    matrix : rows of the matrices that NumPy multiplies.
    """

    degrees: tuple[int, ...]
    seconds: float
    repeats: int
    most_bytes: int
    matrix: int

    def stream_bytes(self, caches: Caches, cores: int) -> int:
        """Return the bytes of each core's stream: together four times the caches, where that is allowed."""
        own = 4 * (caches.llc_bytes // max(cores, 1) + caches.l2_bytes)
        return min(max(own, 4 * caches.l2_bytes), self.most_bytes, MOST_BYTES)


FULL = Effort((0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128), 0.4, 3, 128 << 20, 1536)
QUICK = Effort((0, 1, 4, 32, 64, 128), 0.05, 1, 64 << 20, 768)


def flops_of(degree: int) -> int:
    """Return the flops on each number."""
    return 2 * degree + 1
