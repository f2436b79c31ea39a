"""Which frequencies a sweep visits: all, a list, or a range, as far as the processor has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.frequency import Policy

GRID = 8
"""Frequencies of a processor that takes any between its ends."""
UNITS = {"ghz": 10**9, "mhz": 10**6, "khz": 10**3, "hz": 1}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ghz|mhz|khz|hz)?\s*", re.IGNORECASE)
_FORMS = "all, a list such as 1.6GHz,2.4GHz, or LOW..HIGH:N such as 1.6GHz..3.6GHz:5"
LARGEST_BARE = 100
"""A number without a unit is in GHz, and above this surely is not."""


def visited(text: str, policies: Sequence[Policy]) -> tuple[int, ...]:
    """Return the frequencies that `text` names, Hz, ascending, each as the widest policy has it.

    Raises
    ------
    UsageError
        If it cannot be read, or lies outside of what the processor has.
    """
    widest = max(policies, key=lambda policy: policy.range.highest_hz)
    if text.strip().lower() == "all":
        asked = widest.listed_hz or _spread(widest.range.lowest_hz, widest.range.highest_hz, GRID)
    elif ".." in text:
        asked = _range(text, widest)
    else:
        asked = tuple(_hz(part, text) for part in text.split(","))
    for hz in asked:
        _check(hz, policies)
    return tuple(sorted({widest.nearest_hz(hz) for hz in asked}))


def _range(text: str, widest: Policy) -> tuple[int, ...]:
    low, _, rest = text.partition("..")
    high, colon, count = rest.partition(":")
    lowest, highest = _hz(low, text), _hz(high, text)
    if lowest > highest or (colon and (not count.isdigit() or int(count) < 2)):
        message = f"--frequencies {text}: write the lower end first, and at least 2 after the colon"
        raise UsageError(message)
    if not colon and widest.listed_hz:
        return tuple(hz for hz in widest.listed_hz if lowest <= hz <= highest) or (lowest,)
    return _spread(lowest, highest, int(count) if colon else GRID)


def _spread(lowest: int, highest: int, count: int) -> tuple[int, ...]:
    return tuple(round(lowest + (highest - lowest) * place / (count - 1)) for place in range(count))


def _hz(part: str, text: str) -> int:
    found = _NUMBER.fullmatch(part)
    if found is None:
        message = f"--frequencies must be {_FORMS}; got {text!r}"
        raise UsageError(message)
    number, unit = float(found[1]), found[2]
    if unit is None and number > LARGEST_BARE:
        message = f"--frequencies {text}: {part.strip()} lacks its unit; write GHz, MHz, kHz or Hz after it"
        raise UsageError(message)
    return round(number * UNITS[(unit or "ghz").lower()])


def _check(hz: int, policies: Sequence[Policy]) -> None:
    lowest = min(policy.range.lowest_hz for policy in policies)
    highest = max(policy.range.highest_hz for policy in policies)
    if not lowest <= hz <= highest:
        message = f"{shown(hz)} is outside of what this processor has: {shown(lowest)} to {shown(highest)}"
        raise UsageError(message)


def shown(hz: float) -> str:
    """Write a frequency."""
    return f"{hz / 1e9:g} GHz"
