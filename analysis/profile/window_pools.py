"""What pools of native threads add in the windows of a long recording, and how that is added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.accounts import NativeTotals
from tprof.analysis.attribution.natives.pools import PoolJoules
from tprof.analysis.attribution.segment_energy import sum_by

from .native_threads import NativeBounds, native_facts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tprof.analysis.attribution.natives.cuts import PoolCut
    from tprof.analysis.attribution.natives.pools import CutPool, StreamedPools
    from tprof.analysis.attribution.natives.segments import NativeSegments

Floats = NDArray[np.float64]


@dataclass
class WindowNativeTotals(NativeTotals):
    """What native threads add in a window; bounds of runs need the joules of other windows, and are 0 without.

    Attributes
    ----------
    cuts : the pools that have segments in the window
    own_ns : from when to when runs begin that count in the window
    sums : over all windows, to which those of this one are added
    known : those sums if all windows were shared before
    domain : number of the counted domain that is shared
    """

    cuts: Sequence[CutPool]
    own_ns: tuple[int, int]
    sums: PoolSums
    known: PoolSums | None
    domain: int = 0

    @classmethod
    def begin(
        cls, own_ns: tuple[int, int], cuts: Sequence[CutPool], sums: PoolSums, known: PoolSums | None, rows: int
    ) -> WindowNativeTotals:
        """Begin with the CPU seconds that count in the window, of so many instances."""
        begin_ns, end_ns = own_ns
        cpu_s = np.zeros(rows)
        for one in cuts:
            native = one.segments
            own = (native.t_ns[:-1] >= begin_ns) & (native.t_ns[:-1] < end_ns)
            cpu_s += native.by_row(np.where(own, native.cpu_s, 0.0), rows)
        joules, spin_j, least_j, most_j = np.zeros((4, rows))
        return cls(cpu_s, joules, spin_j, least_j, most_j, cuts, own_ns, sums, known)

    def add_nothing(self) -> None:
        """Add a domain without quanta in the window; what its runs may have used lies in other windows."""
        for number, one in enumerate(self.cuts):
            native = one.segments
            self.add(number, native, np.zeros(len(native.cpu_s)), np.zeros(len(self.joules)))

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats) -> None:
        """Add the joules of a pool in one domain, to the sums of tasks and pools too."""
        super().add(number, native, energy_j, own_j)
        pool = self.cuts[number]
        if self.known is not None:
            begin_ns, end_ns = self.own_ns
            own = (native.runs.begin_ns >= begin_ns) & (native.runs.begin_ns < end_ns)
            # The joules of runs that begin here may lie in other windows.
            bounds_j = self.known.joules[self.domain][pool.number].bounds(native.runs.kept(own))
            least_j, most_j = (sum_by(native.run_row[own], part_j, len(own_j)) for part_j in bounds_j)
            self.least_j += least_j
            self.most_j += most_j
        self.sums.add(self.domain, pool.number, native, energy_j)


class PoolSums:
    """The joules of all pools in the counted domains, added window by window."""

    def __init__(self, pools: StreamedPools, domains: int, tasks: int) -> None:
        """Begin without joules."""
        self._pools = pools
        self.joules = [[PoolJoules(one.cut.usage) for one in pools.pools] for _ in range(domains)]
        self._kinds_j = np.zeros((domains, len(pools.pools), 4))
        self._own_j, self._beside_j = np.zeros((2, domains, len(pools.pools), tasks))

    def add(self, domain: int, number: int, native: NativeSegments, energy_j: Floats) -> None:
        """Add those of a pool's segments in a window in one domain."""
        at, tasks = (domain, number), self._own_j.shape[2]
        self.joules[domain][number].add(native, energy_j)
        self._kinds_j[at] += sum_by(native.kind, energy_j, 4)
        self._own_j[at] += native.by_task([energy_j], tasks)[0, :tasks]
        self._beside_j[at] += native.beside(energy_j, tasks)

    def facts(self, names: Sequence[str]) -> dict[str, Any] | None:
        """Return facts on native threads as plain values."""
        return native_facts(self._pools.pools, list(self._kinds_j.sum(axis=0)), names)

    def bounds(self, names: Sequence[str]) -> NativeBounds:
        """Return bounds of the tasks' joules."""
        sums = np.zeros((2, self._own_j.shape[2]))
        for at in np.ndindex(self._kinds_j.shape[:2]):
            cut = self._pools.pools[at[1]].cut
            sums += _task_bounds(cut, self._own_j[at], self._beside_j[at], float(self._kinds_j[at].sum()))
        return NativeBounds.of(sums[0], sums[1], names)


def _task_bounds(cut: PoolCut, own_j: Floats, beside_j: Floats, all_j: float) -> Floats:
    """Return the least and the most joules of each task, at those that a CPU second took while it ran: (2, tasks).

    Parameters
    ----------
    cut : the pool's CPU time
    own_j, beside_j : (tasks,) of segments of `OF_TASK`, and of all segments in which each task ran
    all_j : of all segments
    """
    beside_s = cut.sums.beside_s
    mean = all_j / max(cut.sums.cpu_s, 1e-300)
    per_s = np.divide(beside_j, beside_s, out=np.full(len(own_j), mean), where=beside_s > 0)
    least_j, most_j = cut.extremes_s * per_s
    return np.stack((np.minimum(least_j, own_j), np.maximum(most_j, own_j)))
