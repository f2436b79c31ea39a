"""The equations: in each quantum, how much modelled time each task ran, and what the sensor measured.

Columns are the tasks, then the program between its tasks (`runtime`), then CPU time that no sample shows (`other`),
then static power: its level and a slow trend, since silicon leaks more as it warms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import locate, spread
from tprof.analysis.segments import task_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution import Lane
    from tprof.analysis.quanta import Quanta
    from tprof.analysis.segments import Segments

Floats = NDArray[np.float64]
BLUR = (-0.375, -0.125, 0.125, 0.375)
LARGEST = 20_000_000
"""Entries of the table of equations; a longer recording's quanta are merged until it fits."""


@dataclass(frozen=True)
class Equations:
    """One row a (merged) quantum.

    Attributes
    ----------
    time : (n, k) seconds times modelled power: the columns of tasks, runtime, other, static, trend.
    energy_j : (n,) joules measured.
    length_s : (n,) seconds.
    window_s : (n + 1,) in which each edge lies; of rows that follow each other the edge is shared.
    linked : (n - 1,) whether the row and the next share an edge.
    tasks : number of columns that are tasks.
    """

    time: Floats
    energy_j: Floats
    length_s: Floats
    window_s: Floats
    linked: NDArray[np.bool_]
    tasks: int


def equations(
    quanta: Quanta, lanes: Sequence[Lane], segments: Sequence[Segments], hidden_s: Floats, tasks: int
) -> Equations:
    """Set up the equations of one domain.

    Parameters
    ----------
    quanta : of the domain
    lanes : of all threads, with the modelled energy of the model that is to be corrected
    segments : the same threads
    hidden_s : (k,) CPU seconds that no sample shows
    tasks : how many there are
    """
    length_s = np.diff(quanta.edges_ns) * 1e-9
    time = _blurred(quanta, lanes, [task_of(segment, tasks) for segment in segments], tasks + 1)
    columns = np.column_stack([time, hidden_s, length_s])
    return _with_trend(_merged(quanta, columns, length_s, tasks))


def _blurred(quanta: Quanta, lanes: Sequence[Lane], rows: Sequence[NDArray[np.int32]], count: int) -> Floats:
    """Return (k, count) modelled time of each row in each quantum, meaned over where its edges may lie.

    An edge is somewhere in its window. Taken at one place, what ran there would be known too well, and the powers of
    tasks shorter than a window would be drawn towards each other; taken as the mean over the window, what is left is
    noise without bias.
    """
    offsets = BLUR if quanta.timed else (0.0,)
    table = np.zeros((count, len(quanta.edges_ns) + 1))
    for offset in offsets:
        edges_ns = quanta.edges_ns + np.round(offset * quanta.window_s * 1e9).astype(np.int64)
        for lane, row in zip(lanes, rows, strict=True):
            shifted = replace(lane, quantum=locate(lane.t_ns, edges_ns)) if offset else lane
            table += spread(shifted, edges_ns, row=row, rows=count).reshape(table.shape)
    return np.asarray(table[:, 1:-1].T / len(offsets))


def _merged(quanta: Quanta, columns: Floats, length_s: Floats, tasks: int) -> Equations:
    """Merge neighbours where the table is too large, and leave out what is not valid."""
    step = max(-(-columns.size // LARGEST), 1)
    starts = np.arange(0, len(length_s), step)
    ends = np.append(starts[1:], len(length_s))
    whole = np.logical_and.reduceat(quanta.valid, starts)
    sums = np.add.reduceat(np.column_stack([columns, quanta.energy_j, length_s]), starts, axis=0)[whole]
    begin, end = starts[whole], ends[whole]
    window_s = np.append(quanta.window_s[begin], quanta.window_s[end[-1:]])
    return Equations(sums[:, :-2], sums[:, -2], sums[:, -1], window_s, np.asarray(end[:-1] == begin[1:]), tasks)


def _with_trend(plain: Equations) -> Equations:
    """Add a straight and a bent trend of static power over the run, without a mean of their own."""
    middle_s = np.cumsum(plain.length_s) - plain.length_s / 2
    place = 2 * middle_s / max(plain.length_s.sum(), 1e-9) - 1
    trend = np.column_stack([place, place**2 - 1 / 3]) * plain.length_s[:, None]
    return Equations(
        np.column_stack([plain.time, trend]),
        plain.energy_j, plain.length_s, plain.window_s, plain.linked, plain.tasks,
    )  # fmt: skip
