"""Figures beyond which nothing is believed: what no sensor, machine or model has; without NumPy, as the recorder is."""

from __future__ import annotations

from .kinds import Quality

MAX_POWER_W = 1000.0
"""What a package may draw: more is a fault of the sensor."""
WIDE_MAX_POWER_W = 10_000.0
_WIDE_SCOPES = ("psys", "machine")


def is_calculated(quality: str) -> bool:
    """Tell joules that somebody calculated from a register that may glitch."""
    return quality != Quality.MEASURED


def max_power_of(quality: str, scope: str) -> float:
    """Return the most watts of a domain that are believed; of joules that somebody calculated, any."""
    if is_calculated(quality):
        return float("inf")
    return WIDE_MAX_POWER_W if scope in _WIDE_SCOPES else MAX_POWER_W
