"""Shares one domain's quanta by modelled energy, among segments and CPU time without samples.

The rules see sums per quantum only, so they hold for a window of a recording as for the quanta that have just ended in
one that runs (`tprof.live.sharing`):

- Static power takes its part first. It goes to whoever uses CPU time, in proportion to that.
- The rest goes by modelled energy.
- If less than one core is busy in a quantum, the remainder of one core is idle and takes its part. While a task runs,
  it waits for something, so only `LEAST_BUSY_CORES` count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.bounds import LEAST_BUSY_CORES

from .segment_energy import gather, padded, rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .load import Load
    from .quanta import Quanta

Floats = NDArray[np.float64]


def static_watts(manifest: Mapping[str, object]) -> dict[str, float]:
    """Return the static watts that a manifest gives, by domain."""
    given_w = manifest.get("static_power_w")
    return {
        str(name): float(watts)
        for name, watts in (given_w.items() if isinstance(given_w, dict) else ())
        if isinstance(watts, int | float) and np.isfinite(watts) and watts > 0
    }


def split_static(energy_j: Floats, static_w: float | Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return the static joules of quanta and the rest."""
    static_j = np.minimum(energy_j, static_w * seconds)
    return static_j, energy_j - static_j


def dynamic_rates(
    energy_j: Floats, used: Floats, core: Floats, without_tasks: Callable[[], NDArray[np.bool_]]
) -> tuple[Floats, float]:
    """Return joules per unit of modelled energy in each quantum, and the idle joules.

    Parameters
    ----------
    energy_j : joules above the static ones
    used : modelled energy
    core : modelled energy of one busy core
    without_tasks : returns in which quanta no task runs; called if less than one core is busy somewhere
    """
    loose = (used > 0) & (used < core)
    if not loose.any():
        return _rates(energy_j, used, used)
    least = np.where(without_tasks(), core, LEAST_BUSY_CORES * core)
    return _rates(energy_j, used, np.where(loose, np.maximum(used, least), used))


def static_rates(energy_j: Floats, busy_s: Floats, seconds: Floats) -> tuple[Floats, float]:
    """Return joules per CPU second in each quantum, and the idle joules.

    Parameters
    ----------
    energy_j : static joules
    busy_s, seconds : CPU seconds, and the length of the quantum
    """
    return _rates(energy_j, busy_s, np.maximum(busy_s, seconds))


def _rates(energy_j: Floats, used: Floats, claimed: Floats) -> tuple[Floats, float]:
    """Return joules per unit that is claimed, and the joules of idle time and of quanta without claims."""
    rate = rates(energy_j, claimed)
    return rate, float(energy_j[claimed <= 0].sum() + (rate * (claimed - used)).sum())


@dataclass(frozen=True)
class Sharing:
    """The rates of segments in each quantum, and the joules that go to no segment.

    Attributes
    ----------
    load : the segments that share
    measured : the quanta as the sensor resolved them; those of `load` may be pieces of them
    owner : for each piece its quantum, as padded indices; None if they are the same
    rate : joules per modelled unit in each quantum, padded
    dynamic_j : (k,) joules of each measured quantum above the static ones
    static_rate : static joules per CPU second, padded; None without any
    static_load : the load that shares them, in the measured quanta
    """

    load: Load
    measured: Quanta
    owner: NDArray[np.int32] | None
    rate: Floats
    dynamic_j: Floats
    static_rate: Floats | None
    static_load: Load
    other_j: float
    unseen_j: float
    idle_j: float

    def energies(self) -> Iterator[Floats]:
        """Yield the joules of the segments of each thread, then of each pool."""
        for number, one in enumerate(self.load.located):
            energy_j = gather(one, self.rate)
            if self.static_rate is not None:
                energy_j += gather(self.static_load.busy_segments(number), self.static_rate)
            yield from (energy_j[at] for at in one.parts())

    def with_static(self, load: Load, static_j: Floats) -> Sharing:
        """Return the same sharing with static joules, (k,) of the measured quanta, shared among their load."""
        if not static_j.any():
            return self
        edges_ns = load.quanta.edges_ns
        busy_s = load.busy_s + padded(load.hidden_s)
        rate, idle_j = static_rates(padded(static_j), busy_s, padded(np.diff(edges_ns) * 1e-9))
        return replace(
            self,
            static_rate=rate,
            static_load=load,
            other_j=self.other_j + float(rate[1:-1] @ load.other_s),
            unseen_j=self.unseen_j + float(rate[1:-1] @ load.unseen_s),
            idle_j=self.idle_j + idle_j,
        )


def plan_sharing(
    load: Load,
    static_power_w: float | Floats,
    hidden_power: float | None = None,
    mean_power: Callable[[], float] | None = None,
) -> Sharing:
    """Compute the rates of one domain.

    Parameters
    ----------
    load : of the domain
    static_power_w : constant or of each quantum; 0 if not known
    hidden_power : modelled power of CPU time without samples; by default the mean of CPU time with samples
    mean_power : returns that of the whole recording, for quanta without CPU time with samples; None: of this load
    """
    quanta, edges_ns = load.quanta, load.quanta.edges_ns
    seconds = np.diff(edges_ns) * 1e-9
    static_j, dynamic_j = split_static(quanta.energy_j, static_power_w, seconds)
    seen = load.modelled()
    mean = _mean_power(seen, load, mean_power) if hidden_power is None else np.full(len(seen), hidden_power)
    used = seen + mean * padded(load.hidden_s)
    rate, idle_j = dynamic_rates(padded(dynamic_j), used, mean * padded(seconds), load.without_tasks)
    per_second = (rate * mean)[1:-1]
    sharing = Sharing(
        load,
        quanta,
        None,
        rate,
        dynamic_j,
        static_rate=None,
        static_load=load,
        other_j=float(per_second @ load.other_s),
        unseen_j=float(per_second @ load.unseen_s),
        idle_j=idle_j,
    )
    return sharing.with_static(load, static_j)


def _mean_power(seen: Floats, load: Load, overall: Callable[[], float] | None) -> Floats:
    """Modelled power per busy second in each quantum; without samples in it that of the recording, else 1."""
    cpu_s = load.busy_s
    usable = (cpu_s > 1e-12) & (seen > 0)
    if overall is None:
        mean = float(seen.sum() / cpu_s.sum()) if cpu_s.sum() > 0 and seen.sum() > 0 else 1.0
    else:
        mean = overall() if (~usable & ((seen > 0) | (padded(load.hidden_s) > 0))).any() else 1.0
    return np.divide(seen, cpu_s, out=np.full_like(seen, mean), where=usable)
