"""Millions of points as counts in a grid, with a sample of points to draw over it."""

from __future__ import annotations

from typing import Any

import numpy as np

COLUMNS, ROWS = 90, 60


def grid(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Count finite points in a grid whose edges span them; counts are row by row, lowest y first."""
    good = np.isfinite(x) & np.isfinite(y)
    if not good.any():
        return {"x": [], "y": [], "z": []}
    counts, x_edges, y_edges = np.histogram2d(x[good], y[good], bins=(COLUMNS, ROWS))
    return {
        "x": _middles(x_edges),
        "y": _middles(y_edges),
        "z": counts.T.astype(int).tolist(),
    }


def sample(count: int, wanted: int) -> np.ndarray:
    """Return at most `wanted` row numbers of `count`, increasing; the same ones each time."""
    if count <= wanted:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, wanted, replace=False))


def _middles(edges: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in (edges[:-1] + edges[1:]) / 2]
