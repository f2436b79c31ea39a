"""The equations: for each quantum, the modelled time of each task and the measured joules.

The columns are the tasks; the program between its tasks (`runtime`); CPU time without samples (`other`); static power,
as a level and a slow trend, since leakage rises with temperature; and the concurrency effect: the change of a busy
core's power with the number of busy cores (turbo steps down, caches are shared). Without the last column this effect
would be attributed to the tasks that happen to run concurrently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import locate, spread
from tprof.analysis.attribution.segments import task_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.native_time import NativeSegments
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segment_energy import LocatedSegments
    from tprof.analysis.attribution.segments import Segments

Floats = NDArray[np.float64]
FEWEST, MOST, SPACING_NS = 4, 24, 20_000
"""Fewest and most points in the window of an edge, and their target spacing."""
LEAST_ROWS = 30
ENOUGH = 120
"""With so many well-known edges the others are left out."""
TRENDS = 2
"""Columns for a slow change of static power: linear and quadratic."""
LARGEST = 20_000_000
"""Most entries of the table of equations; the quanta of a longer recording are merged until they fit."""


@dataclass(frozen=True)
class Equations:
    """One row per (merged) quantum.

    Attributes
    ----------
    time : (n, k) seconds times modelled power: the columns of tasks, runtime, other, static, trends, concurrency.
    energy_j : (n,) joules measured.
    length_s : (n,) seconds.
    window_s : (n + 1,) window of each edge; adjacent rows share an edge.
    linked : (n - 1,) whether the row shares an edge with the next.
    tasks : number of columns that are tasks.
    """

    time: Floats
    energy_j: Floats
    length_s: Floats
    window_s: Floats
    linked: NDArray[np.bool_]
    tasks: int


def equations(
    quanta: Quanta,
    located: Sequence[LocatedSegments],
    segments: Sequence[Segments | NativeSegments],
    hidden_s: Floats,
    tasks: int,
) -> Equations:
    """Set up the equations of one domain.

    Parameters
    ----------
    quanta : of the domain
    located : of all threads, with the modelled energy that the fit corrects
    segments : the same threads
    hidden_s : (k,) CPU seconds without samples
    tasks : their number
    """
    length_s = np.diff(quanta.edges_ns) * 1e-9
    edges = _edges(quanta, tasks + 4 + TRENDS)
    time = _blurred(quanta, edges, located, [task_of(segment, tasks) for segment in segments], tasks + 1)
    known = np.column_stack([hidden_s, length_s, quanta.energy_j])[: edges[-1]]
    sums = np.add.reduceat(known, edges[:-1], axis=0)
    whole = np.logical_and.reduceat(quanta.valid[: edges[-1]], edges[:-1])
    begin, end = edges[:-1][whole], edges[1:][whole]
    rows = Equations(
        time=np.column_stack([time, sums[:, :2]])[whole],
        energy_j=sums[whole, 2],
        length_s=sums[whole, 1],
        window_s=np.append(quanta.window_s[begin], quanta.window_s[end[-1:]]),
        linked=np.asarray(end[:-1] == begin[1:]),
        tasks=tasks,
    )
    return _with_trend_and_concurrency(rows)


def _edges(quanta: Quanta, columns: int) -> NDArray[np.intp]:
    """Choose the edges between rows: only the well-known ones if there are enough, and no more than fit in memory.

    If most updates are timed to a millisecond and some to a tenth of that, the majority adds little information, with
    a bias: in a window as long as the gap between updates an update is not uniformly distributed.
    """
    edges = np.arange(len(quanta.edges_ns))
    if quanta.timed and len(edges) > LEAST_ROWS + 2:
        # The first and the last reading are not updates: it is unknown when their values changed.
        edges = edges[1:-1]
    enough = max(ENOUGH, 6 * columns)
    if quanta.timed and len(edges) > enough:
        window_s = quanta.window_s[edges]
        known = window_s <= 2 * np.partition(window_s, enough)[enough]
        known |= quanta.valid[edges] != quanta.valid[edges - 1]
        edges = edges[known]
    step = max(-(-len(edges) * columns // LARGEST), 1)
    return np.unique(np.append(edges[::step], edges[-1]))


def _blurred(
    quanta: Quanta,
    edges: NDArray[np.intp],
    located: Sequence[LocatedSegments],
    rows: Sequence[NDArray[np.int32]],
    count: int,
) -> Floats:
    """Return (k, count) modelled time of each row between edges, as a mean over the windows of these edges.

    A fixed place for each edge would bias the powers of tasks shorter than a window towards each other. The mean over
    the window leaves noise without bias. Its points lie closer together than short tasks last.
    """
    window_ns = quanta.window_s[edges] * 1e9
    target = min(int(np.median(window_ns) / SPACING_NS), MOST)
    many = max(min(target, LARGEST // (count * len(edges))), FEWEST) if quanta.timed else 1
    offsets = (np.arange(many) + 0.5) / many - 0.5
    points_ns = quanta.edges_ns[edges][:, None] + np.round(window_ns[:, None] * offsets).astype(np.int64)
    grid_ns, place = np.unique(points_ns, return_inverse=True)
    table = np.zeros((count, len(grid_ns) + 1))
    for thread, row in zip(located, rows, strict=True):
        against = replace(thread, quantum=locate(thread.t_ns, grid_ns))
        table += spread(against, grid_ns, row=row, rows=count).reshape(table.shape)
    np.cumsum(table, axis=1, out=table)
    at_edges = sum(table[:, column] for column in place.reshape(points_ns.shape).T)
    return np.asarray(np.diff(at_edges, axis=1).T / many)


def _with_trend_and_concurrency(plain: Equations) -> Equations:
    """Add a linear and a quadratic trend of static power, both with mean zero, and the concurrency effect."""
    middle_s = np.cumsum(plain.length_s) - plain.length_s / 2
    place = 2 * middle_s / max(plain.length_s.sum(), 1e-9) - 1
    trend = np.column_stack([place, place**2 - 1 / 3]) * plain.length_s[:, None]
    ran = plain.time[:, : plain.tasks + 2].sum(axis=1)
    busy = ran / np.maximum(plain.length_s, 1e-12)
    # The mean over busy time, so that the tasks' powers refer to their mean concurrency.
    usual = max(float(busy @ ran) / max(float(ran.sum()), 1e-300), 1e-300)
    concurrency = ran * (busy / usual - 1)
    return replace(plain, time=np.column_stack([plain.time, trend, concurrency]))
