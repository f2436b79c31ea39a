"""The equations: for each quantum, the modelled time of what ran in it, and the measured joules.

An edge between two quanta lies anywhere in the window in which the sensor's value changed, and the joules that the
sensor shows may be late by up to `late_s`: they are those at `update = edge in its window - U(0, late_s)`. So every
column is a mean over that distribution (a fixed place would bias the powers of tasks shorter than a window towards each
other). Its points are a lattice that covers both intervals evenly.

Columns are computed a stretch of the recording at a time, so that memory depends on the number of rows times columns
only; the quanta of a long recording are merged until that fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import LocatedSegments, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tprof.analysis.attribution.quanta import Quanta

Floats = NDArray[np.float64]
LEAST_ROWS = 30
ENOUGH = 120
"""With so many well-known edges the others are left out."""
MOST_ROWS = 16_000
LARGEST = 12_000_000
"""Most rows, and most entries of the table of equations; the quanta of a longer recording are merged until they fit."""
FEWEST, MOST, SPACING_NS = 6, 24, 20_000
"""Fewest and most points in the window of an edge, and their target spacing."""
LATE_POINTS, LATTICE = 13, 5
"""Points if updates are late, and the generator of their lattice."""
COOLING = (0.0, 1.0, 2.5, 6.0)
"""Speeds at which a package may cool, as a multiple of one over the length of the recording."""
BLOCKS = 8
"""Into which a part of the rows is divided, to be spread over the recording."""
STRETCH = 300_000
"""Segments, and entries of a table, that are in memory at once, times ten."""


@dataclass(frozen=True)
class Rows:
    """The intervals between chosen edges; each used one is an equation.

    Attributes
    ----------
    edges_ns, window_ns : (m + 1,) middle and width of the window of each edge; 0 if unknown.
    energy_j, hidden_s : (m,) joules measured, CPU seconds without samples.
    used : (m,) bool.
    unit_j : joules of one count.
    timed : whether windows are known.
    """

    edges_ns: NDArray[np.int64]
    window_ns: Floats
    energy_j: Floats
    hidden_s: Floats
    used: NDArray[np.bool_]
    unit_j: float
    timed: bool

    @classmethod
    def of(cls, quanta: Quanta, hidden_s: Floats, columns: int) -> Rows:
        """Set up the rows of a domain for a number of columns."""
        at = _edges(quanta, columns)
        within, places = slice(at[0], at[-1]), at[:-1] - at[0]
        energy_j, hidden_s = (np.add.reduceat(values[within], places) for values in (quanta.energy_j, hidden_s))
        whole = np.logical_and.reduceat(quanta.valid[within], places)
        window_ns = quanta.window_s[at] * 1e9
        return cls(quanta.edges_ns[at], window_ns, energy_j, hidden_s, whole, quanta.unit_j, quanta.timed)

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def at(self) -> NDArray[np.intp]:
        """The used intervals: (n,)."""
        return np.flatnonzero(self.used)

    @cached_property
    def length_s(self) -> Floats:
        """Seconds of each row: (n,)."""
        return np.asarray(np.diff(self.edges_ns)[self.at] * 1e-9)

    @cached_property
    def middle_s(self) -> Floats:
        """Seconds from the first edge to the middle of each row: (n,)."""
        return np.asarray((self.edges_ns[self.at] + self.edges_ns[self.at + 1] - 2 * self.edges_ns[0]) * 0.5e-9)

    def warmth(self, static_w: float) -> Floats:
        """Return how warm the package was in each interval, from 0 to 1, for several speeds of cooling: (k, m).

        The joules above static power warm it, and it cools exponentially.
        """
        above_j = np.maximum(self.energy_j - static_w * np.diff(self.edges_ns) * 1e-9, 0.0)
        passed = (self.edges_ns[1:] + self.edges_ns[:-1] - 2 * self.edges_ns[0]) * 0.5e-9 / max(self.span_s, 1e-9)
        gathered = [np.exp(-speed * passed) * np.cumsum(above_j * np.exp(speed * passed)) for speed in COOLING]
        return np.array([one / max(float(one.max(initial=0.0)), 1e-300) for one in gathered])

    @property
    def span_s(self) -> float:
        """Seconds from the first edge to the last."""
        return float(self.edges_ns[-1] - self.edges_ns[0]) * 1e-9

    @cached_property
    def linked(self) -> NDArray[np.bool_]:
        """Whether a row shares an edge with the next: (n - 1,)."""
        return np.asarray(np.diff(self.at) == 1)

    def part(self, most: int) -> Rows:
        """Return the same rows with at most so many used, in evenly spaced blocks."""
        if len(self) <= most:
            return self
        number = np.arange(len(self))
        each = len(self) / BLOCKS
        used = np.zeros_like(self.used)
        used[self.at[number - np.floor(number / each) * each < most / BLOCKS]] = True
        return replace(self, used=used)

    def runs(self) -> list[slice]:
        """Return slices of consecutive used intervals."""
        runs = np.split(self.at, np.flatnonzero(~self.linked) + 1)
        return [slice(int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]

    def points_ns(self, edges: slice, late_s: float) -> NDArray[np.int64]:
        """Return places at which each edge may lie, equally likely: (edges, points)."""
        window_ns = self.window_ns[edges]
        if not self.timed:
            return self.edges_ns[edges][:, None].copy()
        many = int(np.clip(np.median(self.window_ns) / SPACING_NS, FEWEST, MOST))
        if late_s:
            many = max(many, LATE_POINTS)
        place = (np.arange(many) + 0.5) / many
        offsets = window_ns[:, None] * (place - 0.5)
        if late_s:
            offsets = offsets - late_s * 1e9 * ((np.arange(many) * LATTICE) % many + 0.5) / many
        return np.asarray(self.edges_ns[edges][:, None] + np.round(offsets).astype(np.int64))

    def stretches(self, entries: int) -> Iterator[slice]:
        """Cut the used intervals into slices of consecutive ones, of so many that tables of `entries` per edge fit."""
        most = max(10 * STRETCH // max(entries, 1), 64)
        for run in self.runs():
            for begin in range(run.start, run.stop, most):
                yield slice(begin, min(begin + most, run.stop))


def _edges(quanta: Quanta, columns: int) -> NDArray[np.intp]:
    """Choose the edges between rows: only the well-known ones if there are enough, and no more than fit in memory.

    If most updates are timed to a millisecond and some to a tenth of that, the majority adds little information, with
    a bias: in a window as long as the gap between updates an update is not uniformly distributed.
    """
    first, last = 0, len(quanta.edges_ns)
    if quanta.timed and last > LEAST_ROWS + 2:
        # The first and the last reading are not updates: it is unknown when their values changed.
        first, last = first + 1, last - 1
    enough, known = max(ENOUGH, 6 * columns), np.arange(first, last)
    if quanta.timed and last - first > enough:
        most_s = 2 * np.partition(quanta.window_s[first:last], enough)[enough]
        turns = quanta.valid[first:last] != quanta.valid[first - 1 : last - 1]
        known = known[(quanta.window_s[first:last] <= most_s) | turns]
    step = max(-(-len(known) // MOST_ROWS), -(-len(known) * columns * LATE_POINTS // LARGEST), 1)
    return np.unique(np.append(known[::step], known[-1:]))


@dataclass(frozen=True)
class Work:
    """What one thread did, for one domain.

    Attributes
    ----------
    t_ns : (n + 1,)
    modelled : (n,) modelled energy.
    task : (n,) number of the task, or the number of tasks: between tasks.
    core : (n,) number of the core; -1: on none that is known.
    log_length : (n,) logarithm of the nanoseconds that the segment's instance ran, not negative; 0 between tasks.
    """

    t_ns: NDArray[np.int64]
    modelled: Floats
    task: NDArray[np.int32]
    core: NDArray[np.int32]
    log_length: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.modelled)

    def ran_in(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether there are segments in a stretch of time."""
        return bool(len(self.modelled) and self.t_ns[0] < end_ns and self.t_ns[-1] > begin_ns)

    def between(self, begin_ns: int, end_ns: int) -> Work:
        """Return the segments that overlap a stretch of time."""
        first = max(int(np.searchsorted(self.t_ns, begin_ns, side="right")) - 1, 0)
        last = max(min(int(np.searchsorted(self.t_ns, end_ns, side="left")), len(self.modelled)), first)
        part = slice(first, last)
        return Work(
            self.t_ns[first : last + 1], self.modelled[part], self.task[part], self.core[part], self.log_length[part]
        )

    def within(self, begin_ns: int, end_ns: int) -> Work:
        """Return the parts of segments in a stretch of time; a segment that is cut keeps its length."""
        part = self.between(begin_ns, end_ns)
        t_ns = np.clip(part.t_ns, begin_ns, end_ns)
        whole_ns = np.maximum(np.diff(part.t_ns), 1)
        return replace(part, t_ns=t_ns, modelled=part.modelled * (np.diff(t_ns) / whole_ns))

    def table(self, grid_ns: NDArray[np.int64], count: int, row: NDArray[np.int32], weight: Floats | None) -> Floats:
        """Return the weighted modelled energy before, between and after the points of a grid: (count, points + 1)."""
        modelled = self.modelled if weight is None else self.modelled * weight
        return spread(LocatedSegments(self.t_ns, modelled, grid_ns), row=row, rows=count).reshape(count, -1)


