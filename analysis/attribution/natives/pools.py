"""The pools of native threads of a recording, and what they did in each window.

What threads with samples ran is read once. From it follows who uses each pool, and all of the pool's segments; windows
take theirs from these.

Around a window of time some seconds on either side count too: a clock that was read before the window and in it has CPU
time of both, a pool may spin in it after a call before it, and few onsets tell nothing. A pool's segments there follow
from what ran in a part of the window, and are cut to it afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.windows import cut_windows

from .segments import OF_TASK, SPINNING, Reach, joined, merged, power_of_pool, runs_of
from .users import Recorded, find_pools, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window
    from tprof.analysis.engine.instance_table import InstanceTable

    from tprof.trace import Trace

    from .segments import NativeSegments, Runs
    from .users import FoundPool

Floats = NDArray[np.float64]
Ids = NDArray[np.uint64]


class CutPool(NamedTuple):
    """A pool, its number, and its CPU time in a window."""

    found: FoundPool
    number: int
    segments: NativeSegments


@dataclass(frozen=True)
class StreamedPools:
    """The pools of a recording.

    Attributes
    ----------
    pools : all of them
    power : of each, (tasks + 1,) modelled energy per CPU second where counters were not read
    packages : whether the machine has more than one package
    held : for each window ids of instances that may have ended, but after which a pool spins in later ones
    """

    pools: tuple[FoundPool, ...]
    power: tuple[Floats, ...]
    packages: bool
    held: tuple[Ids, ...] = ()

    def used_s(self, t_ns: NDArray[np.int64]) -> Floats:
        """Return the CPU seconds of all pools from the first of some times to each of them."""
        found = sum((one.segments.used_s(t_ns) for one in self.pools), np.zeros(len(t_ns)))
        return found - found[:1]

    def modelled(self) -> tuple[float, float]:
        """Return the modelled energy of all pools, and their CPU seconds."""
        parts = [one.segments.modelled_at(power) for one, power in zip(self.pools, self.power, strict=True)]
        return float(sum(one.sum() for one in parts)), float(sum(one.segments.cpu_s.sum() for one in self.pools))

    def between(self, begin_ns: int, end_ns: int, instances: InstanceTable) -> list[CutPool]:
        """Return the pools that have segments in a time, whose instances are in a table."""
        parts = [one.segments.between(begin_ns, end_ns) for one in self.pools]
        return [
            CutPool(one, number, native.placed(instances, power, packages=self.packages))
            for number, (one, power, native) in enumerate(zip(self.pools, self.power, parts, strict=True))
            if len(native)
        ]


class PoolJoules:
    """The joules of a pool in one domain.

    Attributes
    ----------
    pool : of which they are
    joules : (n,) of its segments
    """

    def __init__(self, pool: FoundPool) -> None:
        """Begin without joules."""
        self.pool, self.joules = pool, np.zeros(len(pool.segments))
        clocks = pool.usage.clocks
        self._begun_ns, self._ended_ns = np.sort([(one.t_ns[0], one.t_ns[-1]) for one in clocks], axis=0).T

    @cached_property
    def _until_j(self) -> Floats:
        """All up to each read, and of these those of runs that ran alone, once all joules are added."""
        native, reads_ns = self.pool.segments, self.pool.usage.reads_ns
        alone = (native.kind == OF_TASK) & (native.table["running"] == 1)
        both = self.joules, np.where(alone, self.joules, 0.0)
        at = np.minimum(np.searchsorted(native.t_ns, reads_ns), len(native))
        return np.stack([np.append(0.0, np.cumsum(one))[at] for one in both])

    def add(self, native: NativeSegments, energy_j: Floats) -> None:
        """Add the joules of segments in a window."""
        self.joules[native.place : native.place + len(native)] += energy_j

    def bounds(self, runs: Runs) -> tuple[Floats, Floats]:
        """Return the least and the most that runs may have used of what the pool did.

        The CPU time between two reads may have been used at any time between them. So all of an interval that a run
        touches may be its own, and none of one that it does not fill.
        """
        reads_ns = self.pool.usage.reads_ns
        begin = np.searchsorted(reads_ns, runs["begin_ns"])
        end = np.searchsorted(reads_ns, runs["end_ns"], side="right") - 1
        # The threads are read one after the other: that many reads further on each has been read.
        last, (spare_begin, spare_end) = len(reads_ns) - 1, (self._alive(one) for one in (begin, end))
        first_of, end_of, inner_begin, inner_end = (
            np.clip(one, 0, last)
            for one in (begin - spare_begin, end + spare_end, begin + spare_begin - 1, end - spare_end + 1)
        )
        inner_end = np.maximum(inner_end, inner_begin)
        total, alone = self._until_j
        least, most = alone[inner_end] - alone[inner_begin], total[end_of] - total[first_of]
        return np.maximum(least, 0.0), np.maximum(most, 0.0)

    def _alive(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many threads live at some reads."""
        reads_ns = self.pool.usage.reads_ns
        t_ns = reads_ns[np.clip(at, 0, len(reads_ns) - 1)]
        begun = np.searchsorted(self._begun_ns, t_ns, side="right")
        return np.asarray(np.maximum(begun - np.searchsorted(self._ended_ns, t_ns), 1))


