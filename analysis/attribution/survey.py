"""The first pass over a long recording: what every window needs of all samples.

That is the CPU time of the samples at some times, against which the CPU time without samples is measured, an index of
times, and, for models with counters, the mean power of all CPU time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.thread import Fields, read_fields

from . import _loops
from .known_counts import KnownCounts, Lasts, has_counts, lasts_of
from .load import Reach, hidden_time, part_on
from .segment_reader import Part, fields_of, make_segments
from .segments import find_cut_off, thread_end_ns
from .windows import STEP, DisorderedError, IndexedThread, index_thread, known_around

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tprof.trace import Thread, Trace
    from tprof.trace.thread import Samples

    from .hidden import HiddenTime
    from .segments import CutOff, JoinedSegments, Model

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
NO_TIMES: Times = np.empty(0, np.int64)
CHUNK_STEPS = 32
"""So many steps of the index are read at a time."""
CHUNKS = 8
"""So many of these are read one after the other; others may be at the same time."""


@dataclass
class Means:
    """Sums of modelled energy and CPU seconds.

    Attributes
    ----------
    counted : of threads with the model's counters
    by_package : by number, of all threads but those, without segments of no length; None: of the machine
    of_thread : by ordinal the mean power of a thread that was cut off
    """

    counted: Floats = field(default_factory=lambda: np.zeros(2))
    by_package: dict[int | None, Floats] = field(default_factory=dict)
    bare: dict[int | None, Floats] = field(default_factory=dict)
    of_thread: dict[int, float] = field(default_factory=dict)

    @property
    def uncounted(self) -> float:
        """What threads without the model's counters are multiplied by: the mean power of the others."""
        modelled, cpu_s = self.counted.tolist()
        return modelled / cpu_s if cpu_s > 0 and modelled > 0 else 1.0

    def power(self, package: int | None) -> float:
        """Return the mean power of all CPU time on a package."""
        nothing = np.zeros(2)
        scale = np.array([self.uncounted, 1.0])
        modelled, cpu_s = self.by_package.get(package, nothing) + self.bare.get(package, nothing) * scale
        return float(modelled / cpu_s) if cpu_s > 0 and modelled > 0 else 1.0

    def plus_pools(self, modelled: tuple[float, float], packages: Sequence[int]) -> Means:
        """Return the same with modelled energy and CPU seconds of pools, evenly on all packages."""
        by_package = {}
        for package in (None, *packages):
            share = 1.0 if package is None or len(packages) < 2 else 1.0 / len(packages)
            by_package[package] = self.by_package.get(package, np.zeros(2)) + share * np.array(modelled)
        return replace(self, by_package=by_package)


@dataclass(frozen=True)
class SeenSoFar:
    """The CPU seconds of all samples up to the times of `HiddenTime`, and from when to when threads have segments."""

    cpu_s: Floats
    reaches: tuple[Reach, ...]

    @classmethod
    def nothing(cls) -> SeenSoFar:
        """Return that of no samples."""
        return cls(np.empty(0), ())


