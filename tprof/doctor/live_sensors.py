"""Reads sensors outside of recordings: the watts of every domain now, and how often its value changes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Self

from tprof import _core
from tprof.sensors.contract import EstimateReader, Quantity, Reading
from tprof.session.preparation import energy_source, stat_path
from tprof.session.python_sensors import said_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.sensors import Domain, Machine, Reader, Sensor

QUICKLY_S = 0.0002
"""From one look to the next where updates are timed; RAPL's come after 1 ms."""
LEAST_UPDATES = 4
MOST_KEPT = 1000


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
    _changes_ns: list[int] = field(default_factory=list)
    _seen: tuple[int, float] | None = None
    _since: tuple[int, float] | None = None
    _count: int | None = None
    _power: float | None = None
    _powers: list[float] = field(default_factory=list)

    @property
    def update_s(self) -> float | None:
        """Seconds from one change of the value to the next, in the middle; None: too few were seen."""
        if len(self._changes_ns) < LEAST_UPDATES:
            return None
        pairs = zip(self._changes_ns[1:], self._changes_ns[:-1], strict=True)
        return median(after - before for after, before in pairs) * 1e-9

    def saw(self, t_ns: int, joules: float) -> None:
        """Take the joules since some moment, at the time of their last change."""
        self.problem = None
        if self._seen is None or joules != self._seen[1]:
            self._seen = (t_ns, joules)
            self._since = self._since or self._seen
            self._changed(t_ns)

    def saw_count(self, t_ns: int, count: int, *, reopened: bool) -> None:
        """Take a count that may wrap."""
        before, self._count = self._count, count
        joules = 0.0 if self._seen is None else self._seen[1]
        rise = 0 if before is None else count - before
        if rise < 0 and self.domain.modulus is not None:
            rise += self.domain.modulus
        if rise < 0 or reopened:
            self._since = self._seen = None
            rise = 0
        self.saw(t_ns, joules + rise * self.domain.unit_j)

    def saw_watts(self, t_ns: int, watts: float) -> None:
        """Take a power."""
        self.problem = None
        if self._power != watts:
            self._changed(t_ns)
        self._power = watts
        self._powers.append(watts)
        del self._powers[:-MOST_KEPT]

    def _changed(self, t_ns: int) -> None:
        self._changes_ns.append(t_ns)
        del self._changes_ns[:-MOST_KEPT]

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
            if time.monotonic() >= self._due_s.get(place, 0.0):
                self._due_s[place] = time.monotonic() + reader.period_s
                self._read_one(reader, live_by_name)

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
    live.watch(
        longest_s, step_s=QUICKLY_S, enough=lambda: all(one.update_s is not None or one.problem for one in live.domains)
    )
    live.close()
    return live
