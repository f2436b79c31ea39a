"""Polynomials over a stream: the degree sets the flops a byte."""

from typing import Any

MOST_DEGREE: int

def polynomial(stream: Any, degree: int, seconds: float, vectors: str | None = None, /) -> tuple[float, float, float]:
    """Evaluate 2 degree + 1 flops on each number of a float32 or float64 stream, again and again, without the lock.

    `vectors` names those to use, by default the widest.

    Returns how many numbers were read, the seconds that took, and the sum of all values.
    """

def vectors() -> tuple[str, ...]:
    """Name the vectors that this processor has, the widest first."""
