"""Sums over instances by task, thread or process, and span of time, from rows and joules that come in steps.

What a summary needs of single instances is kept as sums over those that have ended: of joules and durations, of squares
about their means, and of the squares of half the bounds that the sensor's resolution gives. An instance that has not
ended is kept as at most three pieces: what it drew in its first quantum, in its last, and between. So memory is
proportional to the instances that are open at a time, not to those that ran. A step costs O(n log n) for n rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.sums import NO_THREAD, TASK_SUMS

from .incremental import MOMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .incremental import Rows, Shared

Floats = NDArray[np.float64]
Table = NDArray[np.void]

MOST_OPEN = 1 << 17
"""Instances that may be open; of more, as of threads that are killed inside tasks, the oldest count as ended."""
KEY = ["span", "process", "task", "thread"]
ADDED = (
    "begun", "ended", "resolved", "cpu_s", "own_s", "energy_j", "dynamic_j", "ended_s", "resolved_j", "resolved_s",
    "half_j2",
)  # fmt: skip
_WHOSE = ("process", "thread", "task")
_PIECE = np.dtype(
    [
        ("instance", "<u8"),
        ("quantum_ns", "<i8"),
        ("quantum_j", "<f8"),
        ("energy_j", "<f8"),
        ("dynamic_j", "<f8"),
        ("own_s", "<f8"),
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
        ("process", "<i8"),
        ("thread", "<i8"),
        ("task", "<i8"),
    ]
)
_PIECE_SUMS = ("energy_j", "dynamic_j", "own_s")
_LIFE = np.dtype([("instance", "<u8"), ("process", "<i8"), ("thread", "<i8"), ("task", "<i8"), ("start_ns", "<i8")])
_EVENT = np.dtype([*MOMENT.descr, ("process", "<i8"), ("thread", "<i8")])


class InstanceSums:
    """The sums since they were last taken, and the instances that are open."""

    def __init__(self, begin_ns: int, span_ns: int, most_w: float = np.inf, *, resumes: bool = False) -> None:
        """Begin with the span that begins at `begin_ns`; an instance's thread draws at most `most_w`.

        With `resumes` instances that nobody saw begin are counted already.
        """
        self._begin_ns, self._span_ns, self._most_w, self._resumes = begin_ns, span_ns, most_w, resumes
        self._pieces: Table = np.empty(0, _PIECE)
        self._lives: Table = np.empty(0, _LIFE)
        self._events: Table = np.empty(0, _EVENT)
        self._sums: list[Table] = []
        self._settled_ns = begin_ns

    @property
    def open_count(self) -> int:
        """Number of instances that have not ended."""
        return len(self._lives)

    def span_of(self, t_ns: int) -> int:
        """Return the number of the span in which a time lies."""
        return max(t_ns - self._begin_ns, 0) // self._span_ns

    def note(self, process: int, moments: bytes, thread: int = NO_THREAD) -> None:
        """Add begins and ends of instances that the core noted."""
        if moments:
            noted = np.frombuffer(moments, MOMENT)
            events = np.zeros(len(noted), _EVENT)
            for name in MOMENT.names or ():
                events[name] = noted[name]
            events["process"], events["thread"] = process, thread
            self._events = np.concatenate((self._events, events[events["task"] >= 0]))

    def add(self, rows: Rows, shared: Shared) -> None:
        """Add rows whose joules are known."""
        of_task = np.flatnonzero(rows.task >= 0)
        if not len(of_task):
            return
        # All of a quantum is in the span in which it begins.
        begin_ns = np.where(shared.quantum_ns > 0, shared.quantum_ns, rows.begin_ns)
        sums = self._keyed(begin_ns[of_task], {name: getattr(rows, name)[of_task] for name in _WHOSE})
        sums["cpu_s"], sums["own_s"] = rows.cpu_s[of_task], rows.own_s[of_task]
        sums["energy_j"], sums["dynamic_j"] = shared.energy_j[of_task], shared.dynamic_j[of_task]
        self._sums.append(joined([sums]))
        of_instance = of_task[rows.instance[of_task] > 0]
        pieces = np.zeros(len(of_instance), _PIECE)
        for name in ("instance", "own_s", "begin_ns", "end_ns", *_WHOSE):
            pieces[name] = getattr(rows, name)[of_instance]
        for name in ("quantum_ns", "quantum_j", "energy_j", "dynamic_j"):
            pieces[name] = getattr(shared, name)[of_instance]
        self._pieces = np.concatenate((self._pieces, pieces))

    def settle(self, until_ns: int) -> None:
        """Count the instances that began and ended up to a time, up to which all rows were added."""
        now = self._events["t_ns"] <= until_ns
        events, self._events = self._events[now], self._events[~now]
        self._pieces = _merged(self._pieces)
        self._begin(events[events["ends"] == 0])
        ends = events[events["ends"] != 0]
        _, last = np.unique(ends["instance"][::-1], return_index=True)
        self._end(ends[::-1][last])
        if len(self._lives) > MOST_OPEN:
            self._end_open(np.sort(np.argsort(self._lives["start_ns"], kind="stable")[: len(self._lives) - MOST_OPEN]))
        self._pieces = _shortened(self._pieces)
        self._settled_ns = until_ns

    def finish(self, until_ns: int) -> None:
        """Count what is open as ended where its last segment ended."""
        self.settle(until_ns)
        self._end_open(np.arange(len(self._lives)))

    def take(self) -> Table:
        """Return the sums since the last call, a row for each task, process and span, and forget them."""
        found = joined(self._sums)
        self._sums = []
        return found

    def put_back(self, sums: Table) -> None:
        """Add sums that were taken."""
        self._sums.append(sums)

    def _keyed(self, t_ns: NDArray[np.int64], whose: Table | dict[str, NDArray[np.int64]]) -> Table:
        sums = np.zeros(len(t_ns), TASK_SUMS)
        sums["span"] = np.maximum(t_ns - self._begin_ns, 0) // self._span_ns
        for name in _WHOSE:
            sums[name] = whose[name]
        return sums

    def _counted(self, t_ns: NDArray[np.int64], lives: Table) -> Table:
        """Return rows for what happened since the last `settle`: not later than in the span of that, as its quanta."""
        sums = self._keyed(t_ns, lives)
        sums["span"] = np.minimum(sums["span"], self.span_of(self._settled_ns))
        return sums

    def _begin(self, starts: Table) -> None:
        """Open the instances that began, and those that rows name and nobody saw begin."""
        lives = np.zeros(len(starts) + len(self._pieces), _LIFE)
        for name in ("instance", *_WHOSE):
            lives[name] = np.concatenate((starts[name], self._pieces[name]))
        lives["start_ns"] = np.concatenate((starts["t_ns"], self._pieces["begin_ns"]))
        _, first = np.unique(lives["instance"], return_index=True)
        new = lives[first][~np.isin(lives["instance"][first], self._lives["instance"])]
        sums = self._counted(new["start_ns"], new)
        sums["begun"] = np.isin(new["instance"], starts["instance"]) if self._resumes else 1
        self._sums.append(joined([sums]))
        self._lives = np.concatenate((self._lives, new))
        self._lives = self._lives[np.argsort(self._lives["instance"], kind="stable")]

    def _end_open(self, which: NDArray[np.intp]) -> None:
        lives = self._lives[which]
        ends = np.zeros(len(lives), _EVENT)
        ends["instance"] = lives["instance"]
        at, found = _places(self._pieces["instance"], lives["instance"], side="right")
        ends["t_ns"] = lives["start_ns"]
        ends["t_ns"][found] = np.maximum(self._pieces["end_ns"][at[found] - 1], lives["start_ns"][found])
        self._end(ends)

    def _end(self, ends: Table) -> None:
        """Add the figures of ended instances, one of `ends` each, in the order of their numbers."""
        at, known = _places(self._lives["instance"], ends["instance"])
        ends, at = ends[known], at[known]
        if not len(ends):
            return
        lives = self._lives[at]
        self._lives = np.delete(self._lives, at)
        gone = np.isin(self._pieces["instance"], ends["instance"])
        figures = _figures(self._pieces[gone], ends["instance"], self._most_w)
        self._pieces = self._pieces[~gone]
        sums = self._counted(ends["t_ns"], lives)
        duration_s = (ends["t_ns"] - lives["start_ns"]) * 1e-9
        sums["ended"], sums["ended_s"], sums["resolved"] = 1, duration_s, figures["resolved"]
        sums["resolved_j"] = figures["energy_j"]
        sums["resolved_s"] = duration_s * figures["resolved"]
        sums["half_j2"] = figures["half_j"] ** 2
        self._sums.append(joined([sums]))


def joined(tables: Sequence[Table], key: Sequence[str] = KEY) -> Table:
    """Return one row for each distinct key of tables of `TASK_SUMS`; squares are joined by Chan's rule.

    Parameters
    ----------
    tables : of dtype `TASK_SUMS`
    key : columns by which rows are joined; those of `KEY` that are left out become 0
    """
    rows = np.concatenate(tables) if tables else np.empty(0, TASK_SUMS)
    if not len(rows):
        return rows
    keys = np.column_stack([rows[name].astype(np.int64) for name in key])
    distinct, place = np.unique(keys, axis=0, return_inverse=True)
    place, count = place.ravel(), len(distinct)
    found = np.zeros(count, TASK_SUMS)
    for column, name in enumerate(key):
        found[name] = distinct[:, column]
    for name in ADDED:
        found[name] = np.bincount(place, weights=rows[name], minlength=count)
    off_j, off_s = (_off_centre(rows, found, place, name) for name in ("resolved_j", "resolved_s"))
    for name, off in (("energy_m2", off_j**2), ("duration_m2", off_s**2), ("both_m2", off_j * off_s)):
        found[name] = np.bincount(place, weights=rows[name] + rows["resolved"] * off, minlength=count)
    return found


def _off_centre(rows: Table, groups: Table, place: NDArray[np.intp], name: str) -> Floats:
    """Return how far the mean of each row is from the mean of its group."""
    count, of_group = np.maximum(rows["resolved"], 1), np.maximum(groups["resolved"], 1)
    return np.asarray(rows[name] / count - (groups[name] / of_group)[place])


def _places(
    among: NDArray[np.uint64], wanted: NDArray[np.uint64], side: str = "left"
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where numbers are in a sorted array, or behind which with "right", and which of them are there."""
    left, right = np.searchsorted(among, wanted, "left"), np.searchsorted(among, wanted, "right")
    return (left if side == "left" else right), right > left


