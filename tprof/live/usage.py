"""The energy usage that a budget counts, as early as it is known; read in steps, so that budgets can act in between."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import TraceError

from .readings import RunningReadings
from .shares import process_joules

if TYPE_CHECKING:
    from collections.abc import Iterator
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
        self._readings = RunningReadings(session, static_w)
        self._shared_j = self._own_j = 0.0
        self._begun_ns: int | None = None
        self._reached_ns = 0
        self._clock = deque([(_core.now_ns(), _core.used_ns())])
        self._points: deque[tuple[int, float]] = deque()
        self._stepped_ns = 0
        self.read()

    @property
    def until_ns(self) -> int:
        """Time up to which the joules are known."""
        return self._points[-1][0] if self._points else 0

    @property
    def read_j(self) -> float:
        """Joules of all domains from their first reading to `until_ns`."""
        return sum(domain.lead_in_j for domain in self._readings.domains) + self._shared_j

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
            raise TraceError(
                f"cannot read {self._session} any more: {error.strerror}; its joules so far are not known"
            ) from error
        self._clock.append((_core.now_ns(), _core.used_ns()))
        until_ns = self._readings.last_ns
        if until_ns is None or until_ns <= self._stepped_ns:
            return
        if not self._points:
            # The process's clock is known only from here on.
            self._stepped_ns = max(until_ns, self._clock[0][0])
            self._readings.begin(self._stepped_ns)
            self._points.append((self._stepped_ns, 0.0))
            return
        self._share(self._stepped_ns, until_ns)
        while len(self._clock) > 2 and self._clock[1][0] <= until_ns:
            self._clock.popleft()

    def _share(self, since_ns: int, until_ns: int) -> None:
        readings, begun_ns = self._readings, self._clock[0][1] if self._begun_ns is None else self._begun_ns
        self._begun_ns = begun_ns
        reach_ns = readings.reach(until_ns)

        def used_at(t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.array([_between(self._clock, one) - begun_ns for one in t_ns.tolist()]) * 1e-9

        hidden_s = readings.learn(since_ns, max(reach_ns, self._reached_ns), used_at, since_ns)
        self._reached_ns = max(reach_ns, self._reached_ns)
        for domain in readings.domains:
            quanta = domain.take(until_ns)
            if len(quanta):
                own_s = np.diff(used_at(quanta.edges_ns))
                share = 1 / len(readings.packages) if domain.package is not None and readings.packages else 1.0
                self._own_j += process_joules(quanta, domain.static_w, own_s * share, readings.hidden)
                self._shared_j += float(quanta.energy_j.sum())
        readings.leave(until_ns)
        # Ticks are too coarse for the busy time of a few milliseconds.
        since_s, until_s = used_at(np.array([since_ns, until_ns])).tolist()
        cores = (until_s - since_s + sum(hidden_s)) / (until_ns - since_ns) * 1e9
        self._cores += (cores - self._cores) * min((until_ns - since_ns) / SMOOTHED_NS, 1.0)
        self.is_sure = self._cores >= BUSY_CORES
        self._stepped_ns = until_ns
        self._points.append((until_ns, self._own_j))


def _between(points: deque[tuple[int, float]] | deque[tuple[int, int]], t_ns: int) -> float:
    """Return the value at a time; outside, that of the nearest point."""
    before_ns, before = points[0]
    for after_ns, after in points:
        if after_ns >= t_ns:
            part = (t_ns - before_ns) / (after_ns - before_ns) if after_ns > before_ns else 1.0
            return before + (after - before) * max(part, 0.0)
        before_ns, before = after_ns, after
    return before


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
    def lag_s(self) -> float:
        """How far the shared joules lag behind the sensor readings."""
        known_ns = self._meter.readings.last_ns
        return 0.0 if known_ns is None else max(known_ns - self._meter.until_ns, 0) * 1e-9

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

    def read(self, saved_s: float = 0.0) -> Iterator[None]:
        """Read samples within the CPU time of one read, or that was saved; yield after each step. Raises TraceError."""
        for _ in self._meter.read(saved_s):
            yield

    def settle(self) -> None:
        """Wait until the joules up to now are known; an estimate takes 20 ms. Raises TraceError."""
        now_ns = _core.now_ns()
        deadline_s = time.monotonic() + SETTLE_S
        while self._catch_up() < now_ns and time.monotonic() < deadline_s:
            time.sleep(SETTLE_STEP_S)

    def _catch_up(self) -> int:
        if self._process is None:
            self._meter.used_j(self._tasks)
        else:
            self._process.read()
            for _ in self.read():
                pass
        return self.until_ns
