"""Counts of samples whose counters could not be read, from those around them whose counters could.

Where the kernel counts events in turns, the samples of a turn without an event have no counts of it. What was counted
between the samples around them is known, and is split by time. These may lie in other parts of a recording than the
samples that are read together, so a first pass notes where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tprof.trace.kinds import Flag
from tprof.trace.thread import read_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.trace import Thread
    from tprof.trace.thread import Samples

    Lost = NDArray[np.bool_]
    Times = NDArray[np.int64]
    Values = NDArray[np.uint64]


def are_lost(flags: NDArray[np.integer]) -> Lost:
    """Return of which samples the counters could not be read."""
    return np.asarray((flags & Flag.UNCOUNTED) != 0)


def has_counts(thread: Thread) -> bool:
    """Return whether a thread's samples have counts that may be lost."""
    return any(name not in ("energy_uj", "cpu_ns") for name in thread.columns)


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


class Lasts:
    """Collects the last known sample up to each `step`-th one, -1 for none, from samples that are given in order."""

    def __init__(self, step: int, begin: int = 0) -> None:
        """Begin with a sample of this number, which is a multiple of the step."""
        self._step, self._done, self._last = step, begin, -1
        self._found = [np.empty(0, np.int64)]

    def add(self, samples: Samples) -> None:
        """Go on to the last of some samples."""
        number = np.arange(self._done, self._done + len(samples))
        number[are_lost(samples["flags"])] = -1
        number = np.maximum.accumulate(np.concatenate(([self._last], number)))[1:]
        self._found.append(number[-self._done % self._step :: self._step])
        self._done, self._last = self._done + len(samples), int(number[-1]) if len(number) else self._last

    def found(self) -> Times:
        """Return them."""
        return np.concatenate(self._found)


def lasts_of(thread: Thread, step: int) -> Times:
    """Return the last known sample up to each `step`-th sample of a thread. Raises TraceError."""
    found = Lasts(step)
    for samples in thread.read_pieces(0, thread.count):
        found.add(samples)
    return found.found()


@dataclass(frozen=True)
class KnownCounts:
    """Where a thread's samples have known counts.

    Attributes
    ----------
    thread : the thread
    lasts : (m,) the last such sample up to each `step`-th one; -1: none
    """

    thread: Thread
    lasts: Times
    step: int

    def around(self, numbers: Sequence[int], lost: Sequence[bool], names: Collection[str], end_ns: int) -> Around:
        """Return known samples before the first of two and after the last, as far as these are lost."""
        before = self.before(numbers[0], names, end_ns) if lost[0] else None
        return before, self.after(numbers[1], names, end_ns) if lost[1] else None

    def before(self, number: int, names: Collection[str], end_ns: int) -> Known | None:
        """Return the last sample before one, with these columns, and no time after an end. Raises TraceError."""
        if number <= 0:
            return None
        place = (number - 1) // self.step
        found = self._in(range(place * self.step, number))
        last = int(found[-1]) if len(found) else int(self.lasts[place])
        return self._read(last, names, end_ns) if last >= 0 else None

    def after(self, number: int, names: Collection[str], end_ns: int) -> Known | None:
        """Return the first sample after one, as `before`."""
        place = int(np.searchsorted(self.lasts, number, side="right"))
        begin = max(number, (place - 1) * self.step) + 1
        found = self._in(range(begin, min(place * self.step + 1, self.thread.count)))
        return self._read(int(found[0]), names, end_ns) if len(found) else None

    def _in(self, numbers: range) -> NDArray[np.intp]:
        """Return which of some samples have known counts."""
        if not numbers:
            return np.empty(0, np.intp)
        fields, (count,) = read_fields([self.thread], ["flags"], [numbers])
        return np.flatnonzero(~are_lost(fields["flags"][:count])) + numbers.start

    def _read(self, number: int, names: Collection[str], end_ns: int) -> Known:
        fields, _ = read_fields([self.thread], ["t_ns", *names], [range(number, number + 1)])
        t_ns = min(int(fields["t_ns"][0]), end_ns)
        return Known(t_ns, {name: int(fields[name][0]) for name in names})
