"""How figures are written for people: three digits, a prefix and a unit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_RESOLVED = "not resolved"
PREFIXES = ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_LEAST = PREFIXES[-1][0]
DASH = "–"
AT_MOST_NOTE = (
    "≤: not resolved: the 95 % interval of the mean energy above static power reaches zero, and this is its upper end; "
    "longer runs and more instances narrow it"
)

ONE_INSTANCE = "one instance"
ONE_INSTANCE_NOTE = f"{ONE_INSTANCE}: the spread between instances is unknown, so the mean has no interval"


def quantity(value: float, unit: str) -> str:
    """Write a figure with three digits and a prefix, `not resolved` for NaN."""
    if math.isnan(value):
        return NOT_RESOLVED
    factor, prefix = _fitting(abs(value))
    if abs(value) < _LEAST:
        return f"0 {unit}" if value == 0 else f"< 1 n{unit}"
    return f"{three_digits(value / factor)} {prefix}{unit}"


def at_most(high: float, unit: str) -> str:
    """Write the upper end of a figure that is not resolved."""
    return f"≤ {quantity(high, unit)}"


def mean_energy(row: Mapping[Any, Any]) -> str:
    """Write the mean energy of a task with its interval, by a row of a summary, or what it is at most."""
    value, low, high, most = (float(row[f"energy_mean_{end}j"]) for end in ("", "low_", "high_", "at_most_"))
    if not row["resolved"]:
        return DASH if math.isnan(most) else at_most(most, "J")
    return f"{quantity(value, 'J')} ({ONE_INSTANCE})" if math.isnan(high) else interval(value, low, high, "J")


def interval(value: float, low: float, high: float, unit: str) -> str:
    """Write a figure with its 95 % interval, all three in the unit of the figure."""
    factor, prefix = _fitting(value)
    written = [three_digits(one / factor) for one in (value, low, high)]
    return f"{written[0]} ({written[1]} … {written[2]}) {prefix}{unit}"


def reach(low: float, high: float, unit: str) -> str:
    """Write the ends of a range, both in the unit of the higher one."""
    factor, prefix = _fitting(high)
    return f"{three_digits(low / factor)} … {three_digits(high / factor)} {prefix}{unit}"


def _fitting(value: float) -> tuple[float, str]:
    """Return the largest prefix, with its factor, that does not exceed a figure as written; the least if all do."""
    written = float(f"{value:.3g}")
    return next(((factor, prefix) for factor, prefix in PREFIXES if written >= factor), PREFIXES[-1])


def three_digits(value: float) -> str:
    """Write three significant digits, below a million without an exponent."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if 1000 <= abs(rounded) < 1e6 else f"{rounded:.3g}"


def percent(value: float) -> str:
    """Write a share."""
    return DASH if math.isnan(value) else f"{100 * value:.1f} %"
