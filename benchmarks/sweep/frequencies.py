"""Which frequencies a sweep visits: all, a list, or a range, as far as the processor has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.errors import UsageError
from tprof.trace.plain_values import frequency_hz, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tprof.frequency import Policy

GRID = 8
"""Frequencies of a processor that takes any between its ends."""
KHZ = 1000
"""What the kernel's files count in: of anything finer it would take another."""
_FORMS = "all, a list such as 1.6GHz,2.4GHz, or LOW..HIGH:N such as 1.6GHz..3.6GHz:5"
MOST_GRID = 1000
"""Frequencies of a range: a run takes seconds at each of them."""
LARGEST_HZ = 1e15
"""Beyond it the number was mistyped."""
MOST_NAMED = 4


@dataclass(frozen=True)
class Visits:
    """What a sweep visits.

    Attributes
    ----------
    frequencies_hz : ascending, whole kHz; each is one that some policy has.
    notes : where that is not what was asked for.
    """

    frequencies_hz: tuple[int, ...]
    notes: tuple[str, ...] = ()


def visited(text: str, policies: Sequence[Policy]) -> Visits:
    """Return the frequencies that `text` names, each as the policy that comes nearest to it has it.

    Raises
    ------
    UsageError
        If it cannot be read, or lies outside of what the processor has.
    """
    asked = _asked(text, policies)
    for hz in asked:
        _check(hz, policies)
    found = tuple(sorted({_nearest_hz(hz, policies) for hz in asked}))
    if found == tuple(sorted(set(asked))):
        return Visits(found)
    fewer = f": {_runs(len(asked))} asked for, {len(found)} left" if len(found) < len(asked) else ""
    return Visits(found, (f"--frequencies {text} becomes {named(found)}, the nearest that this processor has{fewer}",))


def clamped(policies: Sequence[Policy], frequencies_hz: Sequence[int]) -> list[str]:
    """Return a note for each kind of core that cannot take some frequencies and takes the nearest instead."""
    by_range: dict[tuple[int, int, tuple[int, ...]], list[str]] = {}
    for policy in policies:
        lacking = tuple(hz for hz in frequencies_hz if policy.nearest_hz(hz) != hz)
        if lacking:
            ends = (policy.range.lowest_hz, policy.range.highest_hz)
            by_range.setdefault((*ends, lacking), []).append(policy.folder.name)
    return [
        f"{_some(names)} ({shown(low)} to {shown(high)}) cannot take {named(lacking)}: held at the nearest instead"
        for (low, high, lacking), names in by_range.items()
    ]


def _asked(text: str, policies: Sequence[Policy]) -> tuple[int, ...]:
    # The list of the widest policy is used for all, so the faster of two kinds of core decides the steps.
    listed = max(policies, key=lambda policy: policy.range.highest_hz).listed_hz
    if text.strip().lower() == "all":
        return listed or _spread(*_ends(policies), GRID)
    if ".." in text:
        return _range(text, listed)
    return tuple(_hz(part, text) for part in text.split(","))


def _range(text: str, listed: Sequence[int]) -> tuple[int, ...]:
    low, _, rest = text.partition("..")
    high, colon, count = rest.partition(":")
    lowest, highest = _hz(low, text), _hz(high, text)
    steps = whole(count, MOST_GRID) if colon else GRID
    if lowest > highest or steps is None or steps < 2:
        raise UsageError(
            f"--frequencies {text}: write the lower end first, and at least 2 and at most {MOST_GRID} after the colon"
        )
    if colon or not listed:
        return _spread(lowest, highest, steps)
    inside = tuple(hz for hz in listed if lowest <= hz <= highest)
    if not inside:
        raise UsageError(f"--frequencies {text}: nothing lies between them; this processor has {named(listed)}")
    return inside


def _spread(lowest: int, highest: int, count: int) -> tuple[int, ...]:
    return tuple(_whole_khz(lowest + (highest - lowest) * place / (count - 1)) for place in range(count))


def _hz(part: str, text: str) -> int:
    try:
        hz = frequency_hz(part)
    except ValueError as error:
        raise UsageError(f"--frequencies {text}: {error}") from None
    if hz is None:
        raise UsageError(f"--frequencies must be {_FORMS}; got {text!r}")
    if hz > LARGEST_HZ:
        raise UsageError(f"--frequencies {text[:40]}: no processor runs that fast")
    return _whole_khz(hz)


def _whole_khz(hz: float) -> int:
    return round(hz / KHZ) * KHZ


def _nearest_hz(hz: int, policies: Sequence[Policy]) -> int:
    return min((policy.nearest_hz(hz) for policy in policies), key=lambda one: (abs(one - hz), one))


def _ends(policies: Sequence[Policy]) -> tuple[int, int]:
    return min(policy.range.lowest_hz for policy in policies), max(policy.range.highest_hz for policy in policies)


def _check(hz: int, policies: Sequence[Policy]) -> None:
    lowest, highest = _ends(policies)
    if not lowest <= hz <= highest:
        raise UsageError(f"{shown(hz)} is outside of what this processor has: {shown(lowest)} to {shown(highest)}")


def shown(hz: float) -> str:
    """Write a frequency; seven digits distinguish two that differ by one kHz."""
    return f"{hz / 1e9:.7g} GHz"


def named(frequencies_hz: Sequence[int]) -> str:
    """Write frequencies, the ends and how many where there are many."""
    if len(frequencies_hz) > MOST_NAMED:
        return f"{len(frequencies_hz)} frequencies from {shown(frequencies_hz[0])} to {shown(frequencies_hz[-1])}"
    return ", ".join(map(shown, frequencies_hz))


def _some(names: Iterable[str]) -> str:
    first, *rest = names
    return f"{first} and {len(rest)} alike" if rest else first


def _runs(count: int) -> str:
    return f"{count} were" if count > 1 else "1 was"
