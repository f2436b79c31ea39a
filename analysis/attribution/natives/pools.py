"""The pools of a long recording, whose segments are found window by window.

What threads with samples ran is read once. From it follows who uses each pool, and a window's segments when it is asked
(`cuts.py`).

Around a window of time some seconds on either side count too: a clock that was read before the window and in it has CPU
time of both, a pool may spin in it after a call before it, and few onsets tell nothing. A pool's segments there follow
from what ran in a part of the window, and are cut to it afterwards. Clocks of native threads may be read far more often
than sensors, and calls be noted: then windows have fewer samples, so that what a pool did fits into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import begun_in, by_number
from tprof.analysis.attribution.windows import Window, cut_windows

from tprof.trace.metadata import MAX_NS

from .cuts import EVER, Parts
from .segments import Reach, Runs, power_of_pool
from .users import MOST_PIECES, Recorded, find_pools, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.engine.instance_table import InstanceTable

    from tprof.trace import Trace

    from .cuts import Usage
    from .segments import NativeSegments
    from .users import FoundPool

    Read = Callable[[Window], Sequence[Segments | None]]

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
    held: tuple[Ids, ...]

    def used_s(self) -> Floats:
        """Return the CPU seconds of all pools up to the times that were asked."""
        return np.asarray(np.sum([one.cut.sums.used_s() for one in self.pools], axis=0))

    def modelled(self) -> tuple[float, float]:
        """Return the modelled energy of all pools, and their CPU seconds."""
        sums = np.zeros(2)
        for one, power in zip(self.pools, self.power, strict=True):
            counted, counted_s, cpu_s = one.cut.sums.by_task
            sums += (counted + np.maximum(cpu_s - counted_s, 0.0) * power).sum(), cpu_s.sum()
        return float(sums[0]), float(sums[1])

    def between(self, begin_ns: int, end_ns: int, instances: InstanceTable) -> list[CutPool]:
        """Return the pools that have segments in a time, whose instances are in a table."""
        found = []
        for number, (one, power) in enumerate(zip(self.pools, self.power, strict=True)):
            native = one.cut.between(begin_ns, end_ns)
            if native is not None:
                native.draw(power)
                if self.packages:
                    native.package = native.package_end = np.full(len(native.kind), -1, np.int16)
                found.append(CutPool(one, number, native.placed(instances)))
        return found


class PoolJoules:
    """The joules of a pool in one domain between its reads, and of these those of runs that ran alone."""

    def __init__(self, usage: Usage) -> None:
        """Begin without joules."""
        self._reads_ns = usage.reads_ns
        self._begun_ns, self._ended_ns = np.sort([(one.t_ns[0], one.t_ns[-1]) for one in usage.clocks], axis=0).T
        self._joules = np.zeros((2, len(self._reads_ns)))

    @cached_property
    def _until_j(self) -> Floats:
        """The sums up to each read, once all joules are added."""
        return np.cumsum(np.pad(self._joules, ((0, 0), (1, 0))), axis=1)

    def add(self, native: NativeSegments, energy_j: Floats) -> None:
        """Add the joules of segments."""
        at = np.searchsorted(self._reads_ns, native.t_ns[:-1], side="right") - 1
        low = max(int(at[0]), 0)
        for target, values in zip(self._joules, (energy_j, native.alone(energy_j)), strict=True):
            sums = sum_by(np.maximum(at - low, 0), np.where(at >= 0, values, 0.0), int(at[-1]) - low + 1)
            target[low : low + len(sums)] += sums

    def bounds(self, runs: Runs) -> tuple[Floats, Floats]:
        """Return the least and the most that runs may have used of what the pool did.

        The CPU time between two reads may have been used at any time between them. So all of an interval that a run
        touches may be its own, and none of one that it does not fill.
        """
        reads_ns = self._reads_ns
        begin, end = np.searchsorted(reads_ns, runs.begin_ns), np.searchsorted(reads_ns, runs.end_ns, side="right") - 1
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
        t_ns = self._reads_ns[np.clip(at, 0, len(self._reads_ns) - 1)]
        begun = np.searchsorted(self._begun_ns, t_ns, side="right")
        return np.asarray(np.maximum(begun - np.searchsorted(self._ended_ns, t_ns), 1))


def survey_pools(found: Survey, windows: Sequence[Window], read: Read, samples: int) -> StreamedPools | None:
    """Find the pools of a recording; None if no task uses one.

    Parameters
    ----------
    found : what the first pass found
    windows : in which segments will be asked
    read : returns the segments of all threads in a window
    samples : of a window around these, about

    Raises
    ------
    TraceError
        If a file cannot be read.
    """
    powers, within_ns, trace = _TaskPowers(found), None, found.trace

    def read_own(window: Window) -> Sequence[Segments | None]:
        segments = read(window)
        powers.add(segments, window)
        return segments

    begins_ns = {window.own_ns[0] for window in windows}
    if found.around is None:
        ran = _runs_in(found, windows, read_own)
    else:
        around, within_ns, trace = found.around, trace.reach_ns, found.around.trace
        for window in windows if found.model.columns else ():
            read_own(window)
        others = cut_windows(around.threads, [], samples)
        ran = _runs_in(around, others, lambda one: by_number(around.by_cpu_time.read(one), len(around.threads)))
        outside = {one.own_ns[0] for one in others if not within_ns[0] <= one.own_ns[0] < within_ns[1]}
        begins_ns = {max(t_ns, within_ns[0]) for t_ns in begins_ns} | outside | {within_ns[1]}
    parts = Parts(np.array(sorted(begins_ns), np.int64), within_ns, len(found.trace.tasks), found.hidden.t_ns)
    given = trace.native_threads, trace.native_calls, settings_of(trace.manifest), trace.start_ns, found.model
    pools = find_pools(Recorded(*given, ran, parts))
    pools = [one for one in pools if one.cut.sums.cpu_s > 0 or within_ns is None]
    if not pools:
        return None
    by_task = powers.found()
    power = tuple(power_of_pool(by_task, *one.cut.sums.by_task[:2]) for one in pools)
    lead = int(np.searchsorted(parts.begins_ns, max(windows[0].own_ns[0], (within_ns or EVER)[0])))
    return StreamedPools(tuple(pools), power, len(found.packages) > 1, _held(pools, lead, len(windows)))


def _runs_in(found: Survey, windows: Sequence[Window], read: Read) -> dict[Reach, Runs]:
    """Return what each thread with samples ran in all windows."""
    parts_of: list[list[Runs]] = [[] for _ in found.threads]
    for window in windows:
        for some, one in zip(parts_of, read(window), strict=True):
            if one is not None:
                some.append(Runs.of(one, window.own_ns))
    ran: dict[Reach, Runs] = {}
    for thread, some in zip(found.threads, parts_of, strict=True):
        reach = Reach(thread.thread.pid, thread.thread.tid, *thread.within(*found.trace.reach_ns))
        ran[reach] = Runs.joined([ran.get(reach, Runs.none()), *some]).merged()
    return ran


def _held(pools: Sequence[FoundPool], lead: int, windows: int) -> tuple[Ids, ...]:
    """Return for each window, before which so many parts lie, the instances after which a pool spins in later ones."""
    held = [set[int]() for _ in range(windows)]
    for instance, first, last in (one for pool in pools for one in pool.cut.late):
        for some in held[max(first - lead, 0) : max(min(last - lead, windows - 1), 0)]:
            some.add(instance)
    return tuple(np.array(sorted(one), np.uint64) for one in held)


class _TaskPowers:
    """The mean modelled power of each task's own threads."""

    def __init__(self, found: Survey) -> None:
        self._is_needed, self._tasks = bool(found.model.columns), len(found.trace.tasks)
        self._modelled, self._cpu_s = np.zeros((2, self._tasks + 1))

    def add(self, segments: Sequence[Segments | None], window: Window) -> None:
        """Add a window's segments."""
        for one in segments if self._is_needed else ():
            if one is None:
                continue
            own = begun_in(one.t_ns, window.own_ns)
            number, lasts = one.task_numbers(self._tasks)[own], (one.t_ns[1:] > one.t_ns[:-1])[own]
            for target, values in ((self._modelled, one.modelled), (self._cpu_s, one.cpu_s)):
                target[:] += sum_by(number, np.where(lasts, values[own], 0.0), self._tasks + 1)

    def found(self) -> Floats:
        """Return it by task, and last that of none: the mean of all."""
        modelled, cpu_s = self._modelled, self._cpu_s
        mean = modelled.sum() / cpu_s.sum() if cpu_s.sum() > 0 and modelled.sum() > 0 else 1.0
        power: Floats = np.divide(modelled, cpu_s, out=np.full(len(cpu_s), mean), where=(cpu_s > 0) & (modelled > 0))
        power[-1] = mean
        return power


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


