"""The clocks of a Perfetto trace: those of the system, and those that sequences of packets define for themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
OF_SEQUENCE = range(64, 128)


@dataclass
class _Own:
    """A sequence's own clock: where it stood in a snapshot, and the latest time of it."""

    at_ns: int
    zero: int
    unit_ns: int
    is_incremental: bool
    latest: int


class Clocks:
    """Converts times of all clocks to CLOCK_MONOTONIC, or to the only clock that the trace has."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.wall_ns: tuple[int, int] | None = None
        self._ahead_ns: dict[int, int] = {}
        self._own: dict[tuple[int, int], _Own] = {}

    def learn(self, sequence: int, snapshot: Any) -> None:
        """Take in the values of several clocks at the same time."""
        of_system = {one.clock_id: one.timestamp for one in snapshot.clocks if one.clock_id not in OF_SEQUENCE}
        reference = next((clock for clock in (MONOTONIC, BOOTTIME, REALTIME) if clock in of_system), None)
        if reference is not None:
            common_ns = of_system[reference] - self._ahead_ns.get(reference, 0)
            for clock, value in of_system.items():
                if clock != reference:
                    self._ahead_ns.setdefault(clock, value - common_ns)
            if REALTIME in of_system and self.wall_ns is None:
                self.wall_ns = (common_ns, of_system[REALTIME])
        for one in snapshot.clocks:
            if one.clock_id in OF_SEQUENCE and reference is not None:
                self._own[sequence, one.clock_id] = _Own(
                    of_system[reference] - self._ahead_ns.get(reference, 0), one.timestamp,
                    one.unit_multiplier_ns or 1, one.is_incremental, one.timestamp,
                )  # fmt: skip

    def time_ns(self, sequence: int, clock: int, value: int) -> int | None:
        """Return a time on the common clock; None if it cannot be converted."""
        if clock not in OF_SEQUENCE:
            return value - self._ahead_ns.get(clock or BOOTTIME, 0)
        own = self._own.get((sequence, clock))
        if own is None:
            return None
        own.latest = own.latest + value if own.is_incremental else value
        return own.at_ns + (own.latest - own.zero) * own.unit_ns
