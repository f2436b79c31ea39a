"""From a domain's raw readings to quanta: joules between two moments, or a gap that says why it is one.

Outcomes (docs/attribution.md has them as a table): readings of the same value merge into one quantum; a single
failed read merges, since the counter is cumulative and nothing is invented; a counter that was reopened, fell
without a plausible wrap, rose faster than `max_power_w`, or slept through a suspend gives a gap. Cost: O(readings).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tprof.trace import Readings

MAX_POWER_W = 1000.0
STUCK_FACTOR = 20
STUCK_NS = 100_000_000


@dataclass(frozen=True)
class Quanta:
    """A domain's quanta, one after the other.

    Attributes
    ----------
    name : the domain.
    edges_ns : (q + 1,) int64, increasing strictly.
    energy_j : (q,) float64, joules measured in each; NaN in a gap.
    warnings : what a user should know about this sensor.
    """

    name: str
    edges_ns: npt.NDArray[np.int64]
    energy_j: npt.NDArray[np.float64]
    warnings: tuple[str, ...] = ()

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Which quanta are no gaps, (q,) bool."""
        return ~np.isnan(self.energy_j)

    @property
    def measured_j(self) -> float:
        """Joules of all quanta together."""
        return float(np.nansum(self.energy_j))

    def duration_s(self) -> npt.NDArray[np.float64]:
        """Length of each quantum, (q,) seconds."""
        return np.diff(self.edges_ns) * 1e-9


def make_quanta(readings: Readings, max_power_w: float = MAX_POWER_W) -> Quanta:
    """Make the quanta of an energy domain.

    Parameters
    ----------
    readings
        Of quantity "energy".
    max_power_w
        What the domain cannot exceed; a faster rise is a fault of the sensor.
    """
    warnings: list[str] = []
    order = np.argsort(readings.t_ns, kind="stable")
    good = order[~readings.missing[order]]
    missed = int(readings.missing.sum())
    if missed:
        warnings.append(f"{readings.name}: {missed} readings failed; the energy around them is taken from those that did not")
    t_ns, value = readings.t_ns[good], readings.value[good]
    reopened, suspended_ns = readings.reopened[good], readings.suspended_ns[good]
    later = np.concatenate([[True], np.diff(t_ns) > 0]) if len(t_ns) else np.zeros(0, bool)
    t_ns, value, reopened, suspended_ns = t_ns[later], value[later], reopened[later], suspended_ns[later]
    if len(t_ns) < 2:  # noqa: PLR2004 - a quantum has two ends
        warnings.append(f"{readings.name}: fewer than two good readings, so no energy is known")
        return Quanta(readings.name, t_ns[:1], np.zeros(0), tuple(warnings))
    energy_j, faults = _differences(t_ns, value, readings, max_power_w)
    asleep = np.diff(suspended_ns) > 1_000_000  # noqa: PLR2004 - two clocks read one after the other differ a little
    gap = faults | reopened[1:] | asleep
    warnings += _tell_gaps(readings, faults, reopened[1:], asleep, t_ns)
    energy_j[gap] = np.nan
    warnings += _tell_still(readings, t_ns, energy_j)
    return _merge(readings.name, t_ns, energy_j, warnings)


def _differences(
    t_ns: npt.NDArray[np.int64], value: npt.NDArray[np.uint64], readings: Readings, max_power_w: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return joules of each interval, wraps undone in whole numbers, and where they cannot be right."""
    fell = value[1:] < value[:-1]
    steps = value[1:] - value[:-1]
    if readings.modulus is not None:
        steps = np.where(fell, np.uint64(readings.modulus) - value[:-1] + value[1:], steps)
        impossible = np.maximum(value[1:], value[:-1]) > np.uint64(readings.modulus)
    else:
        impossible = fell
    energy_j = steps.astype(np.float64) * readings.unit
    limit_j = max_power_w * np.diff(t_ns) * 1e-9
    # A short interval may show the energy of the one before it, so the limit has some slack.
    slack_j = max_power_w * 0.005
    believable = readings.quality in {"given", "simulated"}
    return energy_j, impossible | ((energy_j > limit_j + slack_j) & (fell | (not believable)))


def _tell_gaps(
    readings: Readings,
    faults: npt.NDArray[np.bool_],
    reopened: npt.NDArray[np.bool_],
    asleep: npt.NDArray[np.bool_],
    t_ns: npt.NDArray[np.int64],
) -> list[str]:
    told = []
    if faults.any():
        told.append(f"{readings.name}: {int(faults.sum())} intervals are left out, since the counter fell or rose faster than the sensor can")
    if reopened.any():
        told.append(f"{readings.name}: the sensor vanished and came back {int(reopened.sum())} times; the energy between is unknown")
    if asleep.any():
        told.append(f"{readings.name}: the machine was suspended {int(asleep.sum())} times; these intervals are left out")
    if readings.modulus is not None:
        twice_s = readings.modulus * readings.unit / MAX_POWER_W
        if (np.diff(t_ns) * 1e-9 > twice_s).any():
            told.append(f"{readings.name}: readings were more than {twice_s:.0f} s apart, so the counter may have wrapped unseen")
    return told


def _tell_still(
    readings: Readings, t_ns: npt.NDArray[np.int64], energy_j: npt.NDArray[np.float64]
) -> list[str]:
    """Say when a sensor that moved stopped doing so, or never moved."""
    moved = np.flatnonzero(energy_j > 0)
    if not len(moved):
        return [f"{readings.name}: the sensor never moved, so no energy is known"]
    if len(moved) < 3 or readings.quality in {"given", "simulated"}:  # noqa: PLR2004 - no usual gap yet
        return []
    usual_ns = float(np.median(np.diff(t_ns[moved + 1])))
    still_ns = int(t_ns[-1] - t_ns[moved[-1] + 1])
    if still_ns > max(STUCK_FACTOR * usual_ns, STUCK_NS):
        since_s = (int(t_ns[moved[-1] + 1]) - int(t_ns[0])) * 1e-9
        return [f"{readings.name}: the sensor is stuck since {since_s:.2f} s; what ran later is not resolved"]
    return []


def _merge(
    name: str, t_ns: npt.NDArray[np.int64], energy_j: npt.NDArray[np.float64], warnings: list[str]
) -> Quanta:
    """Let each quantum end where the value changed; what stands still at the very end is a gap."""
    ends = np.flatnonzero((energy_j > 0) | np.isnan(energy_j))
    before_gap = np.flatnonzero(np.isnan(energy_j[1:])) if len(energy_j) > 1 else np.zeros(0, np.int64)
    ends = np.union1d(ends, before_gap)
    if not len(ends) or not (energy_j > 0).any():
        return Quanta(name, t_ns[[0, -1]], np.array([np.nan]), tuple(warnings))
    starts = np.concatenate([[0], ends[:-1] + 1])
    totals = np.add.reduceat(energy_j[: ends[-1] + 1], starts)
    edges = np.concatenate([[0], ends + 1])
    if ends[-1] < len(energy_j) - 1:
        edges = np.append(edges, len(t_ns) - 1)
        totals = np.append(totals, np.nan)
    return Quanta(name, t_ns[edges], totals, tuple(warnings))

