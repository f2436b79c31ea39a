"""Shares one domain's quanta by modelled energy, among segments and CPU time without samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.bounds import LEAST_BUSY_CORES

from .attribution import Rate, Shares, gather, padded, rates
from .static import Static, plan_static

if TYPE_CHECKING:
    from .load import Load
    from .quanta import Quanta

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sharing:
    """The rates of segments in each quantum, and the joules that go to no segment.

    Attributes
    ----------
    load : the segments that share
    measured : the quanta as the sensor resolved them; those of `load` may be pieces of them
    owner : for each piece its quantum, as padded indices; None if they are the same
    rate : joules per modelled unit in each quantum
    dynamic_j : (k,) joules of each measured quantum above the static ones
    static : shares of static joules; None without any
    static_load : the load that shares them, in the measured quanta
    """

    load: Load
    measured: Quanta
    owner: NDArray[np.int32] | None
    rate: Rate
    dynamic_j: Floats
    static: Static | None
    static_load: Load
    other_j: float
    unseen_j: float
    idle_j: float

    def quantum(self, index: int) -> NDArray[np.int32]:
        """Return the measured quantum of each of a thread's samples, padded."""
        quantum = self.load.lanes[index].quantum
        return quantum if self.owner is None else self.owner[quantum]

    def segment_shares(self, index: int) -> tuple[Shares, Floats | None]:
        """Return dynamic shares and static joules of one thread's segments."""
        shares = gather(self.load.lanes[index], self.load.quanta.edges_ns, self.rate)
        if self.static is None:
            return shares, None
        row, load = self.static.cores[index], self.static_load
        return shares, gather(load.busy_lane(index), load.quanta.edges_ns, self.static.rate, row=row).energy_j

    def with_static(self, load: Load, static_j: Floats) -> Sharing:
        """Return the same sharing with static joules, (k,) of the measured quanta, shared among their load."""
        if not static_j.any():
            return self
        static = plan_static(load, static_j)
        return replace(
            self,
            static=static,
            static_load=load,
            other_j=self.other_j + static.other_j,
            unseen_j=self.unseen_j + static.unseen_j,
            idle_j=self.idle_j + static.idle_j,
        )


def plan_sharing(load: Load, static_power_w: float | Floats, hidden_power: float | None = None) -> Sharing:
    """Compute the rates of one domain.

    Parameters
    ----------
    load : of the domain
    static_power_w : constant or of each quantum; 0 if not known
    hidden_power : modelled power of CPU time without samples; by default the mean of CPU time with samples
    """
    quanta = load.quanta
    hidden_s = (load.other_s, load.unseen_s)
    edges_ns = quanta.edges_ns
    width = len(edges_ns) + 1
    seconds = np.diff(edges_ns) * 1e-9
    static_j = np.minimum(quanta.energy_j, static_power_w * seconds)
    dynamic_j = quanta.energy_j - static_j
    seen = load.modelled()
    mean = _mean_power(seen, load.busy_s()) if hidden_power is None else np.full(width, hidden_power)
    total = seen + mean * padded(hidden_s[0] + hidden_s[1])
    claimed = _claimed(load, total, mean * padded(seconds))
    rate = rates(padded(dynamic_j), claimed)
    per_second = (rate * mean)[1:-1]
    sharing = Sharing(
        load,
        quanta,
        None,
        Rate.of(rate, edges_ns),
        dynamic_j,
        static=None,
        static_load=load,
        other_j=float(per_second @ hidden_s[0]),
        unseen_j=float(per_second @ hidden_s[1]),
        idle_j=float(padded(dynamic_j)[claimed <= 0].sum() + rate @ (claimed - total)),
    )
    return sharing.with_static(load, static_j)


def _claimed(load: Load, total: Floats, core: Floats) -> Floats:
    """Return the modelled energy that shares a quantum, with idle time if less than one core is busy and no task runs.

    Parameters
    ----------
    load : of the domain
    total : modelled energy in each quantum, padded
    core : modelled energy of one busy core
    """
    loose = (total > 0) & (total < core)
    if not loose.any():
        return total
    least = np.where(load.without_tasks(), core, LEAST_BUSY_CORES * core)
    return np.where(loose, np.maximum(total, least), total)


def _mean_power(seen: Floats, cpu_s: Floats) -> Floats:
    """Modelled power per busy second in each quantum; without samples in it that of the recording, else 1."""
    overall = seen.sum() / cpu_s.sum() if cpu_s.sum() > 0 and seen.sum() > 0 else 1.0
    usable = (cpu_s > 1e-12) & (seen > 0)
    return np.divide(seen, cpu_s, out=np.full_like(seen, overall), where=usable)
