"""A RAPL sensor as measured: its unit, its irregular updates, its 32 bits, and a poller that sees each update late.

The gaps between updates are given by the quantiles of public measurements of three processors (10,000 gaps each).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PARTS = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
BITS = 32
CLOSE_S = 50e-6


@dataclass(frozen=True)
class Seen:
    """What a poller saw: (n,) index of the last update before each look that found a new value.

    `at_s` is when it looked, `window_s` within which time before that the value changed.
    """

    update: NDArray[np.int64]
    at_s: Floats
    window_s: Floats


@dataclass(frozen=True)
class Sensor:
    """How a sensor updates and is polled.

    Attributes
    ----------
    gaps_ms : quantiles of the gaps between updates, at `PARTS`.
    unit_j : one count.
    poll_s : between two looks of the poller.
    closely : part of the updates seen that are followed by looks each 50 µs until the next; 0: none.
    noise_j : standard deviation of what an update is off by; it never falls.
    left_j : joules after which the register wraps for the first time, so that even a short run sees it wrap.
    """

    gaps_ms: tuple[float, ...]
    unit_j: float
    poll_s: float = 50e-6
    closely: float = 0.0
    noise_j: float = 0.0
    left_j: float = 20.0

    def updates(self, end_s: float, random: np.random.Generator) -> Floats:
        """Return when the register changed, seconds."""
        count = int(end_s * 1100) + 50
        gaps_s = np.interp(random.random(count), PARTS, self.gaps_ms) * 1e-3
        t_s = np.cumsum(gaps_s)
        return np.asarray(t_s[t_s < end_s])

    def seen(self, updates_s: Floats) -> Seen:
        """Return which updates a poller sees, when, and how long before each the value may have changed."""
        gap_s = float(np.diff(updates_s).mean())
        if not self.closely:
            number = np.ceil(updates_s / self.poll_s).astype(np.int64)
            last = np.flatnonzero(np.diff(number, append=number[-1] + 1))
            return Seen(
                last, np.asarray(number[last] * self.poll_s, np.float64), np.full(len(last), min(self.poll_s, gap_s))
            )
        return self._looked_closely(updates_s, gap_s)

    def _looked_closely(self, updates_s: Floats, gap_s: float) -> Seen:
        look, closely, credit = 0.0, False, 0.0
        found: list[tuple[int, float, float]] = []
        before, seen = 0.0, 0
        # Looks, one after the other, as the recorder's thread takes them.
        while seen < len(updates_s):
            number = int(np.searchsorted(updates_s, look, side="right"))
            if number > seen:
                found.append((number - 1, look, min(look - before, gap_s)))
                seen, credit = number, credit + self.closely
                closely = credit >= 1
                credit -= closely
            before, look = look, look + (CLOSE_S if closely else self.poll_s)
        update, at_s, window_s = zip(*found, strict=True)
        return Seen(np.array(update), np.array(at_s), np.array(window_s))

    def register(self, joules: Floats, random: np.random.Generator) -> NDArray[np.uint64]:
        """Return what the register holds at each update: whole counts, modulo 2 to the 32."""
        if self.noise_j:
            joules = np.maximum.accumulate(np.maximum(joules + random.normal(0.0, self.noise_j, len(joules)), 0.0))
        first = (1 << BITS) - round(self.left_j / self.unit_j)
        counts = np.floor(joules / self.unit_j).astype(np.uint64) + np.uint64(first)
        return np.asarray(counts % np.uint64(1 << BITS))


ICE_LAKE = Sensor((0.6127, 0.6835, 0.7267, 0.8093, 0.8839, 1.264, 1.5229, 1.6496, 1.8283, 2.8333), 2.0**-14)
BROADWELL = Sensor((0.8202, 0.8722, 0.9298, 0.9807, 1.0011, 1.0218, 1.0724, 1.1076, 1.1595, 1.2033), 2.0**-14)
KNIGHTS_LANDING = Sensor((0.9022, 0.915, 0.9294, 1.0025, 1.0082, 1.0155, 1.0275, 1.0402, 1.0741, 1.0963), 2.0**-16)
