"""How late an external meter's watts are, by the steps of the load that both the meter and the samples saw.

The recorder knows when a line of the meter arrived, not how long the meter took to measure and send it. The power of
the load follows what the program's threads use of the processors at once, so the delay is the shift at which the two
courses agree best: the maximum of their correlation, on a grid of the meter's own interval. Parts of the recording,
each shifted alone, show its error. A load without steps tells nothing: then the times of arrival stay, with a warning.
O(n log n) in the grid's points. Samples are read in pieces, so memory does not grow with their number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tprof.trace import Readings, Thread

Floats = NDArray[np.float64]
SOURCE = "meter"
LONGEST_S, SHORTEST_STEP_S = 2.0, 0.001
MOST_POINTS = 1 << 18
CLEAR = 0.5
"""Least correlation of watts and load at the delay that is believed."""
PARTS, LEAST_PART_S = 4, 2.0
FEWEST = 50
"""Readings from which a delay is sought."""


@dataclass(frozen=True)
class MeterDelay:
    """What was found of a meter.

    Attributes
    ----------
    delay_s : by which its readings were moved back; None: the load did not tell.
    error_s : its 95 % error.
    correlation : of watts and load, at the delay.
    """

    delay_s: float | None
    error_s: float | None
    correlation: float


def find_delay(readings: Readings, threads: Iterable[Thread]) -> MeterDelay:
    """Return by how much a meter's readings are later than the load.

    Parameters
    ----------
    readings : of the meter's domain
    threads : of the trace, with `cpu_ns`
    """
    t_ns = readings.t_ns[~readings.missing]
    if len(t_ns) < FEWEST:
        return MeterDelay(None, None, 0.0)
    begin_ns, length_s = int(t_ns[0]), float(t_ns[-1] - t_ns[0]) * 1e-9
    usual_s = float(np.median(np.maximum(np.diff(t_ns), 0))) * 1e-9
    step_s = max(usual_s, SHORTEST_STEP_S, length_s / MOST_POINTS)
    grid_s = np.arange(0.0, length_s, step_s)
    value = readings.value[~readings.missing].astype(np.float64)
    joules = _at(grid_s, [(_since_s(t_ns, begin_ns), value * readings.unit)])
    watts = np.diff(joules) / step_s
    load = np.diff(_cpu_s(threads, grid_s, begin_ns)) / step_s
    delay_s, correlation = _shift(watts, load, step_s)
    if correlation < CLEAR:
        return MeterDelay(None, None, correlation)
    parts = int(min(PARTS, length_s // LEAST_PART_S))
    pieces = zip(np.array_split(watts, max(parts, 1)), np.array_split(load, max(parts, 1)), strict=True)
    found = [shift_s for shift_s, clear in (_shift(*piece, step_s) for piece in pieces) if clear >= CLEAR]
    spread_s = float(np.ptp(found)) if len(found) > 1 else 0.0
    return MeterDelay(delay_s, max(spread_s, step_s), correlation)


def aligned(readings: Readings, delay: MeterDelay) -> Readings:
    """Return the readings at the times for which their values stand."""
    if not delay.delay_s:
        return readings
    return replace(readings, earlier_ns=round(delay.delay_s * 1e9))


def delay_warning(name: str) -> str:
    """Return the warning for a meter whose delay is unknown."""
    return (
        f"how late the readings of {name} are is not known, since the load of the program has no steps that they show: "
        f"tasks shorter than this delay get joules of others; state it (energy=meter:…,delay=SECONDS), or let the "
        f"program rest for a second now and then"
    )


def _cpu_s(threads: Iterable[Thread], grid_s: Floats, begin_ns: int) -> Floats:
    """Return the CPU seconds of all threads until each time of the grid, in seconds from `begin_ns` on."""
    total = np.zeros(len(grid_s))
    for thread in threads:
        if "cpu_ns" in thread.columns and thread.count > 1:
            pieces = thread.read_pieces(0, thread.count)
            total += _at(grid_s, ((_since_s(one["t_ns"], begin_ns), one["cpu_ns"] * 1e-9) for one in pieces))
    return total


def _since_s(t_ns: NDArray[Any], begin_ns: int) -> Floats:
    return np.asarray((t_ns.astype(np.int64) - begin_ns) * 1e-9, np.float64)


def _at(grid_s: Floats, pieces: Iterable[tuple[Floats, Floats]]) -> Floats:
    """Return how far a course has risen at each time of a grid; its times, in seconds, and values come in pieces."""
    found, done = np.zeros(len(grid_s)), 0
    time_s = value = np.empty(0)
    first = last = 0.0
    for more_s, more in pieces:
        if not len(more):
            continue
        first, last = first if len(value) else float(more[0]), float(more[-1])
        time_s, value = np.concatenate((time_s[-1:], more_s)), np.concatenate((value[-1:], more))
        end = max(int(np.searchsorted(grid_s, time_s[-1], side="right")), done)
        found[done:end] = np.interp(grid_s[done:end], time_s, value) - first
        done = end
    found[done:] = last - first
    return found


def _shift(watts: Floats, load: Floats, step_s: float) -> tuple[float, float]:
    """Return by how many seconds the watts are later, from 0 to the longest delay, and the correlation there."""
    watts, load = watts - watts.mean(), load - load.mean()
    size = float(np.sqrt((watts**2).sum() * (load**2).sum()))
    if size <= 0:
        return 0.0, 0.0
    points = 1 << int(2 * len(watts) - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(watts, points) * np.conj(np.fft.rfft(load, points)), points) / size
    likely = product[: max(min(int(LONGEST_S / step_s), len(watts) // 2), 1) + 1]
    best = int(np.argmax(likely))
    around = product[[best - 1, best, best + 1]]
    curve = float(around[0] - 2 * around[1] + around[2])
    between = 0.5 * float(around[0] - around[2]) / curve if curve < 0 else 0.0
    return max(best + between, 0.0) * step_s, float(likely[best])
