"""The pools of a long recording, whose segments are found window by window.

Passes over the windows find who uses each pool, and write its segments to files where they are many (`passes.py`). A
window takes those that lie in it.

Around a window of time the passes read some seconds on either side too: a clock that was read before the window and in
it has CPU time of both, a pool may spin in it after a call before it, and few onsets tell nothing. A pool's segments
there follow from what ran in a part of the window, and are cut to it afterwards. Clocks of native threads may be read
far more often than sensors, and calls be noted: then windows have fewer samples, so that what a pool did fits into
memory.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import by_number
from tprof.analysis.attribution.windows import Window, cut_windows

from tprof.trace.long_arrays import blocks, release, zeros
from tprof.trace.metadata import MAX_NS

from .calls import MOST_PIECES, Reach
from .clocks import ran_in
from .passes import Block, Facts
from .segments import power_of_pool
from .users import Recorded, find_pools, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tprof.analysis.attribution.segments import Model, Segments
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.engine.instance_table import InstanceTable

    from tprof.trace import Trace

    from .cuts import Usage
    from .segments import NativeSegments, Runs
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

    def between(self, window: Window, instances: InstanceTable) -> list[CutPool]:
        """Return the pools that have segments in a window, whose instances are in a table."""
        found = []
        for number, (one, power) in enumerate(zip(self.pools, self.power, strict=True)):
            native = one.cut.between(window.own_ns[0], window.until_ns)
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
        self._usage = usage
        self._joules = [zeros(max(len(usage.grid_ns) - 1, 0), np.float64) for _ in range(2)]

    def add(self, native: NativeSegments, energy_j: Floats) -> None:
        """Add the joules of segments."""
        at = np.searchsorted(self._usage.grid_ns, native.t_ns[:-1], side="right") - 1
        inside = (at >= 0) & (at < len(self._usage.grid_ns) - 1)
        if inside.any():
            at = at[inside]
            for target, values in zip(self._joules, (energy_j, native.alone(energy_j)), strict=True):
                target[at[0] : at[-1] + 1] += sum_by(at - at[0], values[inside], int(at[-1] - at[0]) + 1)
        release(*self._joules)

    def bounds(self, runs: Runs) -> tuple[Floats, Floats]:
        """Return the least and the most that runs may have used of what the pool did.

        The CPU time between two reads may have been used at any time between them. So all of an interval that a run
        touches may be its own, and none of one that it does not fill.
        """
        usage = self._usage
        if not len(runs.task) or not len(usage.reads_ns):
            return np.zeros(len(runs.task)), np.zeros(len(runs.task))
        spare = usage.most_threads + 2
        first = max(int(np.searchsorted(usage.reads_ns, runs.begin_ns.min())) - spare, 0)
        stop = int(np.searchsorted(usage.reads_ns, runs.end_ns.max(), side="right")) + spare
        reads_ns, threads = usage.reads_ns[first:stop].copy(), usage.threads[first:stop].copy()
        at = np.searchsorted(usage.grid_ns, reads_ns)
        sums = np.zeros((2, int(at[-1] - at[0]) + 1))
        for target, values in zip(sums, self._joules, strict=True):
            target[1:] = np.cumsum(values[at[0] : at[-1]])
        total, alone = sums[:, at - at[0]]
        usage.release()
        release(*self._joules)
        last = len(reads_ns) - 1
        after_begin = np.searchsorted(reads_ns, runs.begin_ns, side="left")
        before_end = np.searchsorted(reads_ns, runs.end_ns, side="right") - 1
        # The threads are read one after the other: that many reads further on each has been read.
        spare_begin, spare_end = (threads[np.clip(one, 0, last)] for one in (after_begin, before_end))
        first_of, end_of, inner_begin, inner_end = (
            np.clip(one, 0, last)
            for one in (
                after_begin - spare_begin, before_end + spare_end, after_begin + spare_begin - 1,
                before_end - spare_end + 1,
            )
        )  # fmt: skip
        inner_end = np.maximum(inner_end, inner_begin)
        least, most = alone[inner_end] - alone[inner_begin], total[end_of] - total[first_of]
        return np.maximum(least, 0.0), np.maximum(most, 0.0)


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
    parts, tasks = parts_of(found, windows, samples), len(found.trace.tasks)
    powers, where = _TaskPowers(found.model, tasks), found.around or found

    def read_part(window: Window) -> Sequence[Segments | None]:
        if found.around is None:
            return read(window)
        return by_number(found.around.by_cpu_time.read(window), len(found.around.threads))

    def blocks() -> Iterator[Block]:
        for part in parts.windows:
            segments = read_part(part)
            if found.around is None:
                powers.add(segments, part)
            yield Block(part.own_ns, segments)
        powers.is_whole |= found.around is None

    def ran(index: int, begin_ns: int, end_ns: int) -> bool:
        window = Window((begin_ns, end_ns + 1), end_ns + 1, ())
        return ran_in(read_part(window)[index], begin_ns, end_ns)

    begins_ns = np.array([part.own_ns[0] for part in parts.windows], np.int64)
    facts = Facts(tasks, found.hidden.t_ns, begins_ns, parts.within_ns)
    trace = where.trace
    given = trace.native_threads, trace.native_calls, settings_of(trace.manifest), trace.start_ns
    pools = find_pools(Recorded(*given, found.model, _sampled(where), ran, facts), blocks)
    pools = [one for one in pools if one.cut.sums.cpu_s > 0 or found.around is None]
    if not pools:
        return None
    for window in () if powers.is_whole else windows:
        powers.add(read(window), window)
    by_task = powers.found()
    power = tuple(power_of_pool(by_task, *one.cut.sums.by_task[:2]) for one in pools)
    held = _held(pools, parts.lead, len(windows))
    return StreamedPools(tuple(pools), power, len(found.packages) > 1, held)


def _sampled(found: Survey) -> list[Reach]:
    begin_ns, end_ns = found.trace.reach_ns
    return [
        Reach(one.thread.pid, one.thread.tid, max(int(one.t_ns[0]), begin_ns), min(one.end_ns, end_ns))
        for one in found.threads
    ]


def _held(pools: Sequence[FoundPool], lead: int, windows: int) -> tuple[Ids, ...]:
    """Return for each window the instances after which a pool spins in later ones."""
    ids = [set[int]().union(*parts) for parts in zip(*(one.cut.spun_after() for one in pools), strict=True)]
    return tuple(np.array(sorted(one), np.uint64) for one in (*ids[lead : lead + windows - 1], set[int]()))


class _TaskPowers:
    """The mean modelled power of each task's own threads."""

    def __init__(self, model: Model, tasks: int) -> None:
        self.is_whole = not model.columns
        self._tasks = tasks
        self._modelled, self._cpu_s = np.zeros((2, tasks + 1))

    def add(self, segments: Sequence[Segments | None], window: Window) -> None:
        """Add a window's segments, in the first pass only."""
        for one in segments if not self.is_whole else ():
            if one is None:
                continue
            own = slice(*np.searchsorted(one.t_ns[:-1], window.own_ns).tolist())
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


