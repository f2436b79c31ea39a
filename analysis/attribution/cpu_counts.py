"""A count of CPU time, of the machine or of the program, from its readings.

It is read by one thread with one clock, so times never fall. Where some do, the file is damaged: readings are left out
that are later than a later one, or those that are earlier than an earlier one, whichever are fewer. To follow the
latest time so far would trust a single time that is far too late more than all after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import Readings

Floats = NDArray[np.float64]
_LATEST_NS = MAX_NS // 2
"""A clock 146 years after the boot is damage."""


class CpuCount:
    """A count of CPU time that grows: all its values, or the last ones.

    Attributes
    ----------
    package : whose processors it counts; None: of the machine, or of a program
    unordered : readings that are not in order
    whole_s : CPU seconds of all values
    """

    def __init__(self, unit: float, package: int | None) -> None:
        """Begin without values; `unit` is seconds of one count."""
        self.package, self.unordered = package, 0
        self.whole_s = 0.0
        self._unit = unit
        self._value = np.empty(0, np.uint64)
        self._t_ns, self._total_s = np.empty(0, np.int64), np.empty(0)

    @classmethod
    def of(cls, readings: Readings) -> CpuCount:
        """Take the readings of a file that are in order."""
        found, t_ns = cls(readings.unit, readings.package), readings.t_ns
        kept = _in_order(t_ns)
        found.unordered = len(kept) - int(kept.sum())
        kept &= ~readings.missing
        found.add(t_ns[kept], readings.value[kept])
        return found

    def __len__(self) -> int:
        return len(self._t_ns)

    def add(self, t_ns: NDArray[np.int64], value: NDArray[np.uint64]) -> None:
        """Add counts."""
        if not len(value):
            return
        # A count that falls was reset (a processor went offline), which is no time.
        both = np.concatenate((self._value if len(self._value) else value[:1], value))
        total_s = self.whole_s + np.cumsum(np.maximum(np.diff(both).view(np.int64), 0) * self._unit)
        self._value, self.whole_s = value[-1:].copy(), float(total_s[-1])
        self._t_ns = np.maximum.accumulate(np.concatenate((self._t_ns, t_ns)))
        self._total_s = np.concatenate((self._total_s, total_s))

    def at(self, t_ns: NDArray[np.int64]) -> Floats:
        """Return the CPU seconds up to times; before the first value and after the last, those of that value."""
        return np.interp(t_ns, self._t_ns, self._total_s) if len(self) else np.zeros(len(t_ns))

    @property
    def ends_ns(self) -> tuple[int, int]:
        """Times of the first and the last value."""
        return int(self._t_ns[0]), int(self._t_ns[-1])

    def between(self, since_ns: int, until_ns: int) -> NDArray[np.int64]:
        """Return the times of the values after one time and not after another."""
        return self._t_ns[slice(*np.searchsorted(self._t_ns, (since_ns, until_ns), side="right"))]

    def leave(self, t_ns: int) -> None:
        """Drop all values before a time, but for the last of them."""
        first = max(int(np.searchsorted(self._t_ns, t_ns, side="right")) - 1, 0)
        self._t_ns, self._total_s = self._t_ns[first:], self._total_s[first:]


def sum_at(counts: Sequence[CpuCount], t_ns: NDArray[np.int64]) -> Floats:
    """Return the CPU seconds of all counts up to times."""
    return sum((count.at(t_ns) for count in counts), np.zeros(len(t_ns)))


def _in_order(t_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which times to keep, so that none falls: without those after a later one, or before an earlier one."""
    kept = t_ns <= _LATEST_NS
    possible = t_ns[kept]
    late = possible > np.minimum.accumulate(possible[::-1])[::-1]
    early = possible < np.maximum.accumulate(possible)
    kept[kept] = ~(late if late.sum() <= early.sum() else early)
    return kept
