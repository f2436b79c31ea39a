"""What a sensor resolved: intervals between readings, each with joules or marked invalid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.bounds import is_calculated
from tprof.trace.increments import STILL_NS, USUAL_UPDATES, Counter, Fault

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tprof.trace import Readings
    from tprof.trace.increments import Increments

UNREAD_PERIODS = 5
UNREAD_S, UNREAD_POWER_S = 0.5, 0.2
"""A sensor counts as not read after so many usual times between readings, and so long, if it counts or shows power."""
LEAST_READINGS = 20
"""From which the usual time between readings is taken."""
_WHY = {
    Fault.REOPENED: "reopened (its counter may have been reset)",
    Fault.SLEPT: "interrupted by a suspend",
    Fault.FELL: "seen to go backwards",
    Fault.AFTER_FALL: "not to be believed yet after it went backwards",
    Fault.STOOD_STILL: "seen to catch up after it stood still",
    Fault.SPIKE: "seen above {limit_w:g} W",
}


@dataclass(frozen=True)
class Quanta:
    """The quanta of one domain, end to end without gaps.

    Attributes
    ----------
    edges_ns : (k + 1,) int64, nanoseconds, strictly increasing (empty if the domain has no two readings)
    energy_j : (k,) float64, joules; 0 where not `valid`
    valid : (k,) bool; False where the sensor cannot be trusted
    window_s : (k + 1,) float64, seconds before each edge in which the value changed; 0 if not known
    unit_j : joules of one step of the value
    unread : (k,) bool; True where the sensor was not read for far longer than usual; None: nowhere
    relative_error : part by which all joules may be off, 95 %; 0 if it is not known
    """

    name: str
    scope: str
    package: int | None
    counted: bool
    quality: str
    edges_ns: NDArray[np.int64]
    energy_j: NDArray[np.float64]
    valid: NDArray[np.bool_]
    stuck: NDArray[np.bool_]
    window_s: NDArray[np.float64]
    unit_j: float
    warnings: tuple[str, ...]
    relative_error: float = 0.0
    unread: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.energy_j)

    def between(self, begin_ns: int, end_ns: int) -> tuple[Quanta, slice]:
        """Return the quanta between two times, and their slice; a quantum that is cut keeps its part by time.

        Windows are cut too, so that an edge that moves within its window stays between its neighbours.
        """
        first = max(int(np.searchsorted(self.edges_ns, begin_ns, side="right")) - 1, 0)
        last = min(int(np.searchsorted(self.edges_ns, end_ns, side="left")), len(self))
        part = slice(first, max(first, last))
        edges = slice(first, last + 1) if first < last else slice(0)
        edges_ns = np.clip(self.edges_ns[edges], begin_ns, end_ns)
        inside = np.diff(edges_ns) / np.diff(self.edges_ns[edges])
        known = edges_ns == self.edges_ns[edges]
        reach_ns = np.maximum(np.minimum(edges_ns - begin_ns, end_ns - edges_ns) - 1, 0)
        window_s = np.where(known, np.minimum(self.window_s[edges], 2e-9 * reach_ns), 0.0)
        return replace(
            self, edges_ns=edges_ns, energy_j=self.energy_j[part] * inside, valid=self.valid[part],
            stuck=self.stuck[part], window_s=window_s, unread=None if self.unread is None else self.unread[part],
        ), part  # fmt: skip

    def part(self, which: slice) -> Quanta:
        """Return some of the quanta, without a copy."""
        edges = slice(which.start, which.stop + 1)
        return replace(
            self, edges_ns=self.edges_ns[edges], energy_j=self.energy_j[which], valid=self.valid[which],
            stuck=self.stuck[which], window_s=self.window_s[edges],
            unread=None if self.unread is None else self.unread[which],
        )  # fmt: skip

    def earlier(self, late_s: float) -> Quanta:
        """Return the quanta with inner edges before which values changed anywhere in a time longer by `late_s`.

        A sensor that shows the joules of up to so long before has earlier edges, less well known.
        """
        if not late_s or len(self) < 3:
            return self
        edges_ns = self.edges_ns.copy()
        edges_ns[1:-1] -= round(late_s * 0.5e9)
        # The first edge stays: no other may come before it.
        edges_ns[1:] = np.maximum(edges_ns[1:], edges_ns[0] + np.arange(1, len(edges_ns)))
        window_s = self.window_s.copy()
        window_s[1:-1] += late_s
        room_s = np.minimum(np.diff(edges_ns)[1:], np.diff(edges_ns)[:-1]) * 1e-9
        window_s[1:-1] = np.minimum(window_s[1:-1], room_s)
        return replace(self, edges_ns=edges_ns, window_s=window_s)

    @property
    def timed(self) -> bool:
        """Whether it is known in which window the sensor's values changed."""
        return bool((self.window_s > 0).any())

    @property
    def measured_j(self) -> float:
        """Joules in valid quanta; NaN if there is none."""
        return float(self.energy_j.sum()) if self.valid.any() else float("nan")


