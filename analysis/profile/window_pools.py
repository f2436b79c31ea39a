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

    from tprof.analysis.attribution.instances import Joined
    from tprof.analysis.attribution.natives.pools import CutPool, StreamedPools, WindowPool
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.windows import Window

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
    pools : by number, with what is known of them
    cuts : those that have segments in the window
    window : the window
    domain : number of the counted domain that is shared
    shares : what was noted
    """

    pools: Sequence[WindowPool] = ()
    cuts: Sequence[CutPool] = ()
    window: Window | None = None
    domain: int = 0
    shares: list[PoolShares] = field(default_factory=list)

    @classmethod
    def begin(
        cls, window: Window, pools: Sequence[WindowPool], cuts: Sequence[CutPool], joined: Joined
    ) -> WindowNativeTotals:
        """Begin with the CPU seconds that count in the window."""
        rows, (begin_ns, end_ns) = joined.parts, window.own_ns
        cpu_s = np.zeros(rows)
        for one in cuts:
            native = one.segments
            own = (native.t_ns[:-1] >= begin_ns) & (native.t_ns[:-1] < end_ns)
            cpu_s += native.by_row(np.where(own, native.cpu_s, 0.0), rows)
        joules, spin_j, least_j, most_j = np.zeros((4, len(joined.rows)))
        return cls(joined.to_rows(cpu_s), joules, spin_j, least_j, most_j, pools, cuts, window)

    def add_nothing(self, joined: Joined) -> None:
        """Add a domain without quanta in the window; what its runs may have used lies in other windows."""
        for number, one in enumerate(self.cuts):
            native = one.segments
            self.add(number, native, np.zeros(len(native.cpu_s)), np.zeros(len(joined.rows)), joined)

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats, joined: Joined) -> None:
        """Add the joules of a pool in one domain, and note the sums of tasks and pools."""
        super().add(number, native, energy_j, own_j, joined)
        pool = self.pools[self.cuts[number].number]
        if pool.bounds is not None and self.window is not None:
            begin_ns, end_ns = self.window.own_ns
            own = (native.runs.begin_ns >= begin_ns) & (native.runs.begin_ns < end_ns)
            # The joules of runs that begin here may lie in other windows.
            of_rows = [
                joined.to_rows(sum_by(native.runs.row, np.where(own, part_j, 0.0), joined.parts))
                for part_j in pool.bounds[self.domain].of(native.runs)
            ]
            self.least_j += of_rows[0]
            self.most_j += of_rows[1]
        cut = pool.found.cut
        tasks = cut.facts.tasks
        task_j = native.by_task([energy_j], tasks)[0, :tasks]
        bounds = TaskBounds(task_j, native.beside(energy_j, tasks), np.zeros(0), float(energy_j.sum()))
        first, joules = joules_between_reads(cut.usage.grid_ns, native, energy_j)
        kinds_j = sum_by(native.kind, energy_j, 4)
        self.shares.append(PoolShares(self.domain, pool.number, kinds_j, bounds, first + cut.first_read, joules))


class PoolSums:
    """The joules of all pools in the counted domains, added window by window."""

    def __init__(self, pools: StreamedPools, domains: int, tasks: int) -> None:
        """Begin without joules."""
        self._pools = pools
        self.joules = [[PoolJoules(one.cut) for one in pools.pools] for _ in range(domains)]
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
            sums += own.of(*cut.found_extremes(), cut.sums.cpu_s)
        return NativeBounds.of(sums[0], sums[1], names)