class Parts(NamedTuple):
    """The parts of a recording in which pools are found.

    Attributes
    ----------
    windows : all of them, in order
    lead : how many are before those in which pools count
    within_ns : from when to when pools count; None: always
    """

    windows: Sequence[Window]
    lead: int
    within_ns: tuple[int, int] | None


def parts_of(found: Survey, windows: Sequence[Window], samples: int) -> Parts:
    """Return the windows of a recording, and around those of a window of time others of about so many samples."""
    if found.around is None:
        return Parts(windows, 0, None)
    begin_ns, end_ns = within_ns = found.trace.reach_ns
    cuts_ns = [one.own_ns[0] for one in cut_windows(found.around.threads, [], samples)]
    before = _between([0, *(t_ns for t_ns in cuts_ns if 0 < t_ns < begin_ns), begin_ns])
    after = _between([end_ns, *(t_ns for t_ns in cuts_ns if t_ns > end_ns), MAX_NS])
    own = [
        replace(
            one, own_ns=(max(one.own_ns[0], begin_ns), min(one.own_ns[1], end_ns)), until_ns=min(one.until_ns, end_ns)
        )
        for one in windows
    ]
    return Parts((*before, *own, *after), len(before), within_ns)


def _between(edges_ns: Sequence[int]) -> list[Window]:
    """Return a window between each two times, if they differ."""
    return [Window((a, b), b, ()) for a, b in itertools.pairwise(edges_ns) if a < b]


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
    begins_ns = np.array([one.own_ns[0] for one in windows], np.int64)
    found = np.zeros(len(windows), np.int64)
    for thread in trace.native_threads:
        found += np.diff(np.searchsorted(thread.t_ns, begins_ns), append=len(thread.t_ns))
        release(thread.t_ns)
    first_ns, last_ns = trace.reach_ns
    for calls in trace.native_calls:
        for at in blocks(len(calls.begin_ns), calls.begin_ns):
            begin_ns = calls.begin_ns[at]
            inside = begin_ns[(begin_ns >= first_ns) & (begin_ns < last_ns)]
            place = np.maximum(np.searchsorted(begins_ns, inside, side="right") - 1, 0)
            found += MOST_PIECES * np.bincount(place, minlength=len(windows))
    return found
