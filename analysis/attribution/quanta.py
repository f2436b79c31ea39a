"""What a sensor resolved: intervals between readings, each with joules or marked invalid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.bounds import is_calculated
from tprof.trace.increments import STILL_NS, USUAL_UPDATES, Counter, Fault
from tprof.trace.kinds import ReadingFlag
from tprof.trace.plain_values import counted

from .long_arrays import empty, stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tprof.trace import Readings
    from tprof.trace.increments import Increments
    from tprof.trace.readings import Records

GPU = "gpu"
"""The scope of domains of GPUs."""
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

    def span(self, begin_ns: int, end_ns: int) -> slice:
        """Return which quanta reach into the time between two others."""
        first = max(int(np.searchsorted(self.edges_ns, begin_ns, side="right")) - 1, 0)
        return slice(first, max(first, min(int(np.searchsorted(self.edges_ns, end_ns, side="left")), len(self))))

    def between(self, begin_ns: int, end_ns: int) -> tuple[Quanta, slice]:
        """Return the quanta between two times, and their slice; a quantum that is cut keeps its part by time.

        Windows are cut too, so that an edge that moves within its window stays between its neighbours.
        """
        which = self.span(begin_ns, end_ns)
        near = self.part(which)
        edges = slice(0, len(near) + 1 if len(near) else 0)
        whole_ns, window_s = near.edges_ns[edges], near.window_s[edges]
        edges_ns = np.clip(whole_ns, begin_ns, end_ns)
        reach_ns = np.maximum(np.minimum(edges_ns - begin_ns, end_ns - edges_ns) - 1, 0)
        return replace(
            near, edges_ns=stored(edges_ns), energy_j=stored(near.energy_j * (np.diff(edges_ns) / np.diff(whole_ns))),
            window_s=stored(np.where(edges_ns == whole_ns, np.minimum(window_s, 2e-9 * reach_ns), 0.0)),
        ), which  # fmt: skip

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
        edges_ns, window_s = self.edges_ns.copy(), self.window_s.copy()
        edges_ns[1:-1] -= round(late_s * 0.5e9)
        # The first edge stays: no other may come before it.
        edges_ns = np.maximum(edges_ns, edges_ns[0] + np.arange(len(edges_ns)))
        length_s = np.diff(edges_ns) * 1e-9
        window_s[1:-1] = np.minimum(window_s[1:-1] + late_s, np.minimum(length_s[1:], length_s[:-1]))
        return replace(self, edges_ns=stored(edges_ns), window_s=stored(window_s))

    @cached_property
    def timed(self) -> bool:
        """Whether it is known in which window the sensor's values changed."""
        return bool((self.window_s > 0).any())

    @cached_property
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
    counter = Counter.of(readings, max_power_w)
    found, left_out = _Found(readings, counter.limit_w), _LeftOut()
    for piece in readings.pieces():
        left_out.add(piece)
        found.add(counter.follow(piece, longest_still_ns=np.inf))
    found.add(counter.finish())
    warnings = left_out.warnings(readings.name, counter.unordered)
    count = found.count if found.count > 1 else 0
    quanta = Quanta(
        readings.name, readings.scope, readings.package, readings.counted, str(readings.quality),
        found.edges_ns[:count], found.energy_j[1:count], found.valid[1:count], found.stuck()[:count],
        found.window_s[:count], max(readings.unit, readings.resolution_j or 0.0), (), found.relative_error,
    )  # fmt: skip
    if not count:
        return replace(quanta, warnings=(*warnings, f"{readings.name} has no two readings: its energy is not resolved"))
    warnings += found.warnings()
    if not is_calculated(quanta.quality):
        # A sensor that stopped updating does not measure 0 J.
        quanta.valid[-1] &= not quanta.stuck[-1]
        if quanta.valid.all() and not found.energy_sum_j > 0:
            quanta.valid[:] = False
            warnings.append(f"{readings.name} never moved: its energy is not resolved")
    return replace(quanta, unread=_unread(readings, quanta), warnings=tuple(warnings))


