"""The increments of a sensor's count between two readings, or the fault that makes them invalid.

A profile and the live figures of a recording both take their joules from here: a profile from all readings at once, the
live figures from the new readings at each step. The division into steps does not change the result. The rule itself is
that of the recorder, in csrc/increments.c. O(readings).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof import _core

from . import layout
from .bounds import is_calculated, max_power_of
from .kinds import Quality

if TYPE_CHECKING:
    import numpy.typing as npt

    from .readings import Readings

    Records = np.ndarray[Any, np.dtype[np.void]]

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Faults = npt.NDArray[np.uint8]

LATE_NS = _core.LATE_NS
"""Least slack of one update, since a delayed reader may see two updates close together."""
STILL_NS, USUAL_UPDATES = _core.STILL_NS, _core.USUAL_UPDATES
"""Shortest standstill of a count that is a fault, in time and in usual updates."""
_ENDED = np.dtype(
    [
        ("t_ns", "i8"), ("window_ns", "i8"), ("length_ns", "i8"), ("stood_ns", "i8"),
        ("energy_j", "f8"), ("uncertain_j", "f8"), ("fault", "u1"), ("changed", "?"), ("padding", "V6"),
    ]
)  # fmt: skip
"""`struct tprof_increment`."""


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
        self._updates_are_timed = quality != Quality.ESTIMATED
        self._count = _core.Count(
            unit_j=unit_j, modulus=modulus or 0, limit_w=self.limit_w, is_calculated=is_calculated(quality)
        )

    @classmethod
    def of(cls, readings: Readings, max_power_w: float | None = None) -> Counter:
        """Return that of a domain's readings."""
        quality = str(readings.quality)
        unit_j, modulus, scope = readings.unit, readings.modulus, readings.scope
        return cls(unit_j=unit_j, modulus=modulus, quality=quality, scope=scope, max_power_w=max_power_w)

    def follow(self, records: Records, *, longest_still_ns: float = 0) -> Increments:
        """Continue with readings after those of earlier calls.

        Parameters
        ----------
        records : of `layout.READING`; failed ones are left out (a count is cumulative, nothing is lost), and those
            that are not later than one before
        longest_still_ns : the last reading ends a quantum that is longer, though its value still stands; infinite: no
            such quantum ends before `finish`
        """
        ended = np.empty(len(records) + 1, _ENDED)
        found, self.unordered = self._count.follow(np.ascontiguousarray(records), ended, longest_still_ns)
        columns = {name: np.ascontiguousarray(ended[name][:found]) for name in Increments.__slots__}
        if not self._updates_are_timed:
            columns["window_ns"][:] = 0
        return Increments(**columns)

    def finish(self) -> Increments:
        """Return the quantum that ends with the last reading, if its value still stands and `follow` left it out."""
        return self.follow(np.empty(0, layout.READING))
