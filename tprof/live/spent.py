"""What a budget counts, known as soon as it can be: looked at in steps, between which whoever watches can act."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tprof import _core

from .process import ProcessMeter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .meter import Meter

SAMPLES_EACH_NS = 200_000_000
"""How far samples may be behind where the process as a whole is known without them."""
SETTLE_S, SETTLE_STEP_S = 0.06, 0.002


class Spent:
    """Joules of some tasks, or of all that this process runs.

    Those of the process are what samples say, and from there on its part of all CPU time, which needs none.
    """

    def __init__(self, meter: Meter, tasks: frozenset[str] | None) -> None:
        """Begin with all that is known now. Raises TraceError."""
        self._meter = meter
        self._tasks = tasks
        self._process: ProcessMeter | None = None
        process = ProcessMeter(meter.session, meter.static_w) if tasks is None else None
        # By then samples are known beyond the moment from which the process's clock is.
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
        """How far what is shared out is behind what was read of the sensors."""
        known_ns = self._meter.readings.last_ns
        return 0.0 if known_ns is None else max(known_ns - self._meter.until_ns, 0) * 1e-9

    @property
    def read_j(self) -> float:
        """What all drew since the sensors were first read, up to then."""
        shared_j = self._meter.read_j
        return shared_j if self._process is None else max(shared_j, self._process.read_j)

    def used_j(self) -> float:
        """Return the joules since it began, as far as they are known; they never fall."""
        used_j = self._meter.shared_j(self._tasks) - self._begun_j
        if self._process is not None:
            used_j += self._process.since(self._meter.until_ns)
        self._used_j = max(self._used_j, used_j)
        return self._used_j

    def glance(self) -> bool:
        """See what can be known without samples; returns whether anything can. Raises TraceError."""
        if self._process is None:
            return False
        self._process.look()
        return True

    @property
    def is_sure(self) -> bool:
        """Whether samples would hardly tell more than glances do."""
        process = self._process
        return process is not None and process.is_sure and process.until_ns - self._meter.until_ns < SAMPLES_EACH_NS

    def look(self) -> Iterator[None]:
        """Read samples, as far as a look may, and yield whenever more is known. Raises TraceError."""
        for _ in self._meter.look():
            yield

    def settle(self) -> None:
        """Wait until what was drawn up to now is known, which takes an estimate 20 ms. Raises TraceError."""
        now_ns = _core.now_ns()
        deadline_s = time.monotonic() + SETTLE_S
        while self._catch_up() < now_ns and time.monotonic() < deadline_s:
            time.sleep(SETTLE_STEP_S)

    def _catch_up(self) -> int:
        if self._process is None:
            self._meter.used_j(self._tasks)
        else:
            self._process.look()
            for _ in self.look():
                pass
        return self.until_ns
