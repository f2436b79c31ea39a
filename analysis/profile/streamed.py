"""A profile of a recording of any length: window after window is read and shared, and only sums are kept.

The figures are those of the whole recording (see `tprof.analysis.attribution.windows`), up to the order of additions. A
first pass over the samples is made where one is needed (`tprof.analysis.attribution.survey`). Memory holds the readings
of the sensors, a window's samples, and the instances that have not ended. What needs all samples at a time is shared in
memory instead; `why_in_memory` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from tprof.analysis.attribution.accounts import Account
from tprof.analysis.attribution.gpu import SCOPE as GPU
from tprof.analysis.attribution.gpu import gpu_use, takes_all_that_ran
from tprof.analysis.attribution.load import Activity, idle_power_w, losses
from tprof.analysis.attribution.long_arrays import computed, is_any, release, zeros
from tprof.analysis.attribution.native_stream import survey_pools
from tprof.analysis.attribution.open_instances import OpenInstances
from tprof.analysis.attribution.stack_samples import SampledStacks, ThreadReach
from tprof.analysis.attribution.survey import survey
from tprof.analysis.attribution.windows import STEP, Reach, cut_windows
from tprof.analysis.models.fitted.powers import mean_errors
from tprof.analysis.models.fitted.stored_work import ArrayFile

from tprof import log

from .fits import Ran, needs_fits
from .fits import fitted as fit_powers_of
from .information import Found, Said, accounts_table, completed, informed, limits_of
from .instances import SampleIndex, SummedInstances
from .memory import record_count
from .parallel_maps import Processes, Threads, usual_threads
from .profile import Profile
from .profile_warnings import Facts, SampleFacts, stuck_sensor_warnings
from .stack_shares import StoredStacks
from .stored_instances import Piece
from .streamed_fit import counted, fitted_domains, reach_of, store_run
from .task_graph import ServedSegments, services_of
from .window_gpus import WindowGpus, gpu_errors, without_gpus
from .window_pools import PoolSums
from .window_reading import read_activity_of, read_segments_of, read_window_of
from .window_shares import Job, Sharer, Summed, Sums, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis.attribution.native_stream import StreamedPools
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window

    from tprof.trace import Thread, Trace

    from .parallel_maps import Map
    from .recipe import Prepared, Recipe
    from .stored_instances import Progress
    from .streamed_fit import FittedDomain
    from .task_graph.services import Service
    from .window_gpus import GpuSums
    from .window_shares import Kept, Part, WindowShares

    Mask = NDArray[np.bool_]

WINDOW_SAMPLES = 250_000
"""Of a window, about: its arrays stay in memory that is used again, and in caches as far as they can."""
STREAMED_FROM = 4_000_000
"""Samples and readings of a long recording."""
MOST_SENT = 4_000_000
"""Quanta with estimated edges that are sent to other processes, 34 bytes each."""
STEPS = 8
"""A window has so many of the times by which samples are found, or more."""


def is_long(trace: Trace) -> bool:
    """Return whether commands that need no table of instances read a recording window by window."""
    return record_count(trace) >= STREAMED_FROM


def why_in_memory(trace: Trace, prepared: Prepared) -> str | None:
    """Return why a recording is shared with all its samples in memory; None: it need not be."""
    recipe = prepared.recipe
    reasons = {
        "a GPU was used, and no task was marked on it": not _are_marked(trace, recipe),
        "stacks were sampled, which in parts needs pyarrow (tprof-energy[parquet])": bool(trace.stack_files)
        and find_spec("pyarrow") is None,
        "native threads may serve tasks in a window of time": trace.recorded is not None
        and _follows_natives(trace, recipe),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _are_marked(trace: Trace, recipe: Recipe) -> bool:
    used = (gpu_use(trace, one.name) for one in recipe.quanta if one.scope == GPU and len(one))
    return not any(takes_all_that_ran(one) for one in used)


def _follows_natives(trace: Trace, recipe: Recipe) -> bool:
    return recipe.attribute_native and any(
        len(one.cpu_ns) > 1 and int(one.cpu_ns.max()) > int(one.cpu_ns.min()) for one in trace.native_threads
    )


def build_streamed(
    trace: Trace,
    prepared: Prepared,
    *,
    asked: str,
    samples: int,
    progress: Progress | None = None,
    map: Map | None = None,  # noqa: A002 - it stands in for the built-in one
) -> Profile:
    """Attribute a trace's joules window by window.

    Parameters
    ----------
    trace : a whole recording
    prepared : what was decided from its readings
    asked : the model that was asked for
    samples : of a window, about
    progress : called with what is done, how many windows are, and how many there are
    map : calls a function for each window, and returns what that does in the order of the windows, as the built-in one
        does; None: on a few threads of this process

    Raises
    ------
    UnorderedError
        If this recording must be in memory: time stamps go backwards, or ids of instances are used again.
    """
    recipe = prepared.recipe
    log.info("analysis", "streaming %s: %d threads, %d domains", trace.path, len(trace.threads), len(recipe.whole))
    step = min(STEP, max(samples // STEPS, 1))
    found = survey(trace, recipe.model, recipe.packages, step, map if isinstance(map, Threads) else usual_threads())
    reach = [reach_of(one) if needs_fits(recipe, asked) else Reach.of(one) for one in without_gpus(recipe.quanta)]
    windows = tuple(cut_windows(found.threads, reach, samples))
    found, pools = _with_pools(trace, recipe, found, windows)
    recipe = prepared.idled(_idle_watts(trace, prepared, found, pools, samples))
    recipe, fitted, modelled = _fitted(trace, recipe, found, pools, windows, asked, progress)
    gpus = WindowGpus.of(trace, recipe)
    said = Said.of(trace)
    services = services_of(said.events, trace)
    stream = _Stream(trace, recipe, found, windows, fitted, pools, gpus, map or usual_threads(), services)
    sums: list[Sums] = []
    shared = stream.run(
        Summed(trace, recipe, stream.threads),
        lambda part: sums.append(sums.pop().plus(part) if sums else part),
        progress,
    )
    total, last = sums[0]
    facts = replace(shared.facts, instances=total.rows, follows_native=pools is not None)
    names = [entry.name for entry in trace.tasks]
    native = None if shared.pools is None else shared.pools.facts(names)
    stuck = [text for domain in recipe.quanta for text in shared.stuck.get(domain.name, ())]
    info = informed(trace, prepared, recipe, Found(shared.accounts, stuck, facts, found.hidden, native, said))
    stream = replace(stream, known=shared.pools, services=())
    begins_ns = tuple(window.own_ns[0] for window in windows)
    complete = partial(completed, trace=trace, said=said, quality=info["quality"])
    last = cast("Piece", last)
    instances = SummedInstances(
        total, Piece(complete(last.tasks), last.own_s), partial(stream.share, complete), stream.segments, begins_ns,
        stream.index, shared.served, stream.begin_stacks if trace.stack_files else None,
    )  # fmt: skip
    accounts = accounts_table(recipe, shared.accounts)
    bounds = None if shared.pools is None else shared.pools.bounds(names)
    errors_j = None
    if recipe.fits:
        errors_j = mean_errors(recipe.fits, modelled, total.columns["instances"], names)
        if shared.gpus is not None:
            errors_j = np.hypot(errors_j, gpu_errors(shared.gpus.variance_j2, total.columns["instances"]))
    return Profile(trace, instances, accounts, info, recipe, errors_j, limits_of(trace, recipe)[0], bounds, said)


def _with_pools(
    trace: Trace, recipe: Recipe, found: Survey, windows: Sequence[Window]
) -> tuple[Survey, StreamedPools | None]:
    """Find the pools of native threads: returns what is known with their CPU time, and the pools."""
    if not _follows_natives(trace, recipe):
        return found, None

    def read(window: Window) -> list[Segments | None]:
        return read_segments_of(trace, recipe, found, window, recipe.model.columns)

    pools = survey_pools(found, windows, read)
    return (found, None) if pools is None else (found.with_pools(pools.used_s(), pools.modelled()), pools)


def _fitted(
    trace: Trace,
    recipe: Recipe,
    found: Survey,
    pools: StreamedPools | None,
    windows: Sequence[Window],
    asked: str,
    progress: Progress | None,
) -> tuple[Recipe, dict[str, FittedDomain], NDArray[np.float64]]:
    """Fit powers if the model needs that: returns the recipe, how fitted domains are shared, and modelled sums."""
    tasks = len(trace.tasks)
    if not needs_fits(recipe, asked):
        return recipe, {}, np.zeros(tasks)

    numbers = {window.own_ns[0]: number for number, window in enumerate(windows)}

    def read(window: Window) -> Activity:
        known = () if pools is None else pools.in_window(numbers[window.own_ns[0]])
        return read_window_of(trace, recipe, found, window, recipe.model.columns, known)[0]

    with ArrayFile() as file:
        run = store_run(file, read, counted(windows, "what ran", progress), tasks, recipe.packages)

        def ran(domain: Quanta) -> Ran:
            if progress is not None:
                progress(f"powers of {domain.name}", 0, 1)

            def hidden_s(at: slice) -> NDArray[np.float64]:
                other_s, unseen_s = found.hidden.between(domain.edges_ns[at.start : at.stop + 1], domain.package)
                return other_s + unseen_s

            return Ran(run.work(domain), computed(len(domain), np.float64, hidden_s, domain.edges_ns))

        chosen = fit_powers_of(recipe, trace, ran, asked=asked)
        return chosen, fitted_domains(chosen, run, read, windows, progress), run.modelled


@dataclass
class _Shared:
    """What all windows found; `stuck` are warnings by domain."""

    accounts: dict[str, Account]
    stuck: dict[str, list[str]]
    facts: SampleFacts
    pools: PoolSums | None
    gpus: GpuSums | None
    served: ServedSegments


@dataclass
class _Domain:
    """One domain's account so far, and in which quanta anything ran."""

    quanta: Quanta
    number: int | None
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(6))
    ran: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def account(self) -> Account:
        if not len(self.quanta) or not is_any(self.quanta.valid):
            return Account(self.quanta.name, *[float("nan")] * 7)
        return Account(self.quanta.name, self.quanta.measured_j, *self.sums.tolist())


