"""Kernels that load one part of a core each; every function returns the work done and a sum that depends on it."""

from typing import Any

def pipeline(seconds: float, /) -> tuple[float, float]:
    """Multiply and add in independent lanes; operations."""

def chain(seconds: float, /) -> tuple[float, float]:
    """Multiply and add, each on the result of the one before; operations."""

def branches(seconds: float, /) -> tuple[float, float]:
    """Branch on random bits; branches."""

def sweep(working_set: Any, work: int, seconds: float, /) -> tuple[float, float]:
    """Read, change and write a buffer of float64 line by line, `work` operations on each number; lines of 64 bytes."""

def chase(chain: Any, seconds: float, /) -> tuple[float, float]:
    """Follow lines of 64 bytes, each beginning with the number of the next (uint64); lines."""
