"""The first pass over a long recording: what every window needs of all samples.

That is the CPU time of the samples at some times, against which the CPU time without samples is measured, an index of
times, and, for models with counters, the mean power of all CPU time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .blocks import BlockReader
from .load import Activity, Reach, hidden_time, part_on
from .natives.pools import BY_CPU_TIME
from .segment_energy import sum_by
from .segments import find_cut_off
from .windows import STEP, IndexedThread, cut_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tprof.trace import Trace

    from .hidden import HiddenTime
    from .natives.pools import StreamedPools
    from .segments import CutOff, JoinedSegments, Model
    from .windows import Window

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
MEANS_SAMPLES = 250_000
"""Of a block, about, in the pass for mean powers."""


@dataclass
class Means:
    """Sums of modelled energy and CPU seconds.

    Attributes
    ----------
    counted : of threads with the model's counters
    by_task : (2, 2, tasks + 1) of segments of some length of threads with these counters, and of others, by task
    by_package : by number, of the same without segments of no length; None: of the machine
    bare : of threads without these counters, as `by_package`
    """

    by_task: Floats
    counted: Floats = field(default_factory=lambda: np.zeros(2))
    by_package: dict[int | None, Floats] = field(default_factory=dict)
    bare: dict[int | None, Floats] = field(default_factory=dict)

    @property
    def uncounted(self) -> float:
        """What threads without the model's counters are multiplied by: the mean power of the others."""
        modelled, cpu_s = self.counted.tolist()
        return modelled / cpu_s if cpu_s > 0 and modelled > 0 else 1.0

    def task_powers(self) -> Floats:
        """Return the mean power of each task, and last of none: the mean of all, as of tasks without CPU time."""
        modelled, cpu_s = self.by_task[0] + self.by_task[1] * ((self.uncounted,), (1.0,))
        mean = modelled.sum() / cpu_s.sum() if cpu_s.sum() > 0 and modelled.sum() > 0 else 1.0
        power: Floats = np.divide(modelled, cpu_s, out=np.full(len(cpu_s), mean), where=(cpu_s > 0) & (modelled > 0))
        power[-1] = mean
        return power

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
        means = Means(np.zeros((2, 2, len(self.trace.tasks) + 1)))
        reader = self.reader(self.model, self.model.columns, lambda: 1.0)
        for window in cut_windows(self.threads, [], MEANS_SAMPLES):
            _add_means(means, reader.read(window), window, self.packages)
        return means

    @cached_property
    def by_cpu_time(self) -> BlockReader:
        """What reads the segments by CPU time, without counts."""
        return self.reader(BY_CPU_TIME, ())

    def reader(
        self,
        model: Model,
        columns: Collection[str] | None,
        uncounted: Callable[[], float] | None = None,
        widths: Mapping[str, int] = MappingProxyType({}),
    ) -> BlockReader:
        """Return what reads the segments, as `BlockReader` says; `uncounted` is by default what the means say."""
        known = uncounted or (lambda: self.means.uncounted)
        several = len(self.packages) > 1
        return BlockReader(self.trace, self.threads, model, several, columns, self.cut_off, known, widths)

    def activity(self, reader: BlockReader, window: Window, pools: StreamedPools | None = None) -> Activity:
        """Read what ran in the next window, or in any one if what came before does not matter. Raises TraceError."""
        ran = reader.read(window)
        cuts = [] if pools is None else pools.between(window.own_ns[0], window.until_ns, reader.instances)
        return Activity(ran, cuts, self.hidden, self.packages)

    def activities(self, model: Model, pools: StreamedPools | None) -> Callable[[Window], Activity]:
        """Return what reads what ran in a window, with the pools of native threads."""
        return partial(self.activity, self.reader(model, model.columns), pools=pools)

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
        """Return it with threads of the window of time around its own. Raises TraceError."""
        around = replace(
            self, trace=trace, hidden=self.hidden.part(0, 0), seen=SeenSoFar.nothing(),
            threads=_indexed(trace, self.step), cut_off=find_cut_off(trace),
        )  # fmt: skip
        return replace(self, around=around)

    def power(self, package: int | None) -> float:
        """Return the mean power of all CPU time on a package, 1 for a model of CPU time."""
        return self.means.power(package) if self.model.columns else 1.0

    def task_powers(self) -> Floats:
        """Return the mean power of each task's CPU time, and last that of none; 1 for a model of CPU time."""
        return self.means.task_powers() if self.model.columns else np.ones(len(self.trace.tasks) + 1)


def survey(trace: Trace, model: Model, packages: tuple[int, ...], step: int = STEP) -> Survey:
    """Read all samples once, as far as that is needed; one time of so many is kept. Raises TraceError."""
    threads, cut_off = _indexed(trace, step), find_cut_off(trace)
    reaches = [_reach(trace, one) for one in threads]
    seen = [np.empty(0)]

    def seen_at(grid_ns: Times) -> Floats:
        used = (_used(one, grid_ns, cut_off.get(one.thread.ordinal)) for one in threads)
        seen.append(sum((at_s - at_s[0] for at_s in used), np.zeros(len(grid_ns))))
        return seen[-1]

    hidden = hidden_time(trace, reaches, seen_at)
    known = SeenSoFar(seen[-1], tuple(reaches))
    return Survey(trace, model, packages, step, threads, hidden, known, cut_off)


