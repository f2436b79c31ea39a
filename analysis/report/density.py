"""Energy, duration and start of each instance: as points, or of many instances as a density with a sample of points.

A page stays below a megabyte besides the plot library for any number of instances: cells of a density are packed, and
so few groups of instances (cores, tasks) have a density of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tprof.trace.layout import NO_CPU

from .timeline import leb128

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray
    from tprof.analysis.profile.stored_instances import Piece

POINTS = 4_000  # more points become a density: a browser draws each point as an element, in seconds
SAMPLED = 2_000
GROUPS = 8  # cores, and tasks, with a density of their own: those with most instances
WHOLE, PART = (90, 60), (60, 40)
"""Cells across and up of the density of all instances, and of a group's."""
COLUMNS = ("task", "cpu", "start_s", "duration_s", "energy_j")
VIEWS = {
    "energy": ("duration_s", "energy_j", True),
    "time_energy": ("start_s", "energy_j", False),
    "time_duration": ("start_s", "duration_s", False),
}
"""Of each density: what is across, what is up, and whether that across is shown by its logarithm."""


def instances(pieces: Callable[[], Iterable[Piece]]) -> dict[str, Any]:
    """Return energy, duration and start of instances; of many, their density and a sample.

    Parameters
    ----------
    pieces : yields tables of the instances, each time that it is called, with `COLUMNS` and more
    """
    counts = _Counts()
    for tasks, _ in pieces():
        counts.add(tasks)
    dense = counts.instances > POINTS
    shown = sample(counts.instances, SAMPLED if dense else POINTS)
    points = _rows(pieces(), shown)
    views = _views(pieces, counts.groups()) if dense else {}
    return {
        "count": counts.instances,
        "unresolved": counts.unresolved,
        "dense": dense,
        "views": {name: {view: grid.data() for view, grid in grids.items()} for name, grids in views.items()},
        "names": counts.names,
        "task": points["task"].cat.codes.tolist(),
        "cpu": points["cpu"].tolist(),
        "cpus": [int(cpu) for cpu in np.flatnonzero(counts.cpus) - 1],
        **{name: points[name].tolist() for name in ("start_s", "duration_s", "energy_j")},
    }


class _Counts:
    """How many instances there are, of which tasks and on which cores."""

    def __init__(self) -> None:
        self.instances, self.unresolved = 0, 0
        self.names: list[str] = []
        self.cpus = np.zeros(NO_CPU + 2, np.int64)
        self._tasks = np.zeros(0, np.int64)

    def add(self, tasks: pd.DataFrame) -> None:
        self.names = [str(name) for name in tasks["task"].cat.categories]
        self.instances += len(tasks)
        self.unresolved += int(tasks["energy_j"].isna().sum())
        self.cpus += np.bincount(tasks["cpu"].to_numpy() + 1, minlength=len(self.cpus))
        counts = np.bincount(tasks["task"].cat.codes.to_numpy() + 1, minlength=len(self.names) + 1)[1:]
        self._tasks = counts + (self._tasks if len(self._tasks) else 0)

    def groups(self) -> dict[str, tuple[str, int] | None]:
        """Return the groups with a density of their own by name, each as a column and its value; None: all."""
        groups: dict[str, tuple[str, int] | None] = {"all": None}
        groups |= {f"cpu {cpu}": ("cpu", cpu) for cpu in (_most(self.cpus) - 1).tolist()}
        return groups | {f"task {self.names[code]}": ("task", code) for code in _most(self._tasks).tolist()}


def _most(counts: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the places of the largest counts, those of 0 left out."""
    order = np.argsort(-counts, kind="stable")[:GROUPS]
    return order[counts[order] > 0]


def _rows(pieces: Iterable[Piece], shown: NDArray[np.intp]) -> pd.DataFrame:
    """Return rows of all pieces together by their numbers, which increase."""
    kept, begin = [], 0
    for tasks, _ in pieces:
        first, last = np.searchsorted(shown, (begin, begin + len(tasks)))
        kept.append(tasks[list(COLUMNS)].iloc[shown[first:last] - begin])
        begin += len(tasks)
    return pd.concat(kept)


def _views(
    pieces: Callable[[], Iterable[Piece]], groups: Mapping[str, tuple[str, int] | None]
) -> dict[str, dict[str, Grid]]:
    """Return the densities of groups in each view."""
    grids = {
        name: {view: Grid(WHOLE if group is None else PART, log_x=log_x) for view, (_, _, log_x) in VIEWS.items()}
        for name, group in groups.items()
    }
    for step in (Grid.reach, Grid.add):
        for tasks, _ in pieces():
            columns = {name: tasks[name].to_numpy(float) for name in ("start_s", "duration_s", "energy_j")}
            keys = {"cpu": tasks["cpu"].to_numpy(), "task": tasks["task"].cat.codes.to_numpy()}
            for name, group in groups.items():
                rows = slice(None) if group is None else keys[group[0]] == group[1]
                for view, (x, y, _) in VIEWS.items():
                    step(grids[name][view], columns[x][rows], columns[y][rows])
    return grids


class Grid:
    """Points counted in cells between the least and the greatest of them.

    Durations and energies spread over decades, so the cells are even in their logarithms; points without a positive
    value are left out. All points are given twice: to `reach`, then to `add`.
    """

    def __init__(self, cells: tuple[int, int], *, log_x: bool = True) -> None:
        """Begin without points; `cells` are those across and up, and without `log_x` a time of the run is across."""
        self._cells, self._log_x = cells, log_x
        self._ends = np.array([[np.inf, -np.inf], [np.inf, -np.inf]])
        self._edges: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._counts = np.zeros(cells, np.int64)

    def _points(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        good = np.isfinite(x) & np.isfinite(y) & (y > 0) & ((x > 0) | (not self._log_x))
        return np.log10(x[good]) if self._log_x else x[good], np.log10(y[good])

    def reach(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Note how far points reach."""
        for ends, values in zip(self._ends, self._points(x, y), strict=True):
            ends[:] = values.min(initial=ends[0]), values.max(initial=ends[1])

    def add(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Count points."""
        across, up = self._points(x, y)
        if len(across):
            counts, x_edges, y_edges = np.histogram2d(across, up, self._cells, self._ends.tolist())
            self._edges = x_edges, y_edges
            self._counts += counts.astype(np.int64)

    def data(self) -> dict[str, Any] | None:
        """Return the cells; None without any point.

        Returns
        -------
        x, y : least and most
        columns, rows : numbers of cells
        log_x : as given
        counts : base64 of LEB128: for each cell that is not empty, row by row from the lowest y, how many empty ones
            are before it, then its count
        """
        if self._edges is None:
            return None
        flat = self._counts.T.ravel()
        filled = np.flatnonzero(flat)
        pairs = np.stack([np.diff(filled, prepend=-1) - 1, flat[filled]], axis=1).ravel()
        x, y = (edges[[0, -1]] for edges in self._edges)
        return {
            "x": (10**x if self._log_x else x).tolist(),
            "y": (10**y).tolist(),
            "columns": self._cells[0],
            "rows": self._cells[1],
            "log_x": self._log_x,
            "counts": leb128(pairs),
        }


def sample(count: int, size: int) -> NDArray[np.intp]:
    """Return at most `size` row numbers of `count`, increasing; the same ones each time."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))
