"""Products of tall tables, in pieces so small that BLAS starts no threads for them.

A fit needs hundreds of short products. Threads of BLAS gain nothing there, and each product then waits for all of them,
which takes many times as long while other programs keep the processors busy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_OF_VECTOR, MOST = 8_000, 200_000
"""Multiplications that OpenBLAS leaves to one thread (below 9,216 and 262,144): with a vector, and with a table."""
LEAST_ROWS, WIDTH = 32, 64
"""Rows of a piece below which tables are also cut into columns, so many wide: shorter pieces cost too much."""


def times(tall: Floats, small: Floats) -> Floats:
    """Return tall @ small: (n, p) times (p,) or (p, q)."""
    if small.ndim > 1 and small.size * LEAST_ROWS > MOST and small.shape[1] > 1:
        width = max(MOST // (LEAST_ROWS * len(small)), 1)
        return np.hstack([times(tall, small[:, part]) for part in _slices(small.shape[1], width)])
    found = np.empty((len(tall), *small.shape[1:]))
    for part in _pieces(len(tall), small.size, small.ndim):
        found[part] = tall[part] @ small
    return found


def crossed(tall: Floats, other: Floats) -> Floats:
    """Return tall.T @ other: of (n, p) and (n,) or (n, q)."""
    shape = (tall.shape[1], *other.shape[1:])
    if other.ndim > 1 and np.prod(shape) * LEAST_ROWS > MOST and max(shape) > WIDTH:
        across, down = (_slices(count, WIDTH) for count in shape)
        return np.block([[crossed(tall[:, one], other[:, part]) for part in down] for one in across])
    found = np.zeros(shape)
    for part in _pieces(len(tall), int(np.prod(shape)), other.ndim):
        found += tall[part].T @ other[part]
    return found


def _pieces(count: int, entries: int, dimensions: int) -> list[slice]:
    return _slices(count, max((MOST_OF_VECTOR if dimensions == 1 else MOST) // max(entries, 1), 1))


def _slices(count: int, each: int) -> list[slice]:
    return [slice(begin, begin + each) for begin in range(0, count, each)]
