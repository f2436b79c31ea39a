"""Whose time it was: other programs' and that of our own threads which no sample shows.

The machine's busy time comes in ticks of 10 ms, so one difference can be wrong by a whole tick in either
direction. What is negative in one interval is carried into the next ones rather than cut off: cutting would add
a bias of some percent, carrying keeps the sum right. Cost: O(threads' samples + intervals).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from tprof.trace import Readings, Trace

    from .segments import Segments

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

INTERVAL_NS = 100_000_000


@dataclass
class SeenTime:
    """CPU time that samples account for, in intervals of a tenth of a second; filled thread by thread."""

    edges_ns: Integers
    seconds: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Begin with none."""
        self.seconds = np.zeros(max(len(self.edges_ns) - 1, 0))

    def add(self, segments: Segments) -> None:
        """Add a thread's running time."""
        if len(self.edges_ns) < 2:  # noqa: PLR2004 - an interval has two ends
            return
        first, last = np.searchsorted(self.edges_ns, segments.edges_ns[[0, -1]])
        first, last = max(int(first) - 1, 0), min(int(last), len(self.edges_ns) - 1)
        if last <= first:
            return
        cumulated = np.concatenate([[0.0], np.cumsum(segments.running_s)])
        at = np.interp(self.edges_ns[first : last + 1], segments.edges_ns, cumulated)
        self.seconds[first:last] += np.diff(at)


@dataclass(frozen=True)
class Others:
    """Busy seconds that are no task's, cumulated at edges.

    Attributes
    ----------
    edges_ns : (k + 1,) int64.
    unseen : (k + 1,) float64, our threads that no sample shows.
    other : package to (k + 1,) float64, other programs on its processors.
    program_s, unseen_s : totals.
    """

    edges_ns: Integers
    unseen: Floats
    other: dict[int, Floats]
    program_s: float
    unseen_s: float

    def in_quanta(self, cumulated: Floats, quanta_ns: Integers) -> Floats:
        """Return the (q,) seconds of a cumulated time that fall in each quantum."""
        if len(self.edges_ns) < 2:  # noqa: PLR2004 - see above
            return np.zeros(len(quanta_ns) - 1)
        return np.maximum(np.diff(np.interp(quanta_ns, self.edges_ns, cumulated)), 0.0)

    @property
    def unseen_share(self) -> float:
        """Part of the program's CPU time that no sample shows, 0 to 1."""
        return self.unseen_s / self.program_s if self.program_s > 0 else 0.0


def interval_edges(trace: Trace) -> Integers:
    """Return the edges of the intervals in which busy time is compared; none where it was not recorded."""
    program = trace.readings.get("program")
    if program is None or int((~program.missing).sum()) < 2:  # noqa: PLR2004 - see above
        return np.zeros(0, np.int64)
    t_ns = np.unique(program.t_ns[~program.missing])
    count = max(int((t_ns[-1] - t_ns[0]) // INTERVAL_NS), 1)
    wanted = np.linspace(0, len(t_ns) - 1, count + 1).astype(np.int64)
    return t_ns[np.unique(wanted)]


def find_others(trace: Trace, seen: SeenTime) -> Others:
    """Return whose the rest of the busy time was."""
    edges_ns = seen.edges_ns
    if len(edges_ns) < 2:  # noqa: PLR2004 - see above
        return Others(edges_ns, np.zeros(0), {}, float(seen.seconds.sum()), 0.0)
    program = np.diff(_seconds_at(edges_ns, trace.readings["program"]))
    unseen = _carry_negative(program - seen.seconds)
    ours = seen.seconds + unseen
    machine = [reading for reading in trace.readings.values() if reading.quantity == "busy"]
    other = _split_other(edges_ns, machine, ours)
    zero = np.zeros(1)
    return Others(
        edges_ns,
        np.concatenate([zero, np.cumsum(unseen)]),
        {package: np.concatenate([zero, np.cumsum(seconds)]) for package, seconds in other.items()},
        float(ours.sum()),
        float(unseen.sum()),
    )


def _split_other(edges_ns: Integers, machine: Iterable[Readings], ours: Floats) -> dict[int, Floats]:
    """Take our time off the packages' busy time, in proportion to it."""
    busy = {reading.package or 0: np.diff(_seconds_at(edges_ns, reading)) for reading in machine}
    total = np.sum(list(busy.values()), axis=0) if busy else np.zeros(len(ours))
    other = {}
    for package, seconds in busy.items():
        part = np.divide(seconds, total, out=np.full(len(total), 1.0 / len(busy)), where=total > 0)
        other[package] = _carry_negative(seconds - ours * part)
    return other


def _seconds_at(edges_ns: Integers, readings: Readings) -> Floats:
    good = ~readings.missing
    order = np.argsort(readings.t_ns[good], kind="stable")
    seconds = np.maximum.accumulate(readings.value[good][order].astype(np.float64) * readings.unit)
    return np.interp(edges_ns, readings.t_ns[good][order], seconds)


def _carry_negative(steps: Floats) -> Floats:
    """Return steps that are not negative and whose running sum follows the given one's as closely as it may."""
    reached = np.maximum.accumulate(np.maximum(np.cumsum(steps), 0.0))
    return np.diff(reached, prepend=0.0)
