"""Joules of the package as they are drawn, and whose they are: the power of each task at each frequency."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.errors import SensorError
from tprof.sensors.contract import FileReader, Unavailable
from tprof.sensors.powercap import find_domains

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path

WINDOW_S = 0.01
"""Looks are added up over this: an energy counter moves once a millisecond."""
SHORTEST_S = 0.002
PULL_S2 = 1e-5
"""How much the even share counts beside what was seen, in core seconds squared: a window of 3 ms."""
FURTHEST = 4.0
"""Times the even share, or its part: a power that the few windows tell worse than that is not believed."""
MOST_KINDS = 100
"""Solving takes their number cubed; beyond it the even share has to do."""


class Ledger:
    """Powers of kinds of work (a task at a frequency) from what the package drew while they ran side by side.

    Over a window each kind ran for so many core seconds and the package drew so many joules: powers are the least
    squares solution over all windows, drawn towards the even share by core time, which is the answer where kinds never
    ran apart. They hold the kinds' part of the static power too, as the package's energy does.
    """

    def __init__(self, read_j: Callable[[], float], quality: str = "simulated") -> None:
        """Take what reads the joules so far, and how these are known."""
        self._read_j, self.quality = read_j, quality
        self._last: tuple[int, float] | None = None
        self._window: defaultdict[Hashable, float] = defaultdict(float)
        self._window_s = self._window_j = 0.0
        self._squares: defaultdict[Hashable, defaultdict[Hashable, float]] = defaultdict(lambda: defaultdict(float))
        self._products: defaultdict[Hashable, float] = defaultdict(float)
        self._windows, self._drawn_squares = 0, 0.0
        self._core_s: defaultdict[Hashable, float] = defaultdict(float)
        self._shared_j: defaultdict[Hashable, float] = defaultdict(float)

    def drawn_j(self) -> float:
        """Return the package's joules so far."""
        return self._read_j()

    @property
    def rests(self) -> bool:
        """Whether what is drawn now is nobody's."""
        return self._last is None

    def rest(self) -> None:
        """What is drawn until the next look is nobody's."""
        self._last = None
        self._fold()

    def look(self, now_ns: int, running: Iterable[Hashable]) -> None:
        """Add what was drawn since the last look, while these ran."""
        now_j = self._read_j()
        last, self._last = self._last, (now_ns, now_j)
        kinds = list(running)
        if last is None or not kinds:
            return
        lasted_s, drawn_j = (now_ns - last[0]) * 1e-9, now_j - last[1]
        self._window_s += lasted_s
        self._window_j += drawn_j
        for kind in kinds:
            self._window[kind] += lasted_s
            self._core_s[kind] += lasted_s
            self._shared_j[kind] += drawn_j / len(kinds)
        if self._window_s >= WINDOW_S:
            self._fold()

    def _fold(self) -> None:
        if self._window_s >= SHORTEST_S:
            self._windows += 1
            self._drawn_squares += self._window_j**2
            for kind, core_s in self._window.items():
                self._products[kind] += core_s * self._window_j
                for other, other_s in self._window.items():
                    self._squares[kind][other] += core_s * other_s
        self._window.clear()
        self._window_s = self._window_j = 0.0

    def powers_w(self) -> dict[Hashable, float]:
        """Return the watts of every kind that was seen."""
        even = {kind: self._shared_j[kind] / core_s for kind, core_s in self._core_s.items() if core_s > 0}
        if len(even) > MOST_KINDS:
            return even
        right = [self._products[kind] + PULL_S2 * even_w for kind, even_w in even.items()]
        solved = dict(zip(even, _solved(self._system(even), right), strict=True))
        return {kind: min(max(solved[kind], even[kind] / FURTHEST), even[kind] * FURTHEST) for kind in even}

    def doubts(self, asked: Iterable[Hashable]) -> dict[Hashable, float]:
        """Return the relative standard deviations of some kinds' powers, from what the windows leave unexplained.

        0 where there are too few windows to contradict each other, or too many kinds.
        """
        powers_w = self.powers_w()
        if len(powers_w) > MOST_KINDS or self._windows <= len(powers_w):
            return dict.fromkeys(asked, 0.0)
        explained = sum(power_w * self._products[kind] for kind, power_w in powers_w.items())
        modelled = sum(
            power_w * other_w * self._squares[kind][other]
            for kind, power_w in powers_w.items()
            for other, other_w in powers_w.items()
        )
        left = max(self._drawn_squares - 2 * explained + modelled, 0.0) / (self._windows - len(powers_w))
        kinds = list(powers_w)
        system, doubts = self._system(kinds), {}
        for kind in asked:
            if powers_w.get(kind, 0.0) <= 0:
                doubts[kind] = math.inf
                continue
            unit = [1.0 if other == kind else 0.0 for other in kinds]
            variance = left * _solved(system, unit)[kinds.index(kind)]
            doubts[kind] = math.sqrt(max(variance, 0.0)) / powers_w[kind]
        return doubts

    def _system(self, kinds: Iterable[Hashable]) -> list[list[float]]:
        kinds = list(kinds)
        return [[self._squares[kind][other] + (PULL_S2 if kind == other else 0.0) for other in kinds] for kind in kinds]


def _solved(system: list[list[float]], right: list[float]) -> list[float]:
    """Solve a symmetric positive definite system by elimination."""
    rows, count = [[*row, value] for row, value in zip(system, right, strict=True)], len(system)
    for place in range(count):
        for below in range(place + 1, count):
            factor = rows[below][place] / rows[place][place]
            if factor != 0.0:
                rows[below] = [one - factor * other for one, other in zip(rows[below], rows[place], strict=True)]
    found = [0.0] * count
    for place in reversed(range(count)):
        rest = rows[place][count] - sum(rows[place][other] * found[other] for other in range(place + 1, count))
        found[place] = rest / rows[place][place]
    return found


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
                f"a policy that learns, or caps power, needs the package's energy, and {found.why} (an estimate from "
                "busy time cannot tell frequencies apart): give it what a sweep found on this machine, "
                'profile="sweep.csv"'
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
