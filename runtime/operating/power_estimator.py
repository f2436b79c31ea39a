"""Estimates the power of each task at each frequency from the package's energy."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import SensorError
from tprof.sensors.choose import choose
from tprof.session.preparation import energy_source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path

WINDOW_S = 0.01
"""Readings are added up over this time: an energy counter is updated once a millisecond."""
SHORTEST_S = 0.002
PULL_S2 = 1e-5
"""Weight of the even share beside the windows, in core seconds squared: a window of 3 ms."""
FURTHEST = 4.0
"""Powers are limited to the even share times this, and divided by it: few windows may give worse ones."""
MOST_KINDS = 100
"""With more kinds the even share is used: solving takes O(n³)."""


class PowerEstimator:
    """Powers of kinds of work (a task at a frequency) from the package's energy while they ran side by side.

    Each window gives the core seconds of each kind and the package's joules. Powers are the least-squares solution over
    all windows, regularised towards an even share by core time, which is the result for kinds that never ran apart.
    They include a share of the static power, as the package's energy does.
    """

    def __init__(self, read_j: Callable[[], float], quality: str = "simulated") -> None:
        """Take a function that reads the joules so far, and their quality."""
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
    def is_paused(self) -> bool:
        """Whether the energy drawn now is attributed to no kind."""
        return self._last is None

    def pause(self) -> None:
        """Attribute the energy until the next reading to no kind."""
        self._last = None
        self._fold()

    def poll(self, now_ns: int, running: Iterable[Hashable]) -> None:
        """Read the sensor and add the energy since the last reading, while these kinds ran."""
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
        """Return the watts of every kind that has run."""
        even = {kind: self._shared_j[kind] / core_s for kind, core_s in self._core_s.items() if core_s > 0}
        if len(even) > MOST_KINDS:
            return even
        right = [self._products[kind] + PULL_S2 * even_w for kind, even_w in even.items()]
        solved = dict(zip(even, _solved(self._system(even), right), strict=True))
        return {kind: min(max(solved[kind], even[kind] / FURTHEST), even[kind] * FURTHEST) for kind in even}

    def uncertainties(self, asked: Iterable[Hashable]) -> dict[Hashable, float]:
        """Return the relative standard deviations of some kinds' powers, from the residuals of the windows.

        They are 0 if there are too few windows or too many kinds to tell.
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
        system, uncertainties = self._system(kinds), {}
        for kind in asked:
            if powers_w.get(kind, 0.0) <= 0:
                uncertainties[kind] = math.inf
                continue
            unit = [1.0 if other == kind else 0.0 for other in kinds]
            variance = left * _solved(system, unit)[kinds.index(kind)]
            uncertainties[kind] = math.sqrt(max(variance, 0.0)) / powers_w[kind]
        return uncertainties

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


class Meter:
    """The sum of the counted domains of this machine's sensor, read as a recording reads it."""

    def __init__(self, root: Path) -> None:
        """Open them. Raises SensorError if there are none."""
        choice = choose("auto", root=root)
        if choice.estimate is not None:
            message = (
                f"a policy that learns, or caps power, needs the package's energy, and {choice.left_out[-1][1]} (an "
                "estimate from busy time cannot tell frequencies apart): give it what a sweep found on this machine, "
                'profile="sweep.csv"'
            )
            raise SensorError(message)
        counted = [domain for domain in choice.domains if domain.counted]
        self._counters = [_core.EnergyCounter({**energy_source(domain), "file": ""}) for domain in counted]
        self.quality = str(counted[0].quality)
        self.read_j()

    def read_j(self) -> float:
        """Return the joules since it was opened."""
        return sum(counter.read_uj() for counter in self._counters) * 1e-6

    def close(self) -> None:
        """Close the files."""
        self._counters.clear()
