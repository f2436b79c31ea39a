"""The pools of native threads of a session that runs: whose work they did, as far as is known by now.

A block and the second before it are looked at as a window of time of a recording that has ended: by the same rules, the
users of a pool are whoever its calls, its creators and its onsets show there. So a task's part is less certain than in
the end, when the whole recording is known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.accounts import NATIVE, NativeTotals
from tprof.analysis.attribution.natives.cuts import EVER, Parts
from tprof.analysis.attribution.natives.pools import BY_CPU_TIME, StreamedPools
from tprof.analysis.attribution.natives.segments import OUTSIDE, SPINNING, UNIDENTIFIED, Reach, Runs
from tprof.analysis.attribution.natives.users import Recorded, find_pools, settings_of
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.trace.metadata import MAX_NS

from .natives import BEFORE_NS, LATE_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.natives.pools import CutPool
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.natives.users import Onsets
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.trace.tasks import TaskTable

    from .natives import Natives
    from .threads import FollowedThread

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass
class LiveNativeTotals(NativeTotals):
    """What native threads add to instances, and to accounts by whether they are of this process.

    Attributes
    ----------
    is_own : of each pool
    kinds_j : (2, 4) joules of each kind, of other processes and of this one, since they were taken
    """

    is_own: Sequence[bool] = ()
    kinds_j: Floats = field(default_factory=lambda: np.zeros((2, 4)))

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats) -> None:
        """Add the joules of a pool in one domain."""
        super().add(number, native, energy_j, own_j)
        self.kinds_j[int(self.is_own[number])] += sum_by(native.kind, energy_j, 4)

    def take(self) -> tuple[float, float]:
        """Return what is new outside tasks of other processes, and of spinning and unidentified time of this one."""
        others_j, own_j = self.kinds_j
        self.kinds_j = np.zeros((2, 4))
        return float(others_j[OUTSIDE]), float(own_j[SPINNING] + own_j[UNIDENTIFIED])


class LivePools:
    """The pools of a session, block after block.

    Attributes
    ----------
    cuts : those that have segments in the block
    """

    def __init__(self, natives: Natives, manifest: Mapping[str, Any], table: TaskTable) -> None:
        """Begin before the first block."""
        self._natives, self._settings, self._table = natives, settings_of(manifest), table
        self._ran: dict[Reach, Runs] = {}
        self._onsets: dict[tuple[object, ...], Onsets] = {}
        self.cuts: list[CutPool] = []
        self._used_s = 0.0

    def find(
        self, threads: Sequence[FollowedThread], ran: JoinedSegments, own_ns: tuple[int, int], until_ns: int
    ) -> None:
        """Find the pools in a block.

        Parameters
        ----------
        threads, ran : those with samples, and what they ran
        own_ns : from when to when the block is
        until_ns : where its last quantum ends
        """
        self._used_s += sum(float(np.interp(own_ns[0], *_until(one.segments))) for one in self.cuts)
        self.cuts, since_ns = [], own_ns[0] - BEFORE_NS
        if not self._natives.move_since(since_ns):
            self._ran = {}
            return
        reaches = {one.ordinal: Reach(one.pid, one.tid, one.first_ns or 0, MAX_NS) for one in threads}
        for number, one in zip(ran.numbers, ran.apart(), strict=True):
            before, begin_ns = self._ran.get(reaches[number], Runs.none()), int(one.t_ns[0])
            before = before.kept(before.begin_ns < begin_ns).limited(since_ns, begin_ns)
            self._ran[reaches[number]] = Runs.joined([before, Runs.of(one, EVER)]).merged()
        self.cuts = self._found(since_ns, (own_ns[0], until_ns), ran)
        near = {thread: one.between(own_ns[1] - BEFORE_NS, own_ns[1]) for thread, one in self._ran.items()}
        self._ran = {thread: one for thread, one in near.items() if len(one.task)}
        # Programs may create a pool on each of many threads.
        there = set(reaches.values())
        self._onsets = {
            key: one for key, one in self._onsets.items() if all(at in there for at in key if isinstance(at, Reach))
        }

    def _found(self, since_ns: int, within_ns: tuple[int, int], ran: JoinedSegments) -> list[CutPool]:
        """Return the pools in a time, of whose threads it is known what they ran there and before."""
        tasks = len(self._table.entries)
        # The first reading after the block says what was used up to its end.
        end_ns = within_ns[1] + LATE_NS
        parts = Parts(np.array((since_ns, within_ns[0])), within_ns, tasks, np.empty(0, np.int64), end_ns)
        given = self._natives.threads(), self._natives.calls(), self._settings, since_ns
        recorded = Recorded(*given, BY_CPU_TIME, self._ran, parts, self._onsets)
        found = tuple(one for one in find_pools(recorded) if one.cut.sums.cpu_s > 0)
        pools = StreamedPools(found, (np.ones(tasks + 1),) * len(found), ran.package is not None, ())
        return pools.between(*within_ns, ran.instances)

    def totals(self, rows: int) -> LiveNativeTotals:
        """Begin what the pools of the block add to so many instances."""
        is_own = [one.found.process == os.getpid() for one in self.cuts]
        return LiveNativeTotals(np.zeros((len(NATIVE), rows)), is_own)

    def seen_at(self, t_ns: Times) -> Floats:
        """Return the CPU seconds of pools up to times that do not decrease, none before the last block."""
        return self._used_s + sum((np.interp(t_ns, *_until(one.segments)) for one in self.cuts), np.zeros(len(t_ns)))


def _until(native: NativeSegments) -> tuple[Times, Floats]:
    """Return the times of a pool's segments, and its CPU seconds up to each."""
    return native.t_ns, np.concatenate((np.zeros(1), np.cumsum(native.cpu_s)))
