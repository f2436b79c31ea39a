"""CPU time without samples: of other processes, and of the program's threads that run no task.

The machine's busy time is counted in ticks of 10 ms, and a thread that is between tasks for long has a
sample of its CPU time only at the end. So over a short interval the difference of two such counts may be too
large, or negative. The result is the largest non-decreasing curve below the difference: no later count
contradicts it, and its total is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import Readings, Trace

    from .segments import Segments

Floats = NDArray[np.float64]
_INTERVAL_NS = 100_000_000
# Part of the recording's length on one core: about what the sensor thread takes.
_NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class Unseen:
    """Cumulative CPU seconds at times `t_ns` of other processes (by package) and of the program without samples.

    `before_s` of the latter passed in threads that run tasks, before the first of them.
    """

    t_ns: NDArray[np.int64]
    other_s: dict[int | None, Floats]
    unseen_s: Floats
    before_s: float
    program_s: float

    def other_in(self, edges_ns: NDArray[np.int64], package: int | None) -> Floats:
        """Return CPU seconds of other processes in each quantum: (k,) float64."""
        known = self.other_s.get(package)
        total = known if known is not None else sum(self.other_s.values(), np.zeros(len(self.t_ns)))
        return self._in(total, edges_ns)

    def unseen_in(self, edges_ns: NDArray[np.int64], package: int | None) -> Floats:
        """Return CPU seconds of threads without samples in each quantum, split evenly over packages: (k,) float64."""
        share = 1.0 if package not in self.other_s else 1.0 / len(self.other_s)
        return self._in(self.unseen_s, edges_ns) * share

    @property
    def unseen_share(self) -> float:
        """Share of the program's CPU time in threads that run no task; 0 if unknown or negligible."""
        return self._share(float(self.unseen_s[-1]) - self.before_s) if len(self.unseen_s) else 0.0

    @property
    def before_share(self) -> float:
        """Share of the program's CPU time before the first task of a thread; 0 if unknown or negligible."""
        return self._share(self.before_s)

    def _share(self, cpu_s: float) -> float:
        if not len(self.t_ns) or cpu_s < _NEGLIGIBLE * (self.t_ns[-1] - self.t_ns[0]) * 1e-9:
            return 0.0
        return cpu_s / self.program_s

    def _in(self, cumulative: Floats, edges_ns: NDArray[np.int64]) -> Floats:
        if not len(self.t_ns):
            return np.zeros(max(len(edges_ns) - 1, 0))
        return np.diff(np.interp(edges_ns, self.t_ns, cumulative))


def measure_unseen(trace: Trace, segments: Sequence[Segments]) -> Unseen:
    """Return the CPU time without samples; empty if the trace has no busy or program readings."""
    busy = [reading for reading in trace.readings.values() if reading.quantity == "busy" and len(reading.t_ns) > 1]
    program = [
        reading for reading in trace.readings.values() if reading.quantity == "program" and len(reading.t_ns) > 1
    ]
    if not program:
        return Unseen(np.empty(0, np.int64), {}, np.empty(0), 0.0, 0.0)
    grid_ns = _grid([*busy, *program])
    program_s = sum((_cumulative(reading, grid_ns) for reading in program), np.zeros(len(grid_ns)))
    seen_s = sum((_seen(one, grid_ns) for one in segments), np.zeros(len(grid_ns)))
    # CPU time of the program before the first sample does not count: it was the start of the recording.
    start_ns = min((int(one.t_ns[0]) for one in segments), default=int(grid_ns[0]))
    started_s = np.minimum(program_s, np.interp(start_ns, grid_ns, program_s))
    unseen_s = _never_falling(program_s - seen_s - started_s)
    busy_s = {reading.package: _cumulative(reading, grid_ns) for reading in busy}
    whole_s = sum(busy_s.values(), np.zeros(len(grid_ns)))
    other_s = _never_falling(whole_s - program_s) if busy else np.zeros(len(grid_ns))
    shares = {
        package: (float(values[-1] / whole_s[-1]) if whole_s[-1] > 0 else 1.0 / len(busy_s))
        for package, values in busy_s.items()
    }
    before_s = sum(min(one.earlier_s, max(int(one.t_ns[0]) - start_ns, 0) * 1e-9) for one in segments)
    return Unseen(
        grid_ns,
        {package: other_s * share for package, share in shares.items()},
        unseen_s,
        min(before_s, float(unseen_s[-1])),
        float(program_s[-1]),
    )


def machine_busy_s(trace: Trace, edges_ns: NDArray[np.int64]) -> Floats:
    """Return the CPU seconds of all processes in each quantum, (k,); 0 without readings of them."""
    busy = [reading for reading in trace.readings.values() if reading.quantity == "busy" and len(reading.t_ns) > 1]
    total_s = sum((_cumulative(reading, edges_ns) for reading in busy), np.zeros(len(edges_ns)))
    return np.diff(total_s)


def _grid(readings: Sequence[Readings]) -> NDArray[np.int64]:
    begin = max(int(reading.t_ns[0]) for reading in readings)
    end = min(int(reading.t_ns[-1]) for reading in readings)
    steps = max((end - begin) // _INTERVAL_NS, 1)
    return np.linspace(begin, max(end, begin + 1), int(min(steps, 10_000_000)) + 1).astype(np.int64)


def _cumulative(reading: Readings, grid_ns: NDArray[np.int64]) -> Floats:
    good = ~reading.missing
    t_ns, value = reading.t_ns[good], reading.value[good]
    if not len(t_ns):
        return np.zeros(len(grid_ns))
    # A falling count of CPU time was reset (a processor went offline): the fall is not time.
    moved = np.maximum(np.diff(value).view(np.int64), 0)
    total_s = np.concatenate(([0.0], np.cumsum(moved * reading.unit)))
    at_s: Floats = np.interp(grid_ns, np.maximum.accumulate(t_ns), total_s)
    moved_s: Floats = at_s - at_s[0]
    return moved_s


def _seen(segments: Segments, grid_ns: NDArray[np.int64]) -> Floats:
    total_s = np.concatenate(([0.0], np.cumsum(segments.cpu_s)))
    at_s: Floats = np.interp(grid_ns, segments.t_ns, total_s)
    moved_s: Floats = at_s - at_s[0]
    return moved_s


def _never_falling(cumulative_s: Floats) -> Floats:
    below: Floats = np.minimum.accumulate(cumulative_s[::-1])[::-1]
    return np.maximum(below, 0.0)
