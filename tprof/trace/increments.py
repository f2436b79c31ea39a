"""The increments of a sensor's count between two readings, or the fault that makes them invalid.

A profile and the live figures of a recording both take their joules from here: a profile from all readings at once, the
live figures from the new readings at each step. The division into steps does not change the result.

A rise of the count is valid up to the power that a domain can draw, and a fall if it is a wrap within the same limit.
Any other fall (a false zero, a reset, garbage) gives no joules, and neither does the next rise, which may start from a
wrong value. A jump back over the count before the fall, to where the count would be without the fall, gives none
either; after `TRUSTED_AFTER` valid rises that count is dropped. A count that stood still for far longer than usual and
then catches up at once gives no joules for that time: it is unknown when, or whether, they were drawn. O(readings), by
NumPy except around faults.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .bounds import is_calculated, max_power_of
from .kinds import Quality, ReadingFlag

if TYPE_CHECKING:
    import numpy.typing as npt

    Records = np.ndarray[Any, np.dtype[np.void]]

    Ints = npt.NDArray[np.int64]
    Counts = npt.NDArray[np.uint64]
    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Faults = npt.NDArray[np.uint8]

LATE_NS = 1_000_000
"""Least slack of one update, since a delayed reader may see two updates close together."""
SUSPENDED_NS = 1_000_000
STILL_NS, USUAL_UPDATES = 100_000_000, 20
"""Shortest standstill of a count that is a fault, in time and in usual updates."""
TRUSTED_AFTER = 20
_HISTORY, _LEAST_HISTORY = 31, 4
"""Updates for the median that defines the usual one, and the least number of them."""


class Fault(IntEnum):
    """The fault of an interval between two readings, which then gives no joules."""

    NONE = 0
    REOPENED = 1
    SLEPT = 2
    FELL = 3
    AFTER_FALL = 4
    STOOD_STILL = 5
    SPIKE = 6


@dataclass(frozen=True, slots=True)
class Increments:
    """The readings at the ends of quanta, (n,) each; the very first of a domain ends none, with an increment of 0.

    Attributes
    ----------
    t_ns : their times, increasing
    changed : False for a reading of an unchanged value
    window_ns : longest time before `t_ns` since which the value may exist; 0 if unknown
    length_ns : since the one before
    stood_ns : how long the count was seen to stand still in that time, at the value of its start; 0 where nobody looked
    energy_j : joules since the one before; 0 after a fault
    fault : of type `Fault`
    uncertain_j : joules of an invalid rise
    """

    t_ns: Ints
    changed: Flags
    window_ns: Ints
    length_ns: Ints
    stood_ns: Ints
    energy_j: Floats
    fault: Faults
    uncertain_j: Floats


@dataclass(frozen=True, slots=True)
class _Moves:
    """Intervals that each end with a selected reading, (n,); `fault` is filled in sequentially.

    Attributes
    ----------
    value, t_ns : (n + 1,) the count and the time at their edges
    slack_ns : longest delay of the last update after the end, or of the start's time after its value
    moved_j : joules of the count's increment, with a fall taken as a wrap
    stood_ns : observed standstill of the count at the start
    """

    value: Counts
    t_ns: Ints
    slack_ns: Ints
    moved_j: Floats
    stood_ns: Ints
    fault: Faults


@dataclass(slots=True)
class _BeforeFault:
    """The last valid count before a fault, to be dropped after `left` more valid rises."""

    value: int
    t_ns: int
    next_rise: bool
    left: int = TRUSTED_AFTER


_NO_RECORDS = np.empty(0, layout.READING)
_NO_INCREMENTS = Increments(*(np.empty(0, kind) for kind in ("i8", "?", "i8", "i8", "i8", "f8", "u1", "f8")))


class Counter:
    """The count of one domain, followed from reading to reading.

    Attributes
    ----------
    limit_w : more is a fault
    unordered : readings so far that were left out, since they are not later than the one before
    """

    def __init__(
        self, *, unit_j: float, modulus: int | None, quality: str, scope: str, max_power_w: float | None = None
    ) -> None:
        """Begin before the first reading.

        Parameters
        ----------
        unit_j : joules of one count
        modulus : the count wraps to 0 at this value; None: not known
        quality, scope : of the domain
        max_power_w : more is a fault; by default `max_power_of` the domain
        """
        self.limit_w = max_power_w or max_power_of(quality, scope)
        self.unordered = 0
        self._is_limited = np.isfinite(self.limit_w)
        self._unit_j, self._modulus = unit_j, modulus or 0
        self._can_stand_still = is_calculated(quality)
        self._updates_are_timed = quality != Quality.ESTIMATED
        self._seen = self._kept = _NO_RECORDS
        self._since_ns = 0
        self._reopened = False
        self._before_fault: _BeforeFault | None = None
        self._learnt = 0
        self._usual: deque[tuple[int, float]] = deque(maxlen=_HISTORY)

    def follow(self, records: Records, *, longest_still_ns: float = 0) -> Increments:
        """Continue with readings after those of earlier calls.

        Parameters
        ----------
        records : of `layout.READING`; failed ones are left out (a count is cumulative, nothing is lost), and those
            that are not later than one before
        longest_still_ns : the last reading ends a quantum that is longer, though its value still stands; infinite: no
            such quantum ends before `finish`
        """
        usable = self._usable(records)
        if not len(usable):
            return _NO_INCREMENTS
        first = not len(self._seen)
        if first:
            self._seen = self._kept = usable[:1].copy()
        both = _joined(self._seen, usable)
        self._seen = usable[-1:].copy()
        value, t_ns = both["value"], both["t_ns"].astype(np.int64)
        changed = value[1:] != value[:-1]
        if usable["flags"].any():
            changed |= (usable["flags"] & ReadingFlag.REOPENED) != 0
        changed[0] |= first
        at = np.flatnonzero(changed)
        ended_ns = t_ns[at[-1] + 1] if len(at) else self._kept["t_ns"].astype(np.int64)[0]
        if t_ns[-1] - ended_ns > longest_still_ns:
            at = np.append(at, len(usable) - 1)
        if not len(at):
            return _NO_INCREMENTS
        # A value may be as old as the window of its reading: no longer than until then was it seen to stand.
        seen_ns = t_ns - both["window_ns"].astype(np.int64)
        seen_ns = np.where(changed[at], seen_ns[at], seen_ns[at + 1])
        return self._moved(usable if len(at) == len(usable) else usable[at], changed[at], seen_ns)

    def finish(self) -> Increments:
        """Return the quantum that ends with the last reading, if its value still stands and `follow` left it out."""
        if not len(self._seen) or self._seen["t_ns"][0] == self._kept["t_ns"][0]:
            return _NO_INCREMENTS
        seen_ns = self._seen["t_ns"].astype(np.int64) - self._seen["window_ns"].astype(np.int64)
        return self._moved(self._seen, np.zeros(1, bool), seen_ns)

    def _usable(self, records: Records) -> Records:
        """Return the valid readings, each marked if the sensor was reopened since the one before."""
        if not len(records):
            return records
        t_ns, flags = records["t_ns"].astype(np.int64), records["flags"]
        latest_ns = self._seen["t_ns"].astype(np.int64) if len(self._seen) else np.full(1, -1)
        if not self._reopened and not flags.any() and t_ns[0] > latest_ns[0] and (t_ns[1:] > t_ns[:-1]).all():
            return records
        missing = (flags & ReadingFlag.MISSING) != 0
        t_ns[missing] = -1
        later = t_ns > np.maximum.accumulate(np.append(latest_ns, t_ns))[:-1]
        self.unordered += int((~later & ~missing).sum())
        at = np.flatnonzero(later)
        reopened = np.cumsum((flags & ReadingFlag.REOPENED) != 0) + self._reopened
        self._reopened = bool(reopened[-1] > (reopened[at[-1]] if len(at) else 0))
        usable = records[at]
        usable["flags"] = np.where(np.diff(reopened[at], prepend=0) > 0, ReadingFlag.REOPENED, 0)
        return usable

    def _moved(self, kept: Records, changed: Flags, seen_ns: Ints) -> Increments:
        """Return the increments up to each of these readings; the first of all is its own predecessor."""
        both = _joined(self._kept, kept)
        self._kept = kept[-1:].copy()
        value, t_ns = both["value"].copy(), both["t_ns"].astype(np.int64)
        length_ns, window_ns = t_ns[1:] - t_ns[:-1], kept["window_ns"].astype(np.int64)
        # Unsigned differences first: a float would lose bits of a large counter.
        counts, fell = value[1:] - value[:-1], value[1:] < value[:-1]
        fault, cannot_wrap = np.zeros(len(kept), np.uint8), fell
        if fell.any():
            cannot_wrap = fell & (value[:-1] > np.uint64(self._modulus))
            counts = np.where(fell, counts + np.uint64(self._modulus), counts)
        moved_j = np.where(cannot_wrap, 0.0, counts * self._unit_j)
        slack_ns = np.where(window_ns > 0, np.maximum(both["window_ns"][:-1].astype(np.int64), LATE_NS), 0)
        if self._is_limited:
            fault[moved_j > self.limit_w * 1e-9 * (length_ns + slack_ns)] = Fault.SPIKE
        fault[cannot_wrap | (fell & (fault != Fault.NONE))] = Fault.FELL
        suspended_ns = both["suspended_ns"].astype(np.int64)
        fault[np.abs(suspended_ns[1:] - suspended_ns[:-1]) > SUSPENDED_NS] = Fault.SLEPT
        if kept["flags"].any():
            fault[(kept["flags"] & ReadingFlag.REOPENED != 0) & (length_ns > 0)] = Fault.REOPENED
        stood_ns = np.maximum(seen_ns - self._since(changed, t_ns), 0)
        self._find_faults(_Moves(value, t_ns, slack_ns, moved_j, stood_ns, fault))
        known = changed & (counts != 0) if self._updates_are_timed else np.zeros(len(kept), bool)
        believed = fault == Fault.NONE
        return Increments(
            t_ns[1:], changed, np.where(known, np.minimum(window_ns, length_ns), 0), length_ns, stood_ns,
            np.where(believed, moved_j, 0.0), fault, np.where(believed | fell, 0.0, moved_j),
        )  # fmt: skip

    def _since(self, changed: Flags, t_ns: Ints) -> Ints:
        """Return the time since which each interval's first value exists, across readings of the same value."""
        since_ns = t_ns.copy()
        since_ns[0] = self._since_ns
        if not changed.all():
            since_ns[1:][~changed] = 0
            since_ns = np.maximum.accumulate(since_ns)
        self._since_ns = int(since_ns[-1])
        return since_ns[:-1]

    def _find_faults(self, moves: _Moves) -> None:
        """Find the faults that depend on earlier intervals, in order of time."""
        noticed = [
            *np.flatnonzero((moves.fault != Fault.NONE) | (moves.stood_ns >= STILL_NS)).tolist(),
            len(moves.fault),
        ]
        index = self._learnt = 0
        while True:
            if self._before_fault is None:
                index = noticed[bisect_left(noticed, index)]
            if index == len(moves.fault):
                break
            self._classify(moves, index)
            index += 1
        self._learn_usual(moves, index)

    def _classify(self, moves: _Moves, index: int) -> None:
        """Classify one interval."""
        fault, before = int(moves.fault[index]), self._before_fault
        back = before is not None and self._is_back(moves, index, before)
        if fault in (Fault.REOPENED, Fault.SLEPT):
            self._before_fault = None
        elif fault == Fault.FELL:
            self._distrust(moves, index, next_rise=True, back=back)
        elif not moves.moved_j[index]:
            return
        elif before is not None and (before.next_rise or (back and self._leapt(moves, index, before))):
            moves.fault[index] = Fault.AFTER_FALL
            self._distrust(moves, index, next_rise=False, back=back)
        elif fault == Fault.SPIKE:
            self._distrust(moves, index, next_rise=False, back=back)
        elif moves.stood_ns[index] >= STILL_NS and self._caught_up(moves, index):
            moves.fault[index] = Fault.STOOD_STILL
        elif before is not None:
            before.left -= 1
            self._before_fault = before if before.left else None

    def _is_back(self, moves: _Moves, index: int, before: _BeforeFault) -> bool:
        """Return whether the count is where it would be without the fall."""
        rise_j = (int(moves.value[index + 1]) - before.value) * self._unit_j
        since_s = (int(moves.t_ns[index + 1]) - before.t_ns + int(moves.slack_ns[index])) * 1e-9
        return 0 <= rise_j <= self.limit_w * since_s

    def _distrust(self, moves: _Moves, index: int, *, next_rise: bool, back: bool) -> None:
        if back:
            self._before_fault = None
        elif self._before_fault is None:
            self._before_fault = _BeforeFault(int(moves.value[index]), int(moves.t_ns[index]), next_rise)
        else:
            self._before_fault.next_rise, self._before_fault.left = next_rise, TRUSTED_AFTER

    def _leapt(self, moves: _Moves, index: int, before: _BeforeFault) -> bool:
        """Return whether the count jumped over the value before its fall, by more than a usual rise."""
        if int(moves.value[index]) >= before.value:
            return False
        usual = self._usual_update(moves, index)
        return usual is None or float(moves.moved_j[index]) > USUAL_UPDATES * usual[1]

    def _caught_up(self, moves: _Moves, index: int) -> bool:
        """Return whether a count stood still for far longer than usual, and then caught up."""
        usual = None if self._can_stand_still else self._usual_update(moves, index)
        if usual is None:
            return False
        gap_ns, rise_j = usual
        stood_ns, moved_j = int(moves.stood_ns[index]), float(moves.moved_j[index])
        return stood_ns >= USUAL_UPDATES * gap_ns and moved_j > USUAL_UPDATES * rise_j

    def _usual_update(self, moves: _Moves, index: int) -> tuple[float, float] | None:
        """Return median gap in nanoseconds and rise in joules of the latest valid updates, if there are enough."""
        self._learn_usual(moves, index)
        if len(self._usual) < _LEAST_HISTORY:
            return None
        gaps_ns, rises_j = zip(*self._usual, strict=True)
        return median(gaps_ns), median(rises_j)

    def _learn_usual(self, moves: _Moves, end: int) -> None:
        """Add the valid updates up to an interval."""
        part = slice(self._learnt, end)
        at = np.flatnonzero((moves.fault[part] == Fault.NONE) & (moves.moved_j[part] > 0))[-_HISTORY:] + self._learnt
        gaps_ns = moves.t_ns[at + 1] - moves.t_ns[at]
        self._usual.extend(zip(gaps_ns.tolist(), moves.moved_j[at].tolist(), strict=True))
        self._learnt = end


def _joined(before: Records, after: Records) -> Records:
    """Concatenate records of one dtype; NumPy's concatenate checks the dtypes slowly."""
    records = np.empty(len(before) + len(after), before.dtype)
    records[: len(before)] = before
    records[len(before) :] = after
    return records
