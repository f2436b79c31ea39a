"""Energy, duration and start of each instance: as points, or of many instances as a density with a sample of points.

A page stays below a megabyte besides the plot library for any number of instances: cells of a density are packed, and
so few groups of instances (cores, tasks) have a density of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .timeline import leb128

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

POINTS = 4_000  # more points become a density: a browser draws each point as an element, in seconds
SAMPLED = 2_000
GROUPS = 8  # cores, and tasks, with a density of their own: those with most instances
WHOLE, PART = (90, 60), (60, 40)
"""Cells across and up of the density of all instances, and of a group's."""
VIEWS = {
    "energy": ("duration_s", "energy_j", True),
    "time_energy": ("start_s", "energy_j", False),
    "time_duration": ("start_s", "duration_s", False),
}
"""Of each density: what is across, what is up, and whether that across is shown by its logarithm."""


def instances(tasks: pd.DataFrame) -> dict[str, Any]:
    """Return energy, duration and start of instances; of many, their density and a sample.

    Parameters
    ----------
    tasks : a row for each instance, with task, cpu, start_s, duration_s and energy_j
    """
    is_dense = len(tasks) > POINTS
    points = tasks.iloc[sample(len(tasks), SAMPLED if is_dense else POINTS)]
    cpu, code, names = tasks["cpu"].to_numpy(), tasks["task"].cat.codes.to_numpy(), tasks["task"].cat.categories
    groups: dict[str, NDArray[np.bool_] | None] = {}
    if is_dense:
        groups |= {"all": None}
        groups |= {f"cpu {one}": cpu == one for one in (_most(cpu + 1) - 1).tolist()}
        groups |= {f"task {names[one - 1]}": code == one - 1 for one in _most(code + 1).tolist() if one}
    return {
        "count": len(tasks),
        "unresolved": int(tasks["energy_j"].isna().sum()),
        "dense": is_dense,
        "views": {name: _views(tasks, rows) for name, rows in groups.items()},
        "names": [str(name) for name in names],
        "task": points["task"].cat.codes.tolist(),
        "cpu": points["cpu"].tolist(),
        "cpus": np.unique(cpu).tolist(),
        **{name: points[name].tolist() for name in ("start_s", "duration_s", "energy_j")},
    }


def _most(numbers: NDArray[Any]) -> NDArray[np.intp]:
    """Return the numbers that are there most often."""
    counts = np.bincount(numbers)
    order = np.argsort(-counts, kind="stable")[:GROUPS]
    return order[counts[order] > 0]


def _views(tasks: pd.DataFrame, rows: NDArray[np.bool_] | None) -> dict[str, dict[str, Any] | None]:
    """Return the densities of all instances or of some of them in each view."""
    cells = WHOLE if rows is None else PART
    some = tasks if rows is None else tasks[rows]
    return {
        view: _density(some[across].to_numpy(float), some[up].to_numpy(float), cells, log_x=log_x)
        for view, (across, up, log_x) in VIEWS.items()
    }


def _density(
    x: NDArray[np.float64], y: NDArray[np.float64], cells: tuple[int, int], *, log_x: bool
) -> dict[str, Any] | None:
    """Count points in cells between the least and the greatest of them; None without any point.

    Durations and energies spread over decades, so the cells are even in their logarithms; points without a positive
    value are left out. Without `log_x` a time of the run is across.

    Returns
    -------
    x, y : least and most
    columns, rows : numbers of cells
    log_x : as given
    counts : base64 of LEB128: for each cell that is not empty, row by row from the lowest y, how many empty ones
        are before it, then its count
    """
    good = np.isfinite(x) & np.isfinite(y) & (y > 0) & ((x > 0) | (not log_x))
    if not good.any():
        return None
    counts, *edges = np.histogram2d(np.log10(x[good]) if log_x else x[good], np.log10(y[good]), cells)
    flat = counts.T.ravel().astype(np.int64)
    filled = np.flatnonzero(flat)
    pairs = np.stack([np.diff(filled, prepend=-1) - 1, flat[filled]], axis=1).ravel()
    ends_x, ends_y = (one[[0, -1]] for one in edges)
    return {
        "x": (10**ends_x if log_x else ends_x).tolist(),
        "y": (10**ends_y).tolist(),
        "columns": cells[0],
        "rows": cells[1],
        "log_x": log_x,
        "counts": leb128(pairs),
    }


def sample(count: int, size: int) -> NDArray[np.intp]:
    """Return at most `size` row numbers of `count`, increasing; the same ones each time."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))
