"""The readings of a running recording: joules, and CPU time of others, since the last look."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof import _core
from tprof.trace import layout
from tprof.trace.kinds import Quality, ReadingFlag, StreamKind
from tprof.trace.stream import open_stream

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Records = np.ndarray[Any, np.dtype[np.void]]
MAX_POWER_W = 1000.0
LATE_NS, SUSPENDED_NS = 1_000_000, 1_000_000
STILL_NS = 1_000_000_000
"""A count that stands still for longer counts as one that says 0 J."""


class Curve:
    """A quantity that grows: its value at moments not yet left behind."""

    def __init__(self, path: Path) -> None:
        """Open the readings. Raises TraceError."""
        stream = open_stream(path, StreamKind.READINGS)
        body_at = layout.HEADER_BYTES + stream.number("window_bytes")
        self._tail = _core.Tail(os.fspath(path), layout.READING.itemsize, body_at)
        self.said = stream.description
        self.unit = float(stream.header["unit"])
        self.modulus = stream.number("modulus")
        self.t_ns: NDArray[np.int64] = np.empty(0, np.int64)
        self.total: NDArray[np.float64] = np.empty(0)
        self._last: Records = np.empty(0, layout.READING)

    def look(self, most: int) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        read, more = self._tail.read(most)
        records = np.frombuffer(read, layout.READING)
        good = records[(records["flags"] & ReadingFlag.MISSING) == 0] if len(records) else records
        if len(good):
            kept = self._kept(joined(self._last, good))
            self._append(self._moments(kept), self._moved(kept))
            self._last = kept[-1:]
        return more

    # Bisected, not searched by NumPy: see `tprof.live.sums`.

    def at(self, t_ns: int) -> float:
        """Return the value at a moment; before the first reading and after the last, theirs."""
        after = bisect_right(self.t_ns, t_ns)
        if after in (0, len(self.t_ns)):
            return float(self.total[max(after - 1, 0)])
        begin_ns, end_ns = int(self.t_ns[after - 1]), int(self.t_ns[after])
        before, then = float(self.total[after - 1]), float(self.total[after])
        return before + (then - before) * (t_ns - begin_ns) / (end_ns - begin_ns)

    def last_before(self, t_ns: int) -> int:
        """Return when the last reading was taken that is not after a moment, else the first."""
        return int(self.t_ns[max(bisect_right(self.t_ns, t_ns) - 1, 0)])

    def leave(self, t_ns: int) -> None:
        """Forget what lies before a moment."""
        first = max(bisect_right(self.t_ns, t_ns) - 1, 0)
        self.t_ns, self.total = self.t_ns[first:], self.total[first:]

    def _append(self, t_ns: NDArray[np.int64], moved: NDArray[np.float64]) -> None:
        """Go on with moments, the first of which is the last known one unless there was none."""
        if not len(self._last):
            self.t_ns, self.total = t_ns[:1], np.zeros(1)
        self.t_ns = np.maximum.accumulate(np.concatenate((self.t_ns, t_ns[1:])))
        self.total = np.concatenate((self.total, self.total[-1] + np.cumsum(moved)))

    def _kept(self, records: Records) -> Records:
        """Return the readings that say something; the first is the last of the look before."""
        return records

    def _moments(self, records: Records) -> NDArray[np.int64]:
        return records["t_ns"].astype(np.int64)

    def _moved(self, records: Records) -> NDArray[np.float64]:
        return np.maximum(np.diff(records["value"].view(np.int64)), 0) * self.unit


class Domain(Curve):
    """The joules of an energy domain, at the edges where its count changed; see `tprof.analysis.quanta`."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises TraceError."""
        super().__init__(path)
        self.name = str(self.said.get("name", path.stem))
        said = self.said.get("quality")
        self.quality = said if isinstance(said, str) and said in set(Quality) else str(Quality.ESTIMATED)
        package = self.said.get("package")
        self.package = package if isinstance(package, int) else None

    def edge(self, t_ns: int, since_ns: int) -> int:
        """Return the last edge that is not after a moment but after `since_ns`; else the next one, or the last."""
        after = bisect_right(self.t_ns, since_ns)
        until = bisect_right(self.t_ns, t_ns) - 1
        return int(self.t_ns[min(max(until, after), len(self.t_ns) - 1)])

    def edges(self, since_ns: int, until_ns: int) -> NDArray[np.int64]:
        """Return the moments between two at which the joules are known, these two included, each once."""
        inside = slice(bisect_right(self.t_ns, since_ns), bisect_left(self.t_ns, until_ns))
        edges_ns = np.concatenate(([since_ns], self.t_ns[inside], [until_ns]))
        return edges_ns[np.diff(edges_ns, append=until_ns + 1) > 0]

    def take(self, since_ns: int, until_ns: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the edges between two moments and the joules between them; what lies before is forgotten."""
        edges_ns = self.edges(since_ns, until_ns)
        energy_j = np.diff([self.at(t_ns) for t_ns in edges_ns.tolist()])
        self.leave(until_ns)
        return edges_ns, energy_j

    def _kept(self, records: Records) -> Records:
        changed = np.ones(len(records), bool)
        changed[1:] = records["value"][1:] != records["value"][:-1]
        changed |= (records["flags"] & ReadingFlag.REOPENED) != 0
        changed[-1] |= int(records["t_ns"][-1]) - int(records["t_ns"][0]) > STILL_NS
        return records[changed]

    def _moments(self, records: Records) -> NDArray[np.int64]:
        """Return when the counts changed: in the middle of the window in which they did."""
        t_ns = records["t_ns"].astype(np.int64)
        if self.quality in (Quality.ESTIMATED, Quality.GIVEN):
            return t_ns
        window_ns = np.minimum(records["window_ns"].astype(np.int64), np.diff(t_ns, prepend=t_ns[0]))
        return np.asarray(t_ns - window_ns // 2)

    def _moved(self, records: Records) -> NDArray[np.float64]:
        """Return the joules between readings; none where the count cannot be trusted."""
        value, t_ns = records["value"], records["t_ns"].astype(np.int64)
        counts = (value[1:] - value[:-1]).astype(np.float64)
        fell = value[1:] < value[:-1]
        if self.modulus:
            counts = np.where(fell, (value[1:] + (np.uint64(self.modulus) - value[:-1])).astype(np.float64), counts)
        energy_j = counts * self.unit
        bad = (records["flags"][1:] & ReadingFlag.REOPENED) != 0
        bad |= np.abs(np.diff(records["suspended_ns"].view(np.int64))) > SUSPENDED_NS
        if not self.modulus:
            bad |= fell
        if self.quality == Quality.MEASURED:
            bad |= energy_j > MAX_POWER_W * (np.diff(t_ns) + LATE_NS) * 1e-9
        return np.where(bad, 0.0, energy_j)


def joined(before: Records, after: Records) -> Records:
    """Put records of one dtype together; NumPy's own way asks at length whether they are."""
    records = np.empty(len(before) + len(after), before.dtype)
    records[: len(before)] = before
    records[len(before) :] = after
    return records