@dataclass(frozen=True)
class Survey:
    """What is known of a recording after the first pass.

    Attributes
    ----------
    trace, model, packages, step : of which recording, for which model, and how fine the index is
    threads : those with samples
    hidden : CPU time without samples
    seen : CPU time of the samples, from which that follows
    cut_off : the last segments of threads that were cut off, by ordinal
    around : of a window of time, what lies around it too, as far as its pools of native threads need it; None: nothing
    """

    trace: Trace
    model: Model
    packages: tuple[int, ...]
    step: int
    threads: tuple[IndexedThread, ...]
    hidden: HiddenTime
    seen: SeenSoFar
    cut_off: dict[int, CutOff]
    around: Survey | None = None

    @cached_property
    def means(self) -> Means:
        """Sums of all modelled energy, from another pass over the samples."""
        means = Means()
        for one in self.threads:
            cut_off = self.cut_off.get(one.thread.ordinal)
            _add_means(means, self.trace, one, self.model, self.packages, self.step, cut_off)
        return means

    def with_pools(self, used_s: Floats, modelled: tuple[float, float]) -> Survey:
        """Return what is known if pools of native threads used CPU time too.

        Parameters
        ----------
        used_s : their CPU seconds up to the times of `hidden`
        modelled : their modelled energy, and their CPU seconds
        """
        hidden = hidden_time(self.trace, self.seen.reaches, lambda _: self.seen.cpu_s + used_s)
        found = replace(self, hidden=hidden)
        if self.model.columns:
            vars(found)["means"] = self.means.plus_pools(modelled, self.packages)
        return found

    def with_around(self, trace: Trace) -> Survey:
        """Return it with threads of the window of time around its own. Raises DisorderedError, TraceError."""
        threads = (one for one in trace.threads if one.count)
        indexed = tuple(_indexed(trace, one, self.step) for one in threads)
        found = replace(self.bare(trace), threads=indexed, cut_off=find_cut_off(trace))
        return replace(self, around=found)

    def bare(self, trace: Trace) -> Survey:
        """Return it with another trace and without what grows with the time."""
        return replace(self, trace=trace, hidden=self.hidden.part(0, 0), seen=SeenSoFar.nothing())

    def for_windows(self, trace: Trace) -> Survey:
        """Return what windows need of it, with another trace: all sums that they may, if their pass may be needed."""
        found = self.bare(trace)
        if self.around is not None:
            wide = replace(self.around.trace, readings=trace.readings, recorded=trace.recorded)
            found = replace(found, around=self.around.bare(wide))
        columns = set(self.model.columns)
        is_bare = any(not columns <= set(one.thread.columns) for one in self.threads)
        if columns and (is_bare or self._has_open or len(self.hidden.t_ns)):
            vars(found)["means"] = self.means
        return found

    def power(self, package: int | None) -> float:
        """Return the mean power of all CPU time on a package, 1 for a model of CPU time."""
        return self.means.power(package) if self.model.columns else 1.0

    @property
    def open_powers(self) -> dict[int, float]:
        """The mean power of threads whose last segment is open, by ordinal."""
        return self.means.of_thread if self.model.columns and self._has_open else {}

    @property
    def _has_open(self) -> bool:
        return bool(self.cut_off) or any(one.thread.first_drop_ns is not None for one in self.threads)


def survey(
    trace: Trace,
    model: Model,
    packages: tuple[int, ...],
    step: int = STEP,
    map: Callable[..., Iterable[Any]] = map,  # noqa: A002 - it stands in for the built-in one
) -> Survey:
    """Read all samples once, as far as that is needed; one time of so many is kept.

    `map` calls a function for each thread; by default they are read one after the other.

    Raises
    ------
    DisorderedError
        If time stamps go backwards.
    TraceError
        If a file cannot be read.
    """
    threads = [one for one in trace.threads if one.count]
    cut_off = find_cut_off(trace)
    reaches = [_reach(trace, one) for one in threads]
    indexed: list[IndexedThread] = []
    seen = [np.empty(0)]

    def seen_at(grid_ns: Times) -> Floats:
        total_s = np.zeros(len(grid_ns))

        def passed(part: tuple[Thread, range]) -> tuple[Floats, Times, Times]:
            return _pass(trace, *part, grid_ns, step, cut_off.get(part[0].ordinal))

        parts = [(one, part) for one in threads for part in _parts(one.count, CHUNKS * CHUNK_STEPS * step)]
        times: dict[int, list[Times]] = {one.ordinal: [] for one in threads}
        lasts: dict[int, list[Times]] = {one.ordinal: [] for one in threads}
        for (thread, _), (at_s, t_ns, last) in zip(parts, map(passed, parts), strict=True):
            times[thread.ordinal].append(t_ns)
            lasts[thread.ordinal].append(last)
            total_s += at_s - at_s[0]
        for one in threads:
            last = np.maximum.accumulate(np.concatenate(lasts[one.ordinal]))
            indexed.append(index_thread(trace, one, np.concatenate(times[one.ordinal]), step, _known(one, last, step)))
        seen.append(total_s)
        return total_s

    hidden = hidden_time(trace, reaches, seen_at)
    if not indexed:
        indexed = [_indexed(trace, one, step) for one in threads]
    known = SeenSoFar(seen[-1], tuple(reaches))
    return Survey(trace, model, packages, step, tuple(indexed), hidden, known, cut_off)


def _indexed(trace: Trace, thread: Thread, step: int) -> IndexedThread:
    lasts = lasts_of(thread, step) if has_counts(thread) else NO_TIMES
    return index_thread(trace, thread, _sparse(thread, step), step, _known(thread, lasts, step))


