"""Figures beyond which nothing is believed: what no sensor, machine or model has; without NumPy, as the recorder is."""

from __future__ import annotations

from .kinds import Quality

MAX_POWER_W = 1000.0
"""What a package may draw: more is a fault of the sensor."""
WIDE_MAX_POWER_W = 10_000.0
_WIDE_SCOPES = ("psys", "machine")
MAX_WATTS = 1e9
"""Of a figure that somebody gives or fits: static power, a coefficient, an estimate."""
MAX_JOULES = 1e15
MAX_HZ = 1e12
MAX_SCALE = 1e3
"""Of a core's power at one frequency against that at another, and of a model's own error against the power."""
SMALLEST_UNIT, LARGEST_UNIT = 2.0**-200, 1e3
"""Joules or seconds a count: registers have 1e-9 to 1; small joules that were given as numbers keep all their bits."""


def is_between(value: object, least: float, most: float) -> bool:
    """Tell a number between two others, these included, from anything else."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_calculated(quality: str) -> bool:
    """Tell joules that somebody calculated from a register that may glitch."""
    return quality != Quality.MEASURED


def max_power_of(quality: str, scope: str) -> float:
    """Return the most watts of a domain that are believed; of joules that somebody calculated, any."""
    if is_calculated(quality):
        return float("inf")
    return WIDE_MAX_POWER_W if scope in _WIDE_SCOPES else MAX_POWER_W
