"""Fits powers to a recording that is read window by window, and shares its joules by them.

1. **What ran** is written into a file, once, 26 bytes a segment. The fit, whose equations are of a bounded number,
   reads it in parts (`tprof.analysis.models.fitted.stored_work`).
2. **Edges** of quanta that overlap are estimated from all readings: each window gives the joules around its edges, and
   one tridiagonal system has all of them.
3. **Sharing**: a window's own joules are those from the end of the overlap at its first edge to the end of that at its
   last one. Its segments reach as far as the quanta next to these.

An effect on the power of a segment may depend on what is in other windows: on how long its instance runs, or on what
runs beside a long segment. Both are noted of instances and segments that cross the end of a window.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.load import part_on
from tprof.analysis.attribution.natives.segments import NativeSegments
from tprof.analysis.attribution.overlaps import has_overlaps, split_overlaps
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.windows import Reach
from tprof.analysis.models.fitted.base_fit import LATE_S, mean_lengths
from tprof.analysis.models.fitted.beside import BesideCourse, follow
from tprof.analysis.models.fitted.edges import evidence, place_edges, posterior, window_joules
from tprof.analysis.models.fitted.equations import Work, log_length
from tprof.analysis.models.fitted.stored_work import NO_SPACE, Loader, StoredPart, StoredWork

from tprof.trace.array_file import ArrayFile
from tprof.trace.long_arrays import blocks, computed, empty, release, zeros
from tprof.trace.long_sorts import rows_of
from tprof.trace.metadata import MAX_NS

from .recipe import repeatable, share_fitted, share_overlapping
from .window_reading import read_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.load import Activity, Load
    from tprof.analysis.attribution.natives.pools import StreamedPools
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window
    from tprof.analysis.models.fitted import Fit

    from tprof.trace.array_file import Place

    from .recipe import Again, Recipe
    from .stored_instances import Progress

    Read = Callable[[Window], Activity]

Floats = NDArray[np.float64]
NO_THREAD = -1
"""In place of a thread's ordinal: a pool of native threads."""
MOST_OPEN = 1 << 24
"""Instances that cross the ends of windows: their numbers are exact in single precision."""


def reach_of(quanta: Quanta) -> Reach:
    """Return when what the quanta of a domain share runs, wherever their edges lie and however late the sensor is."""
    if not quanta.timed:
        return Reach.of(quanta)
    count, late_ns = len(quanta), round(LATE_S[-1] * 1e9)
    edges_ns, window_s = quanta.edges_ns, quanta.window_s
    earliest_ns, latest_ns = empty(count, np.int64), empty(count + 2, np.int64)

    def half_ns(at: slice) -> NDArray[np.int64]:
        return np.ceil(window_s[at] * 0.5e9).astype(np.int64) + 1

    least_ns = MAX_NS
    for at in blocks(count, earliest_ns, edges_ns, window_s, backwards=True):
        begins_ns = np.append(edges_ns[at] - half_ns(at) - late_ns, least_ns)
        earliest_ns[at] = np.minimum.accumulate(begins_ns[::-1])[:0:-1]
        least_ns = int(earliest_ns[at.start])
    most_ns = -MAX_NS
    for at in blocks(count + 1, latest_ns, edges_ns, window_s):
        latest_ns[at] = np.maximum.accumulate(np.append(most_ns, edges_ns[at] + half_ns(at)))[1:]
        most_ns = int(latest_ns[at.stop - 1])
    latest_ns[-1] = most_ns
    # Joules in an overlap depend on all that the next quantum has, up to the end of its overlap with the one after it.
    return Reach(earliest_ns, latest_ns[2:])


