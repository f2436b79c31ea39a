"""What pools of native threads add in the windows of a long recording, and how that is added up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.accounts import NativeTotals
from tprof.analysis.attribution.natives.pools import PoolJoules, joules_between_reads
from tprof.analysis.attribution.natives.segments import TaskBounds
from tprof.analysis.attribution.segment_energy import sum_by

from .native_threads import NativeBounds, PoolFacts, native_facts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tprof.analysis.attribution.natives.pools import CutPool, StreamedPools
    from tprof.analysis.attribution.natives.segments import NativeSegments

Floats = NDArray[np.float64]


class PoolShares(NamedTuple):
    """The joules of a pool in one domain in a window.

    Attributes
    ----------
    domain, number : of the counted domain, and of the pool
    kinds_j : of each kind
    bounds : sums from which bounds of tasks follow
    first, joules : between which reads, as of `PoolJoules`
    """

    domain: int
    number: int
    kinds_j: Floats
    bounds: TaskBounds
    first: int
    joules: Floats


@dataclass
class WindowNativeTotals(NativeTotals):
    """What native threads add in a window; bounds of runs need the joules of other windows, and are 0 without.

    Attributes
    ----------
    cuts : the pools that have segments in the window
    known : by counted domain the joules of all pools; empty: they are not known yet
    tasks : their number
    own_ns : from when to when runs begin that count in the window
    domain : number of the counted domain that is shared
    shares : what was noted
    """

    cuts: Sequence[CutPool] = ()
    known: Sequence[Sequence[PoolJoules]] = ()
    tasks: int = 0
    own_ns: tuple[int, int] = (0, 0)
    domain: int = 0
    shares: list[PoolShares] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        own_ns: tuple[int, int],
        cuts: Sequence[CutPool],
        known: Sequence[Sequence[PoolJoules]],
        tasks: int,
        rows: int,
    ) -> WindowNativeTotals:
        """Begin with the CPU seconds that count in the window, of so many tasks and instances."""
        begin_ns, end_ns = own_ns
        cpu_s = np.zeros(rows)
        for one in cuts:
            native = one.segments
            own = (native.t_ns[:-1] >= begin_ns) & (native.t_ns[:-1] < end_ns)
            cpu_s += native.by_row(np.where(own, native.cpu_s, 0.0), rows)
        joules, spin_j, least_j, most_j = np.zeros((4, rows))
        return cls(cpu_s, joules, spin_j, least_j, most_j, cuts, known, tasks, own_ns)

    def add_nothing(self) -> None:
        """Add a domain without quanta in the window; what its runs may have used lies in other windows."""
        for number, one in enumerate(self.cuts):
            native = one.segments
            self.add(number, native, np.zeros(len(native.cpu_s)), np.zeros(len(self.joules)))

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats) -> None:
        """Add the joules of a pool in one domain, and note the sums of tasks and pools."""
        super().add(number, native, energy_j, own_j)
        pool = self.cuts[number]
        if self.known:
            begin_ns, end_ns = self.own_ns
            own = (native.runs.begin_ns >= begin_ns) & (native.runs.begin_ns < end_ns)
            # The joules of runs that begin here may lie in other windows.
            bounds_j = self.known[self.domain][pool.number].bounds(native.runs.kept(own))
            least_j, most_j = (sum_by(native.run_row[own], part_j, len(own_j)) for part_j in bounds_j)
            self.least_j += least_j
            self.most_j += most_j
        task_j = native.by_task([energy_j], self.tasks)[0, : self.tasks]
        bounds = TaskBounds(task_j, native.beside(energy_j, self.tasks), np.zeros(0), float(energy_j.sum()))
        first, joules = joules_between_reads(pool.found.cut.usage.grid_ns, native, energy_j)
        kinds_j = sum_by(native.kind, energy_j, 4)
        self.shares.append(PoolShares(self.domain, pool.number, kinds_j, bounds, first, joules))


class PoolSums:
    """The joules of all pools in the counted domains, added window by window."""

    def __init__(self, pools: StreamedPools, domains: int, tasks: int) -> None:
        """Begin without joules."""
        self._pools = pools
        self.joules = [[PoolJoules(one.cut.usage) for one in pools.pools] for _ in range(domains)]
        self._kinds_j = np.zeros((domains, len(pools.pools), 4))
        self._own_j, self._beside_j = np.zeros((2, domains, len(pools.pools), tasks))
        self._all_j = np.zeros((domains, len(pools.pools)))

    def add(self, shares: Sequence[PoolShares]) -> None:
        """Add those of a window."""
        for one in shares:
            at = one.domain, one.number
            self.joules[one.domain][one.number].add(one.first, one.joules)
            self._kinds_j[at] += one.kinds_j
            self._own_j[at] += one.bounds.own_j
            self._beside_j[at] += one.bounds.beside_j
            self._all_j[at] += one.bounds.all_j

    def facts(self, names: Sequence[str]) -> dict[str, Any] | None:
        """Return facts on native threads as plain values."""
        described = [PoolFacts.of_sums(pool) for pool in self._pools.pools]
        return native_facts(described, list(self._kinds_j.sum(axis=0)), names)

    def bounds(self, names: Sequence[str]) -> NativeBounds:
        """Return bounds of the tasks' joules."""
        sums = np.zeros((2, self._own_j.shape[2]))
        for domain, number in np.ndindex(self._all_j.shape):
            cut = self._pools.pools[number].cut
            at = domain, number
            own = TaskBounds(self._own_j[at], self._beside_j[at], cut.sums.beside_s, float(self._all_j[at]))
            sums += own.of(*cut.extremes(), cut.sums.cpu_s)
        return NativeBounds.of(sums[0], sums[1], names)
