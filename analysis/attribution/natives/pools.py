"""The pools of a long recording, whose segments are found window by window.

Passes over the windows find who uses each pool, and how it comes into each window (`passes.py`). Then a window
gives the pools' segments whatever the others hold, with what is known of it: the reads and calls around it, and the
instances after which a pool still spins, some of which ended in windows before.

Around a window of time the passes read some seconds on either side too: a clock that was read before the window and in
it has CPU time of both, a pool may spin in it after a call before it, and few onsets tell nothing. A pool's segments
there follow from what ran in a part of the window, and are cut to it afterwards. Clocks of native threads may be read
far more often than sensors, and calls be noted: then windows have fewer samples, so that what a pool did fits into
memory.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import by_number
from tprof.analysis.attribution.windows import Window, cut_windows

from tprof.trace.long_arrays import blocks, release, zeros
from tprof.trace.long_sorts import distinct_values
from tprof.trace.metadata import MAX_NS

from .calls import MOST_PIECES, Reach
from .clocks import ran_in
from .cuts import History
from .passes import Block, Facts, bare_row
from .segments import SPINNING, RunBounds, power_of_pool, power_of_tasks
from .users import Recorded, find_pools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.segments import Model, Segments
    from tprof.analysis.attribution.survey import Survey

    from tprof.trace import Trace

    from .passes import CutPass
    from .segments import NativeSegments
    from .users import FoundPool

    Read = Callable[[Window], Sequence[Segments | None]]

Floats = NDArray[np.float64]
Ids = NDArray[np.uint64]


class CutPool(NamedTuple):
    """A pool in a window.

    Attributes
    ----------
    found : the pool
    segments : its CPU time there
    number : of the pool
    carried : instances that ended before, after which it spins; their rows are behind those of the window and of the
        pools before this one
    """

    found: FoundPool
    segments: NativeSegments
    number: int
    carried: list[InstanceRows]


@dataclass(frozen=True)
class WindowPool:
    """What is known of a pool in a window before its samples are read.

    Attributes
    ----------
    found : the pool, with the reads and calls around the window
    number : of the pool
    history, carried : how it comes into the window; None: an instance that does not count
    last_ns : where its last segment there ends; None: with the last one that ends there
    power : (tasks + 1,) modelled energy per CPU second where counters were not read
    bounds : by counted domain those of runs that begin in the window; None: not asked
    is_first : whether the window is the first one of a window of time, before which instances ended too
    """

    found: FoundPool
    number: int
    history: History
    carried: Sequence[InstanceRows | None]
    last_ns: int | None
    power: Floats
    bounds: tuple[RunBounds, ...] | None = None
    is_first: bool = False

    def cut(self, ran: Ran, before: int) -> CutPool | None:
        """Return it with its segments, None if there are none; so many rows are of other pools' carried instances."""
        native = self.found.cut.segments_after(ran.block, self.history, self.last_ns)
        if native is None:
            return None
        native.draw(self.power)
        rows = ran.block.offsets[-1]
        spins = (native.kind == SPINNING) & (native.cpu_s > 0) & (native.row >= rows)
        # Of the instances that ended before those are kept after which the pool spins.
        known = [at for at, one in enumerate(self.carried) if one is not None]
        if not self.is_first:  # there those count too of which later windows have parts
            known = np.intersect1d(known, native.row[spins] - rows).tolist()
        numbers = np.full(rows + len(self.carried), -1)
        numbers[:rows] = ran.rows
        numbers[rows + np.array(known, np.intp)] = ran.count + before + np.arange(len(known))
        found = ran.limited(native, numbers)
        carried = [one for at in known if (one := self.carried[at]) is not None]
        return None if found is None else CutPool(self.found, found, self.number, carried)