@dataclass
class _Lengths:
    """The own seconds of a thread's instances that cross the end of a window, by their ids, which are sorted."""

    ids: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    number: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    own_s: Floats = field(default_factory=lambda: np.empty(0))

    def note(self, rows: InstanceRows, goes_on: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Add a window's rows; returns of each the logarithm of its length, or -1 less its number if it is here."""
        self._begin(rows.instance[goes_on & ~self._find(rows.instance)[0]])
        known, number = self._find(rows.instance)
        np.add.at(self.own_s, number, rows.own_s[known])
        found = log_length(rows.own_s)
        found[known] = -1.0 - number
        return found

    def of(self, rows: InstanceRows) -> NDArray[np.float32]:
        """Return the logarithms of the lengths of a window's rows."""
        known, number = self._find(rows.instance)
        found = log_length(rows.own_s)
        found[known] = log_length(self.own_s[number])
        return found

    def resolved(self, logarithm: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return logarithms in place of numbers."""
        at = np.flatnonzero(logarithm < 0)
        logarithm[at] = log_length(self.own_s[(-1 - logarithm[at]).astype(np.int64)])
        return logarithm

    def _find(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of some ids are known, and the numbers of these."""
        row = rows_of(self.ids, ids)
        return row >= 0, self.number[row[row >= 0]]

    def _begin(self, ids: NDArray[np.uint64]) -> None:
        # Of more, the lengths within windows count.
        ids = ids[: MOST_OPEN - len(self.ids)]
        every = np.concatenate((self.ids, ids))
        order = np.argsort(every, kind="stable")
        self.number = np.concatenate((self.number, len(self.ids) + np.arange(len(ids))))[order]
        self.ids = every[order]
        self.own_s = np.concatenate((self.own_s, np.zeros(len(ids))))


@dataclass
class StoredRun:
    """What all threads did, in a file.

    Attributes
    ----------
    file : of the columns
    tasks : their number
    packages : numbers of the packages that have a domain
    modelled : (tasks,) sums of modelled energy
    """

    file: ArrayFile
    tasks: int
    packages: tuple[int, ...]
    modelled: Floats = field(init=False)
    _pools: list[StoredPart] = field(default_factory=list)
    _mean_lengths: dict[int | None, NDArray[np.float32]] = field(default_factory=dict)
    _parts: list[StoredPart] = field(default_factory=list)
    _lengths: dict[int, _Lengths] = field(default_factory=dict)
    _ran_on: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1 << 16, bool))

    def __post_init__(self) -> None:
        """Begin the sums."""
        self.modelled = np.zeros(self.tasks)

    def add(self, one: Segments, own_ns: tuple[int, int]) -> None:
        """Write a thread's segments that begin in a window. Raises OSError."""
        own = slice(*np.searchsorted(one.t_ns[:-1], own_ns).tolist())
        lengths = self._lengths.setdefault(one.thread.ordinal, _Lengths())
        logarithm = _by_slot(lengths.note(one.rows, ~_ended_before(one.rows, own_ns[1])))
        self._ran_on[one.cpu[own]] = True
        self._store(self._parts, one.thread.ordinal, one, own, one.cpu[own], logarithm[one.slot[own]])

    def add_pool(self, one: NativeSegments, own_ns: tuple[int, int]) -> None:
        """Write a pool's segments that begin in a window. Raises OSError."""
        self._store(self._pools, NO_THREAD, one, slice(*np.searchsorted(one.t_ns[:-1], own_ns).tolist()))

    def _store(
        self, to: list[StoredPart], thread: int, one: Segments | NativeSegments, own: slice, *more: NDArray[Any]
    ) -> None:
        if own.start == own.stop:
            return
        task = one.task_numbers(self.tasks)[own]
        self.modelled += sum_by(task, one.modelled[own], self.tasks + 1)[: self.tasks]
        columns: list[NDArray[Any]] = [one.modelled[own], task, *more]
        if one.package is not None and one.package_end is not None:
            columns += [one.package[own], one.package_end[own]]
        to.append(StoredPart.of(self.file, thread, one.t_ns[own.start : own.stop + 1], *columns))

    @cached_property
    def _core_of(self) -> NDArray[np.int32]:
        """The numbers of the processors on which anything ran, by those of all."""
        return np.cumsum(self._ran_on, dtype=np.int32) - 1

    def work(self, domain: Quanta) -> list[StoredWork]:
        """Return what ran on a domain's package."""
        loader = Loader(self.file, partial(self._decoded, domain.package))
        work = [StoredWork(loader, part) for part in self._parts]
        if not self._pools:
            return work
        self._mean_lengths[domain.package] = mean_lengths((one.loaded() for one in work), self.tasks)
        return [*work, *(StoredWork(loader, part) for part in self._pools)]

    def _pool_work(
        self, t_ns: NDArray[np.int64], modelled: Floats, task: NDArray[np.int32], package: int | None
    ) -> Work:
        """Return what a pool did: on no core, as long as its tasks' mean instance."""
        nowhere = np.full(len(task), -1, np.int32)
        return Work(t_ns, modelled, task, nowhere, self._mean_lengths[package][task])

    def _decoded(self, package: int | None, part: StoredPart, columns: Sequence[NDArray[Any]]) -> Work:
        t_ns, modelled, task, *more = columns
        ends = more if part.thread == NO_THREAD else more[2:]
        weight = part_on(ends[0], ends[1], package, self.packages) if ends else None
        modelled = modelled if weight is None else modelled * weight
        if part.thread == NO_THREAD:
            return self._pool_work(t_ns, modelled, task, package)
        cpu, logarithm = more[:2]
        return Work(t_ns, modelled, task, self._core_of[cpu], self._lengths[part.thread].resolved(logarithm))

    def in_window(self, load: Load) -> list[Work]:
        """Return what threads did in a window, with what is known of it from others."""
        return [
            self._pool_work(place.t_ns, place.modelled, one.task_numbers(self.tasks), load.quanta.package)
            if isinstance(one, NativeSegments)
            else Work(
                place.t_ns, place.modelled, one.task_numbers(self.tasks),
                self._core_of[one.cpu],
                _by_slot(self._lengths[one.thread.ordinal].of(one.rows))[one.slot],
            )
            for place, one in zip(load.threads, load.segments, strict=True)
        ]  # fmt: skip


