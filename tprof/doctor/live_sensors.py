"""Reads sensors outside of recordings: the watts of every domain now, and how often its value changes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from statistics import median_low
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tprof import _core
from tprof.sensors.contract import EstimateReader, Quantity, Reading
from tprof.session.preparation import energy_source, stat_path
from tprof.session.python_sensors import said_by
from tprof.trace import layout
from tprof.trace.increments import Counter
from tprof.trace.kinds import ReadingFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.sensors import Domain, Machine, Reader, Sensor

QUICKLY_S = 0.0002
"""From one look to the next where updates are timed; RAPL's come after 1 ms."""
LEAST_UPDATES, ENOUGH_UPDATES = 3, 6
MOST_UPDATES, MOST_KEPT = 30, 1000
LONGEST_WINDOW_NS = (1 << 32) - 1
PRECISE = 0.03
"""Part of the time between updates by which it may be off, if fewer than enough were seen, to be timed."""


@dataclass(frozen=True)
class UpdateTime:
    """Seconds from one update of a value to the next, and by how much they may be off."""

    seconds: float
    error_s: float

    @classmethod
    def of(cls, windows: Sequence[tuple[int, int]]) -> UpdateTime | None:
        """Compute the time between two updates over the number of steps between them; None: too few were seen.

        Of each update the nanoseconds are known between which it came. The two are those which leave the least error,
        so that one that was seen late does no harm. One that was not seen, or did not change the value, leaves a gap
        of several steps.
        """
        if len(windows) < LEAST_UPDATES:
            return None
        middles = [(begin_ns + end_ns) / 2 for begin_ns, end_ns in windows]
        gaps = [after - before for before, after in pairwise(middles)]
        usual = median_low(gaps)
        if usual <= 0:
            return None
        at_least = [after[0] - before[1] for before, after in pairwise(windows)]
        each = (round(gap / usual) if least > usual else 1 for gap, least in zip(gaps, at_least, strict=True))
        steps = list(accumulate(each, initial=0))
        seen = [(step, middle, end - begin) for step, middle, (begin, end) in zip(steps, middles, windows, strict=True)]
        error_ns, gap_ns = min(
            ((before[2] + after[2]) / 2 / (after[0] - before[0]), (after[1] - before[1]) / (after[0] - before[0]))
            for before, after in combinations(seen, 2)
        )
        return cls(gap_ns * 1e-9, error_ns * 1e-9)


@dataclass
class LiveDomain:
    """A domain and what was seen of it so far.

    Attributes
    ----------
    domain : of the sensor.
    watts : its mean power between the last two calls of `LiveSensors.watch`; None: not known yet.
    problem : why it could not be read the last time; None: it could.
    """

    domain: Domain
    watts: float | None = None
    problem: str | None = None
    _windows: list[tuple[int, int]] = field(default_factory=list)
    _read_ns: int | None = None
    _seen: tuple[int, float] | None = None
    _since: tuple[int, float] | None = None
    _power: float | None = None
    _powers: list[float] = field(default_factory=list)

    @cached_property
    def _counter(self) -> Counter:
        one = self.domain
        return Counter(unit_j=one.unit_j, modulus=one.modulus, quality=str(one.quality), scope=one.scope)

    @property
    def update_s(self) -> float | None:
        """Seconds from one change of the value to the next; None: too few were seen."""
        found = UpdateTime.of(self._windows)
        return None if found is None else found.seconds

    @property
    def is_timed(self) -> bool:
        """Whether `update_s` is precise, or more updates would hardly make it so: reads may be as rare as updates."""
        found = UpdateTime.of(self._windows)
        is_precise = found is not None and found.error_s <= PRECISE * found.seconds
        return is_precise or len(self._windows) >= ENOUGH_UPDATES

    def saw(self, t_ns: int, joules: float, begin_ns: int | None = None) -> None:
        """Take the joules since some moment, at the time of their last change, which came after `begin_ns`.

        By default that is as long before as the sensor thread mostly looks.
        """
        self.problem = None
        if self._seen is None or joules != self._seen[1]:
            if self._seen is not None:
                self._changed(t_ns - round(QUICKLY_S * 1e9) if begin_ns is None else begin_ns, t_ns)
            self._seen = (t_ns, joules)
            self._since = self._since or self._seen

    def saw_count(self, t_ns: int, count: int, *, reopened: bool) -> None:
        """Take a count, by the rule of recordings: one that fell, or rose by more than can be, begins anew."""
        begin_ns, self._read_ns = self._read_ns, t_ns
        reading = np.zeros(1, layout.READING)
        reading["t_ns"], reading["value"] = t_ns, count
        reading["window_ns"] = 0 if begin_ns is None else min(t_ns - begin_ns, LONGEST_WINDOW_NS)
        reading["flags"] = ReadingFlag.REOPENED if reopened else 0
        ended = self._counter.follow(reading, longest_still_ns=np.inf)
        joules = 0.0 if self._seen is None else self._seen[1]
        if ended.fault.any():
            self._since = self._seen = None
        self.saw(t_ns, joules + float(ended.energy_j.sum()), begin_ns)

    def saw_watts(self, t_ns: int, watts: float) -> None:
        """Take a power."""
        self.problem = None
        begin_ns, self._read_ns = self._read_ns, t_ns
        if begin_ns is not None and self._power != watts:
            self._changed(begin_ns, t_ns)
        self._power = watts
        self._powers.append(watts)
        del self._powers[:-MOST_KEPT]

    def _changed(self, begin_ns: int, end_ns: int) -> None:
        self._windows.append((begin_ns, end_ns))
        del self._windows[:-MOST_UPDATES]

    def settle(self) -> None:
        """Compute the mean power since the last call; without a change the last one stands."""
        if self._powers:
            self.watts = sum(self._powers) / len(self._powers)
            self._powers.clear()
        elif self._since is not None and self._seen is not None and self._seen[0] > self._since[0]:
            self.watts = (self._seen[1] - self._since[1]) / (self._seen[0] - self._since[0]) * 1e9
            self._since = self._seen


