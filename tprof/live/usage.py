"""The energy usage that a budget counts, as early as it is known; read in steps, so that budgets can act in between."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import TraceError

from .domains import RunningDomains
from .sharing import process_joules

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from .meter import Meter

SAMPLES_EACH_NS = 200_000_000
"""How far samples may lag behind the joules of the process, which are known without samples."""
SETTLE_S, SETTLE_STEP_S = 0.06, 0.002
BUSY_CORES = 0.8
SMOOTHED_NS = 100_000_000


class ProcessMeter:
    """The joules of this whole process, from now on: its part of all CPU time in each quantum.

    This needs no samples, so its cost does not depend on their number. When less than one core is busy, samples add
    information: a waiting task also accounts for joules. So this only replaces samples that have not been read yet.
    Used by one thread at a time.

    Attributes
    ----------
    is_sure : whether the machine was so busy at the last read that samples would not add information
    """

    def __init__(self, session: Path, static_w: dict[str, float]) -> None:
        """Begin with the joules known now. Raises TraceError."""
        self.is_sure = False
        self._cores = 0.0
        self._session = session
        self._domains = RunningDomains(session, static_w)
        self._shared_j = self._own_j = 0.0
        self._stepped_ns = self._reached_ns = 0
        self._clock = deque([(_core.now_ns(), _core.used_ns())])
        self._begun_ns = self._clock[0][1]
        self._points: deque[tuple[int, float]] = deque()
        self.read()

    @property
    def until_ns(self) -> int:
        """Time up to which the joules are known."""
        return self._points[-1][0] if self._points else 0

    @property
    def read_j(self) -> float:
        """Joules of all domains from their first reading to `until_ns`."""
        return sum(one.lead_in_j for one in self._domains.counted) + self._shared_j

    def since(self, t_ns: int) -> float:
        """Return the joules since a time; times of successive calls must not decrease."""
        points = self._points
        while len(points) > 1 and points[1][0] <= t_ns:
            points.popleft()
        return points[-1][1] - float(_between(points, np.array([t_ns]))[0]) if points else 0.0

    def read(self) -> None:
        """Read what is new. Raises TraceError."""
        try:
            while self._domains.read():
                pass
        except OSError as error:
            raise TraceError(
                f"cannot read {self._session} any more: {error.strerror}; its joules so far are not known"
            ) from error
        self._clock.append((_core.now_ns(), _core.used_ns()))
        until_ns = self._domains.last_ns
        if until_ns is None or until_ns <= self._stepped_ns:
            return
        if self._points:
            self._share(self._stepped_ns, until_ns)
        else:  # the process's clock is known only from here on
            until_ns = max(until_ns, self._clock[0][0])
            self._domains.begin(until_ns)
        self._stepped_ns = until_ns
        self._points.append((until_ns, self._own_j))
        while len(self._clock) > 2 and self._clock[1][0] <= until_ns:
            self._clock.popleft()

    def _share(self, since_ns: int, until_ns: int) -> None:
        domains = self._domains

        def used_at(t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
            return (_between(self._clock, t_ns) - self._begun_ns) * 1e-9

        reach_ns = max(domains.reach(until_ns), self._reached_ns)
        hidden_s = domains.so_far.extend(since_ns, reach_ns, used_at, first_ns=since_ns)
        self._reached_ns = reach_ns
        for one in domains.counted:
            quanta = one.take(until_ns)
            if len(quanta):
                share = 1 / len(domains.packages) if one.package is not None else 1.0
                used_s = np.diff(used_at(quanta.edges_ns)) * share
                self._own_j += process_joules(quanta, one.static_w, used_s, domains.hidden)
                self._shared_j += float(quanta.energy_j.sum())
        domains.so_far.leave(until_ns)
        # Ticks are too coarse for the busy time of a few milliseconds.
        own_s = float(np.diff(used_at(np.array([since_ns, until_ns])))[0])
        cores = (own_s + sum(hidden_s)) / (until_ns - since_ns) * 1e9
        self._cores += (cores - self._cores) * min((until_ns - since_ns) / SMOOTHED_NS, 1.0)
        self.is_sure = self._cores >= BUSY_CORES


def _between(points: Iterable[tuple[int, float]], t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the values at some times, on lines between points; outside, that of the nearest point."""
    at_ns, values = np.array(list(points), np.float64).T
    return np.asarray(np.interp(t_ns, at_ns, values))


class Usage:
    """Joules of some tasks, or of this whole process.

    The joules of the process come from samples, and after the last sample from its share of all CPU time.
    """

    def __init__(self, meter: Meter, tasks: frozenset[str] | None) -> None:
        """Begin with all joules known now. Raises TraceError."""
        self._meter = meter
        self._tasks = tasks
        self._process: ProcessMeter | None = None
        process = ProcessMeter(meter.session, meter.static_w) if tasks is None else None
        # Afterwards samples are known beyond the first reading of the process's clock.
        self.settle()
        self._process = process
        self._begun_j = meter.shared_j(tasks)
        self.begun_ns = meter.until_ns
        self._used_j = 0.0

    @property
    def until_ns(self) -> int:
        """Up to when the joules are known."""
        shared_ns = self._meter.until_ns
        return shared_ns if self._process is None else max(shared_ns, self._process.until_ns)

    @property
    def read_j(self) -> float:
        """Joules of the machine since the first sensor reading, up to `until_ns`."""
        shared_j = self._meter.read_j
        return shared_j if self._process is None else max(shared_j, self._process.read_j)

    def used_j(self) -> float:
        """Return the joules used since the beginning, as far as known; they never decrease."""
        used_j = self._meter.shared_j(self._tasks) - self._begun_j
        if self._process is not None:
            used_j += self._process.since(self._meter.until_ns)
        self._used_j = max(self._used_j, used_j)
        return self._used_j

    def poll(self) -> bool:
        """Update the joules that need no samples; returns whether there are any. Raises TraceError."""
        if self._process is None:
            return False
        self._process.read()
        return True

    @property
    def is_sure(self) -> bool:
        """Whether samples would hardly add information to polling."""
        process = self._process
        return process is not None and process.is_sure and process.until_ns - self._meter.until_ns < SAMPLES_EACH_NS

    def settle(self) -> None:
        """Wait until the joules up to now are known; an estimate takes 20 ms. Raises TraceError."""
        now_ns, deadline_s = _core.now_ns(), time.monotonic() + SETTLE_S
        self._read()
        while self.until_ns < now_ns and time.monotonic() < deadline_s:
            time.sleep(SETTLE_STEP_S)
            self._read()

    def _read(self) -> None:
        if not self.poll():
            self._meter.energy()
            return
        for _ in self._meter.read():
            pass
