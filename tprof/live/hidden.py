"""CPU time that no sample shows, as far as it is sure by now: see `tprof.analysis.busy`.

The machine's busy time comes in ticks of 10 ms, so a difference of two counts may take back later what it seems to
say now. What is claimed at each look is what exceeds the claims before by more than such ticks, never less than
nothing: in the end it is right to within them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .share import Hidden

if TYPE_CHECKING:
    from .domain import Curve

TICKS_S = 0.02
LATELY_NS = 200_000_000
"""These counts are read each 20 ms: what they grow by until the next is taken from how they grew lately."""


class Watch:
    """Adds up other processes' CPU time and that of threads that are not seen."""

    def __init__(self) -> None:
        """Begin with no readings."""
        self.busy: list[Curve] = []
        self.program: list[Curve] = []
        self._began_s: float | None = None
        self._seen_s = 0.0
        self._claimed = Hidden(0.0, 0.0)

    def claim(self, until_ns: int, seen_s: float, *, began_ns: int | None) -> Hidden:
        """Return what is new.

        Parameters
        ----------
        until_ns : of this look
        seen_s : CPU seconds that samples show since the last look
        began_ns : of the first sample; what the program used before it was our own start
        """
        self._seen_s += seen_s
        if not self.program or not all(len(curve.t_ns) for curve in (*self.program, *self.busy)):
            return Hidden(0.0, 0.0)
        program_s = sum(curve.at(until_ns) for curve in self.program)
        if self._began_s is None and began_ns is not None:
            self._began_s = min(sum(curve.at(began_ns) for curve in self.program), program_s)
        busy_s = sum(curve.at(until_ns) for curve in self.busy)
        other_s = busy_s - program_s - TICKS_S - self._claimed.other_s if self.busy else 0.0
        unseen_s = program_s - (self._began_s or 0.0) - self._seen_s - TICKS_S - self._claimed.unseen_s
        new = Hidden(max(other_s, 0.0), max(unseen_s, 0.0))
        self._claimed = Hidden(self._claimed.other_s + new.other_s, self._claimed.unseen_s + new.unseen_s)
        for curve in (*self.program, *self.busy):
            curve.leave(until_ns - LATELY_NS)
        return new