def _ended_before(rows: InstanceRows, t_ns: int) -> NDArray[np.bool_]:
    """Return which parts of instances ended before a time, so that no later window has one."""
    if t_ns == MAX_NS:
        return np.ones(len(rows), bool)
    return np.asarray(rows.ended & (rows.end_ns <= t_ns) & (rows.last_ns < t_ns))


def _by_slot(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return values of rows by slot: 0 where no task ran."""
    return np.concatenate((np.zeros(1, np.float32), values))


def activity_reader(recipe: Recipe, found: Survey, pools: StreamedPools | None) -> Read:
    """Return what reads what ran in a window, with the pools of native threads."""
    reader = found.reader(recipe.model, recipe.model.columns)

    def read(window: Window) -> Activity:
        return read_window(reader, found, window, pools).activity

    return read


def counted(windows: Sequence[Window], doing: str, progress: Progress | None) -> Iterator[Window]:
    """Yield windows, and report after each of them how many are done."""
    for number, window in enumerate(windows):
        yield window
        if progress is not None:
            progress(doing, number + 1, len(windows))


def store_run(
    file: ArrayFile, read: Read, windows: Iterable[Window], tasks: int, packages: tuple[int, ...]
) -> StoredRun:
    """Write what ran in all windows. Raises TraceError, OSError."""
    run = StoredRun(file, tasks, packages)
    for window in windows:
        activity = read(window)
        for one in activity.segments:
            run.add(one, window.own_ns)
        for pool in activity.pools:
            run.add_pool(pool.segments, window.own_ns)
    return run


class Planned(NamedTuple):
    """The sharing of some quanta.

    Attributes
    ----------
    sharing, again : the sharing, and what repeats it among pieces of segments
    own : which quanta are a window's own
    before : how many quanta come before all of these
    """

    sharing: Sharing
    again: Again
    own: slice
    before: int


@dataclass(frozen=True)
class FittedDomain:
    """A domain whose joules are shared by fitted powers.

    Attributes
    ----------
    quanta : with estimated edges, of the whole recording
    fit : of its tasks' powers, with the static power of these quanta
    run : what is known of the length of instances
    beside : what runs beside segments, by task and form
    overlaps : whether any of its quanta overlap
    """

    quanta: Quanta
    fit: Fit
    run: StoredRun
    beside: tuple[BesideCourse, ...]
    overlaps: bool

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel until they are read again."""
        self.quanta.release()
        release(self.fit.static_w)

    def plan(self, which: slice, activity: Activity, window: Window) -> Planned:
        """Share the joules of a window's quanta."""
        near, own = self._near(which) if self.overlaps else (which, slice(0, which.stop - which.start))
        quanta, fit = self.quanta.part(near), replace(self.fit, static_w=self.fit.static_w[near])
        factors = self._factors(quanta, activity, window)
        share = partial(share_overlapping, quanta, fit, own) if self.overlaps else partial(share_fitted, quanta, fit)
        return Planned(*repeatable(activity, factors, share), own, near.start)

    def evidence(self, which: slice, activity: Activity, window: Window) -> tuple[Floats, Floats, Floats]:
        """Return the joules around the first edge of each of a window's quanta, and what `evidence` does."""
        near, own = self._near(which)
        quanta = self.quanta.part(near)
        split = split_overlaps(quanta)
        load = activity.load(split.pieces).corrected(self.fit.power, self._factors(quanta, activity, window))
        joules = window_joules(split, load, self.fit.static_w[near], self.fit.other)
        residual, variance = evidence(joules, quanta.energy_j)
        return joules[own], residual[own], variance[own]

    def _near(self, which: slice) -> tuple[slice, slice]:
        """Return the quanta that decide how some quanta overlap, and these among them."""
        first = max(which.start - 1, 0)
        return slice(first, min(which.stop + 2, len(self.quanta))), slice(which.start - first, which.stop - first)

    def _factors(self, quanta: Quanta, activity: Activity, window: Window) -> tuple[Floats, ...] | None:
        effects = self.fit.effects
        if effects is None:
            return None
        work = self.run.in_window(activity.load(quanta))
        ends_ns = window.own_ns[0], window.until_ns
        return effects.factors(work, {one.key: one.inside(work, *ends_ns) for one in self.beside})


def fitted_domains(
    recipe: Recipe, run: StoredRun, read: Read, windows: Sequence[Window], progress: Progress | None = None
) -> dict[str, FittedDomain]:
    """Return the domains with fits, with their edges estimated, by name; `windows` belong to the recipe's quanta."""
    ends_ns = sorted({end_ns for window in windows for end_ns in (*window.own_ns, window.until_ns)})
    found = {}
    for domain in recipe.quanta:
        if domain.name in recipe.fits:
            fit = recipe.fits[domain.name]
            keys = () if fit.effects is None else fit.effects.besides
            beside = tuple(follow(run.work(domain), keys, ends_ns)) if keys else ()
            quanta = domain.earlier(fit.late_s)
            found[domain.name] = FittedDomain(quanta, fit, run, beside, has_overlaps(quanta))
    places = {one.name: number for number, one in enumerate(recipe.quanta)}
    uncertain = {name: one for name, one in found.items() if one.overlaps}
    return found | _estimated(uncertain, places, read, counted(windows, "times of readings", progress))


def _estimated(
    domains: dict[str, FittedDomain], places: dict[str, int], read: Read, windows: Iterable[Window]
) -> dict[str, FittedDomain]:
    """Return domains with estimated edges."""
    if not domains:
        return {}
    with ArrayFile(NO_SPACE) as file:
        found = {name: _Edges(one.quanta, file) for name, one in domains.items()}
        for window in windows:
            activity = read(window)
            for name, one in domains.items():
                which = window.quanta[places[name]]
                if which.stop > which.start:
                    found[name].add(which, *one.evidence(which, activity, window))
        return {name: replace(one, quanta=found[name].placed(one.fit.own_w)) for name, one in domains.items()}


class _Edges:
    """What the windows show of where the edges of a domain's quanta are."""

    def __init__(self, quanta: Quanta, file: ArrayFile) -> None:
        self._quanta, self._file = quanta, file
        self._joules: list[tuple[slice, Place]] = []
        self._residual, self._variance = (zeros(len(quanta) + more, np.float64) for more in (0, 1))

    def add(self, which: slice, joules: Floats, residual: Floats, variance: Floats) -> None:
        """Take those of a window's quanta."""
        self._joules.append((which, self._file.add(joules - joules[:, :1])))
        self._residual[which], self._variance[which] = residual, variance
        self._quanta.release()
        release(self._residual, self._variance)

    def placed(self, own_w: float) -> Quanta:
        """Return the quanta with edges where all readings together show them."""
        quanta = self._quanta
        moved, left = posterior(quanta, self._residual, self._variance, own_w)
        edges_ns = computed(len(quanta) + 1, np.int64, lambda at: quanta.edges_ns[at], quanta.edges_ns)
        window_s = computed(len(quanta) + 1, np.float64, lambda at: quanta.window_s[at], quanta.window_s)
        for which, place in self._joules:
            (joules,) = self._file.read(place)
            edges_ns[which], window_s[which] = place_edges(
                edges_ns[which], window_s[which], joules, moved[which], left[which]
            )
            release(edges_ns, window_s, moved, left)
        return replace(quanta, edges_ns=edges_ns, window_s=window_s)