def _known(thread: Thread, lasts: Times, step: int) -> KnownCounts | None:
    return KnownCounts(thread, lasts, step) if has_counts(thread) else None


def _reach(trace: Trace, thread: Thread) -> Reach:
    first = thread.stream.read_part(thread.dtype, thread.first, thread.first + 1)
    end_ns = thread_end_ns(trace, thread)
    earlier_s = int(first["cpu_ns"][0]) * 1e-9 if "cpu_ns" in thread.columns else 0.0
    begin_ns, end_ns = np.clip((min(int(first["t_ns"][0]), end_ns), end_ns), *trace.reach_ns).tolist()
    return Reach(thread.pid, begin_ns, end_ns, earlier_s)


def _sparse(thread: Thread, step: int) -> Times:
    """Return the times of every `step`-th sample, which alone are read."""
    places = range(thread.first, thread.first + thread.count, step)
    return thread.stream.read_every(thread.dtype, places)["t_ns"].astype(np.int64)


class _Piece(NamedTuple):
    """A part of a thread: its samples' fields, (n + 1,), where the last is the sample after it if `closed`."""

    thread: Thread
    fields: Fields
    closed: bool


def _parts(count: int, size: int) -> Iterator[range]:
    return (range(begin, min(begin + size, count)) for begin in range(0, count, size))


def _pieces(thread: Thread, names: Collection[str], step: int) -> Iterator[_Piece]:
    """Read fields of samples in pieces, each with the sample after it as its end, if there is one."""
    size = CHUNK_STEPS * step
    for begin in range(0, thread.count, size):
        count = min(size + 1, thread.count - begin)
        piece = replace(thread, first=thread.first + begin, count=count)
        fields, (there,) = read_fields([piece], names)
        if begin + size >= thread.count or there < count:
            if there:
                yield _Piece(piece, fields, closed=False)
            return
        yield _Piece(piece, {name: values[:-1] for name, values in fields.items()}, closed=True)


