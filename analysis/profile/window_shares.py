"""What one window of a recording gives, whatever the others hold; so windows are shared in any process, in any order.

`tprof.analysis.profile.streamed` adds up what they give, in the order of the windows, so that the figures do not depend
on who shared which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from tprof.analysis.attribution.accounts import Totals, settle
from tprof.analysis.attribution.instances import join_rows
from tprof.analysis.attribution.load import Activity
from tprof.analysis.attribution.open_instances import EdgeParts, IdRuns, OpenParts, wholly_in
from tprof.analysis.attribution.sharing import plan_sharing
from tprof.analysis.attribution.windows import read_window
from tprof.analysis.names import places, shown

from .information import limits_of, with_quality
from .profile_warnings import SampleFacts, ran_in
from .stored_instances import Piece
from .streamed_fit import Planned
from .tables import settled_joules, tasks_table
from .task_sums import TaskSums, limits_j
from .window_pools import WindowNativeTotals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.hidden import HiddenTime
    from tprof.analysis.attribution.instances import InstanceRows, Joined
    from tprof.analysis.attribution.native_stream import CutPool, WindowPool
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window

    from tprof.trace import Thread, Trace

    from .recipe import Recipe
    from .streamed_fit import FittedDomain
    from .window_pools import PoolShares

    Mask = NDArray[np.bool_]

_LARGEST_BLOCK = (32 << 20) - (64 << 10)
"""Bytes; a larger one changes nothing in glibc."""


class Additive(Protocol):
    """What is kept of some instances, which the same of later ones can be added to."""

    def plus(self, later: Self) -> Self:
        """Return both."""


Part = TypeVar("Part", bound=Additive)
Part_co = TypeVar("Part_co", bound=Additive, covariant=True)


class Kept(Protocol[Part_co]):
    """What is kept of instances: sums, or a table."""

    columns: Collection[str] | None
    """Counters of which instances need counts, besides those of the model; None: all."""

    def __call__(self, rows: InstanceRows, totals: Totals, which: Mask, *, is_last: bool) -> Part_co:
        """Return what is kept of some of a window's instances, all of whose arrays may be changed."""


class Sums(NamedTuple):
    """Sums over instances, and those of the last window, as far as it is among the windows."""

    total: TaskSums
    last: Piece | None

    def plus(self, later: Sums) -> Sums:
        """Return those of both; each window has but one with its last instances."""
        if self.last is None or later.last is None:
            return Sums(self.total.plus(later.total), later.last if self.last is None else self.last)
        return Sums(self.total.plus(later.total), self.last.plus(later.last))


class Summed:
    """Sums over instances."""

    def __init__(self, trace: Trace, recipe: Recipe, threads: Sequence[Thread]) -> None:
        """Begin with what holds for all windows; `threads` are those with samples."""
        self.columns: Collection[str] | None = ()
        self._tables = Tables(trace, recipe, threads, None)
        names, places_of = places([shown(entry.name) for entry in trace.tasks])
        self._names, self._code = tuple(names), np.append(places_of, -1).astype(np.int32)
        self._limit_j = limits_j(names, trace.tasks)
        self._watts, self._most_w = limits_of(trace, recipe)
        self._threads = [(one.pid, one.tid, shown(one.name) or f"thread-{one.ordinal}") for one in threads]

    def __call__(self, rows: InstanceRows, totals: Totals, which: Mask, *, is_last: bool) -> Sums:
        """Return their sums."""
        last = self._tables(rows, totals, which, is_last=True) if is_last else None
        others = np.flatnonzero(~which)
        rows.own_s[others] = rows.cpu_s[others] = 0.0
        energy_j, half_j = settled_joules(rows, totals, self._watts, self._most_w)
        figures = {
            "duration_s": np.multiply(rows.end_ns - rows.start_ns, 1e-9),
            "cpu_s": rows.cpu_s,
            "own_s": rows.own_s,
            "energy_j": energy_j,
            "dynamic_j": totals.dynamic_j,
            "half_j": half_j,
        }
        if totals.native is not None:
            native = totals.native
            figures |= {"native_cpu_s": native.cpu_s, "native_j": native.joules, "spin_j": native.spin_j}
        code = self._code.take(rows.task, mode="clip")
        code[others] = -1
        sums = TaskSums.of(self._names, code, figures, self._by_thread(rows), self._limit_j)
        return Sums(replace(sums, rows=len(rows) - len(others)), last)

    def _by_thread(self, rows: InstanceRows) -> dict[tuple[int, int, str], float]:
        sums_s: dict[tuple[int, int, str], float] = {}
        numbers = rows.numbers
        begins = np.flatnonzero(np.concatenate((numbers[:1] >= 0, numbers[1:] != numbers[:-1])))
        runs_s = np.add.reduceat(np.where(np.isnan(rows.cpu_s), 0.0, rows.cpu_s), begins) if len(begins) else begins
        for number, cpu_s in zip(numbers[begins].tolist(), runs_s.tolist(), strict=True):
            key = self._threads[number]
            sums_s[key] = sums_s.get(key, 0.0) + cpu_s
        return sums_s


