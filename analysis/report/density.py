"""Millions of points as counts in a grid, with a sample of points to draw over it."""

from __future__ import annotations

from typing import Any

import numpy as np

COLUMNS, ROWS = 90, 60


def grid(x: np.ndarray, y: np.ndarray, *, log_x: bool = True) -> dict[str, Any]:
    """Count points in a grid, row by row, lowest y first.

    Durations and energies spread over decades, so the cells are even in their logarithms; points without a positive
    value are left out. `x` and `y` are the cells' edges.

    Parameters
    ----------
    x, y : (n,)
    log_x : False for a time of the run
    """
    good = np.isfinite(x) & np.isfinite(y) & (y > 0) & ((x > 0) | (not log_x))
    if not good.any():
        return {"x": [], "y": [], "z": []}
    columns = np.log10(x[good]) if log_x else x[good]
    counts, x_edges, y_edges = np.histogram2d(columns, np.log10(y[good]), bins=(COLUMNS, ROWS))
    return {
        "x": _rounded(10**x_edges if log_x else x_edges),
        "y": _rounded(10**y_edges),
        "z": counts.T.astype(int).tolist(),
    }


def sample(count: int, size: int) -> np.ndarray:
    """Return at most `size` row numbers of `count`, increasing; the same ones each time."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))


def _rounded(edges: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in edges]