def build_quanta(readings: Readings, max_power_w: float | None = None) -> Quanta:
    """Turn the readings of one domain into quanta.

    A failed read is left out (the counter is cumulative, nothing is lost); readings of equal value
    merge into the running quantum. `tprof.trace.increments` decides which intervals are invalid.

    Parameters
    ----------
    readings : one energy domain
    max_power_w : float, watts; more than this is a fault (default 1000, 10000 for psys, none for given joules)
    """
    counter = Counter(
        unit_j=readings.unit, modulus=readings.modulus, quality=str(readings.quality), scope=readings.scope,
        max_power_w=max_power_w,
    )  # fmt: skip
    found = counter.follow(readings.records())
    warnings = _left_out(readings, counter)
    quanta = Quanta(
        readings.name, readings.scope, readings.package, readings.counted, str(readings.quality),
        np.empty(0, np.int64), np.empty(0), np.empty(0, bool), np.empty(0, bool), np.empty(0),
        max(readings.unit, readings.resolution_j or 0.0), tuple(warnings), _relative_error(readings, found),
    )  # fmt: skip
    if len(found.t_ns) < 2:
        return replace(quanta, warnings=(*warnings, f"{readings.name} has no two readings: its energy is not resolved"))
    # The value changed somewhere in the window: the middle is the best estimate.
    edges_ns = found.t_ns - found.window_ns // 2
    energy_j, valid = found.energy_j[1:], found.fault[1:] == Fault.NONE
    warnings += _faults(readings, found, counter.limit_w)
    stuck = _stuck(found.stood_ns[1:], np.diff(edges_ns), still=not found.changed[-1])
    if not is_calculated(quanta.quality):
        # A sensor that stopped updating does not measure 0 J.
        valid[-1] &= not stuck[-1]
        if valid.all() and not (energy_j > 0).any():
            valid[:] = False
            warnings.append(f"{readings.name} never moved: its energy is not resolved")
    return replace(
        quanta, edges_ns=edges_ns, energy_j=energy_j, valid=valid, stuck=stuck,
        window_s=(found.window_ns * 1e-9).astype(np.float64), unread=_unread(readings, found.t_ns),
        warnings=tuple(warnings),
    )  # fmt: skip


def _stuck(stood_ns: NDArray[np.int64], gap_ns: NDArray[np.int64], *, still: bool) -> NDArray[np.bool_]:
    """Mark intervals in which the count was seen to stand for far longer than its usual gap.

    A long interval in which nobody looked, since the reader got no processor, is none of them. `still`: the last one
    ends without a new value.
    """
    usual_ns = np.median(gap_ns[:-1] if still and len(gap_ns) > 1 else gap_ns)
    return np.asarray((stood_ns > USUAL_UPDATES * usual_ns) & (stood_ns >= STILL_NS), bool)


def _unread(readings: Readings, ends_ns: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Mark the intervals in which a sensor was not read for far longer than usual, since it hung or nobody had time."""
    if is_calculated(str(readings.quality)) or len(readings.t_ns) < LEAST_READINGS:
        return None
    gap_ns = np.diff(readings.t_ns)
    least_ns = (UNREAD_POWER_S if readings.integrated else UNREAD_S) * 1e9
    at = np.flatnonzero(gap_ns > max(UNREAD_PERIODS * float(np.median(gap_ns)), least_ns))
    unread = np.zeros(len(ends_ns) - 1, bool)
    # A gap is in the interval that ends with the reading after it, or later.
    unread[np.clip(np.searchsorted(ends_ns, readings.t_ns[at + 1]) - 1, 0, len(unread) - 1)] = True
    return unread if len(at) else None


def _relative_error(readings: Readings, found: Increments) -> float:
    """Return by what part all joules may be off: what the sensor states, and half a step of a power.

    Power that hardly changes is rounded to the same side in all readings.
    """
    error, seconds = readings.relative_error or 0.0, float(found.length_ns[1:].sum()) * 1e-9
    if readings.resolution_w is None or not found.energy_j.sum() > 0:
        return error
    return error + readings.resolution_w / 2 / (float(found.energy_j.sum()) / seconds)


def _left_out(readings: Readings, counter: Counter) -> list[str]:
    """Return a sentence for failed reads: those before a reopened counter are told with it."""
    failed, good = np.flatnonzero(readings.missing), np.flatnonzero(~readings.missing)
    after = np.searchsorted(good, failed)
    bridged = int((~readings.reopened[good[after[after < len(good)]]]).sum())
    warnings = [f"{bridged} readings of {readings.name} failed and were bridged"] if bridged else []
    if len(good) and len(failed) and failed[-1] > good[-1]:
        lost_s = (readings.t_ns[-1] - readings.t_ns[good[-1]]) * 1e-9
        what = f"{readings.name} could not be read in the last {lost_s:.3g} s"
        warnings.append(f"{what}: no energy is given for that time")
    if counter.unordered:
        warnings.append(f"{counter.unordered} readings of {readings.name} are not later than the one before: left out")
    return warnings


def _faults(readings: Readings, found: Increments, limit_w: float) -> list[str]:
    """Warn of intervals with sensor faults, with the joules that they would contain."""
    warnings = []
    whys = _WHY | ({Fault.REOPENED: "without readings, or opened again,"} if readings.integrated else {})
    for fault, why in whys.items():
        bad = found.fault == fault
        if bad.any():
            uncertain_j = float(found.uncertain_j[bad].sum())
            shown = f", and {uncertain_j:.3g} J that it showed are in doubt" if uncertain_j else ""
            warnings.append(
                f"{readings.name} was {why.format(limit_w=limit_w)} in {bad.sum()} intervals "
                f"({found.length_ns[bad].sum() * 1e-9:.3g} s): no energy is given for that time{shown}"
            )
    if readings.modulus and np.isfinite(limit_w):
        twice = (found.fault == Fault.NONE) & (limit_w * found.length_ns * 1e-9 > 2 * readings.modulus * readings.unit)
        if twice.any():
            warnings.append(f"{readings.name} may have wrapped more than once in {twice.sum()} long intervals")
    return warnings