@dataclass(frozen=True)
class StreamedPools:
    """The pools of a recording.

    Attributes
    ----------
    pools : all of them
    power : of each, (tasks + 1,) modelled energy per CPU second where counters were not read
    parts : in which their segments are found
    held : for each window ids of instances that may have ended, but after which a pool spins in later ones
    returning : by thread and id, instances that began before a window of time, as they begin in it
    """

    pools: tuple[FoundPool, ...]
    power: tuple[Floats, ...]
    parts: Parts
    held: tuple[Ids, ...]
    returning: Mapping[tuple[int, int], InstanceRows]

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

    def in_window(self, number: int, joules: Sequence[Sequence[PoolJoules]] | None = None) -> tuple[WindowPool, ...]:
        """Return what is known of the pools in a window, with bounds if all their joules are known, by domain."""
        found = []
        for place, one in enumerate(self.pools):
            cut, at = one.cut, self.parts.lead + number
            window = self.parts.windows[at]
            begin_ns, history = window.own_ns[0], cut.histories[at]
            since_ns, reach_ns = begin_ns, cut.reach_ns[at]
            if number == 0:  # runs that began before count here
                since_ns, reach_ns = cut.since_ns[at], max(cut.reach_ns[: at + 1])
            bounds = None
            if joules is not None:
                bounds = tuple(of_domain[place].bounds(cut, begin_ns, reach_ns) for of_domain in joules)
            small = _around(one, window, history, (since_ns, reach_ns))
            last_ns = cut.ends_ns.get(window.until_ns)
            carried = [self._counted(row) for row in cut.carried[at]]
            known = history, carried, last_ns, self.power[place], bounds
            found.append(WindowPool(small, place, *known, is_first=at == self.parts.lead > 0))
        return tuple(found)

    def _counted(self, row: InstanceRows) -> InstanceRows | None:
        return self.returning.get(_key(row)) if self.parts.began_before(row) else self.parts.counted(row)

    def around(self, window: Window) -> tuple[WindowPool, ...]:
        """Return what is known of the pools in any other window: only when they use CPU time, not for whom."""
        window = limited_window(window, self.parts.within_ns)
        last_ns = None if window.is_last else window.until_ns
        return tuple(
            WindowPool(_around(one, window, history, window.own_ns), place, history, (), last_ns, self.power[place])
            for place, one in enumerate(self.pools)
            for history in [History.none().at(window.own_ns[0])]
        )


def _around(one: FoundPool, window: Window, history: History, runs_ns: tuple[int, int]) -> FoundPool:
    """Return a pool with what is needed of it in a window, and in the time of runs that begin there."""
    begin_ns = min(runs_ns[0], window.own_ns[0])
    since_ns = begin_ns if history.begin_ns is None else min(begin_ns, history.begin_ns)
    return replace(one, cut=one.cut.around(since_ns, window.until_ns, max(window.until_ns, runs_ns[1])))


class PoolJoules:
    """The joules of a pool in one domain between its reads, and of these those of runs that ran alone."""

    def __init__(self, cut: CutPass) -> None:
        """Begin without joules."""
        self._grid_ns = cut.usage.grid_ns
        self._joules = [zeros(max(len(self._grid_ns) - 1, 0), np.float64) for _ in range(2)]

    def add(self, begin: int, joules: Floats) -> None:
        """Add (2, m) joules from so many reads on."""
        for target, values in zip(self._joules, joules, strict=True):
            target[begin : begin + len(values)] += values
        release(*self._joules)

    def bounds(self, cut: CutPass, begin_ns: int, end_ns: int) -> RunBounds:
        """Return what bounds of runs between two times need."""
        usage = cut.usage
        spare = usage.most_threads + 2
        first = max(int(np.searchsorted(usage.reads_ns, begin_ns)) - spare, 0)
        reads_ns = usage.reads_ns[first : int(np.searchsorted(usage.reads_ns, end_ns, side="right")) + spare].copy()
        threads = usage.threads[first : first + len(reads_ns)].copy()
        at = np.searchsorted(self._grid_ns, reads_ns)
        sums = np.zeros((2, int(at[-1] - at[0]) + 1 if len(at) else 1))
        for target, values in zip(sums, self._joules, strict=True):
            target[1:] = np.cumsum(values[at[0] : at[-1]]) if len(at) else 0.0
        total, alone = sums[:, at - at[0]] if len(at) else sums[:, :0]
        usage.release()
        release(*self._joules)
        return RunBounds(reads_ns, threads, total, alone)


