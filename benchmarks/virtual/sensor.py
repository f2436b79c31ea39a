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


@dataclass(frozen=True)
class Sensor:
    """How a sensor updates and is polled.

    Attributes
    ----------
    gaps_ms : quantiles of the gaps between updates, at `PARTS`.
    unit_j : one count.
    poll_s : between two looks of the poller.
    noise_j : standard deviation of what an update is off by; it never falls.
    left_j : joules after which the register wraps for the first time, so that even a short run sees it wrap.
    """

    gaps_ms: tuple[float, ...]
    unit_j: float
    poll_s: float = 50e-6
    noise_j: float = 0.0
    left_j: float = 20.0

    def updates(self, end_s: float, random: np.random.Generator) -> Floats:
        """Return when the register changed, seconds."""
        count = int(end_s * 1100) + 50
        gaps_s = np.interp(random.random(count), PARTS, self.gaps_ms) * 1e-3
        t_s = np.cumsum(gaps_s)
        return np.asarray(t_s[t_s < end_s])

    def seen(self, updates_s: Floats) -> Floats:
        """Return when the poller saw each update: at its next look."""
        return np.asarray(np.ceil(updates_s / self.poll_s) * self.poll_s)

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
