"""Counts of samples whose counters could not be read, from those around them whose counters could.

Where the kernel counts events in turns, the samples of a turn without an event have no counts of it. What was counted
between the samples around them is known, and is split by time. These may lie before or after the samples that are read
together: the last known sample is kept, and the next one is looked for where the last of them has no counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tprof.trace.kinds import Flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.trace import Thread
    from tprof.trace.thread import Samples

    Lost = NDArray[np.bool_]
    Times = NDArray[np.int64]
    Values = NDArray[np.uint64]


def are_lost(flags: NDArray[np.integer]) -> Lost:
    """Return of which samples the counters could not be read."""
    return np.asarray((flags & Flag.UNCOUNTED) != 0)


class Known(NamedTuple):
    """A sample whose counts are known: its time, and its columns by name."""

    t_ns: int
    counts: Mapping[str, int]


Around = tuple[Known | None, Known | None]
NOT_KNOWN: Around = (None, None)


def fill(values: Values, lost: Lost, t_ns: Times, name: str, around: Around = NOT_KNOWN) -> None:
    """Set what one column of lost samples had counted, in place; `around` are known samples before and after these.

    Before the first known sample, and after the last one, nothing is known to have been counted.
    """
    at = np.flatnonzero(lost)
    good = np.flatnonzero(~lost)
    before, after = around
    known_ns, known = t_ns[good], values[good]
    place = np.searchsorted(good, at)
    if before is not None:
        known_ns, known = np.append(before.t_ns, known_ns), np.append(np.uint64(before.counts[name]), known)
        place += 1
    if after is not None:
        known_ns, known = np.append(known_ns, after.t_ns), np.append(known, np.uint64(after.counts[name]))
    if not len(known):
        return
    first, last = np.maximum(place - 1, 0), np.minimum(place, len(known) - 1)
    length_ns = known_ns[last] - known_ns[first]
    part = np.divide(t_ns[at] - known_ns[first], length_ns, out=np.zeros(len(at)), where=length_ns > 0)
    rise = np.where(known[last] > known[first], known[last] - known[first], np.uint64(0))
    values[at] = known[first] + (rise * np.clip(part, 0.0, 1.0)).astype(np.uint64)


PIECE = 1 << 12
"""Samples that are looked through at a time."""


@dataclass
class KnownCounts:
    """Fills in the counts of a thread's lost samples as they are read; only the next known ones are read ahead.

    Attributes
    ----------
    thread : the thread
    names : of its counters
    """

    thread: Thread
    names: Sequence[str]
    _before: Known | None = field(default=None, init=False)
    _after: Known | None = field(default=None, init=False)
    _looked: range = field(default=range(0), init=False)

    @classmethod
    def of(cls, thread: Thread, names: Sequence[str]) -> KnownCounts | None:
        """Begin before a thread's first sample; None: it has none of these counters."""
        own = [name for name in names if name in thread.columns]
        return cls(thread, own) if own else None

    def filled(self, samples: Samples, number: int, end_ns: int) -> Samples:
        """Return samples with all counts.

        Parameters
        ----------
        samples : some of the thread's, in order
        number : of the first of them in the thread; all before it were `passed`
        end_ns : no time is later
        """
        lost = are_lost(samples["flags"])
        if not lost.any():
            return samples
        if lost[0] and number > 0 and self._before is None:
            _, self._before = self._first(range(number - PIECE, -PIECE, -PIECE), -1, end_ns)
        around = (
            self._before if lost[0] else None,
            self._find_after(number + len(samples), end_ns) if lost[-1] else None,
        )
        samples = samples.copy()
        t_ns = np.maximum.accumulate(np.minimum(samples["t_ns"], np.uint64(end_ns)).astype(np.int64))
        for name in self.names:
            values = samples[name].astype(np.uint64)
            fill(values, lost, t_ns, name, around)
            samples[name] = values
        return samples

    def passed(self, samples: Samples, end_ns: int) -> None:
        """Go on behind some samples, as they were recorded."""
        good = np.flatnonzero(~are_lost(samples["flags"]))
        if len(good):
            self._before = self._known(samples[good[-1]], end_ns)

    def _known(self, sample: Samples, end_ns: int) -> Known:
        return Known(min(int(sample["t_ns"]), end_ns), {name: int(sample[name]) for name in self.names})

    def _find_after(self, number: int, end_ns: int) -> Known | None:
        """Return the first known sample from one on; what was looked through is not read again. Raises TraceError."""
        if number not in self._looked:
            at, self._after = self._first(range(number, self.thread.count, PIECE), 0, end_ns)
            self._looked = range(number, at + 1)
        return self._after

    def _first(self, begins: range, place: int, end_ns: int) -> tuple[int, Known | None]:
        """Return the number and the counts of the known sample at a place of the first piece that has one."""
        for begin in begins:
            samples = self.thread.read_part(max(begin, 0), begin + PIECE)
            good = np.flatnonzero(~are_lost(samples["flags"]))
            if len(good):
                return begin + int(good[place]), self._known(samples[good[place]], end_ns)
        return self.thread.count, None
