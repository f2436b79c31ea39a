"""The joules of this whole process: its part of all busy CPU time in each interval between two readings.

This needs no samples, so its cost does not depend on their number. When less than one core is busy, samples add
information: a waiting task also accounts for joules. So this only replaces samples that have not been read yet; see
`tprof.live.usage`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import TraceError

from .readings import Readings
from .thread import Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


BUSY_CORES = 0.8
SMOOTHED_NS = 100_000_000


class ProcessMeter:
    """Follows the process from now on; used by one thread at a time.

    Attributes
    ----------
    is_sure : whether the machine was so busy at the last read that samples would not add information
    """

    def __init__(self, session: Path, static_w: Mapping[str, float]) -> None:
        """Begin with the joules known now. Raises TraceError."""
        self.is_sure = False
        self._cores = 0.0
        self._session = session
        self._readings = Readings(session, static_w)
        self._clock = deque([(_core.now_ns(), _core.used_ns())])
        self._points: deque[tuple[int, float]] = deque()
        self.read()

    @property
    def until_ns(self) -> int:
        """Time up to which the joules are known."""
        return self._points[-1][0] if self._points else 0

    @property
    def read_j(self) -> float:
        """Joules of all domains from their first reading to `until_ns`."""
        return self._readings.read_j(self.until_ns)

    def since(self, t_ns: int) -> float:
        """Return the joules since a time; times of successive calls must not decrease."""
        points = self._points
        while len(points) > 1 and points[1][0] <= t_ns:
            points.popleft()
        if not points or t_ns >= points[-1][0]:
            return 0.0
        return points[-1][1] - _between(points, t_ns)

    def read(self) -> None:
        """Read what is new. Raises TraceError."""
        try:
            while self._readings.read():
                pass
        except OSError as error:
            message = f"cannot read {self._session} any more: {error.strerror}; its joules so far are not known"
            raise TraceError(message) from error
        self._clock.append((_core.now_ns(), _core.used_ns()))
        until_ns = self._readings.last_ns if self._readings.is_whole else None
        if until_ns is None or until_ns <= self.until_ns:
            return
        if not self._points:
            # The process's clock is known only from here on.
            until_ns = max(until_ns, self._clock[0][0])
            self._points.append((until_ns, 0.0))
            return
        since_ns, so_far_j = self._points[-1]
        own_s = (_between(self._clock, until_ns) - _between(self._clock, since_ns)) * 1e-9
        more_j, cores = self._readings.share_of_process(_one_row(since_ns, until_ns, own_s), since_ns, until_ns)
        # Ticks are too coarse for the busy time of a few milliseconds.
        self._cores += (cores - self._cores) * min((until_ns - since_ns) / SMOOTHED_NS, 1.0)
        self.is_sure = self._cores >= BUSY_CORES
        self._points.append((until_ns, so_far_j + more_j))
        while len(self._clock) > 2 and self._clock[1][0] <= until_ns:
            self._clock.popleft()


def _between(points: deque[tuple[int, float]] | deque[tuple[int, int]], t_ns: int) -> float:
    """Return the value at a time; outside, that of the nearest point."""
    before_ns, before = points[0]
    for after_ns, after in points:
        if after_ns >= t_ns:
            part = (t_ns - before_ns) / (after_ns - before_ns) if after_ns > before_ns else 1.0
            return before + (after - before) * max(part, 0.0)
        before_ns, before = after_ns, after
    return before


def _one_row(since_ns: int, until_ns: int, cpu_s: float) -> Stretch:
    begin_ns, end_ns, nobody = np.array([since_ns]), np.array([until_ns]), np.array([-1])
    one, no = np.ones(1, np.uint64), np.zeros(1, bool)
    return Stretch(begin_ns, end_ns, np.array([cpu_s]), nobody, one, no, nobody, nobody)