def _merged(pieces: Table) -> Table:
    """Return one piece for each instance and quantum, in this order."""
    if not len(pieces):
        return pieces
    pieces = pieces[np.lexsort((pieces["begin_ns"], pieces["quantum_ns"], pieces["instance"]))]
    is_new = np.diff(pieces["instance"], prepend=0) != 0
    is_new |= np.diff(pieces["quantum_ns"], prepend=-1) != 0
    return _added(pieces, np.flatnonzero(is_new))


def _added(pieces: Table, first: NDArray[np.intp]) -> Table:
    """Return the sums of the pieces from each of some indices to before the next one."""
    found = pieces[first]
    for name in _PIECE_SUMS:
        found[name] = np.add.reduceat(pieces[name], first)
    found["end_ns"] = np.maximum.reduceat(pieces["end_ns"], first)
    found["quantum_j"] = np.maximum.reduceat(pieces["quantum_j"], first)
    return found


def _ends_of_groups(pieces: Table) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which pieces are the first, and which the last one of their instance."""
    differs = pieces["instance"][1:] != pieces["instance"][:-1]
    return np.concatenate(([True], differs)), np.concatenate((differs, [True]))


def _shortened(pieces: Table) -> Table:
    """Return merged pieces with those between the first and the last of each instance added up."""
    if not len(pieces):
        return pieces
    is_first, is_last = _ends_of_groups(pieces)
    follows_first = np.concatenate(([False], is_first[:-1]))
    return _added(pieces, np.flatnonzero(is_first | is_last | follows_first))


def _figures(pieces: Table, instances: NDArray[np.uint64], most_w: float) -> dict[str, Floats]:
    """Return joules, half the bounds and whether they are resolved, for each of some instances in order.

    The bounds are those of `accounts`: in its first and in its last quantum an instance drew between nothing and all
    dynamic joules. An instance without pieces ran for no time at all.
    """
    count = len(instances)
    found = {name: np.zeros(count) for name in ("energy_j", "half_j")} | {"resolved": np.ones(count)}
    if not len(pieces):
        return found
    is_first, is_last = _ends_of_groups(pieces)
    first, last = np.flatnonzero(is_first), np.flatnonzero(is_last)
    at = np.searchsorted(instances, pieces["instance"][first])
    energy_j, own_s = (np.add.reduceat(pieces[name], first) for name in ("energy_j", "own_s"))
    several = last > first
    edge_j, quantum_j = (
        pieces[name][first] + np.where(several, pieces[name][last], 0.0) for name in ("dynamic_j", "quantum_j")
    )
    low_j = np.clip(energy_j - edge_j, 0.0, energy_j)
    high_j = energy_j - edge_j + quantum_j
    if np.isfinite(most_w):
        high_j = np.minimum(high_j, most_w * own_s)
    found["energy_j"][at] = energy_j
    found["half_j"][at] = (np.maximum(high_j, energy_j) - low_j) / 2
    found["resolved"][at] = np.maximum.reduceat(pieces["quantum_ns"], first) > 0
    return found
