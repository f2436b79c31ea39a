"""What a sensor resolved: intervals between readings, each with joules or marked invalid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tprof.trace import Readings

DEFAULT_MAX_POWER_W = 1000.0
_WIDE_SCOPES = ("psys", "machine")
_WIDE_MAX_POWER_W = 10_000.0
# A live reader may see two updates close together after it was delayed: one update of slack.
_LATE_READ_NS = 1_000_000
_SUSPEND_NS = 1_000_000
_STUCK_GAPS = 20
_STUCK_NS = 100_000_000


@dataclass(frozen=True)
class Quanta:
    """The quanta of one domain, end to end without gaps.

    Attributes
    ----------
    edges_ns : (k + 1,) int64, nanoseconds, strictly increasing (empty if the domain has no two readings)
    energy_j : (k,) float64, joules; 0 where not `valid`
    valid : (k,) bool; False where the sensor's word cannot be trusted
    window_s : (k + 1,) float64, seconds before each edge in which the value changed; 0 if not known
    unit_j : joules of one count
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

    def __len__(self) -> int:
        return len(self.energy_j)

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
    merge into the running quantum. An interval is invalid if the sensor was reopened or the machine
    suspended inside it, if the counter went back without a plausible wrap, or if it implies more
    than `max_power_w`.

    Parameters
    ----------
    readings : one energy domain
    max_power_w : float, watts; more than this is a fault (default 1000, 10000 for psys, none for given joules)
    """
    limit_w = max_power_w or _default_limit_w(readings)
    keep, warnings = _kept(readings)
    quanta = Quanta(
        readings.name, readings.scope, readings.package, readings.counted, str(readings.quality),
        np.empty(0, np.int64), np.empty(0), np.empty(0, bool), np.empty(0, bool), np.empty(0), readings.unit,
        tuple(warnings),
    )  # fmt: skip
    if len(keep) < 2:
        return replace(quanta, warnings=(*warnings, f"{readings.name} has no two readings: its energy is not resolved"))
    energy_j, valid, faults = _judged(readings, keep, limit_w)
    window_ns = _windows(readings, keep)
    # The value changed at some moment in the window: at its middle, for all that is known.
    edges_ns = readings.t_ns[keep].astype(np.int64) - window_ns // 2
    still = bool(readings.value[keep[-1]] == readings.value[keep[-2]])
    stuck = _stuck(np.diff(edges_ns), still=still)
    if not _is_word(readings):
        # A sensor that says nothing more is not one that says zero.
        valid[-1] &= not stuck[-1]
        if valid.all() and not (energy_j > 0).any():
            valid[:] = False
            faults.append(f"{readings.name} never moved: its energy is not resolved")
    return replace(
        quanta, edges_ns=edges_ns, energy_j=energy_j, valid=valid, stuck=stuck,
        window_s=(window_ns * 1e-9).astype(np.float64),
        warnings=(*warnings, *faults),
    )  # fmt: skip


def _windows(readings: Readings, keep: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return for how long before each kept reading its value may have stood; 0 where it is not known."""
    t_ns = readings.t_ns[keep].astype(np.int64)
    if str(readings.quality) in ("given", "estimated"):
        return np.zeros(len(t_ns), np.int64)
    window_ns = np.minimum(readings.window_ns[keep], np.diff(t_ns, prepend=t_ns[0]))
    changed = np.diff(readings.value[keep].astype(np.uint64), prepend=readings.value[keep][:1]) != 0
    return np.where(changed, window_ns, 0)


def _stuck(gap_ns: NDArray[np.int64], *, still: bool) -> NDArray[np.bool_]:
    """Mark intervals far longer than the sensor's usual one; `still`: the last has no new value at its end."""
    usual_ns = np.median(gap_ns[:-1] if still and len(gap_ns) > 1 else gap_ns)
    stuck = (gap_ns > _STUCK_GAPS * usual_ns) & (gap_ns >= _STUCK_NS)
    return np.asarray(stuck, bool)


def _is_word(readings: Readings) -> bool:
    """Tell joules that somebody calculated from a register that may glitch."""
    return str(readings.quality) in ("given", "simulated", "estimated")


def _default_limit_w(readings: Readings) -> float:
    if _is_word(readings):
        return float("inf")
    return _WIDE_MAX_POWER_W if readings.scope in _WIDE_SCOPES else DEFAULT_MAX_POWER_W


def _kept(readings: Readings) -> tuple[NDArray[np.intp], list[str]]:
    """Indices of the readings that end a quantum: good, later than the one before, of a new value."""
    good = np.flatnonzero(~readings.missing)
    warnings = []
    if len(good) < len(readings.t_ns):
        warnings.append(f"{len(readings.t_ns) - len(good)} readings of {readings.name} failed and were bridged")
    if not len(good):
        return good, warnings
    t_ns = readings.t_ns[good].astype(np.int64)
    before = np.maximum.accumulate(t_ns)
    ordered = np.concatenate(([True], t_ns[1:] > before[:-1]))
    if not ordered.all():
        warnings.append(f"{(~ordered).sum()} readings of {readings.name} are not later than the one before: left out")
        good = good[ordered]
    value = readings.value[good]
    changed = np.concatenate(([True], value[1:] != value[:-1]))
    changed |= readings.reopened[good]
    changed[-1] = True
    return good[changed], warnings


def _judged(
    readings: Readings, keep: NDArray[np.intp], limit_w: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]:
    """Joules and validity of the intervals between kept readings, with what was wrong in words."""
    value = readings.value[keep].astype(np.uint64)
    t_ns, suspended_ns = (values[keep].astype(np.int64) for values in (readings.t_ns, readings.suspended_ns))
    length_ns = t_ns[1:] - t_ns[:-1]
    fell = value[1:] < value[:-1]
    # Unsigned differences first: a float would lose bits of a large counter.
    counts = (value[1:] - value[:-1]).astype(np.float64)
    if readings.modulus:
        wrapped = value[1:] + (np.uint64(readings.modulus) - value[:-1])
        counts = np.where(fell, wrapped.astype(np.float64), counts)
    energy_j = counts * readings.unit
    reopened = np.diff(np.cumsum(readings.reopened)[keep]) > 0
    slept = np.abs(suspended_ns[1:] - suspended_ns[:-1]) > _SUSPEND_NS
    slack_ns = np.where(readings.window_ns[keep][1:] > 0, _LATE_READ_NS, 0)
    excess = energy_j > limit_w * (length_ns + slack_ns) * 1e-9
    back = fell & (excess if readings.modulus else True)
    spike = excess & ~fell
    reasons = {
        "reopened (its counter may have been reset)": reopened,
        "interrupted by a suspend": slept & ~reopened,
        "seen to go backwards": back & ~reopened & ~slept,
        f"seen above {limit_w:g} W": spike & ~reopened & ~slept,
    }
    faults = [
        f"{readings.name} was {why} in {bad.sum()} intervals ({length_ns[bad].sum() * 1e-9:.3g} s): "
        "no energy is given for that time"
        for why, bad in reasons.items()
        if bad.any()
    ]
    valid = ~(reopened | slept | back | spike)
    if readings.modulus:
        twice = valid & np.isfinite(limit_w) & (limit_w * length_ns * 1e-9 > 2 * readings.modulus * readings.unit)
        if twice.any():
            faults.append(f"{readings.name} may have wrapped more than once in {twice.sum()} long intervals")
    return np.where(valid, energy_j, 0.0), valid, faults