class Tables:
    """A table of instances."""

    def __init__(self, trace: Trace, recipe: Recipe, threads: Sequence[Thread], quality: str | None) -> None:
        """Begin with what holds for all windows; the others are those of `Summed`."""
        self.columns: Collection[str] | None = None
        self._trace, self._threads, self._quality = without_readings(trace), threads, quality
        self._watts, self._most_w = limits_of(trace, recipe)

    def __call__(self, rows: InstanceRows, totals: Totals, which: Mask, *, is_last: bool) -> Piece:  # noqa: ARG002
        """Return their table, with a column `quality` if that is known."""
        rows, totals = rows.view(which), totals.view(which)
        table, _ = tasks_table(self._trace, self._threads, rows, totals, self._watts, self._most_w)
        return Piece(table if self._quality is None else with_quality(table, self._quality), rows.own_s)


class DomainShares(NamedTuple):
    """What a window gives of one domain.

    Attributes
    ----------
    sums : tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j
    ran : by quantum, whether anything ran; None if that does not matter
    dynamic_j : by quantum, the joules above the static ones
    """

    sums: NDArray[np.float64]
    ran: NDArray[np.bool_] | None
    dynamic_j: NDArray[np.float64]


class WindowShares(NamedTuple, Generic[Part]):
    """What one window gives, whatever the others hold.

    Attributes
    ----------
    domains : None where a domain has no quantum in it
    samples : what its samples show
    kept, ids : of instances that begin and end in it
    parts : of all others
    pools : of native threads
    """

    domains: list[DomainShares | None]
    samples: Facts
    kept: Part
    ids: IdRuns
    parts: OpenParts
    pools: list[PoolShares]


class Job(NamedTuple):
    """A window, and what is known of it.

    Attributes
    ----------
    window : the window
    quanta : of each domain those that belong to it
    hidden : CPU time without samples in them
    pools : of native threads; empty if tasks use none
    held : ids of instances of which later windows have parts, also after their end
    """

    window: Window
    quanta: tuple[Quanta, ...]
    hidden: HiddenTime
    pools: tuple[WindowPool, ...] = ()
    held: NDArray[np.uint64] | None = None


@dataclass(frozen=True)
class Sharer(Generic[Part]):
    """Shares the joules of windows. What grows with a recording comes with each window, so a copy of this one is small.

    Attributes
    ----------
    trace, recipe, found : without readings and quanta
    fitted : domains whose joules are shared by fitted powers, by name
    keep : what is kept of instances
    """

    trace: Trace
    recipe: Recipe
    found: Survey
    fitted: Mapping[str, FittedDomain]
    keep: Kept[Part]

    @classmethod
    def of(
        cls, trace: Trace, recipe: Recipe, found: Survey, fitted: Mapping[str, FittedDomain], keep: Kept[Part]
    ) -> Sharer[Part]:
        """Leave out what windows do not need."""
        small = without_readings(trace)
        return cls(small, replace(recipe, quanta=(), whole=(), fits={}), found.for_windows(small), fitted, keep)

    def __call__(self, job: Job) -> WindowShares[Part]:
        """Share the joules of a window. Raises UnorderedError, TraceError."""
        keep_freed_memory()
        window, keep, model = job.window, self.keep, self.recipe.model
        columns = None if keep.columns is None else {*keep.columns, *model.columns}
        activity, joined, cuts = read_window_of(self.trace, self.recipe, self.found, window, columns, job.pools)
        activity = replace(activity, hidden=job.hidden)
        rows = joined.rows
        direct = wholly_in(rows, window)
        if job.held is not None and len(job.held):
            direct &= ~np.isin(rows.instance, job.held)
        native = WindowNativeTotals.begin(window, job.pools, cuts, joined) if job.pools else None
        totals = Totals.zeros(len(rows), native)
        domains: list[DomainShares | None] = []
        edges: list[EdgeParts | None] = []
        for quanta, which in zip(job.quanta, window.quanta, strict=True):
            part = None
            if native is not None and quanta.counted:
                native.domain = len(edges)
            if len(quanta):
                plan, own = self._plan(quanta, which, activity, window)
                part = EdgeParts.of(plan.measured, rows, ~direct) if quanta.counted else None
                account = settle(
                    plan, activity.segments, activity.pools, joined, totals if quanta.counted else None, part
                )
                sums = np.array(
                    [
                        account.tasks_j, account.runtime_j, account.other_j, account.idle_j, account.spin_j,
                        account.unidentified_j,
                    ]
                )  # fmt: skip
                ran = ran_in(plan)[own] if quanta.stuck.any() else None
                is_valid = plan.measured.valid.any()
                domains.append(DomainShares(sums if is_valid else np.zeros(6), ran, plan.dynamic_j[own]))
            else:
                domains.append(None)
                if native is not None and quanta.counted:
                    native.add_nothing(joined)
            if quanta.counted:
                edges.append(part)
        parts = OpenParts.of(rows, totals, ~direct, edges)
        samples = Facts()
        samples.note(activity.segments)
        ids = IdRuns.of(rows.instance[direct])
        kept = keep(rows, totals, direct, is_last=window.is_last)
        return WindowShares(domains, samples, kept, ids, parts, [] if native is None else native.shares)

    def _plan(self, quanta: Quanta, which: slice, activity: Activity, window: Window) -> Planned:
        """Share the joules of a window's quanta of a domain, `which` of all."""
        fitted = self.fitted.get(quanta.name)
        if fitted is not None:
            return fitted.plan(which, activity, window)
        static_w = self.recipe.static_power_w.get(quanta.name, 0.0)
        power = partial(self.found.power, quanta.package if len(self.recipe.packages) > 1 else None)
        plan = plan_sharing(activity.load(quanta), static_w, mean_power=power)
        return Planned(plan, slice(0, len(quanta)))