def joules_between_reads(grid_ns: NDArray[np.int64], native: NativeSegments, energy_j: Floats) -> tuple[int, Floats]:
    """Return joules of a window's segments between reads, as `PoolJoules.add` takes them; `grid_ns` are all reads."""
    at = np.searchsorted(grid_ns, native.t_ns[:-1], side="right") - 1
    inside = np.flatnonzero((at >= 0) & (at < len(grid_ns) - 1))
    if not len(inside):
        return 0, np.zeros((2, 0))
    begin = int(at[inside[0]])
    count = int(at[inside[-1]]) - begin + 1
    parts = (energy_j, native.alone(energy_j))
    return begin, np.stack([sum_by(at[inside] - begin, one[inside], count) for one in parts])


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
    read_part = read if found.around is None else partial(read_around, found.around)

    def blocks() -> Iterator[Block]:
        for part in parts.windows:
            segments = read_part(part)
            if found.around is None:
                powers.add(segments, part)
            yield Block(part.own_ns, segments, part.is_last)
        powers.is_whole |= found.around is None

    def ran(index: int, begin_ns: int, end_ns: int) -> bool:
        window = Window((begin_ns, end_ns + 1), end_ns + 1, ())
        return ran_in(read_part(window)[index], begin_ns, end_ns)

    cuts_ns = distinct_values(np.array([part.until_ns for part in parts.windows], np.int64))
    facts = Facts(tasks, len(found.packages) > 1, found.hidden.t_ns, cuts_ns, parts.within_ns)
    pools = find_pools(Recorded(where.trace, found.model, _sampled(where), ran, facts), blocks)
    if found.around is not None:
        limited = (replace(one, cut=one.cut.limited()) for one in pools)
        pools = [one for one in limited if one.cut.sums.cpu_s > 0]
    if not pools:
        return None
    asked, returning = _began_before(pools, parts, len(windows)), _among((), (), parts)
    for window in () if powers.is_whole and not asked else windows:
        segments = read(window)
        powers.add(segments, window)
        returning = _among(asked, segments, parts) | returning
    by_task = powers.found()
    power = tuple(power_of_pool(by_task, *one.cut.sums.by_task[:2]) for one in pools)
    held = _held(pools, parts, len(windows))
    return StreamedPools(tuple(pools), power, parts, held, returning)


def _sampled(found: Survey) -> list[Reach]:
    begin_ns, end_ns = found.trace.reach_ns
    return [
        Reach(one.thread.pid, one.thread.tid, max(int(one.t_ns[0]), begin_ns), min(one.end_ns, end_ns))
        for one in found.threads
    ]


def _key(row: InstanceRows) -> tuple[int, int]:
    """Return the number of the thread on which an instance ran, and its id."""
    return int(row.numbers[0]), int(row.instance[0])


def _began_before(pools: Sequence[FoundPool], parts: Parts, windows: int) -> set[tuple[int, int]]:
    """Return the instances that began before a window of time, and after which a pool spins in it."""
    return {
        _key(row)
        for one in pools
        for at in range(parts.lead, min(parts.lead + windows + 1, len(parts.windows)))
        for row in one.cut.carried[at]
        if parts.began_before(row) and int(row.instance[0]) in one.cut.used[at]
    }


def _among(
    asked: Iterable[tuple[int, int]], segments: Sequence[Segments | None], parts: Parts
) -> dict[tuple[int, int], InstanceRows]:
    """Return instances as a window of time has them."""
    found = {}
    for number, instance in asked:
        one = segments[parts.threads[number]] if parts.threads[number] >= 0 else None
        if one is not None and (at := np.flatnonzero(one.rows.instance == instance)).size:
            found[number, instance] = bare_row(one, int(at[0]))
    return found


def _held(pools: Sequence[FoundPool], parts: Parts, windows: int) -> tuple[Ids, ...]:
    """Return for each window the instances after which a pool spins in later ones."""
    held: list[set[int]] = [set() for _ in parts.windows]
    for one in pools:
        known = [{int(row.instance[0]) for row in rows} for rows in one.cut.carried]
        # The segment that goes on after the last window begins in it.
        for number, used in enumerate(one.cut.used[: parts.lead + windows + 1]):
            for instance in used:
                at = number
                while at > 0 and instance in known[at]:
                    at -= 1
                    held[at].add(instance)
    found = [*held[parts.lead :][: windows - 1], set[int]()]
    return tuple(np.array(sorted(one), np.uint64) for one in found)


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
        return power_of_tasks(self._modelled, self._cpu_s)