def log_length(own_s: Floats) -> NDArray[np.float32]:
    """Return the logarithm of lengths in whole nanoseconds, which no order of sums changes."""
    return np.log(np.maximum(np.rint(own_s * 1e9), 1.0)).astype(np.float32)


NOTHING = Work(
    np.zeros(1, np.int64), np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)
)
"""A thread without segments."""


def overlapping(work: Sequence[Work], begin_ns: int, end_ns: int) -> list[Work]:
    """Return the segments that overlap a stretch of time."""
    return [one.between(begin_ns, end_ns) for one in work if one.ran_in(begin_ns, end_ns)]


def worked_in(rows: Rows, work: Sequence[Work], late_s: float) -> list[Work]:
    """Return what ran around the used rows only, each moment of a thread once."""
    if rows.used.all():
        return list(work)
    margin_ns = round(late_s * 1e9 + float(rows.window_ns.max()))
    spans: list[list[int]] = []
    for run in rows.runs():
        begin_ns, end_ns = int(rows.edges_ns[run.start]) - margin_ns, int(rows.edges_ns[run.stop]) + margin_ns
        if spans and begin_ns <= spans[-1][1]:
            spans[-1][1] = end_ns
        else:
            spans.append([begin_ns, end_ns])
    return [one.within(*span) for span in spans for one in work if one.ran_in(*span)]