class _Found:
    """The increments so far.

    Attributes
    ----------
    count : of them
    edges_ns, energy_j, valid, window_s : with a value for each, and room for more
    energy_sum_j : of all
    """

    def __init__(self, readings: Readings, limit_w: float) -> None:
        """Begin without any; more than `limit_w` is a fault."""
        self.count, self.energy_sum_j = 0, 0.0
        self.edges_ns = empty(readings.count, np.int64)
        self.energy_j = empty(readings.count, np.float64)
        self.valid = empty(readings.count, bool)
        self.window_s = empty(readings.count, np.float64)
        self._readings, self._limit_w = readings, limit_w
        self._length_ns = self._wraps = 0
        self._ends_changed = False
        self._stood: list[tuple[NDArray[np.intp], NDArray[np.int64]]] = []
        self._faults = np.zeros((len(Fault), 3))

    def add(self, found: Increments) -> None:
        """Add those of a piece."""
        count = len(found.t_ns)
        if not count:
            return
        at = slice(self.count, self.count + count)
        # The value changed somewhere in the window: the middle is the best estimate.
        self.edges_ns[at] = found.t_ns - found.window_ns // 2
        self.energy_j[at], self.valid[at] = found.energy_j, found.fault == Fault.NONE
        self.window_s[at] = found.window_ns * 1e-9
        long = np.flatnonzero(found.stood_ns >= STILL_NS)
        if len(long):
            self._stood.append((long + self.count, found.stood_ns[long]))
        # The first of all ends no quantum.
        self._length_ns += int(found.length_ns[int(not self.count) :].sum())
        self.energy_sum_j += float(found.energy_j.sum())
        self._ends_changed = bool(found.changed[-1])
        self._note_faults(found)
        self.count += count

    def _note_faults(self, found: Increments) -> None:
        if found.fault.any():
            for number, values in enumerate((np.ones(len(found.fault)), found.length_ns, found.uncertain_j)):
                self._faults[:, number] += np.bincount(found.fault, weights=values, minlength=len(Fault))
        readings = self._readings
        if readings.modulus and np.isfinite(self._limit_w):
            most_j = self._limit_w * found.length_ns * 1e-9
            self._wraps += int(((found.fault == Fault.NONE) & (most_j > 2 * readings.modulus * readings.unit)).sum())

    @property
    def relative_error(self) -> float:
        """By what part all joules may be off: what the sensor states, and half a step of a power.

        Power that hardly changes is rounded to the same side in all readings.
        """
        error, step_w = self._readings.relative_error or 0.0, self._readings.resolution_w
        if step_w is None or not self.energy_sum_j > 0:
            return error
        return error + step_w / 2 / (self.energy_sum_j / (float(self._length_ns) * 1e-9))

    def stuck(self) -> NDArray[np.bool_]:
        """Mark the quanta in which the count was seen to stand for far longer than its usual gap.

        A long interval in which nobody looked, since the reader got no processor, is none of them.
        """
        stuck = np.zeros(max(self.count - 1, 0), bool)
        if not self._stood:
            return stuck
        edges_ns = self.edges_ns[: self.count]
        # The last quantum may end without a new value.
        gaps_ns = np.diff(edges_ns[:-1] if not self._ends_changed and self.count > 2 else edges_ns)
        usual_ns = float(np.median(gaps_ns)) if len(gaps_ns) else 0.0
        for at, stood_ns in self._stood:
            stuck[at[(stood_ns > USUAL_UPDATES * usual_ns) & (at > 0)] - 1] = True
        return stuck

    def warnings(self) -> list[str]:
        """Warn of intervals with sensor faults, with the joules that they would contain."""
        name, warnings = self._readings.name, []
        whys = _WHY | ({Fault.REOPENED: "without readings, or opened again,"} if self._readings.integrated else {})
        for fault, why in whys.items():
            count, length_ns, uncertain_j = self._faults[fault].tolist()
            if count:
                shown = f", and {uncertain_j:.3g} J that it showed are in doubt" if uncertain_j else ""
                warnings.append(
                    f"{name} was {why.format(limit_w=self._limit_w)} in {counted(int(count), 'interval')} "
                    f"({length_ns * 1e-9:.3g} s): no energy is given for that time{shown}"
                )
        if self._wraps:
            warnings.append(f"{name} may have wrapped more than once in {counted(self._wraps, 'long interval')}")
        return warnings


class _LeftOut:
    """Failed reads so far: those before a reopened counter are told with it."""

    def __init__(self) -> None:
        self._bridged = self._waiting = 0
        self._last_ns = 0
        self._good_ns: int | None = None

    def add(self, piece: Records) -> None:
        """Add a piece of the readings."""
        if not len(piece):
            return
        t_ns = piece["t_ns"].astype(np.int64)
        self._last_ns = int(t_ns[-1])
        good = np.flatnonzero((piece["flags"] & ReadingFlag.MISSING) == 0)
        # Before each good one, those that failed since the good one before it; then those that failed since the last.
        waited = np.diff(good, prepend=-1, append=len(piece)) - 1
        waited[0] += self._waiting
        self._bridged += int(waited[:-1][(piece["flags"][good] & ReadingFlag.REOPENED) == 0].sum())
        self._waiting = int(waited[-1])
        if len(good):
            self._good_ns = int(t_ns[good[-1]])

    def warnings(self, name: str, unordered: int) -> list[str]:
        """Return a sentence for failed reads, and one for those that are not later than the one before."""
        one, more = f"reading of {name}", f"readings of {name}"
        warnings = []
        if self._bridged:
            warnings.append(f"{counted(self._bridged, f'{one} failed and was', f'{more} failed and were')} bridged")
        if self._good_ns is not None and self._waiting:
            lost_s = (self._last_ns - self._good_ns) * 1e-9
            what = f"{name} could not be read in the last {lost_s:.3g} s"
            warnings.append(f"{what}: no energy is given for that time")
        if unordered:
            late = counted(unordered, f"{one} is", f"{more} are")
            warnings.append(f"{late} not later than the one before: left out")
        return warnings


def _unread(readings: Readings, quanta: Quanta) -> NDArray[np.bool_] | None:
    """Mark the intervals in which a sensor was not read for far longer than usual, since it hung or nobody had time."""
    if is_calculated(quanta.quality) or readings.count < LEAST_READINGS:
        return None
    least_ns = (UNREAD_POWER_S if readings.integrated else UNREAD_S) * 1e9
    t_ns = readings.t_ns
    gap_ns = np.maximum(np.diff(t_ns), 0)
    if not (gap_ns > least_ns).any():
        return None
    after_ns = t_ns[1:][gap_ns > max(least_ns, UNREAD_PERIODS * float(np.median(gap_ns)))]
    unread = np.zeros(len(quanta), bool)
    # A gap is in the interval that ends with the reading after it, or later. A reading is at most half of its window
    # after its edge, and before the next edge.
    place = np.searchsorted(quanta.edges_ns, after_ns, side="right") - 1
    known = np.clip(place, 0, len(quanta))
    read_ns = quanta.edges_ns[known] + np.round(quanta.window_s[known] * 1e9).astype(np.int64) // 2
    unread[np.clip(place + (read_ns < after_ns) - 1, 0, len(quanta) - 1)] = True
    return unread if len(after_ns) else None
