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

from tprof.analysis.attribution.accounts import NativeTotals
from tprof.analysis.attribution.natives.calls import Reach
from tprof.analysis.attribution.natives.clocks import ran_in
from tprof.analysis.attribution.natives.passes import Block, Facts
from tprof.analysis.attribution.natives.pools import BY_CPU_TIME, StreamedPools
from tprof.analysis.attribution.natives.segments import OUTSIDE, SPINNING, UNIDENTIFIED
from tprof.analysis.attribution.natives.users import Recorded, find_pools, settings_of
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.windows import Window
from tprof.trace.metadata import MAX_NS

from .natives import BEFORE_NS, LATE_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.attribution.natives.onsets import Onsets
    from tprof.analysis.attribution.natives.pools import CutPool
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.segments import JoinedSegments, Segments
    from tprof.trace.tasks import TaskTable

    from .natives import Natives
    from .threads import FollowedThread

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass
class RanBefore:
    """What a thread with samples ran, as `RanThread`: each of its segments has a row of its own."""

    t_ns: Times
    cpu_s: Floats
    instance: NDArray[np.uint64]
    task: NDArray[np.uint32]

    @classmethod
    def of(cls, one: Segments) -> RanBefore:
        """Take a thread's segments."""
        runs, row = one.slot > 0, np.maximum(one.slot - 1, 0)
        instance = np.append(one.rows.instance, np.uint64(0))[row] * runs
        return cls(one.t_ns.copy(), one.cpu_s.copy(), instance, np.append(one.rows.task, np.uint32(0))[row])

    @property
    def rows(self) -> RanBefore:
        """The instances and tasks of all segments."""
        return self

    @property
    def slot(self) -> NDArray[np.int32]:
        """Of each segment, 0: no task, else 1 + its row."""
        return np.where(self.instance > 0, np.arange(1, len(self.instance) + 1), 0).astype(np.int32)

    def between(self, begin_ns: int, end_ns: int) -> RanBefore:
        """Return the segments that end after one time and begin before another."""
        first = min(int(np.searchsorted(self.t_ns[1:], begin_ns)), len(self.cpu_s))
        at = slice(first, max(int(np.searchsorted(self.t_ns[:-1], end_ns)), first))
        return RanBefore(self.t_ns[first : at.stop + 1], self.cpu_s[at], self.instance[at], self.task[at])

    def then(self, other: RanBefore) -> RanBefore:
        """Return both, one after the other."""
        before = self.between(0, int(other.t_ns[0]))
        t_ns = np.concatenate((before.t_ns[:-1], other.t_ns))
        cpu_s = np.concatenate((before.cpu_s, other.cpu_s))
        instance = np.concatenate((before.instance, other.instance))
        return RanBefore(t_ns, cpu_s, instance, np.concatenate((before.task, other.task)))


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
        self._before: dict[int, RanBefore] = {}
        self._onsets: dict[tuple[object, ...], Onsets] = {}
        self._reaches: dict[int, Reach] = {}
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
        here: dict[int, RanBefore] = {}
        self.cuts = []
        if self._natives.move_since(own_ns[0] - BEFORE_NS):
            here = {number: RanBefore.of(one) for number, one in zip(ran.numbers, ran.apart(), strict=True)}
            there = {one.ordinal: Reach(one.pid, one.tid, one.first_ns or 0, MAX_NS) for one in threads}
            self._reaches |= there
            self.cuts = self._found(here, (own_ns[0], until_ns), ran)
            self._forget_pools(set(there.values()))
        self._remember(here, own_ns[1])

    def _forget_pools(self, there: set[Reach]) -> None:
        """Forget the onsets of pools whose creators have ended: programs may create one on each of many threads."""
        self._onsets = {
            key: one
            for key, one in self._onsets.items()
            if all(part in there for part in key if isinstance(part, Reach))
        }

    def _remember(self, here: Mapping[int, RanBefore], end_ns: int) -> None:
        """Remember what ran in the second before the next block; nothing if no pool works."""
        before = {
            number: self._before[number].then(one) if number in self._before else one for number, one in here.items()
        }
        near = {number: one.between(end_ns - BEFORE_NS, end_ns) for number, one in (self._before | before).items()}
        self._before = {number: one for number, one in near.items() if len(one.cpu_s)} if here else {}
        self._reaches = {number: self._reaches[number] for number in self._before}

    def _found(self, here: Mapping[int, RanBefore], within_ns: tuple[int, int], ran: JoinedSegments) -> list[CutPool]:
        """Return the pools in a time, of whose threads it is known what they ran there and before."""
        numbers, begin_ns = sorted(self._before.keys() | here.keys()), within_ns[0] - BEFORE_NS
        blocks = [
            Block((begin_ns, within_ns[0]), [self._before.get(number) for number in numbers]),
            # The first reading after the block says what was used up to its end.
            Block((within_ns[0], within_ns[1] + LATE_NS), [here.get(number) for number in numbers]),
        ]
        reaches = [self._reaches[number] for number in numbers]
        given = self._natives.threads(), self._natives.calls(), self._settings, begin_ns
        tasks = len(self._table.entries)
        facts = Facts(tasks, np.empty(0, np.int64), np.array([begin_ns, within_ns[0]]), within_ns)
        recorded = Recorded(*given, BY_CPU_TIME, reaches, _who_ran(blocks), facts, self._onsets)
        found = tuple(one for one in find_pools(recorded, lambda: blocks) if one.cut.sums.cpu_s > 0)
        pools = StreamedPools(found, (np.ones(tasks + 1),) * len(found), ran.package is not None, ())
        return pools.between(Window(within_ns, within_ns[1], ()), ran.instances)

    def totals(self, rows: int) -> LiveNativeTotals:
        """Begin what the pools of the block add to so many instances."""
        is_own = [one.found.process == os.getpid() for one in self.cuts]
        cpu_s, joules, spin_j, least_j, most_j = np.zeros((5, rows))
        return LiveNativeTotals(cpu_s, joules, spin_j, least_j, most_j, is_own)

    def seen_at(self, t_ns: Times) -> Floats:
        """Return the CPU seconds of pools up to times that do not decrease, none before the last block."""
        return self._used_s + sum((np.interp(t_ns, *_until(one.segments)) for one in self.cuts), np.zeros(len(t_ns)))


def _until(native: NativeSegments) -> tuple[Times, Floats]:
    """Return the times of a pool's segments, and its CPU seconds up to each."""
    return native.t_ns, np.concatenate((np.zeros(1), np.cumsum(native.cpu_s)))


def _who_ran(blocks: Sequence[Block]) -> Callable[[int, int, int], bool]:
    def ran(index: int, begin_ns: int, end_ns: int) -> bool:
        return any(ran_in(block.segments[index], begin_ns, end_ns) for block in blocks)

    return ran