def columns(
    rows: Rows,
    work: Sequence[Work],
    count: int,
    late_s: float,
    of: Callable[[Work], tuple[NDArray[np.int32], Floats | None]],
) -> Floats:
    """Return weighted modelled time in each row, as a mean over the windows of its edges: (n, count).

    Parameters
    ----------
    rows, work, late_s : when and what ran, and how late updates are
    count : number of columns
    of : returns which column each segment of a thread goes to, and its weight, not negative; None: 1
    """
    found = [np.zeros((0, count))]
    points = rows.points_ns(slice(0, 1), late_s).shape[1]
    for stretch in rows.stretches(count * points):
        edges = slice(stretch.start, stretch.stop + 1)
        found.append(np.diff(_at(work, rows.points_ns(edges, late_s), count, of).mean(axis=2), axis=1).T)
    return np.concatenate(found)


def segments_each(rows: Rows, work: Sequence[Work]) -> float:
    """Return how many segments a used row has."""
    return sum(map(len, work)) / max(len(rows), 1)


def _at(
    work: Sequence[Work],
    points_ns: NDArray[np.int64],
    count: int,
    of: Callable[[Work], tuple[NDArray[np.int32], Floats | None]],
) -> Floats:
    """Return the columns up to each point, from any begin: (count, *shape of points)."""
    grid_ns, place = np.unique(points_ns, return_inverse=True)
    total = np.zeros((count, len(grid_ns) + 1))
    for part in overlapping(work, int(grid_ns[0]), int(grid_ns[-1])):
        total += part.table(grid_ns, count, *of(part))
    return np.cumsum(total, axis=1, out=total)[:, place.reshape(points_ns.shape)]


def by_task(one: Work) -> tuple[NDArray[np.int32], None]:
    """Say that each segment goes to the column of its task."""
    return one.task, None


@dataclass(frozen=True)
class Edges:
    """How modelled time varies within the window of each edge.

    Attributes
    ----------
    time : (edges, tasks + 1, points) deviations from the mean over the window.
    place_s : (edges, points) likewise of time.
    """

    time: Floats
    place_s: Floats

    def variance(self, power: Floats, static_w: float) -> Floats:
        """Return the variance of the modelled joules within each window: (edges,)."""
        joules = np.einsum("ekp,k->ep", self.time, power) + static_w * self.place_s
        return np.asarray((joules**2).mean(axis=1))

    def joined(self) -> Edges:
        """Return the same with one task in place of all."""
        time = self.time.sum(axis=1, keepdims=True)
        return Edges(np.concatenate([time, np.zeros_like(time)], axis=1), self.place_s)


def base_columns(rows: Rows, work: Sequence[Work], tasks: int, late_s: float) -> tuple[Floats, Edges]:
    """Return the modelled time of each task and between tasks in each row, (n, tasks + 1), and at the edges."""
    places = rows.points_ns(slice(None), late_s)
    time, within = [np.zeros((0, tasks + 1))], np.zeros((len(places), tasks + 1, places.shape[1]))
    for stretch in rows.stretches((tasks + 1) * places.shape[1]):
        edges = slice(stretch.start, stretch.stop + 1)
        at = _at(work, places[edges], tasks + 1, by_task)
        mean = at.mean(axis=2)
        time.append(np.diff(mean, axis=1).T)
        within[edges] = (at - mean[:, :, None]).transpose(1, 0, 2)
    place_s = (places - places.mean(axis=1, keepdims=True)) * 1e-9
    return np.concatenate(time), Edges(within, place_s)
