"""The quanta of a domain of a session that runs, as they become known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.quanta import Quanta

if TYPE_CHECKING:
    from tprof.trace.increments import Increments

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


class GrowingQuanta:
    """The quanta of one domain; those that were shared are dropped.

    Attributes
    ----------
    lead_in_j : joules before `begin`
    known_j : joules from the first edge on, shared or not
    taken : how many quanta were taken
    """

    def __init__(self, name: str, package: int | None, static_w: float) -> None:
        """Begin without quanta."""
        self.name, self.package, self.static_w = name, package, static_w
        self.lead_in_j = self.known_j = 0.0
        self.taken = 0
        self._begin_ns: int | None = None
        self._edges_ns: Times = np.empty(0, np.int64)
        self._energy_j: Floats = np.empty(0)

    @property
    def first_ns(self) -> int | None:
        """The first edge that is known and not dropped; None without quanta."""
        return int(self._edges_ns[0]) if len(self._edges_ns) else None

    @property
    def last_ns(self) -> int | None:
        """The last edge that is known; None without edges."""
        return int(self._edges_ns[-1]) if len(self._edges_ns) else None

    def add(self, found: Increments) -> None:
        """Add what a counter found; the best estimate of the time of a change is the middle of its window."""
        if len(found.t_ns):
            # The very first reading ends no quantum.
            energy_j = found.energy_j if len(self._edges_ns) else found.energy_j[1:]
            self.append(found.t_ns - found.window_ns // 2, energy_j)

    def pass_over(self, found: Increments) -> None:
        """Add what a counter found, and drop the quanta: only their sum is of interest."""
        self.add(found)
        self._edges_ns, self._energy_j = self._edges_ns[-1:], self._energy_j[:0]

    def append(self, edges_ns: Times, energy_j: Floats) -> None:
        """Add the edges at which quanta end, and the joules of each; the very first edge ends none."""
        self._edges_ns = np.concatenate((self._edges_ns, edges_ns))
        self._energy_j = np.concatenate((self._energy_j, energy_j))
        self.known_j += float(energy_j.sum())
        self._cut()

    def begin(self, t_ns: int) -> None:
        """Drop what is before a time; a quantum that is cut keeps its part by time."""
        self._begin_ns = t_ns
        self._cut()

    def _cut(self) -> None:
        if self._begin_ns is None or not len(self._edges_ns) or self._edges_ns[0] >= self._begin_ns:
            return
        first = bisect_right(self._edges_ns, self._begin_ns) - 1
        self.lead_in_j += float(self._energy_j[:first].sum())
        self._edges_ns, self._energy_j = self._edges_ns[first:].copy(), self._energy_j[first:].copy()
        if len(self._energy_j):
            part = (self._edges_ns[1] - self._begin_ns) / (self._edges_ns[1] - self._edges_ns[0])
            self.lead_in_j += float(self._energy_j[0] * (1 - part))
            self._energy_j[0] *= part
            self._edges_ns[0] = self._begin_ns

    def edge(self, since_ns: int, at_most_ns: int) -> int | None:
        """Return the last edge after one time and not after another, else the next one; None without any."""
        after = bisect_right(self._edges_ns, since_ns)
        if after == len(self._edges_ns):
            return None
        return int(self._edges_ns[max(bisect_right(self._edges_ns, at_most_ns) - 1, after)])

    def inside(self, since_ns: int, until_ns: int) -> Times:
        """Return the edges between two times."""
        return self._edges_ns[bisect_right(self._edges_ns, since_ns) : bisect_left(self._edges_ns, until_ns)]

    def known(self) -> tuple[Times, Floats]:
        """Return the edges and joules of all quanta that are known and not dropped."""
        return self._edges_ns, self._energy_j

    def end_of(self, t_ns: int) -> int:
        """Return where the last quantum ends that begins before a time, which is not after the last edge."""
        at = min(bisect_left(self._edges_ns, t_ns), len(self._edges_ns) - 1)
        return int(self._edges_ns[at]) if at > 0 else t_ns

    def take(self, t_ns: int) -> Quanta:
        """Return the quanta that begin before a time, and drop them."""
        last = max(min(bisect_left(self._edges_ns, t_ns), len(self._energy_j)), 0)
        edges_ns, energy_j = self._edges_ns[: last + 1], self._energy_j[:last]
        self._edges_ns, self._energy_j = self._edges_ns[last:], self._energy_j[last:]
        self.taken += last
        return Quanta(
            self.name, "", self.package, counted=True, quality="", edges_ns=edges_ns if last else edges_ns[:0],
            energy_j=energy_j, valid=np.ones(last, bool), stuck=np.zeros(last, bool), window_s=np.zeros(last + 1),
            unit_j=0.0, warnings=(),
        )  # fmt: skip
