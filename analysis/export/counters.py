"""The counters of a session for tools that draw timelines: watts, joules, CPU time, and what a policy set."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tprof.analysis.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.profile import Profile

    from tprof.trace import Readings
    from tprof.trace.decisions import Decision

CPU_TIMES = {"busy": "CPU time of the machine", "program": "CPU time of the program"}
"""What counters of CPU time are called after their name, by the quantity of the reading."""


class CounterValues(NamedTuple):
    """A counter.

    Attributes
    ----------
    name, unit, description : what it shows
    t_ns : (n,) CLOCK_MONOTONIC
    values : (n,) each holds until the next one
    """

    name: str
    unit: str
    description: str
    t_ns: NDArray[np.int64]
    values: NDArray[np.float64]


def counters_of(profile: Profile) -> Iterator[CounterValues]:
    """Yield the counters of a session that have values."""
    trace = profile.trace
    for domain in profile.quanta:
        yield from _of_domain(domain)
    for reading in trace.readings.values():
        if reading.quantity in CPU_TIMES:
            yield from _of_cpu_time(reading, (trace.start_ns, trace.end_ns))
    yield from _of_decisions(trace.decisions)


def cpu_time_name(reading: Readings) -> str:
    """Return what a counter of CPU time is called."""
    return f"{shown(reading.name)} {CPU_TIMES[reading.quantity]}"


def _of_domain(domain: Quanta) -> Iterator[CounterValues]:
    if not domain.valid.any():
        return
    kind = f"{domain.quality}, {'part of the total' if domain.counted else 'in no total'}"
    known = domain.valid
    power_w = domain.energy_j / (np.diff(domain.edges_ns) * 1e-9)
    yield CounterValues(f"{domain.name} power", "W", kind, domain.edges_ns[:-1][known], power_w[known])
    # A value after each quantum, so that the last one is what the domain measured.
    so_far_j = np.concatenate(([0.0], np.cumsum(domain.energy_j)))
    told = np.concatenate(([True], known))
    yield CounterValues(f"{domain.name} energy", "J", kind, domain.edges_ns[told], so_far_j[told])


def _of_cpu_time(reading: Readings, block_ns: tuple[int, int]) -> Iterator[CounterValues]:
    """Yield CPU time that threads' own does not show: of the machine, and of the program with all its threads."""
    t_ns, value = reading.t_ns[~reading.missing], reading.value[~reading.missing]
    first = max(int(np.searchsorted(t_ns, block_ns[0], side="right")) - 1, 0)
    part = slice(first, int(np.searchsorted(t_ns, block_ns[1], side="left")) + 1)
    if len(t_ns[part]):
        seconds = (value[part] - value[part][0]).view(np.int64) * reading.unit
        yield CounterValues(cpu_time_name(reading), "s", "CPU time", t_ns[part], seconds)


def _of_decisions(decisions: tuple[Decision, ...]) -> Iterator[CounterValues]:
    """Yield frequencies and workers as a policy or a budget set them."""
    points: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for one in decisions:
        if one.kind == "set" and one.frequency_hz is not None:
            for cpu in one.cpus:
                points[f"cpu {cpu} frequency", "Hz"].append((one.t_ns, float(one.frequency_hz)))
        elif one.kind == "allowed" and one.frequency_hz is not None:
            points["highest allowed frequency", "Hz"].append((one.t_ns, float(one.frequency_hz)))
        elif one.kind == "workers" and one.workers is not None:
            points["active workers", "workers"].append((one.t_ns, float(one.workers)))
    for (name, unit), found in sorted(points.items()):
        t_ns, values = np.array([at for at, _ in found], np.int64), np.array([value for _, value in found])
        yield CounterValues(name, unit, "as a policy set it", t_ns, values)