def survey_pools(found: Survey, windows: Sequence[Window], samples: int) -> StreamedPools | None:
    """Find the pools of a recording; None if no task uses one.

    Parameters
    ----------
    found : what the first pass found
    windows : in which segments will be asked
    samples : that are read at a time, about

    Raises
    ------
    TraceError
        If a file cannot be read.
    """
    known, within_ns = found.around or found, None if found.around is None else found.trace.reach_ns
    trace, settings = known.trace, settings_of(known.trace.manifest)
    recorded = Recorded(
        trace.native_threads, trace.native_calls, settings, trace.start_ns, found.model, _ran(known, samples), within_ns
    )
    pools = [one for one in find_pools(recorded) if one.segments.cpu_s.sum() > 0 or within_ns is None]
    if not pools:
        return None
    by_task, begins_ns = found.task_powers(), np.array([one.own_ns[0] for one in windows])
    power = tuple(power_of_pool(by_task, *one.segments.counted_by_task(len(by_task) - 1)) for one in pools)
    return StreamedPools(tuple(pools), power, len(found.packages) > 1, _held(pools, begins_ns))


def _ran(found: Survey, samples: int) -> dict[Reach, Runs]:
    """Return what each thread with samples ran."""
    parts_of: list[list[Runs]] = [[] for _ in found.threads]
    for window in cut_windows(found.threads, [], samples):
        read = found.by_cpu_time.read(window)
        for number, one in zip(read.numbers, read.apart(), strict=True):
            parts_of[number].append(runs_of(one, window.own_ns))
    ran: dict[Reach, Runs] = {}
    for thread, some in zip(found.threads, parts_of, strict=True):
        reach = Reach(thread.thread.pid, thread.thread.tid, *thread.within(*found.trace.reach_ns))
        ran[reach] = merged(joined([*([ran[reach]] if reach in ran else ()), *some]))
    return ran


def _held(pools: Sequence[FoundPool], begins_ns: NDArray[np.int64]) -> tuple[Ids, ...]:
    """Return for each window, which begin at some times, the instances after which a pool spins in later ones."""
    spins = [(one, one.kind == SPINNING) for one in (pool.segments for pool in pools)]
    ended_ns = np.concatenate([one.last("end_ns")[at] for one, at in spins])
    instance = np.concatenate([one.last("instance")[at] for one, at in spins]).view(np.int64)
    until_ns = np.concatenate([one.t_ns[1:][at] for one, at in spins])
    first = np.maximum(np.searchsorted(begins_ns, ended_ns, side="right") - 1, 0)
    last = np.searchsorted(begins_ns, until_ns) - 1
    instance, first, last = np.unique(np.stack((instance, first, last))[:, first < last], axis=1)
    return tuple(np.unique(instance[(first <= one) & (one < last)]).view(np.uint64) for one in range(len(begins_ns)))


AROUND_NS = 10_000_000_000
"""On either side: at the shortest interval of readings thousands of them, and far longer than any pool spins."""


class _ByCpuTime:
    columns: tuple[str, ...] = ()

    @staticmethod
    def modelled(_: Mapping[str, Floats], cpu_s: Floats) -> Floats:
        return cpu_s


BY_CPU_TIME = _ByCpuTime()
"""A model that needs no counters, for what only asks when threads ran."""


def surroundings(trace: Trace, whole: Trace) -> Trace:
    """Return the window with what lies around it."""
    begin_ns = max(trace.start_ns - AROUND_NS, whole.kept_ns)
    return whole.window(begin_ns, min(trace.end_ns + AROUND_NS, whole.end_ns))


def recorded_ns(trace: Trace) -> NDArray[np.int64]:
    """Return the times of all records of native threads, increasing."""
    parts = (*(one.t_ns for one in trace.native_threads), *(one.begin_ns for one in trace.native_calls))
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