@dataclass(frozen=True)
class _Stream:
    """A recording that is read window by window, as often as that is needed.

    The pools' joules are `known` when all windows have been shared once; then `services` are looked at no more.
    """

    trace: Trace
    recipe: Recipe
    found: Survey
    windows: Sequence[Window]
    fitted: Mapping[str, FittedDomain]
    pools: StreamedPools | None
    gpus: WindowGpus | None
    map: Map
    services: Sequence[Service]
    known: PoolSums | None = None

    @cached_property
    def domains(self) -> tuple[Quanta, ...]:
        """The quanta whose joules windows share, of all domains."""
        return without_gpus(self.recipe.quanta)

    @property
    def threads(self) -> list[Thread]:
        """Those with samples."""
        return [one.thread for one in self.found.threads]

    def share(
        self,
        complete: Callable[[pd.DataFrame], pd.DataFrame],
        sink: Callable[[Piece], None],
        progress: Progress | None = None,
        stacks: StoredStacks | None = None,
    ) -> None:
        """Share all joules once more, and give the instances of each window, whose table is completed, to a sink.

        The window's sampled stacks are stored too.
        """
        tables = Tables(self.trace, self.recipe, self.threads)
        self.run(tables, lambda piece: sink(Piece(complete(piece.tasks), piece.own_s)), progress, stacks)

    def begin_stacks(self) -> StoredStacks:
        """Read the sampled stacks, none of them weighed yet."""
        first_ns, last_ns = self.trace.reach_ns
        return StoredStacks(
            SampledStacks(
                self.trace,
                (
                    ThreadReach(one.thread, max(int(one.t_ns[0]), first_ns), min(one.end_ns, last_ns))
                    for one in self.found.threads
                ),
            )
        )

    def segments(self) -> Iterator[tuple[tuple[int, int], list[Segments]]]:
        """Yield for each window when the segments begin that count in it, and those of its threads."""
        columns = self.recipe.model.columns
        for window in self.windows:
            yield window.own_ns, read_activity_of(self.trace, self.recipe, self.found, window, columns)[0].segments

    @property
    def index(self) -> SampleIndex:
        """The times of some samples of all threads."""
        t_ns = np.concatenate([np.empty(0, np.int64), *(one.t_ns for one in self.found.threads)])
        return SampleIndex(np.sort(t_ns), self.found.step)

    def run(
        self,
        keep: Kept[Part],
        sink: Callable[[Part], None],
        progress: Progress | None,
        stacks: StoredStacks | None = None,
    ) -> _Shared:
        """Share the joules of all windows; `sink` takes what is kept of instances that have ended."""
        counted = [self._shared_quanta(one) for one in self.domains if one.counted]
        numbers = {one.name: number for number, one in enumerate(counted)}
        domains = [_Domain(one, numbers.get(one.name), ran=zeros(len(one), bool)) for one in self.domains]
        instances, facts = OpenInstances(counted), Facts()
        pools = None if self.pools is None else PoolSums(self.pools, len(counted), len(self.trace.tasks))
        gpus: list[GpuSums] = []
        share = Sharer.of(self.trace, self.recipe, self.found, self.fitted, keep, self.gpus, self.services)
        served = ServedSegments(self.services)
        jobs: Iterable[Job] = (self._job(number, stacks) for number in range(len(self.windows)))
        # Maps of others may take all jobs at once.
        taken = jobs if isinstance(self.map, Threads | Processes) else list(jobs)
        shared: Iterable[WindowShares[Part]] = (usual_threads() if self._is_large else self.map)(share, taken)
        for number, (window, shares) in enumerate(zip(self.windows, shared, strict=True)):
            _add(domains, shares, window, instances)
            facts.add(shares.samples)
            served = served.plus(shares.served)
            held = None if self.pools is None else self.pools.held[number]
            rows, totals = instances.advance(window, shares.ids, shares.parts, held)
            if pools is not None:
                pools.add(shares.pools)
            if stacks is not None and shares.stacks is not None:
                stacks.add(window, shares.stacks)
            every = np.ones(len(rows), bool)
            if self.gpus is not None and shares.gpus is not None:
                more = shares.gpus.plus(self.gpus.taken(rows, totals, every))
                gpus = [one.plus(more) for one in gpus] or [more]
            later = keep(rows, totals, every, is_last=window.is_last)
            sink(shares.kept.plus(later))
            for one in domains:
                one.quanta.release()
            for fitted in self.fitted.values():
                fitted.release()
            if progress is not None:
                progress("instances", number + 1, len(self.windows))
        accounts = {one.quanta.name: one.account() for one in domains}
        stuck = {
            one.quanta.name: stuck_sensor_warnings(one.quanta, one.ran, self.trace.start_ns)
            for one in domains
            if is_any(one.quanta.stuck)
        }
        of_gpus = next(iter(gpus), None)
        if self.gpus is not None and of_gpus is not None:
            settled = self.gpus.settled(of_gpus)
            accounts, stuck = accounts | settled[0], stuck | settled[1]
        known = replace(facts.known(), losses=tuple(losses(self.trace)))
        return _Shared(accounts, stuck, known, pools, of_gpus, served)

    @property
    def _is_large(self) -> bool:
        """Whether other processes would each have a large copy of the estimated edges."""
        return not isinstance(self.map, Threads) and any(len(one.quanta) > MOST_SENT for one in self.fitted.values())

    def _job(self, number: int, stacks: StoredStacks | None) -> Job:
        """Return a window with what is known of it: quanta next to its own may share the joules of its segments."""
        window = self.windows[number]
        ends_ns: list[int] = []
        for whole, which in zip(map(self._shared_quanta, self.domains), window.quanta, strict=True):
            if which.stop > which.start:
                near = whole.edges_ns[max(which.start - 1, 0) : which.stop + 3]
                ends_ns += [int(near[0]), int(near[-1])]
                release(whole.edges_ns)
        quanta = tuple(whole.part(which) for whole, which in zip(self.domains, window.quanta, strict=True))
        hidden = self.found.hidden.part(min(ends_ns, default=0), max(ends_ns, default=0))
        sampled = None if stacks is None else stacks.sampled.between(window.own_ns[0], window.until_ns)
        if self.pools is None:
            return Job(window, quanta, hidden, stacks=sampled)
        joules = None if self.known is None else self.known.joules
        return Job(window, quanta, hidden, self.pools.in_window(number, joules), self.pools.held[number], sampled)

    def _shared_quanta(self, domain: Quanta) -> Quanta:
        fitted = self.fitted.get(domain.name)
        return domain if fitted is None else fitted.quanta