class LiveSensors:
    """The domains of several sensors, read by the thread that watches them, until `close`."""

    def __init__(self, machine: Machine, found: Sequence[tuple[Sensor | None, Sequence[Domain]]]) -> None:
        """Open the sensors; one that cannot be opened has its problem with each of its domains.

        `found` has the domains of each sensor; None: of the estimate.
        """
        self.domains: list[LiveDomain] = []
        self._native: list[tuple[LiveDomain, Any]] = []
        self._readers: list[tuple[Reader, dict[str, LiveDomain]]] = []
        self._due_s: dict[int, float] = {}
        stat = stat_path(machine.root)
        for sensor, domains in found:
            live = {domain.name: LiveDomain(domain) for domain in domains}
            self.domains += live.values()
            self._native += [
                (one, _core.EnergyObserver(({**energy_source(one.domain, stat), "file": ""},), 1.0))
                for one in live.values()
                if one.domain.reader is not None
            ]
            by_python = {name: one for name, one in live.items() if one.domain.reader is None}
            if sensor is not None and by_python:
                self._open(sensor, machine, by_python)

    def _open(self, sensor: Sensor, machine: Machine, live: dict[str, LiveDomain]) -> None:
        try:
            reader = sensor.open(machine, tuple(one.domain for one in live.values()))
        except Exception as error:  # noqa: BLE001 - the code of another package; shown with the domain
            for one in live.values():
                one.problem = said_by(error)
            return
        self._readers.append((reader, live))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.close()

    def watch(self, seconds: float, *, step_s: float = 0.01, enough: Callable[[], bool] | None = None) -> None:
        """Read for so long, or until it is enough; the domains then have their watts of that time."""
        deadline_s = time.monotonic() + seconds
        while True:
            self._read()
            if time.monotonic() >= deadline_s or (enough is not None and enough()):
                break
            time.sleep(step_s)
        for one in self.domains:
            one.settle()

    def _read(self) -> None:
        for live, observer in self._native:
            t_ns, energy_uj = observer.read()
            if t_ns:
                live.saw(t_ns, energy_uj * 1e-6)
        for place, (reader, live_by_name) in enumerate(self._readers):
            begin_s = time.monotonic()
            if begin_s >= self._due_s.get(place, 0.0):
                self._read_one(reader, live_by_name)
                self._due_s[place] = begin_s + reader.period_s  # which the read may have changed

    def _read_one(self, reader: Reader, live: dict[str, LiveDomain]) -> None:
        try:
            readings = [reading for reading in reader.read() if isinstance(reading, Reading)]
        except Exception as error:  # noqa: BLE001 - as in `_open`
            for one in live.values():
                one.problem = said_by(error)
            return
        for reading in readings:
            if reading.domain in live:
                _take(live[reading.domain], reading)

    def close(self) -> None:
        """Close the sensors."""
        for _, observer in self._native:
            observer.close()
        for reader, _ in self._readers:
            reader.close()


def _take(live: LiveDomain, reading: Reading) -> None:
    t_ns = _core.now_ns() if reading.t_ns is None else reading.t_ns
    if reading.value is None:
        live.problem = "the read failed"
    elif live.domain.accuracy.shows is Quantity.POWER:
        live.saw_watts(t_ns, float(reading.value))
    else:
        live.saw_count(t_ns, int(reading.value), reopened=reading.reopened)


def time_updates(machine: Machine, sensor: Sensor, domains: Sequence[Domain], longest_s: float) -> LiveSensors:
    """Read a sensor until the updates of each of its domains are timed, or for so long."""
    live = LiveSensors(machine, [(sensor, [one for one in domains if not isinstance(one.reader, EstimateReader)])])
    live.watch(longest_s, step_s=QUICKLY_S, enough=lambda: all(one.is_timed or one.problem for one in live.domains))
    live.close()
    return live
