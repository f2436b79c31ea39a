"""A session that has ended: all its inputs are known, so its figures are those of the profile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tprof.analysis.attribution.hidden import measure_hidden
from tprof.analysis.attribution.idle_power import idle_powers
from tprof.analysis.attribution.incremental import Rows
from tprof.analysis.attribution.load import read_pools
from tprof.analysis.attribution.quanta import build_quanta
from tprof.analysis.attribution.segments import find_cut_off, thread_end_ns
from tprof.analysis.attribution.sharing import static_watts
from tprof.trace.kinds import EndReason

from .readings import Readings
from .threads import FollowedThread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.trace import Trace

    from .threads import Learn

CELLS = 4096
"""Of the grid of hidden CPU time, followed at a time."""


class EndedReadings(Readings):
    """The readings of a trace."""

    def __init__(self, trace: Trace, learn: Learn) -> None:
        """Read them. Raises TraceError."""
        self._end_ns = trace.end_ns
        processes = {thread.pid: thread.process for thread in trace.threads}
        self._pools = [(segments, processes.get(pid, 0)) for pid, segments in read_pools(trace)]
        usage = _CpuTime(trace, learn, [segments for segments, _ in self._pools])
        super().__init__(measure_hidden(trace.readings, usage.first_ns, usage.seen_s))
        energies = [one for one in trace.readings.values() if one.quantity == "energy"]
        wholes = [build_quanta(reading) for reading in sorted(energies, key=lambda one: one.name)]
        idle = idle_powers(wholes, trace)
        static_w = static_watts(trace.manifest) | {name: one.watts for name, one in idle.items()}
        for whole in wholes:
            reading = trace.readings[whole.name]
            self._add_package(reading.package)
            quanta = whole.between(trace.start_ns, trace.end_ns)[0]
            if reading.counted and len(quanta):
                domain = self._enter(quanta.name, quanta.quality, quanta.package, static_w, scope=quanta.scope)
                domain.append(quanta.edges_ns, quanta.energy_j)
                domain.lead_in_j = float(whole.between(int(whole.edges_ns[0]), trace.start_ns)[0].energy_j.sum())
                domain.known_j += domain.lead_in_j
                domain.is_whole = True
            elif len(quanta):
                self._show(quanta.name, quanta.quality, quanta.package).append(quanta.edges_ns, quanta.energy_j)

    @property
    def last_ns(self) -> int | None:
        """Time up to which everything is known."""
        return self._end_ns

    def native(self, edges_ns: NDArray[np.int64]) -> Rows:
        """Return the rows of native threads between edges."""
        rows = Rows.of(b"")
        for segments, process in self._pools:
            rows = rows.joined(Rows.of_native(segments, edges_ns, process))
        return rows


def followed(trace: Trace, *, moments: bool = False) -> list[FollowedThread]:
    """Return the threads, from their first samples on. Raises TraceError."""
    cut_off = find_cut_off(trace)
    return [
        FollowedThread(
            thread,
            end_ns=thread_end_ns(trace, thread),
            cut_off_s=cut_off[thread.ordinal].cpu_s if thread.ordinal in cut_off else math.inf,
            moments=moments,
            stops=thread.end_reason == EndReason.OPEN,
        )
        for thread in trace.threads
    ]


class _CpuTime:
    """Sums the CPU time of the samples, before they are followed for their joules."""

    def __init__(self, trace: Trace, learn: Learn, pools: Sequence[NativeSegments]) -> None:
        self._trace, self._learn, self._pools = trace, learn, pools
        parts = [thread.stream.read_part(thread.dtype, 0, 1) for thread in trace.threads if thread.count]
        ends = [thread_end_ns(trace, thread) for thread in trace.threads if thread.count]
        firsts = [min(int(part["t_ns"][0]), end_ns) for part, end_ns in zip(parts, ends, strict=True) if len(part)]
        self.first_ns = min(firsts, default=None)

    def seen_s(self, grid_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the CPU seconds of all segments and pools from the first of some times to each of them."""
        used_s = np.zeros(len(grid_ns))
        threads = followed(self._trace)
        for first in range(0, len(grid_ns) - 1, CELLS):
            edges_ns = grid_ns[first : first + CELLS + 1]
            for thread in threads:
                rows = Rows.of(thread.follow(edges_ns.tobytes(), int(edges_ns[-1]), self._learn)[0])
                cell = np.searchsorted(edges_ns, rows.begin_ns, side="right") + first
                used_s += np.bincount(cell, weights=rows.cpu_s, minlength=len(grid_ns))
        total_s = np.cumsum(used_s)
        for one in self._pools:
            of_pool_s = np.interp(grid_ns, one.t_ns, np.append(0.0, np.cumsum(one.cpu_s)))
            total_s += of_pool_s - of_pool_s[0]
        return total_s