Rows = NDArray[np.int64]
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
    threads : numbers of the threads with samples in that time, -1: none
    """

    windows: Sequence[Window]
    lead: int
    within_ns: tuple[int, int] | None
    threads: Rows

    def began_before(self, row: InstanceRows) -> bool:
        """Return whether an instance began before pools count, so that another sample may begin it then."""
        return self.within_ns is not None and int(row.start_ns[0]) < self.within_ns[0]

    def counted(self, row: InstanceRows) -> InstanceRows:
        """Return another instance as it counts."""
        if self.within_ns is None:
            return row
        end_ns, last_ns = (np.minimum(one, self.within_ns[1]) for one in (row.end_ns, row.last_ns))
        return replace(row, end_ns=end_ns, last_ns=last_ns, thread=self.threads[row.numbers].astype(np.int32))


def parts_of(found: Survey, windows: Sequence[Window], samples: int) -> Parts:
    """Return the windows of a recording, and around those of a window of time others of about so many samples."""
    if found.around is None:
        return Parts(windows, 0, None, np.arange(len(found.threads)))
    begin_ns, end_ns = within_ns = found.trace.reach_ns
    cuts_ns = [one.own_ns[0] for one in cut_windows(found.around.threads, [], samples)]
    before = _between([0, *(t_ns for t_ns in cuts_ns if 0 < t_ns < begin_ns), begin_ns])
    after = _between([end_ns, *(t_ns for t_ns in cuts_ns if t_ns > end_ns), MAX_NS])
    own = [limited_window(one, within_ns) for one in windows]
    return Parts((*before, *own, *after), len(before), within_ns, _threads_of(found, found.around))


def _threads_of(found: Survey, around: Survey) -> Rows:
    """Return the numbers of threads around a window of time among those in it, -1: not there."""
    numbers = {one.thread.ordinal: number for number, one in enumerate(found.threads)}
    return np.array([numbers.get(one.thread.ordinal, -1) for one in around.threads], np.int64)


def _between(edges_ns: Sequence[int]) -> list[Window]:
    """Return a window between each two times, if they differ."""
    return [Window((a, b), b, ()) for a, b in itertools.pairwise(edges_ns) if a < b]


def limited_window(window: Window, within_ns: tuple[int, int] | None) -> Window:
    """Return the part of a window between two times."""
    if within_ns is None:
        return window
    (begin_ns, end_ns), (first_ns, last_ns) = window.own_ns, within_ns
    own_ns = max(begin_ns, first_ns), min(end_ns, last_ns)
    return replace(window, own_ns=own_ns, until_ns=min(window.until_ns, last_ns))


def read_around(found: Survey, window: Window) -> list[Segments | None]:
    """Read the segments of each thread in a window, by CPU time; None where it has none there.

    Raises TraceError.
    """
    return by_number(found.by_cpu_time.read(window), len(found.threads))


@dataclass(frozen=True)
class Ran:
    """What ran in a window, from which the segments of pools follow.

    Attributes
    ----------
    block : of the recording, with what lies around a window of time
    rows : of its instances, their numbers among those of the window, -1: not there
    count : how many instances the window has
    within_ns : from when to when pools count; None: always
    """

    block: Block
    rows: Rows
    count: int
    within_ns: tuple[int, int] | None

    @classmethod
    def of(cls, found: Survey, window: Window, segments: Sequence[Segments | None]) -> Ran:
        """Take the segments of a window's threads, and read what lies around. Raises TraceError."""
        own = Block((window.own_ns[0], window.until_ns), segments, window.is_last)
        count = own.offsets[-1]
        if found.around is None:
            return cls(own, np.arange(count), count, None)
        wide = limited_window(window, found.trace.reach_ns)
        block = Block((wide.own_ns[0], wide.until_ns), read_around(found.around, wide), wide.is_last)
        rows = _numbers(block, own, _threads_of(found, found.around))
        return cls(block, rows, count, found.trace.reach_ns)

    def limited(self, native: NativeSegments, numbers: Rows) -> NativeSegments | None:
        """Return a pool's segments in the window of time, with other rows of instances; None if there are none."""
        if self.within_ns is None:
            return replace(native, row=np.append(numbers, -1)[native.row])
        if native.t_ns[-1] <= self.within_ns[0] or native.t_ns[0] >= self.within_ns[1]:
            return None
        return native.between(*self.within_ns, numbers)


def _numbers(block: Block, own: Block, threads: Rows) -> Rows:
    """Return for each row of threads around a window its number among those of the window, -1 without."""
    rows = np.full(block.offsets[-1], -1)
    for place, (number, wide) in enumerate(zip(threads.tolist(), block.segments, strict=True)):
        one = own.segments[number] if number >= 0 else None
        if one is None or wide is None or not len(wide.rows):
            continue
        order = np.argsort(wide.rows.instance, kind="stable")
        ids = wide.rows.instance[order]
        at = np.minimum(np.searchsorted(ids, one.rows.instance), len(ids) - 1)
        same = np.flatnonzero(ids[at] == one.rows.instance)
        rows[block.offsets[place] + order[at[same]]] = own.offsets[number] + same
    return rows


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
