"""The figures of this process's recordings as metrics: counters that only grow, over one recording after another."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tprof.errors import TraceError
from tprof.session.process_state import this_process
from tprof.trace.metric_names import ACCOUNTS

if TYPE_CHECKING:
    from tprof.live import Meter
    from tprof.session.membership import Membership

    from .task_series import Count

POLL_SHARE = 0.05
"""Most of a core that a read takes, as a part of the time since the read before; the rest is left to the next one."""
LAST_S = 1.0
"""Longest read of what a recording left when it ended."""


@dataclass(frozen=True, slots=True)
class Values:
    """All metrics at a moment.

    Attributes
    ----------
    tasks : joules and instances by the task's name
    task_quality : the quality of these joules; `none` before the first sensor reading
    own_tasks_j : joules by the task's name, of this process only
    accounts_j : by account, domain and quality
    power_w : by domain and quality; none of a domain without two readings, or after a recording
    """

    tasks: dict[str, Count] = field(default_factory=dict)
    task_quality: str = "none"
    own_tasks_j: dict[str, float] = field(default_factory=dict)
    accounts_j: dict[tuple[str, str, str], float] = field(default_factory=dict)
    power_w: dict[tuple[str, str], float] = field(default_factory=dict)


class Figures:
    """Reads the recording that this process belongs to; thread-safe."""

    def __init__(self) -> None:
        """Begin without a recording."""
        self._lock = threading.Lock()
        self._member: Membership | None = None
        self._meter: Meter | None = None
        self._ended = self._now = Values()
        self._power: dict[str, tuple[int, float]] = {}
        self._polled_s = time.monotonic()

    @property
    def values(self) -> Values:
        """Those of the last poll."""
        return self._now

    def poll(self) -> None:
        """Read what is new of the recording that runs; nothing without one. A session that is gone keeps its values."""
        with self._lock:
            since_s, self._polled_s = self._polled_s, time.monotonic()
            most_s = max(POLL_SHARE * (self._polled_s - since_s), 0.001)
            member = this_process.membership
            if self._meter is not None and member is not self._member:
                self._read(self._meter, LAST_S)
                self._ended, self._meter = self._without_power(), None
            self._member = member
            if member is None:
                self._now = self._without_power()
                return
            with suppress(TraceError, OSError):
                if self._meter is None:
                    self._meter = member.meter()
                self._read(self._meter, most_s)

    def _without_power(self) -> Values:
        self._power.clear()
        return replace(self._now, power_w={})

    def _read(self, meter: Meter, most_s: float) -> None:
        """Share more joules, in short steps: the threads of the program wait for the interpreter meanwhile."""
        begin_s = time.thread_time()
        with suppress(TraceError, OSError):
            while time.thread_time() - begin_s < most_s:
                before_ns = meter.until_ns
                for _ in meter.read():
                    pass
                if meter.until_ns == before_ns:
                    break
        self._now = self._values(meter)

    def _values(self, meter: Meter) -> Values:
        energy, ended = meter.figures(), self._ended
        tasks = dict(ended.tasks)
        for name, task in energy.tasks.items():
            before_j, before = tasks.get(name, (0.0, 0))
            tasks[name] = before_j + task.energy_j, before + task.instances
        qualities = {domain.name: domain.quality for domain in meter.domains.shown}
        accounts_j = dict(ended.accounts_j)
        for domain, parts_j in meter.by_domain().items():
            for account, energy_j in zip(ACCOUNTS, parts_j.tolist(), strict=True):
                key = account, domain, qualities[domain]
                accounts_j[key] = accounts_j.get(key, 0.0) + energy_j
        return Values(tasks, energy.quality, self._own_tasks_j(meter), accounts_j, self._watts(meter))

    def _own_tasks_j(self, meter: Meter) -> dict[str, float]:
        found_j = dict(self._ended.own_tasks_j)
        for name, energy_j in meter.own_tasks_j().items():
            found_j[name] = found_j.get(name, 0.0) + energy_j
        return found_j

    def _watts(self, meter: Meter) -> dict[tuple[str, str], float]:
        """Return the watts of each domain since the last poll with a new reading."""
        found = dict(self._now.power_w)
        for domain in meter.domains.shown:
            last_ns, known_j = domain.last_ns, domain.known_j
            if last_ns is None:
                continue
            before_ns, before_j = self._power.get(domain.name, (last_ns, known_j))
            if last_ns > before_ns:
                found[domain.name, domain.quality] = (known_j - before_j) / (last_ns - before_ns) * 1e9
            if last_ns > before_ns or domain.name not in self._power:
                self._power[domain.name] = last_ns, known_j
        return {key: watts for key, watts in found.items() if math.isfinite(watts)}
