"""What a sensor's count moved by between two readings, or why that cannot be believed.

A profile and the live figures of a recording both take their joules from here, the one from all readings at once, the
other from what is new at each look: how the readings are cut into looks changes nothing.

A count is believed while it rises by no more than a domain can draw, and where it falls if that is a wrap which does
not imply more. Where it falls otherwise (a false zero, a reset, garbage) the fall gives no joules, and neither does the
next rise: it may lead from what was never counted to what was. Nor does a leap over the count from which it fell, to
where the count would be had it never been away; after `TRUSTED_AFTER` believed rises that count is forgotten. A count
that stood still for far longer than it usually does, and then catches up at once, gives no joules for that time: nobody
knows when they were drawn, nor whether they were. O(readings), by NumPy except around faults.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from enum import IntEnum
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from .bounds import is_calculated, max_power_of
from .kinds import Quality

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Counts = npt.NDArray[np.uint64]
    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Faults = npt.NDArray[np.uint8]

LATE_NS = 1_000_000
"""A reader that was delayed may see two updates close together: one update of slack."""
SUSPENDED_NS = 1_000_000
STILL_NS, USUAL_UPDATES = 100_000_000, 20
"""For how long a count must have stood still, and for how many of its usual updates, for that to be a fault."""
TRUSTED_AFTER = 20
_HISTORY, _LEAST_HISTORY = 31, 4
"""Updates of which the median is the usual one, and how few tell nothing yet."""


class Fault(IntEnum):
    """Why an interval between two readings gives no joules."""

    NONE = 0
    REOPENED = 1
    SLEPT = 2
    FELL = 3
    AFTER_FALL = 4
    STOOD_STILL = 5
    SPIKE = 6


@dataclass(frozen=True, slots=True)
class Looks:
    """Readings of one domain as they were recorded, (n,) each; see `tprof.trace.Readings`."""

    t_ns: Ints
    value: Counts
    window_ns: Ints
    missing: Flags
    reopened: Flags
    suspended_ns: Ints

    def part(self, where: Ints | Flags | slice) -> Looks:
        """Return some of them."""
        return Looks(*(getattr(self, name)[where] for name in Looks.__slots__))

    def after(self, before: Looks) -> Looks:
        """Return these with others before them."""
        pairs = ((getattr(before, name), getattr(self, name)) for name in Looks.__slots__)
        return Looks(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class Increments:
    """The readings that end a quantum, (n,) each; the very first of a domain ends none, and moved by nothing.

    Attributes
    ----------
    t_ns : when they were taken, increasing
    changed : False for one that only says that the value still stands
    window_ns : for how long before `t_ns` the value may have stood; 0 where that is not known
    length_ns : since the one before
    energy_j : joules since the one before; 0 where there is a fault
    fault : of type `Fault`
    doubtful_j : joules by which the count rose and which are not believed
    """

    t_ns: Ints
    changed: Flags
    window_ns: Ints
    length_ns: Ints
    energy_j: Floats
    fault: Faults
    doubtful_j: Floats


@dataclass(frozen=True, slots=True)
class _Moves:
    """Intervals that each end with a kept reading, (n,); `fault` is filled in one after the other.

    Attributes
    ----------
    before, value : the count at its begin and at its end
    begin_ns, end_ns, slack_ns : its times, and how much later than its end the last update may belong
    moved_j : joules that the count moved by, a fall taken as a wrap
    stood_ns : for how long it was seen to stand at `before`
    """

    before: Counts
    value: Counts
    begin_ns: Ints
    end_ns: Ints
    slack_ns: Ints
    moved_j: Floats
    stood_ns: Ints
    fault: Faults


@dataclass(slots=True)
class _Doubt:
    """The last count that was believed, `left` believed rises before it is forgotten."""

    value: int
    t_ns: int
    next_rise: bool
    left: int = TRUSTED_AFTER


_NO_LOOKS = Looks(*(np.empty(0, kind) for kind in ("i8", "u8", "i8", "?", "?", "i8")))
_NO_INCREMENTS = Increments(*(np.empty(0, kind) for kind in ("i8", "?", "i8", "i8", "f8", "u1", "f8")))


class Counter:
    """The count of one domain, followed from reading to reading.

    Attributes
    ----------
    limit_w : more is a fault
    unordered : readings so far that are not later than one before, and were left out
    """

    def __init__(
        self, *, unit_j: float, modulus: int | None, quality: str, scope: str, max_power_w: float | None = None
    ) -> None:
        """Begin before the first reading.

        Parameters
        ----------
        unit_j : joules of one count
        modulus : at which it wraps to 0; None: not known
        quality, scope : of the domain
        max_power_w : more is a fault; by default `max_power_of` the domain
        """
        self.limit_w = max_power_w or max_power_of(quality, scope)
        self.unordered = 0
        self._unit_j, self._modulus = unit_j, modulus or 0
        self._can_stand_still = is_calculated(quality)
        self._updates_are_timed = quality not in (Quality.GIVEN, Quality.ESTIMATED)
        self._seen = self._kept = _NO_LOOKS
        self._since_ns = 0
        self._reopened = False
        self._doubt: _Doubt | None = None
        self._learnt = 0
        self._usual: deque[tuple[int, float]] = deque(maxlen=_HISTORY)

    def follow(self, looks: Looks, *, longest_still_ns: int = 0) -> Increments:
        """Go on with readings that come after those of earlier calls.

        Parameters
        ----------
        looks : failed readings are left out (a count is cumulative, nothing is lost), and those that are not later
            than one before
        longest_still_ns : the last reading ends a quantum that is longer, though its value still stands
        """
        usable = self._usable(looks)
        if not len(usable.t_ns):
            return _NO_INCREMENTS
        first = not len(self._seen.t_ns)
        if first:
            self._seen = self._kept = usable.part(slice(1))
        changed = usable.reopened | (usable.value != np.append(self._seen.value, usable.value[:-1]))
        changed[0] |= first
        kept = changed.copy()
        ended_ns = usable.t_ns[changed][-1] if changed.any() else self._kept.t_ns[0]
        kept[-1] |= bool(usable.t_ns[-1] - ended_ns > longest_still_ns)
        seen_ns = np.append(self._seen.t_ns, usable.t_ns[:-1])[kept]
        self._seen = usable.part(slice(-1, None))
        return self._moved(usable.part(kept), changed[kept], seen_ns) if kept.any() else _NO_INCREMENTS

    def _usable(self, looks: Looks) -> Looks:
        """Return the readings that say something, each marked if the sensor was reopened since the one before."""
        t_ns = np.where(looks.missing, -1, looks.t_ns)
        latest_ns = self._seen.t_ns if len(self._seen.t_ns) else np.full(1, -1)
        later = t_ns > np.maximum.accumulate(np.append(latest_ns, t_ns))[:-1]
        self.unordered += int((~later & ~looks.missing).sum())
        at = np.flatnonzero(later)
        reopened = np.cumsum(looks.reopened) + self._reopened
        if len(reopened):
            self._reopened = bool(reopened[-1] > (reopened[at[-1]] if len(at) else 0))
        return replace(looks.part(at), reopened=np.diff(reopened[at], prepend=0) > 0)

    def _moved(self, kept: Looks, changed: Flags, seen_ns: Ints) -> Increments:
        """Return what the count moved by up to each of these readings; the first ever is its own predecessor."""
        before = kept.part(slice(-1)).after(self._kept)
        self._kept = kept.part(slice(-1, None))
        # Since when each value stands: a reading that only says that it still does begins nothing.
        since_ns = np.maximum.accumulate(np.append(self._since_ns, np.where(changed, kept.t_ns, 0)))
        self._since_ns = int(since_ns[-1])
        length_ns = kept.t_ns - before.t_ns
        fell = kept.value < before.value
        can_wrap = fell & (before.value <= np.uint64(self._modulus))
        # Unsigned differences first: a float would lose bits of a large counter.
        wrapped = np.where(can_wrap, kept.value + (np.uint64(self._modulus) - before.value), np.uint64(0))
        moved_j = np.where(fell, wrapped, kept.value - before.value).astype(np.float64) * self._unit_j
        slack_ns = np.where(kept.window_ns > 0, LATE_NS, 0)
        excess = moved_j > self.limit_w * (np.maximum(length_ns, 1) + slack_ns) * 1e-9
        fault = np.zeros(len(fell), np.uint8)
        fault[excess] = Fault.SPIKE
        fault[fell & (excess | ~can_wrap)] = Fault.FELL
        fault[np.abs(kept.suspended_ns - before.suspended_ns) > SUSPENDED_NS] = Fault.SLEPT
        fault[kept.reopened & (length_ns > 0)] = Fault.REOPENED
        stood_ns = seen_ns - since_ns[:-1]
        self._judge(_Moves(before.value, kept.value, before.t_ns, kept.t_ns, slack_ns, moved_j, stood_ns, fault))
        window_ns = np.minimum(kept.window_ns, length_ns) if self._updates_are_timed else np.zeros_like(length_ns)
        believed = fault == Fault.NONE
        return Increments(
            kept.t_ns, changed, np.where(kept.value != before.value, window_ns, 0), length_ns,
            np.where(believed, moved_j, 0.0), fault, np.where(believed | fell, 0.0, moved_j),
        )  # fmt: skip

    def _judge(self, moves: _Moves) -> None:
        """Find faults that only show by what came before them, in order of time."""
        stood = moves.stood_ns >= STILL_NS if not self._can_stand_still else np.zeros(len(moves.fault), bool)
        noticed = [*np.flatnonzero((moves.fault != Fault.NONE) | stood).tolist(), len(moves.fault)]
        index = self._learnt = 0
        while True:
            if self._doubt is None:
                index = noticed[bisect_left(noticed, index)]
            if index == len(moves.fault):
                break
            self._weigh(moves, index)
            index += 1
        self._learn_usual(moves, index)

    def _weigh(self, moves: _Moves, index: int) -> None:
        """Settle one interval."""
        fault, doubt = int(moves.fault[index]), self._doubt
        back = doubt is not None and self._is_back(moves, index, doubt)
        if fault in (Fault.REOPENED, Fault.SLEPT):
            self._doubt = None
        elif fault == Fault.FELL:
            self._lose_trust(moves, index, next_rise=True, back=back)
        elif not moves.moved_j[index]:
            return
        elif doubt is not None and (doubt.next_rise or (back and self._leapt(moves, index, doubt))):
            moves.fault[index] = Fault.AFTER_FALL
            self._lose_trust(moves, index, next_rise=False, back=back)
        elif fault == Fault.SPIKE:
            self._lose_trust(moves, index, next_rise=False, back=back)
        elif moves.stood_ns[index] >= STILL_NS and self._caught_up(moves, index):
            moves.fault[index] = Fault.STOOD_STILL
        elif doubt is not None:
            doubt.left -= 1
            self._doubt = doubt if doubt.left else None

    def _is_back(self, moves: _Moves, index: int, doubt: _Doubt) -> bool:
        """Tell whether the count is where it would be had it never been away."""
        rise_j = (int(moves.value[index]) - doubt.value) * self._unit_j
        since_s = (int(moves.end_ns[index]) - doubt.t_ns + int(moves.slack_ns[index])) * 1e-9
        return 0 <= rise_j <= self.limit_w * since_s

    def _lose_trust(self, moves: _Moves, index: int, *, next_rise: bool, back: bool) -> None:
        if back:
            self._doubt = None
        elif self._doubt is None:
            self._doubt = _Doubt(int(moves.before[index]), int(moves.begin_ns[index]), next_rise)
        else:
            self._doubt.next_rise, self._doubt.left = next_rise, TRUSTED_AFTER

    def _leapt(self, moves: _Moves, index: int, doubt: _Doubt) -> bool:
        """Tell whether the count rose over the one from which it had fallen, and not by one of its usual rises."""
        if int(moves.before[index]) >= doubt.value:
            return False
        usual = self._usual_update(moves, index)
        return usual is None or float(moves.moved_j[index]) > USUAL_UPDATES * usual[1]

    def _caught_up(self, moves: _Moves, index: int) -> bool:
        """Tell whether a count that stood still did so for far longer than usual, and then moved by as much."""
        usual = None if self._can_stand_still else self._usual_update(moves, index)
        if usual is None:
            return False
        gap_ns, rise_j = usual
        stood_ns, moved_j = int(moves.stood_ns[index]), float(moves.moved_j[index])
        return stood_ns >= USUAL_UPDATES * gap_ns and moved_j > USUAL_UPDATES * rise_j

    def _usual_update(self, moves: _Moves, index: int) -> tuple[float, float] | None:
        """Return gap in nanoseconds and rise in joules of the latest believed updates, where there are enough."""
        self._learn_usual(moves, index)
        if len(self._usual) < _LEAST_HISTORY:
            return None
        gaps_ns, rises_j = zip(*self._usual, strict=True)
        return median(gaps_ns), median(rises_j)

    def _learn_usual(self, moves: _Moves, end: int) -> None:
        """Take note of the believed updates up to an interval."""
        part = slice(self._learnt, end)
        at = np.flatnonzero((moves.fault[part] == Fault.NONE) & (moves.moved_j[part] > 0))[-_HISTORY:] + self._learnt
        gaps_ns = (moves.end_ns[at] - moves.begin_ns[at]).tolist()
        self._usual.extend(zip(gaps_ns, moves.moved_j[at].tolist(), strict=True))
        self._learnt = end