MOST_RECORDS = 100_000
"""Of a window, about: each takes some hundred bytes while its CPU time is cut."""
TRIES = 4


def cut_by_natives(
    trace: Trace, samples: int, cut: Callable[[int], Sequence[Window]]
) -> tuple[tuple[Window, ...], int]:
    """Return windows of so many samples, or of fewer if native threads have many records in one; and how many.

    Parameters
    ----------
    trace : whose native threads are followed
    samples : of a window, about
    cut : returns windows of so many samples
    """
    windows = tuple(cut(samples))
    for _ in range(TRIES):
        most = int(_records_in(trace, windows).max())
        if most <= 2 * MOST_RECORDS or samples == 1:
            break
        samples = max(samples * MOST_RECORDS // most, 1)
        windows = tuple(cut(samples))
    return windows, samples


def _records_in(trace: Trace, windows: Sequence[Window]) -> NDArray[np.int64]:
    """Return how many readings and pieces of calls are in each window."""
    edges_ns = np.append([one.own_ns[0] for one in windows], MAX_NS)
    found = sum(np.histogram(one.t_ns, edges_ns)[0] for one in trace.native_threads)
    first_ns, last_ns = trace.reach_ns
    for calls in trace.native_calls:
        inside = calls.begin_ns[(calls.begin_ns >= first_ns) & (calls.begin_ns < last_ns)]
        found += MOST_PIECES * np.histogram(inside, edges_ns)[0]
    return np.asarray(found)
