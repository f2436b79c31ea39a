"""CPU time that no sample shows: other processes, and threads of ours that tprof does not see.

The machine's busy time comes in ticks of 10 ms, so over a short interval it may seem that less ran
than the program alone. Such a deficit is carried forward, never cut off: what is given out is the
running maximum of busy minus program, whose total is right.
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


@dataclass(frozen=True)
class Unseen:
    """Cumulative CPU seconds at times `t_ns` of other processes (by package) and of our unseen threads."""

    t_ns: NDArray[np.int64]
    other_s: dict[int | None, Floats]
    unseen_s: Floats
    program_s: float

    def other_in(self, edges_ns: NDArray[np.int64], package: int | None) -> Floats:
        """Return CPU seconds of other processes in each quantum: (k,) float64."""
        known = self.other_s.get(package)
        total = known if known is not None else sum(self.other_s.values(), np.zeros(len(self.t_ns)))
        return self._in(total, edges_ns)

    def unseen_in(self, edges_ns: NDArray[np.int64], package: int | None) -> Floats:
        """Return CPU seconds of unseen threads in each quantum, split evenly over packages: (k,) float64."""
        share = 1.0 if package not in self.other_s else 1.0 / len(self.other_s)
        return self._in(self.unseen_s, edges_ns) * share

    @property
    def unseen_share(self) -> float:
        """Share of the program's CPU time that unseen threads took; 0 where it is not known."""
        return float(self.unseen_s[-1] / self.program_s) if len(self.unseen_s) and self.program_s > 0 else 0.0

    def _in(self, cumulative: Floats, edges_ns: NDArray[np.int64]) -> Floats:
        if not len(self.t_ns):
            return np.zeros(max(len(edges_ns) - 1, 0))
        return np.diff(np.interp(edges_ns, self.t_ns, cumulative))


def measure_unseen(trace: Trace, segments: Sequence[Segments]) -> Unseen:
    """Return who else ran; nothing where the trace has no busy or program readings."""
    busy = [reading for reading in trace.readings.values() if reading.quantity == "busy" and len(reading.t_ns) > 1]
    program = [
        reading for reading in trace.readings.values() if reading.quantity == "program" and len(reading.t_ns) > 1
    ]
    if not program:
        return Unseen(np.empty(0, np.int64), {}, np.empty(0), 0.0)
    grid_ns = _grid([*busy, *program])
    program_s = sum((_cumulative(reading, grid_ns) for reading in program), np.zeros(len(grid_ns)))
    seen_s = sum((_seen(lane, grid_ns) for lane in segments), np.zeros(len(grid_ns)))
    unseen_s = _carried(program_s - seen_s)
    busy_s = {reading.package: _cumulative(reading, grid_ns) for reading in busy}
    whole_s = sum(busy_s.values(), np.zeros(len(grid_ns)))
    other_s = _carried(whole_s - program_s) if busy else np.zeros(len(grid_ns))
    shares = {
        package: (float(values[-1] / whole_s[-1]) if whole_s[-1] > 0 else 1.0 / len(busy_s))
        for package, values in busy_s.items()
    }
    return Unseen(
        grid_ns, {package: other_s * share for package, share in shares.items()}, unseen_s, float(program_s[-1])
    )


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
    # A count of CPU time that falls was reset (a processor went away): what it lost is not time.
    moved = np.maximum(np.diff(value).view(np.int64), 0)
    total_s = np.concatenate(([0.0], np.cumsum(moved * reading.unit)))
    at_s: Floats = np.interp(grid_ns, np.maximum.accumulate(t_ns), total_s)
    moved_s: Floats = at_s - at_s[0]
    return moved_s


def _seen(lane: Segments, grid_ns: NDArray[np.int64]) -> Floats:
    total_s = np.concatenate(([0.0], np.cumsum(lane.cpu_s)))
    at_s: Floats = np.interp(grid_ns, lane.t_ns, total_s)
    moved_s: Floats = at_s - at_s[0]
    return moved_s


def _carried(cumulative_s: Floats) -> Floats:
    carried: Floats = np.maximum.accumulate(np.maximum(cumulative_s, 0.0))
    return carried