def _indexed(trace: Trace, step: int) -> tuple[IndexedThread, ...]:
    """Return the threads that have samples, with their indices: of the samples only those are read."""
    return tuple(IndexedThread.of(trace, one, step) for one in trace.threads if one.count)


def _reach(trace: Trace, one: IndexedThread) -> Reach:
    begin_ns, end_ns = np.clip((one.t_ns[0], one.end_ns), *trace.reach_ns).tolist()
    return Reach(one.thread.pid, begin_ns, end_ns, one.first_cpu_ns * 1e-9)


def _used(indexed: IndexedThread, grid_ns: Times, cut_off: CutOff | None) -> Floats:
    """Return the CPU seconds of a thread's segments up to some times. Raises TraceError."""
    thread, end_ns = indexed.thread, max(indexed.end_ns, 0)
    has_clock, at_s, done = "cpu_ns" in thread.columns, np.zeros(len(grid_ns)), 0
    # Of the last sample its time, its clock, the CPU seconds up to it, and whether a task runs from then on.
    last_ns = last_cpu_ns = 0
    used_s, runs = 0.0, False

    def within(begin_ns: int, until_ns: int) -> slice:
        first, last = np.searchsorted(grid_ns, (begin_ns, min(until_ns, end_ns)))
        return slice(first, max(first, last))

    for records in thread.read_pieces(0, thread.count):
        if not len(records):
            continue
        limited_ns = np.minimum(records["t_ns"], np.uint64(end_ns)).astype(np.int64)
        t_ns = np.maximum.accumulate(np.append(last_ns if done else limited_ns[0], limited_ns))
        length_ns = np.diff(t_ns)
        if has_clock:
            clock_ns = records["cpu_ns"]
            before = np.array([last_cpu_ns if done else clock_ns[0]], np.uint64)
            # Segments of no length count nothing, nor does CPU time that falls.
            more_ns = np.where(length_ns > 0, np.diff(np.append(before, clock_ns)).view(np.int64), 0)
            last_cpu_ns = int(clock_ns[-1])
        else:
            # The time with a task stands for it.
            more_ns = np.where(np.append(runs, records["instance"][:-1] != 0), length_ns, 0)
        total_s = np.cumsum(np.append(used_s, np.maximum(more_ns, 0) * 1e-9))
        part = within(int(t_ns[0]), int(t_ns[-1]))
        at_s[part] = np.interp(grid_ns[part], t_ns, total_s)
        at_s[part.stop :] = total_s[-1]
        last_ns, used_s, runs = int(t_ns[-1]), float(total_s[-1]), bool(records["instance"][-1])
        done += len(records)
    last_s = (end_ns - last_ns) * 1e-9
    if done and last_s > 0:
        # The last segment, to the thread's end, as `BlockReader` closes it.
        ends = thread.end_columns if thread.first_drop_ns is None else {}
        cpu_s = last_s if runs else 0.0
        if has_clock and ends:
            cpu_s = max(ends.get("cpu_ns", last_cpu_ns) - last_cpu_ns, 0) * 1e-9
        elif has_clock and cut_off is not None:
            cpu_s = min(cut_off.cpu_s, cpu_s)
        part = within(last_ns, end_ns)
        at_s[part] = used_s + cpu_s * ((grid_ns[part] - last_ns) * 1e-9 / last_s)
        at_s[part.stop :] = used_s + cpu_s
    return at_s


def _add_means(means: Means, one: JoinedSegments, window: Window, packages: Sequence[int]) -> None:
    """Add the segments that begin in a window."""
    begin_ns, end_ns = one.t_ns[:-1], one.t_ns[1:]
    own = (begin_ns >= window.own_ns[0]) & (begin_ns < window.own_ns[1])
    has_counters = one.joints.of_segments(np.array(one.counted, bool))
    lasting_s = np.where(end_ns > begin_ns, one.cpu_s, 0.0)
    number, lasts = one.task_numbers(means.by_task.shape[2] - 1), own & (end_ns > begin_ns)
    for sums, which in zip(means.by_task, (lasts & has_counters, lasts & ~has_counters), strict=True):
        sums += [sum_by(number[which], values[which], sums.shape[1]) for values in (one.modelled, one.cpu_s)]
    means.counted += one.modelled[own & has_counters].sum(), one.cpu_s[own & has_counters].sum()
    for package in (None, *packages):
        weight = None
        if one.package is not None and one.package_end is not None:
            weight = part_on(one.package, one.package_end, package, packages)
        for which, target in ((own & has_counters, means.by_package), (own & ~has_counters, means.bare)):
            part = which.astype(np.float64) if weight is None else which * weight
            more = np.array([one.modelled @ part, lasting_s @ part])
            target[package] = target.get(package, np.zeros(2)) + more