class _Pass:
    """A thread's CPU seconds up to some times, and the index of its samples, from samples that are given in order."""

    def __init__(self, trace: Trace, thread: Thread, grid_ns: Times) -> None:
        """Begin before the first sample."""
        self.thread, self.grid_ns = thread, grid_ns
        self.end_ns = max(thread_end_ns(trace, thread), 0)
        self.at_s = np.zeros(len(grid_ns))
        self.index = [np.empty(0, np.int64)]
        self.before: tuple[int, int, float] | None = None
        self.is_in_task = False

    def add(self, records: Samples) -> None:
        """Go on to the last of some samples. Raises DisorderedError."""
        t_ns, runs = records["t_ns"], records["instance"][-1] != 0
        if "cpu_ns" in self.thread.columns:
            cpu_ns = records["cpu_ns"]
        else:
            cpu_ns = self._time_in_tasks(t_ns, records["instance"])
        before = self.before or (min(int(t_ns[0]), self.end_ns), int(cpu_ns[0]), 0.0)
        within = self._within(before[0], int(t_ns[-1]))
        self.before = _loops.accumulate(t_ns, cpu_ns, before, self.end_ns, self.grid_ns[within], self.at_s[within])
        if self.before is None:
            raise DisorderedError("its time stamps go backwards")
        self.at_s[within.stop :] = self.before[2]
        self.is_in_task = bool(runs)

    def close(self, cut_off: CutOff | None) -> None:
        """Add the last segment, to the thread's end, as `make_segments` does."""
        if self.before is None:
            return
        t_ns, cpu_ns, used_s = self.before
        ends = self.thread.end_columns if self.thread.first_drop_ns is None else {}
        last_s = (self.end_ns - t_ns) * 1e-9
        if "cpu_ns" in self.thread.columns and ends:
            cpu_s = max(ends.get("cpu_ns", cpu_ns) - cpu_ns, 0) * 1e-9
        elif "cpu_ns" in self.thread.columns and cut_off is not None:
            cpu_s = min(cut_off.cpu_s, last_s) if self.is_in_task else 0.0
        else:
            cpu_s = last_s if self.is_in_task else 0.0
        within = self._within(t_ns, self.end_ns)
        if last_s > 0:
            self.at_s[within] = used_s + cpu_s * ((self.grid_ns[within] - t_ns) * 1e-9 / last_s)
            used_s += cpu_s
        self.at_s[within.stop :] = used_s

    def _within(self, begin_ns: int, end_ns: int) -> slice:
        first, last = np.searchsorted(self.grid_ns, (begin_ns, min(end_ns, self.end_ns)))
        return slice(first, max(first, last))

    def _time_in_tasks(self, t_ns: NDArray[np.uint64], instance: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return what stands for CPU time where it is not recorded: the time with a task, going on from before."""
        begin_ns, done_ns, _ = self.before or (int(t_ns[0]), 0, 0.0)
        t_ns = np.minimum(t_ns, np.uint64(self.end_ns))
        runs = np.concatenate(([self.is_in_task], instance[:-1] != 0))
        length_ns = np.diff(t_ns, prepend=np.uint64(min(begin_ns, self.end_ns)))
        return np.cumsum(np.where(runs, length_ns, np.uint64(0))) + np.uint64(done_ns)


def _pass(
    trace: Trace, thread: Thread, part: range, grid_ns: Times, step: int, cut_off: CutOff | None
) -> tuple[Floats, Times, Times]:
    """Return the CPU seconds of some of a thread's segments up to some times, and the index of their samples.

    With it come, if the thread has counts, the last samples with known ones.
    """
    found, done = _Pass(trace, thread, grid_ns), part.start
    lasts = Lasts(step, part.start) if has_counts(thread) else None
    stop = min(part.stop + 1, thread.count)
    for records in thread.read_pieces(part.start, stop):
        of_index = np.arange(-(done - part.start) % step, min(len(records), part.stop - done), step)
        found.index.append(np.minimum(records["t_ns"][of_index], np.uint64(found.end_ns)).astype(np.int64))
        if len(records):
            found.add(records)
        if lasts is not None:
            lasts.add(records[: part.stop - done])
        done += len(records)
    if done <= part.stop:
        found.close(cut_off)
    return found.at_s, np.concatenate(found.index), NO_TIMES if lasts is None else lasts.found()


def _add_means(
    means: Means,
    trace: Trace,
    indexed: IndexedThread,
    model: Model,
    packages: Sequence[int],
    step: int,
    cut_off: CutOff | None,
) -> None:
    """Add a thread to the sums of a model with counters."""
    alone, thread = np.zeros(2), indexed.thread
    for piece in _pieces(thread, fields_of(thread, model.columns), step):
        part, is_in_task = piece.thread, piece.fields["instance"][-2] != 0
        count, first = len(piece.fields["t_ns"]) - 1, part.first - thread.first
        last = count if piece.closed else count - 1
        around = known_around([indexed], piece.fields, np.array([0]), np.array([last]), np.array([first]))
        samples = Part([part], [0], [count], piece.fields, [piece.closed], around=around)
        of_thread = {} if cut_off is None else {part.ordinal: cut_off}
        one = make_segments(trace, samples, model, packages=len(packages) > 1, cut_off=of_thread)
        is_open = not piece.closed and not (part.end_columns and part.first_drop_ns is None) and is_in_task
        known = slice(None, -1) if is_open else slice(None)
        alone += one.modelled[known].sum(), one.cpu_s[known].sum()
        if is_open:
            mean = float(alone[0] / alone[1]) if alone[1] > 0 else 1.0
            means.of_thread[thread.ordinal] = mean
            one.modelled[-1] = mean * one.cpu_s[-1] if one.t_ns[-1] > one.t_ns[-2] else 0.0
        _add(means, one, packages)


def _add(means: Means, one: JoinedSegments, packages: Sequence[int]) -> None:
    lasting_s = np.where(one.t_ns[1:] > one.t_ns[:-1], one.cpu_s, 0.0)
    if one.counted:
        means.counted += one.modelled.sum(), one.cpu_s.sum()
    target = means.by_package if one.counted else means.bare
    for package in (None, *packages):
        weight = None
        if one.package is not None and one.package_end is not None:
            weight = part_on(one.package, one.package_end, package, packages)
        sums = [float(values.sum() if weight is None else values @ weight) for values in (one.modelled, lasting_s)]
        target[package] = target.get(package, np.zeros(2)) + np.array(sums)
