"""Joules of the package as they are drawn, shared among the tasks that run by their time on a core."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tprof.errors import SensorError
from tprof.sensors.contract import FileReader, Unavailable
from tprof.sensors.powercap import find_domains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class Drawing(Protocol):
    """Somebody who draws energy."""

    energy_j: float


class Ledger:
    """Shares what the package drew since the last look evenly among those who ran meanwhile.

    Between two looks the same tasks run, one on a core, so an even share is one by core time. It holds their part of
    the static power too, as the package's energy does. Where different tasks run at the same time each gets the mean
    of their powers.
    """

    def __init__(self, read_j: Callable[[], float]) -> None:
        """Take what reads the joules so far."""
        self._read_j = read_j
        self._last_j: float | None = None

    def look(self, running: Iterable[Drawing]) -> None:
        """Share what was drawn since the last look."""
        now_j = self._read_j()
        drawn_j, self._last_j = 0.0 if self._last_j is None else now_j - self._last_j, now_j
        sharing = list(running)
        for one in sharing:
            one.energy_j += drawn_j / len(sharing)

    @property
    def rests(self) -> bool:
        """Whether what is drawn now is nobody's."""
        return self._last_j is None

    def rest(self) -> None:
        """What is drawn until the next look is nobody's."""
        self._last_j = None


@dataclass
class _Counter:
    descriptor: int
    unit_j: float
    modulus: int | None
    count: int
    joules: float = 0.0


class Meter:
    """The counted domains of powercap below a root, added up; a count that wraps goes on."""

    def __init__(self, root: Path) -> None:
        """Open them. Raises SensorError where there are none."""
        found = find_domains(root)
        if isinstance(found, Unavailable):
            message = (
                f"a policy that learns needs the package's energy, and {found.why} (an estimate from busy time cannot "
                "tell frequencies apart): give it what a sweep found on this machine, profile=\"sweep.csv\""
            )
            raise SensorError(message)
        self._counters = []
        for domain in found[0]:
            if domain.counted and isinstance(domain.reader, FileReader):
                descriptor = os.open(domain.reader.path, os.O_RDONLY | os.O_CLOEXEC)
                self._counters.append(_Counter(descriptor, domain.unit_j, domain.modulus, _read(descriptor) or 0))
        self.quality = str(found[0][0].quality)

    def read_j(self) -> float:
        """Return the joules since it was opened."""
        for counter in self._counters:
            count = _read(counter.descriptor)
            if count is None:
                continue  # a simulated file may be looked at while it is written: the next look has it all
            ticks = count - counter.count
            if ticks < 0:
                ticks = ticks + counter.modulus if counter.modulus is not None else 0
            counter.joules += ticks * counter.unit_j
            counter.count = count
        return sum(counter.joules for counter in self._counters)

    def close(self) -> None:
        """Give the files back."""
        for counter in self._counters:
            os.close(counter.descriptor)
        self._counters.clear()


def _read(descriptor: int) -> int | None:
    text = os.pread(descriptor, 64, 0).strip()
    return int(text) if text.isdigit() else None