def _add(domains: Sequence[_Domain], shares: WindowShares[Any], window: Window, instances: OpenInstances) -> None:
    """Add what a window gives of each domain."""
    for one, found, which in zip(domains, shares.domains, window.quanta, strict=True):
        if found is None:
            continue
        one.sums += found.sums
        if found.ran is not None:
            one.ran[which] = found.ran
        if one.number is not None:
            instances.note_dynamic(one.number, which, found.dynamic_j)


def _idle_watts(
    trace: Trace, prepared: Prepared, found: Survey, pools: StreamedPools | None, samples: int
) -> dict[str, float | None]:
    """Return the watts of domains in idle quanta, where a calibrated static power gives way to them."""
    domains = prepared.idles
    if not domains:
        return {}
    sums = {one.name: np.zeros(2) for one in domains}
    columns = prepared.recipe.model.columns
    for window in cut_windows(found.threads, [Reach.of(one) for one in domains], samples):
        around = () if pools is None else pools.around(window)
        activity, _, _ = read_window_of(trace, prepared.recipe, found, window, columns, around)
        for domain, which in zip(domains, window.quanta, strict=True):
            if which.stop > which.start:
                sums[domain.name] += activity.load(domain.part(which)).idle()
    return {name: idle_power_w(*both.tolist()) for name, both in sums.items()}