def without_readings(trace: Trace) -> Trace:
    """Return a trace whose readings have no values, which grow with its length."""
    recorded = None if trace.recorded is None else without_readings(trace.recorded)
    readings = {name: one.without_values() for name, one in trace.readings.items()}
    return replace(trace, readings=readings, recorded=recorded)


def keep_freed_memory() -> None:
    """Let the C library keep the memory of one window's arrays for the next one's.

    glibc returns free memory to the system above twice the size of the largest block that was freed, at most 64 MB.
    Such a block is made here; it is never touched.
    """
    np.empty(_LARGEST_BLOCK, np.uint8)


def read_activity_of(
    trace: Trace, recipe: Recipe, found: Survey, window: Window, columns: Collection[str] | None = None
) -> tuple[Activity, Joined]:
    """Read what ran in a window, and the instances of all threads in it, with the counts of columns, by default all.

    Native threads are left out. Raises UnorderedError, TraceError.
    """
    return read_window_of(trace, recipe, found, window, columns)[:2]


def read_window_of(
    trace: Trace,
    recipe: Recipe,
    found: Survey,
    window: Window,
    columns: Collection[str] | None,
    pools: Sequence[WindowPool] = (),
) -> tuple[Activity, Joined, list[CutPool]]:
    """Read the same with pools of native threads. Raises UnorderedError, TraceError."""
    names = counters_of([one.thread for one in found.threads]) if columns is None else []
    by_number = read_segments_of(trace, recipe, found, window, columns)
    cuts: list[CutPool] = []
    carried: list[InstanceRows] = []
    for pool in pools:
        cut = pool.cut(window, by_number, len(carried))
        if cut is not None:
            cuts.append(cut)
            carried += [replace(one, counts={name: np.zeros(1) for name in names}) for one in cut.carried]
    segments = [one for one in by_number if one is not None]
    activity = Activity(segments, [one.pool for one in cuts], found.hidden, recipe.packages)
    return activity, join_rows([*(one.rows for one in segments), *carried]), cuts


def read_segments_of(
    trace: Trace, recipe: Recipe, found: Survey, window: Window, columns: Collection[str] | None = None
) -> list[Segments | None]:
    """Read the segments of each thread in a window, with the counts of columns; None where it has none there.

    Raises UnorderedError, TraceError.
    """
    names = counters_of([one.thread for one in found.threads]) if columns is None else ()
    segments: list[Segments | None] = []
    for number, one in enumerate(found.threads):
        ordinal = one.thread.ordinal
        part = read_window(
            trace, one, window, recipe.model, packages=len(recipe.packages) > 1, columns=columns,
            cut_off=found.cut_off.get(ordinal), mean=found.open_power(one.thread),
        )  # fmt: skip
        segments.append(part)
        if part is None:
            continue
        if not part.counted:
            part.modelled = part.modelled * found.means.uncounted
        part.rows.thread = np.full(len(part.rows), number, np.int32)
        absent = np.broadcast_to(np.nan, len(part.rows))
        part.rows.counts = {name: part.rows.counts.get(name, absent) for name in names}
    return segments


def counters_of(threads: Sequence[Thread]) -> list[str]:
    """Return the counters of threads in the order of a table of instances."""
    names = dict.fromkeys(name for one in threads for name in one.columns)
    return [name for name in names if name not in ("energy_uj", "cpu_ns")]


class Facts:
    """What samples show."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sums = np.zeros(3, np.int64)
        self._bare: set[int] = set()
        self._guessed: set[int] = set()

    def note(self, segments: Sequence[Segments]) -> None:
        """Note what the samples of a window show."""
        for one in segments:
            self._sums += one.aborted, one.moved, one.starts
            if not one.counted:
                self._bare.add(one.thread.ordinal)
            if one.cut_off is not None and not one.cut_off.is_known:
                self._guessed.add(one.thread.ordinal)

    def add(self, other: Facts) -> None:
        """Add those of a window."""
        self._sums += other._sums
        self._bare |= other._bare
        self._guessed |= other._guessed

    def known(self) -> SampleFacts:
        """Return them without the number of instances and losses."""
        aborted, moved, begun = self._sums.tolist()
        return SampleFacts(
            disordered=0, aborted=aborted, cut_off=len(self._guessed), bare=len(self._bare), moved=moved, begun=begun,
            instances=0, follows_native=False,
        )  # fmt: skip
