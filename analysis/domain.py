"""One energy domain, attributed: two passes over the threads' segments, and the four accounts.

The first pass sums modelled energy per quantum, the second hands the joules out. Between them stand the shares of
other programs and unseen threads, which have no counters: a busy second of theirs weighs as much as a mean seen
second of that quantum. In a quantum without tasks less than one busy core shares with nobody: a machine that
waits is idle, even though something always ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .attribution import Density, Placement, place, share, sum_per_quantum
from .static import CoreTime

if TYPE_CHECKING:
    import numpy.typing as npt

    from .busy import Others
    from .quanta import Quanta
    from .segments import Segments

    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Accounts:
    """Where a domain's joules went; the four sum to what was measured."""

    measured_j: float
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float


@dataclass(frozen=True)
class Handed:
    """What a thread's segments get.

    Attributes
    ----------
    dynamic_j, static_j : (n,) float64.
    placement : where the segments lie.
    head_j, tail_j : (c,) float64, of dynamic_j, what a crossing segment got in its first and last quantum.
    """

    dynamic_j: Floats
    static_j: Floats
    placement: Placement
    head_j: Floats
    tail_j: Floats


class DomainAttribution:
    """Attributes one domain; use it in the order `add` for every thread, `settle`, `hand_out` for every thread."""

    def __init__(self, quanta: Quanta, package: int | None, static_w: float) -> None:
        """Begin.

        Parameters
        ----------
        quanta
            The domain's.
        package
            Whose segments it covers; None: all.
        static_w
            Power with nobody running, 0 where it is not known.
        """
        self.quanta = quanta
        self.package = package
        count = len(quanta.energy_j)
        energy_j = np.nan_to_num(quanta.energy_j, nan=0.0)
        self.static_j = np.minimum(energy_j, static_w * quanta.duration_s())
        self.dynamic_j = energy_j - self.static_j
        self.tasks = np.zeros(count)
        self.runtime = np.zeros(count)
        self.task_seconds = np.zeros(count)
        self.runtime_seconds = np.zeros(count)
        self.core_time = CoreTime(quanta.edges_ns)
        self.idle_j = energy_j.sum()
        self.tasks_j = self.runtime_j = self.other_j = 0.0

    def add(self, segments: Segments, modelled: Floats, weight: Floats | float) -> Placement:
        """First pass: a thread's modelled energy; `weight` is the part of each segment that this domain covers."""
        edges = self.quanta.edges_ns
        placement = place(segments.edges_ns, edges)
        owned = segments.instance != 0
        amount = modelled * weight
        running = segments.running_s * weight
        of_tasks, running_of_tasks = np.where(owned, amount, 0.0), np.where(owned, running, 0.0)
        self.tasks += sum_per_quantum(placement, of_tasks, edges)
        self.task_seconds += sum_per_quantum(placement, running_of_tasks, edges)
        self.runtime += sum_per_quantum(placement, amount - of_tasks, edges)
        self.runtime_seconds += sum_per_quantum(placement, running - running_of_tasks, edges)
        if self.static_j.any():
            self.core_time.add(placement, segments, running)
        return placement

    def settle(self, others: Others, package_share: float) -> None:
        """Between the passes: fix joules per modelled joule, and the accounts of those whom no sample shows."""
        edges = self.quanta.edges_ns
        length_s = self.quanta.duration_s()
        unseen_s = others.in_quanta(others.unseen, edges) * package_share if len(others.unseen) else np.zeros(len(length_s))
        other_s = np.zeros(len(length_s))
        for package, cumulated in others.other.items():
            if self.package is None or package == self.package:
                other_s += others.in_quanta(cumulated, edges)
        mean_w = self._mean_power()
        unseen, other = unseen_s * mean_w, other_s * mean_w
        modelled = self.tasks + self.runtime + unseen + other
        busy_cores = np.divide(self.runtime_seconds + unseen_s + other_s, length_s)
        awake = np.where(self.task_seconds > 0, 1.0, np.minimum(busy_cores, 1.0))
        self.per_modelled = np.divide(
            self.dynamic_j * awake, modelled, out=np.zeros(len(modelled)), where=modelled > 0
        )
        extra_cores = (unseen_s + other_s) / length_s
        idle_static = (self.task_seconds <= 0) & (self.runtime_seconds <= 0)
        static_j = np.where(idle_static, self.static_j * awake, self.static_j)
        self._static, per_extra_core_j = self.core_time.densities(static_j, extra_cores)
        self.runtime_j = float((unseen * self.per_modelled + unseen_s / length_s * per_extra_core_j).sum())
        self.other_j = float((other * self.per_modelled + other_s / length_s * per_extra_core_j).sum())
        self._density = Density.of(self.per_modelled, edges)

    def _mean_power(self) -> Floats:
        """Return modelled watts of a seen busy second in each quantum; without one, of the recording; else 1."""
        seconds = self.task_seconds + self.runtime_seconds
        modelled = self.tasks + self.runtime
        whole = float(modelled.sum()) / float(seconds.sum()) if seconds.sum() > 0 and modelled.sum() > 0 else 1.0
        return np.divide(modelled, seconds, out=np.full(len(seconds), whole), where=(seconds > 0) & (modelled > 0))

    def hand_out(self, segments: Segments, placement: Placement, modelled: Floats, weight: Floats | float) -> Handed:
        """Second pass: return what a thread's segments get, and enter it in the accounts."""
        shares = share(placement, modelled * weight, self._density)
        static_j = self._static_share(segments, placement, weight)
        owned = segments.instance != 0
        both = shares.total + static_j
        of_tasks = float(both[owned].sum())
        self.tasks_j += of_tasks
        self.runtime_j += float(both.sum()) - of_tasks
        return Handed(shares.total, static_j, placement, shares.head, shares.tail)

    def _static_share(self, segments: Segments, placement: Placement, weight: Floats | float) -> Floats:
        running = segments.running_s * weight
        static_j = np.zeros(len(running))
        if not self.static_j.any():
            return static_j
        cores = self.core_time.core_of(segments.cpu)
        for core, density in self._static.items():
            on_core = cores == core
            if not on_core.any():
                continue
            amount = running if on_core.all() else np.where(on_core, running, 0.0)
            static_j += share(placement, amount, density).total
        return static_j

    def accounts(self) -> Accounts:
        """Return the accounts; what nobody got was idle."""
        measured_j = self.quanta.measured_j
        given = self.tasks_j + self.runtime_j + self.other_j
        return Accounts(measured_j, self.tasks_j, self.runtime_j, self.other_j, max(measured_j - given, 0.0))
