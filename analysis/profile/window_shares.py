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
from tprof.analysis.attribution.open_instances import EdgeParts, IdRuns, OpenParts, wholly_in
from tprof.analysis.attribution.sharing import plan_sharing
from tprof.analysis.names import places, shown

from tprof.trace.gpu import GpuTrace

from .information import limits_of
from .profile_warnings import Facts, ran_in
from .recipe import repeatable
from .stack_shares import share_stacks
from .stored_instances import Piece
from .streamed_fit import Planned
from .tables import settled_joules, tasks_table
from .task_graph import ServedSegments
from .task_sums import TaskSums, limits_j
from .window_pools import WindowNativeTotals
from .window_reading import read_window_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.hidden import HiddenTime
    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.native_stream import WindowPool
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.stack_samples import Key, ThreadStacks
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.unmarked_gpu import GpuPart
    from tprof.analysis.attribution.windows import Window

    from tprof.trace import Thread, Trace

    from .recipe import Again, Recipe
    from .stack_shares import StackShares
    from .streamed_fit import FittedDomain
    from .task_graph.services import Service
    from .window_gpus import GpuWindow, WindowGpus
    from .window_pools import PoolShares

    Mask = NDArray[np.bool_]

NO_IDS = np.empty(0, np.uint64)
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
        self._tables = Tables(trace, recipe, threads)
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
        if totals.gpu is not None:
            figures["gpu_j"] = totals.gpu.joules
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
    """A table of instances, without what their samples do not say."""

    def __init__(self, trace: Trace, recipe: Recipe, threads: Sequence[Thread]) -> None:
        """Begin with what holds for all windows; the others are those of `Summed`."""
        self.columns: Collection[str] | None = None
        self._trace, self._threads = without_sensors(trace), threads
        self._watts, self._most_w = limits_of(trace, recipe)

    def __call__(self, rows: InstanceRows, totals: Totals, which: Mask, *, is_last: bool) -> Piece:  # noqa: ARG002
        """Return their table."""
        rows, totals = rows.view(which), totals.view(which)
        table, _ = tasks_table(self._trace, self._threads, rows, totals, self._watts, self._most_w)
        return Piece(table, rows.own_s)


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
    gpus : what it gives of GPUs; None without any
    served : of workers of a task runtime
    stacks : None if they were not asked for
    """

    domains: list[DomainShares | None]
    samples: Facts
    kept: Part
    ids: IdRuns
    parts: OpenParts
    pools: list[PoolShares]
    gpus: GpuWindow | None
    served: ServedSegments
    stacks: StackShares | None


class Job(NamedTuple):
    """A window, and what is known of it.

    Attributes
    ----------
    window : the window
    quanta : of each domain those that belong to it
    hidden : CPU time without samples in them
    pools : of native threads; empty if tasks use none
    held : ids of instances of which other windows have parts, also after their end
    stacks : that were sampled in it, by thread; None: they are not asked for
    gpus : its quanta of GPUs on which nothing is marked
    """

    window: Window
    quanta: tuple[Quanta, ...]
    hidden: HiddenTime
    pools: tuple[WindowPool, ...] = ()
    held: NDArray[np.uint64] = NO_IDS
    stacks: Mapping[Key, ThreadStacks] | None = None
    gpus: tuple[GpuPart, ...] = ()


@dataclass(frozen=True)
class Sharer(Generic[Part]):
    """Shares the joules of windows. What grows with a recording comes with each window, so a copy of this one is small.

    Attributes
    ----------
    trace, recipe, found : without readings and quanta
    fitted : domains whose joules are shared by fitted powers, by name
    keep : what is kept of instances
    gpus : whose joules instances take; None without any
    services : when threads were workers of a task runtime; none if what their segments show then is known
    """

    trace: Trace
    recipe: Recipe
    found: Survey
    fitted: Mapping[str, FittedDomain]
    keep: Kept[Part]
    gpus: WindowGpus | None
    services: Sequence[Service]

    @classmethod
    def of(
        cls,
        trace: Trace,
        recipe: Recipe,
        found: Survey,
        fitted: Mapping[str, FittedDomain],
        keep: Kept[Part],
        gpus: WindowGpus | None,
        services: Sequence[Service],
    ) -> Sharer[Part]:
        """Leave out what windows do not need."""
        small, bare = without_sensors(trace), replace(recipe, quanta=(), whole=(), fits={})
        with_marks = None if gpus is None else gpus.for_windows()
        return cls(small, bare, found.for_windows(small), fitted, keep, with_marks, services)

    def __call__(self, job: Job) -> WindowShares[Part]:
        """Share the joules of a window. Raises DisorderedError, TraceError."""
        keep_freed_memory()
        window, keep, model = job.window, self.keep, self.recipe.model
        columns = None if keep.columns is None else {*keep.columns, *model.columns}
        activity, joined, cuts = read_window_of(self.trace, self.recipe, self.found, window, columns, job.pools)
        activity = replace(activity, hidden=job.hidden)
        rows = joined.rows
        direct = wholly_in(rows, window)
        if len(job.held):
            direct &= ~np.isin(rows.instance, job.held)
        native = WindowNativeTotals.begin(window, job.pools, cuts, joined) if job.pools else None
        totals = Totals.zeros(len(rows), native)
        domains: list[DomainShares | None] = []
        edges: list[EdgeParts | None] = []
        served = ServedSegments(self.services)
        segments = activity.segments if self.services else []
        served.add_processors(segments, window.own_ns)
        plans: list[tuple[Sharing, Again]] = []
        for quanta, which in zip(job.quanta, window.quanta, strict=True):
            part = None
            if native is not None and quanta.counted:
                native.domain = len(edges)
            if len(quanta):
                plan, again, own = self._plan(quanta, which, activity, window)
                if quanta.counted:
                    plans.append((plan, again))
                part = EdgeParts.of(plan.measured, rows, ~direct) if quanta.counted else None
                account = settle(
                    plan, activity.groups, activity.pools, joined, totals if quanta.counted else None, part
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
                if quanta.counted:
                    served.add_joules(segments, plan)
            else:
                domains.append(None)
                if native is not None and quanta.counted:
                    native.add_nothing(joined)
            if quanta.counted:
                edges.append(part)
        parts = OpenParts.of(rows, totals, ~direct, edges)
        samples = Facts()
        samples.note(activity.groups)
        ids = IdRuns.of(rows.instance[direct])
        gpus = None if self.gpus is None else self.gpus.share(job.gpus, activity.groups, joined, totals, direct)
        stacks = None if job.stacks is None else share_stacks(window, activity, job.stacks, plans)
        kept = keep(rows, totals, direct, is_last=window.is_last)
        of_pools = [] if native is None else native.shares
        return WindowShares(domains, samples, kept, ids, parts, of_pools, gpus, served, stacks)

    def planned(self, job: Job) -> tuple[Activity, list[Sharing]]:
        """Return what ran in a window, and how the joules of its counted domains are shared. Raises TraceError."""
        window, columns = job.window, self.recipe.model.columns
        activity, _, _ = read_window_of(self.trace, self.recipe, self.found, window, columns, job.pools)
        activity = replace(activity, hidden=job.hidden)
        domains = zip(job.quanta, window.quanta, strict=True)
        counted = ((quanta, which) for quanta, which in domains if quanta.counted and len(quanta))
        return activity, [self._plan(quanta, which, activity, window).sharing for quanta, which in counted]

    def _plan(self, quanta: Quanta, which: slice, activity: Activity, window: Window) -> Planned:
        """Share the joules of a window's quanta of a domain, `which` of all."""
        fitted = self.fitted.get(quanta.name)
        if fitted is not None:
            return fitted.plan(which, activity, window)
        static_w = self.recipe.static_power_w.get(quanta.name, 0.0)
        power = partial(self.found.power, quanta.package if len(self.recipe.packages) > 1 else None)
        shared = repeatable(activity, None, lambda ran, _: plan_sharing(ran.load(quanta), static_w, mean_power=power))
        return Planned(*shared, slice(0, len(quanta)))


def without_sensors(trace: Trace) -> Trace:
    """Return a trace without the values of readings and without what GPUs did, which grow with its length."""
    recorded = None if trace.recorded is None else without_sensors(trace.recorded)
    readings = {name: one.without_values() for name, one in trace.readings.items()}
    return replace(trace, readings=readings, recorded=recorded, gpu=GpuTrace(notes=trace.gpu.notes))


def keep_freed_memory() -> None:
    """Let the C library keep the memory of one window's arrays for the next one's.

    glibc returns free memory to the system above twice the size of the largest block that was freed, at most 64 MB.
    Such a block is made here; it is never touched.
    """
    np.empty(_LARGEST_BLOCK, np.uint8)
