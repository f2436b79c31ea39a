"""Bounds of plausible figures for sensors, machines and models; without NumPy, like the recorder."""

from __future__ import annotations

from .kinds import Quality

MAX_POWER_W = 1000.0
"""Most power of a package or a part of it; more is a fault of the sensor."""
WIDE_MAX_POWER_W = 10_000.0
"""Most power of anything else: a board with a GPU, a machine."""
_PACKAGE_SCOPES = ("package", "core", "one-core", "uncore", "dram")
MAX_WATTS = 1e9
"""Most of a given or fitted figure: static power, a coefficient, an estimate."""
MAX_JOULES = 1e15
MAX_HZ = 1e12
MAX_SCALE = 1e3
"""Most of a core's power at one frequency relative to another, and of a model's relative error."""
LEAST_BUSY_CORES = 0.05
"""If all threads together keep fewer cores busy in a quantum, tasks wait in it rather than run."""
SMALLEST_UNIT, LARGEST_UNIT = 2.0**-200, 1e3
"""Joules or seconds per count: registers have 1e-9 to 1; small given joules keep all their bits."""


def is_between(value: object, least: float, most: float) -> bool:
    """Return whether a value is a number between two others, inclusive."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_calculated(quality: str) -> bool:
    """Return whether joules are calculated, not from a register that may glitch."""
    return quality != Quality.MEASURED


def max_power_of(quality: str, scope: str) -> float:
    """Return the highest plausible watts of a domain; unlimited for calculated joules."""
    if is_calculated(quality):
        return float("inf")
    return MAX_POWER_W if scope in _PACKAGE_SCOPES else WIDE_MAX_POWER_W
