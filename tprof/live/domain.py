"""The readings of a running recording: joules, and CPU time of others, since the last read."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof import _core
from tprof.trace import layout
from tprof.trace.increments import Counter
from tprof.trace.kinds import Quality, ReadingFlag, StreamKind
from tprof.trace.readings import unit_of
from tprof.trace.stream import open_stream

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Records = np.ndarray[Any, np.dtype[np.void]]
STILL_NS = 1_000_000_000
"""A count that stands still for longer counts as 0 J."""


class Curve:
    """A growing quantity: its values since the last `leave`."""

    def __init__(self, path: Path) -> None:
        """Open the readings. Raises TraceError."""
        stream = open_stream(path, StreamKind.READINGS)
        body_at = layout.HEADER_BYTES + stream.number("window_bytes")
        self._tail = _core.Tail(os.fspath(path), layout.READING.itemsize, body_at)
        self.description = stream.description
        self.unit = unit_of(stream)
        self.modulus = stream.number("modulus")
        self.t_ns: NDArray[np.int64] = np.empty(0, np.int64)
        self.total: NDArray[np.float64] = np.empty(0)
        self._value: NDArray[np.int64] = np.empty(0, np.int64)

    def read(self, most: int) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        read, more = self._tail.read(most)
        if read:
            self._follow(np.frombuffer(read, layout.READING))
        return more

    def _follow(self, records: Records) -> None:
        good = records[(records["flags"] & ReadingFlag.MISSING) == 0]
        if len(good):
            value = good["value"].view(np.int64)
            moved = np.diff(value, prepend=self._value if len(self._value) else value[:1])
            self._value = value[-1:].copy()
            self._append(good["t_ns"].astype(np.int64), np.maximum(moved, 0) * self.unit)

    def _append(self, t_ns: NDArray[np.int64], moved: NDArray[np.float64]) -> None:
        """Append times, and the growth of the quantity up to each."""
        total = np.cumsum(moved) + (self.total[-1] if len(self.total) else 0.0)
        self.t_ns = np.maximum.accumulate(np.concatenate((self.t_ns, t_ns)))
        self.total = np.concatenate((self.total, total))

    # Bisected, not searched by NumPy: see `tprof.live.sums`.

    def at(self, t_ns: int) -> float:
        """Return the value at a time; before the first reading and after the last, the value of that reading.

        0 if nothing has been read yet: a busy machine may let the sensor's thread wait.
        """
        if not len(self.t_ns):
            return 0.0
        after = bisect_right(self.t_ns, t_ns)
        if after in (0, len(self.t_ns)):
            return float(self.total[max(after - 1, 0)])
        begin_ns, end_ns = int(self.t_ns[after - 1]), int(self.t_ns[after])
        before, then = float(self.total[after - 1]), float(self.total[after])
        return before + (then - before) * (t_ns - begin_ns) / (end_ns - begin_ns)

    def last_before(self, t_ns: int) -> int:
        """Return the time of the last reading not after `t_ns`, else of the first."""
        return int(self.t_ns[max(bisect_right(self.t_ns, t_ns) - 1, 0)])

    def leave(self, t_ns: int) -> None:
        """Drop all values before a time."""
        first = max(bisect_right(self.t_ns, t_ns) - 1, 0)
        self.t_ns, self.total = self.t_ns[first:], self.total[first:]


class Domain(Curve):
    """The joules of an energy domain at the edges where its count changed, as in `tprof.analysis.quanta`."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises TraceError."""
        super().__init__(path)
        self.name = str(self.description.get("name", path.stem))
        quality = self.description.get("quality")
        self.quality = quality if isinstance(quality, str) and quality in set(Quality) else str(Quality.ESTIMATED)
        package = self.description.get("package")
        self.package = package if isinstance(package, int) else None
        scope = str(self.description.get("scope"))
        self._counter = Counter(unit_j=self.unit, modulus=self.modulus, quality=self.quality, scope=scope)

    def edge(self, t_ns: int, since_ns: int) -> int:
        """Return the last edge after `since_ns` and not after `t_ns`; else the next one, or the last."""
        after = bisect_right(self.t_ns, since_ns)
        until = bisect_right(self.t_ns, t_ns) - 1
        return int(self.t_ns[min(max(until, after), len(self.t_ns) - 1)])

    def edges(self, since_ns: int, until_ns: int) -> NDArray[np.int64]:
        """Return the distinct edges between two times, with these two."""
        inside = slice(bisect_right(self.t_ns, since_ns), bisect_left(self.t_ns, until_ns))
        edges_ns = np.concatenate(([since_ns], self.t_ns[inside], [until_ns]))
        return edges_ns[np.diff(edges_ns, append=until_ns + 1) > 0]

    def take(self, since_ns: int, until_ns: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the edges between two times and the joules between them; drops all earlier values."""
        edges_ns = self.edges(since_ns, until_ns)
        energy_j = np.diff([self.at(t_ns) for t_ns in edges_ns.tolist()])
        self.leave(until_ns)
        return edges_ns, energy_j

    def _follow(self, records: Records) -> None:
        found = self._counter.follow(records, longest_still_ns=STILL_NS)
        if len(found.t_ns):
            # The best estimate of the time of a change is the middle of its window.
            self._append(found.t_ns - found.window_ns // 2, found.energy_j)
