"""The energy usage that a budget counts, as early as it is known; read in steps, so that budgets can act in between."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tprof import _core

from .process import ProcessMeter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .meter import Meter

SAMPLES_EACH_NS = 200_000_000
"""How far samples may lag behind the joules of the process, which are known without samples."""
SETTLE_S, SETTLE_STEP_S = 0.06, 0.002


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

    def read(self) -> Iterator[None]:
        """Read samples within the CPU time of one read, and yield after each step. Raises TraceError."""
        for _ in self._meter.read():
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
