"""How far the clock of a job is ahead of a host's own: from exchanged pings, or from the host's wall clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.errors import TraceError, UsageError

from .manifest import read_manifest
from .metadata import clock_of, is_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PINGS, WALL_CLOCK = "pings", "wall clock"
CLOCKS = ("wall", "boottime")
LEAST_STEP_NS = 20_000_000
DRIFT = 1e-3
"""The kernel slews a clock by at most half of it, besides the error of the machine's oscillator."""


class Offset(NamedTuple):
    """What the job's clock, in UNIX time, is ahead of a host's CLOCK_MONOTONIC.

    It places hosts beside each other in time; joules never depend on it.

    Attributes
    ----------
    offset_ns : the difference
    uncertainty_ns : the most by which it may be off; None: not known
    by : "pings" (exchanged with the collector) or "wall clock" (the host's own)
    """

    offset_ns: int
    uncertainty_ns: int | None
    by: str


def offset_by_pings(pings: Iterable[tuple[int, int, int]]) -> Offset:
    """Return the offset of a host that answers pings of this process with its clock.

    Parameters
    ----------
    pings : of each the time at which it was sent, the host's time at which it was answered, and the time at which the
        answer came; nanoseconds, each host's own CLOCK_MONOTONIC (`time.monotonic_ns()`)

    Notes
    -----
    The answer was given between sending and receiving, so each ping bounds the difference of the clocks, whatever the
    way took in either direction. The bounds of all pings together are narrower than the shortest ping's; where clocks
    drifted so far between pings that these contradict each other, the shortest ping's are taken.

    Raises
    ------
    UsageError
        If there are none, or an answer came before its ping was sent.
    """
    bounds = [(sent_ns - host_ns, received_ns - host_ns) for sent_ns, host_ns, received_ns in pings]
    if not bounds or any(low_ns > high_ns for low_ns, high_ns in bounds):
        raise UsageError(f"pings are pairs of times around an answer, the earlier one first; got {len(bounds)}")
    low_ns, high_ns = max(low for low, _ in bounds), min(high for _, high in bounds)
    if low_ns > high_ns:
        low_ns, high_ns = min(bounds, key=lambda pair: pair[1] - pair[0])
    wall_ns = time.time_ns() - time.monotonic_ns()
    return Offset((low_ns + high_ns) // 2 + wall_ns, (high_ns - low_ns + 1) // 2, PINGS)


def wall_clock_step_ns(manifest: Mapping[str, Any], end: Mapping[str, Any]) -> int | None:
    """Return by how much a host's wall clock was set during its recording; None where that is not known.

    A clock that is only slowed or sped up, by at most `DRIFT` of the time, was not set.
    """
    begin, finish = manifest.get("clock"), end.get("clock")
    if not isinstance(begin, dict) or not isinstance(finish, dict):
        return None
    known = [begin.get(f"{name}_start_ns") for name in CLOCKS] + [finish.get(f"{name}_end_ns") for name in CLOCKS]
    times = [one for one in known if is_ns(one)]
    if len(times) < len(known):
        return None
    wall_ns, true_ns = times[2] - times[0], times[3] - times[1]
    step_ns = wall_ns - true_ns
    return step_ns if abs(step_ns) > LEAST_STEP_NS + DRIFT * max(true_ns, 0) else 0


def offset_by_wall_clock(part: Path) -> Offset | None:
    """Return the offset of a part by its host's wall clock; None if its manifest does not have it."""
    try:
        clock = clock_of(read_manifest(part))
    except TraceError:
        return None
    return None if clock is None else Offset(clock[1] - clock[0], None, WALL_CLOCK)
