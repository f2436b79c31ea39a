"""CPU time that no sample shows, as far as it is sure by now: see `tprof.analysis.busy`.

The machine's busy time comes in ticks of 10 ms, so a difference of two counts may take back later what it seems to
say now. What is claimed at each look is what exceeds the claims before by more than such ticks, never less than
nothing: in the end it is right to within them. The counts are read each 20 ms; what they grow by until the next
reading is taken from how they grew lately.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from .share import Hidden

if TYPE_CHECKING:
    from .domain import Curve
    from .thread import Stretch

TICKS_S = 0.02
SKEW_S = 0.005
"""Who has used a part of a segment's CPU time when is not known: a moment in its midst errs by a part of it."""
LATELY_NS = 200_000_000


class Growth:
    """A quantity that ought to grow, and what of it was claimed."""

    def __init__(self, doubt_s: float) -> None:
        """Claim nothing yet; `doubt_s` is never claimed."""
        self._doubt_s = doubt_s
        self._points: deque[tuple[int, float]] = deque()
        self._claimed_s = 0.0

    def add(self, t_ns: int, value_s: float) -> None:
        """Take note of a value; earlier ones are forgotten."""
        points = self._points
        if not points or t_ns > points[-1][0]:
            points.append((t_ns, value_s))
        while len(points) > 2 and points[1][0] < t_ns - LATELY_NS:
            points.popleft()

    def claim(self, until_ns: int) -> float:
        """Return by how much it exceeds, at a moment, what was claimed before."""
        if not self._points:
            return 0.0
        (first_ns, first_s), (last_ns, last_s) = self._points[0], self._points[-1]
        per_ns = max(last_s - first_s, 0.0) / max(last_ns - first_ns, 1)
        new_s = max(last_s + per_ns * (until_ns - last_ns) - self._doubt_s - self._claimed_s, 0.0)
        self._claimed_s += new_s
        return new_s


class Watch:
    """Adds up other processes' CPU time and that of threads that are not seen."""

    def __init__(self) -> None:
        """Begin with no readings."""
        self.busy: list[Curve] = []
        self.program: list[Curve] = []
        self._began_s: float | None = None
        self._other_began_s: float | None = None
        self._seen_s = 0.0
        self._other, self._unseen = Growth(TICKS_S), Growth(SKEW_S)

    def claim(self, since_ns: int, until_ns: int, ran: Stretch, *, began_ns: int | None) -> Hidden:
        """Return what is new.

        Parameters
        ----------
        since_ns, until_ns : of this look; what others used before the first look is not claimed
        ran : what samples show since the last look
        began_ns : of the first sample; what the program used before it was our own start
        """
        curves = (*self.program, *self.busy)
        if self.program and all(len(curve.t_ns) for curve in curves):
            # Between two readings nothing is known as exactly as what samples show.
            at_ns = min(curve.last_before(until_ns) for curve in curves)
            program_s = sum(curve.at(at_ns) for curve in self.program)
            if self._began_s is None and began_ns is not None:
                self._began_s = sum(curve.at(min(began_ns, at_ns)) for curve in self.program)
            self._unseen.add(at_ns, program_s - (self._began_s or 0.0) - self._seen_s - _before(ran, at_ns))
            if self.busy:
                if self._other_began_s is None:
                    self._other_began_s = self._other_s(min(since_ns, at_ns))
                self._other.add(at_ns, self._other_s(at_ns) - self._other_began_s)
            for curve in curves:
                curve.leave(at_ns)
        self._seen_s += float(ran.cpu_s.sum())
        return Hidden(self._other.claim(until_ns), self._unseen.claim(until_ns))

    def _other_s(self, t_ns: int) -> float:
        return sum(curve.at(t_ns) for curve in self.busy) - sum(curve.at(t_ns) for curve in self.program)


def _before(ran: Stretch, t_ns: int) -> float:
    """Return the CPU seconds up to a moment."""
    part = np.clip((t_ns - ran.begin_ns) / (ran.end_ns - ran.begin_ns), 0.0, 1.0)
    return float((part * ran.cpu_s).sum())
