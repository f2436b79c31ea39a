"""CPU time without samples, as far as it is certain: see `tprof.analysis.busy`.

The machine's busy time is counted in ticks of 10 ms, so a difference of two counts may later turn out smaller. Each
claim is therefore the excess over the earlier claims and a margin of some ticks, never negative; the sum is right to
within this margin. The counts are read every 20 ms; their growth until the next reading is extrapolated.
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
"""Error of the CPU time at a moment inside a segment: its course within the segment is unknown."""
LATELY_NS = 200_000_000


class Growth:
    """A growing quantity, and the part of it that was claimed."""

    def __init__(self, margin_s: float) -> None:
        """Begin without claims; `margin_s` is never claimed."""
        self._margin_s = margin_s
        self._points: deque[tuple[int, float]] = deque()
        self._claimed_s = 0.0

    def add(self, t_ns: int, value_s: float) -> None:
        """Add a value; drops values that are too old."""
        points = self._points
        if not points or t_ns > points[-1][0]:
            points.append((t_ns, value_s))
        while len(points) > 2 and points[1][0] < t_ns - LATELY_NS:
            points.popleft()

    def claim(self, until_ns: int) -> float:
        """Claim, and return, the excess at a time over the earlier claims."""
        if not self._points:
            return 0.0
        (first_ns, first_s), (last_ns, last_s) = self._points[0], self._points[-1]
        per_ns = max(last_s - first_s, 0.0) / max(last_ns - first_ns, 1)
        new_s = max(last_s + per_ns * (until_ns - last_ns) - self._margin_s - self._claimed_s, 0.0)
        self._claimed_s += new_s
        return new_s


class HiddenTime:
    """Adds up the CPU time of other processes and of threads without samples."""

    def __init__(self) -> None:
        """Begin with no readings."""
        self.busy: list[Curve] = []
        self.program: list[Curve] = []
        self._began_s: float | None = None
        self._other_began_s: float | None = None
        self._seen_s = 0.0
        self._other, self._unseen = Growth(TICKS_S), Growth(SKEW_S)

    def claim(self, since_ns: int, until_ns: int, ran: Stretch, *, began_ns: int | None) -> Hidden:
        """Return the new hidden time.

        Parameters
        ----------
        since_ns, until_ns : of this step; CPU time of others before the first step is not claimed
        ran : the samples' rows since the last step
        began_ns : of the first sample; CPU time of the program before it was our own start
        """
        curves = (*self.program, *self.busy)
        if self.program and all(len(curve.t_ns) for curve in curves):
            # Compare with the samples at a reading: values between two readings are less exact.
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
