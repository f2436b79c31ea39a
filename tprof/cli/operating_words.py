"""Settings, parts and watts as they are typed."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from tprof.analysis.operating_points.table import MOST_WORKERS
from tprof.errors import UsageError
from tprof.trace.plain_values import number, shown, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = r"\s*(\d+(?:\.\d*)?(?:e\d+)?)\s*"
_UNITS = {"Hz": {"ghz": 1e9, "mhz": 1e6, "khz": 1e3, "hz": 1.0, "": 1e9}, "W": {"w": 1.0, "kw": 1e3, "": 1.0}}
_BARE_GHZ = 100.0
"""A frequency without a unit is in GHz; from here up it surely is not."""
_MOST = 200


def settings_in(text: str, unit: str) -> tuple[float, ...]:
    """Return the settings that a list or `LOW..HIGH:N` names, in `unit`. Raises UsageError."""
    if not unit:
        raise UsageError("--settings was given, but the table has no settings; measure at two settings at least")
    if ".." not in text:
        return tuple(_setting(one, unit, text) for one in text.split(","))
    low, _, rest = text.partition("..")
    high, _, count = rest.partition(":")
    ends = _setting(low, unit, text), _setting(high, unit, text)
    steps = whole(count, _MOST)
    if steps is None or steps < 2 or ends[0] >= ends[1]:
        raise UsageError(f"--settings {text}: write LOW..HIGH:N, the lower end first and N from 2 to {_MOST}")
    step = (ends[1] - ends[0]) / (steps - 1)
    return tuple(ends[0] + step * place for place in range(steps))


def counts(text: str | None) -> Sequence[int]:
    """Return numbers of workers. Raises UsageError."""
    words = [] if text is None else [one.strip() for one in text.split(",")]
    found = [whole(word, MOST_WORKERS) for word in words]
    if not all(found):
        raise UsageError(f"--workers must be whole numbers from 1 up with commas, such as 1,2,4; got {shown(text)}")
    return [count for count in found if count]


def part(option: str, text: str) -> float:
    """Return `5%` or `0.05` as a part of 1. Raises UsageError."""
    found = re.fullmatch(_NUMBER + r"(%?)\s*", text)
    value = math.nan if found is None else _value(found[1])
    if found is None or not value <= (math.inf if found[2] else 1):
        raise UsageError(f"{option} must be a percentage such as 5% or a part such as 0.05, got {shown(text)}")
    return value / (100 if found[2] else 1)


def watts(option: str, text: str) -> float:
    """Return `80` or `80W` in watts. Raises UsageError."""
    found = re.fullmatch(_NUMBER + r"([a-z]*)\s*", text, re.IGNORECASE)
    value = math.nan if found is None else _value(found[1])
    if found is None or math.isnan(value) or found[2].lower() not in _UNITS["W"]:
        raise UsageError(f"{option} must be watts such as 80 or 80W, got {shown(text)}")
    return value * _UNITS["W"][found[2].lower()]


def _setting(word: str, unit: str, text: str) -> float:
    found = re.fullmatch(_NUMBER + r"([a-z]*)\s*", word, re.IGNORECASE)
    factors = _UNITS[unit]
    value = math.nan if found is None else _value(found[1])
    if found is None or found[2].lower() not in factors or not value > 0:
        example = "1.6GHz,2.4GHz or 1.6GHz..3.3GHz:18" if unit == "Hz" else "100W,150W or 100W..250W:7"
        raise UsageError(f"--settings must be such as {example}, got {shown(text)}")
    if unit == "Hz" and not found[2] and value >= _BARE_GHZ:
        raise UsageError(f"--settings {text}: {word.strip()} lacks its unit; write GHz, MHz, kHz or Hz after it")
    return value * factors[found[2].lower()]


def _value(digits: str) -> float:
    """Return a number as it is typed, NaN for one that no float holds."""
    try:
        return number(digits)
    except ValueError:
        return math.nan
