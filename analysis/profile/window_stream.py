"""A recording that is read window by window, as often as needed: each time the joules of all windows are shared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tprof.analysis.attribution.accounts import Account
from tprof.analysis.attribution.load import losses
from tprof.analysis.attribution.open_instances import OpenInstances
from tprof.analysis.attribution.stack_samples import SampledStacks, ThreadReach

from tprof.trace.long_arrays import is_any, release, zeros

from .parallel_maps import Processes, Threads, ended, usual_threads
from .profile_warnings import Facts, SampleFacts, stuck_sensor_warnings
from .stack_shares import StoredStacks
from .stored_instances import Piece
from .task_graph import ServedSegments
from .window_gpus import GpuTally, WindowGpus, without_gpus
from .window_pools import PoolSums
from .window_reading import read_activity_of
from .window_shares import Job, Sharer, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.native_stream import StreamedPools
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window

    from tprof.trace import Thread, Trace

    from .parallel_maps import Map
    from .recipe import Recipe
    from .stored_instances import Progress
    from .streamed_fit import FittedDomain
    from .task_graph.services import Service
    from .window_gpus import GpuSums
    from .window_shares import Kept, Part, WindowShares

MOST_SENT = 4_000_000
"""Quanta with estimated edges that are sent to other processes, 34 bytes each."""


class SampleIndex(NamedTuple):
    """The times of every `step`-th sample of each thread, increasing."""

    t_ns: NDArray[np.int64]
    step: int


@dataclass
class SharedWindows:
    """What all windows found.

    Attributes
    ----------
    stuck : warnings by domain
    again : ids that run again after the window in which they seemed to have ended
    """

    accounts: dict[str, Account]
    stuck: dict[str, list[str]]
    facts: SampleFacts
    pools: PoolSums | None
    gpus: GpuSums | None
    served: ServedSegments
    again: NDArray[np.uint64]


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
class WindowStream:
    """A recording that is read window by window, as often as that is needed.

    The pools' joules are `known` when all windows have been shared once; then `services` are looked at no more. The
    instances of `again` stay open until the last window, since they run again after they seem to have ended.
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
    again: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

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
        reaches = [
            ThreadReach(one.thread, max(int(one.t_ns[0]), first_ns), min(one.end_ns, last_ns))
            for one in self.found.threads
        ]
        pools = () if self.pools is None else self.pools.pools
        return StoredStacks(SampledStacks(self.trace, [*reaches, *(one for pool in pools for one in pool.python)]))

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
    ) -> SharedWindows:
        """Share the joules of all windows; `sink` takes what is kept of instances that have ended."""
        counted = [self._shared_quanta(one) for one in self.domains if one.counted]
        numbers = {one.name: number for number, one in enumerate(counted)}
        domains = [_Domain(one, numbers.get(one.name), ran=zeros(len(one), bool)) for one in self.domains]
        instances, facts = OpenInstances(counted), Facts()
        pools = None if self.pools is None else PoolSums(self.pools, len(counted), len(self.trace.tasks))
        gpus = None if self.gpus is None else GpuTally(self.gpus)
        share = Sharer.of(self.trace, self.recipe, self.found, self.fitted, keep, self.gpus, self.services)
        served = ServedSegments(self.services)
        jobs: Iterable[Job] = (self._job(number, stacks) for number in range(len(self.windows)))
        # Maps of others may take all jobs at once.
        taken = jobs if isinstance(self.map, Threads | Processes) else list(jobs)
        shared: Iterable[WindowShares[Part]] = (usual_threads(len(self.found.threads)) if self._is_large else self.map)(
            share, taken
        )
        with ended(shared):
            for number, (window, shares) in enumerate(zip(self.windows, shared, strict=True)):
                _add(domains, shares, window, instances)
                facts.add(shares.samples)
                served = served.plus(shares.served)
                rows, totals = instances.advance(window, shares.ids, shares.parts, self._held(number))
                if pools is not None:
                    pools.add(shares.pools)
                if stacks is not None and shares.stacks is not None:
                    stacks.add(window, shares.stacks)
                every = np.ones(len(rows), bool)
                if gpus is not None and shares.gpus is not None:
                    gpus.add(window, shares.gpus, rows, totals)
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
        if gpus is not None:
            settled = gpus.settled()
            accounts, stuck = accounts | settled[0], stuck | settled[1]
        disordered = sum(one.disordered for one in self.trace.threads)
        known = replace(facts.known(), losses=tuple(losses(self.trace)), disordered=disordered)
        of_gpus = None if gpus is None else gpus.sums
        return SharedWindows(accounts, stuck, known, pools, of_gpus, served, instances.again)

    def planned(self, number: int) -> tuple[Activity, list[Sharing]]:
        """Return what ran in a window, and how the joules of its counted domains are shared, GPUs left out."""
        keep = Tables(self.trace, self.recipe, self.threads)
        sharer = Sharer.of(self.trace, self.recipe, self.found, self.fitted, keep, None, ())
        return sharer.planned(self._job(number, None))

    def of_domain(self, name: str) -> WindowStream:
        """Return the stream in which a domain alone has quanta, and counts."""
        quanta = tuple(
            replace(one, counted=True) if one.name == name else replace(one.part(slice(0, 0)), counted=False)
            for one in self.recipe.quanta
        )
        recipe = replace(self.recipe, quanta=quanta)
        gpus = WindowGpus.of(self.trace, recipe)
        return replace(self, recipe=recipe, gpus=gpus, known=None, services=())

    def _held(self, number: int) -> NDArray[np.uint64]:
        """Return the ids of instances that do not end with a window, even if they seem to have ended."""
        return self.again if self.pools is None else np.concatenate((self.pools.held[number], self.again))

    @property
    def _is_large(self) -> bool:
        """Whether other processes would each have a large copy of the estimated edges."""
        return not isinstance(self.map, Threads) and any(len(one.quanta) > MOST_SENT for one in self.fitted.values())

    def _job(self, number: int, stacks: StoredStacks | None) -> Job:
        """Return a window with what is known of it: quanta next to its own may share the joules of its segments."""
        window = self.windows[number]
        ends_ns: list[int] = []
        for whole, which in zip(map(self._shared_quanta, self.domains), window.quanta, strict=True):
            if len(whole) and which.stop > which.start:
                near = whole.edges_ns[max(which.start - 1, 0) : which.stop + 3]
                ends_ns += [int(near[0]), int(near[-1])]
                release(whole.edges_ns)
        quanta = tuple(
            whole.part(which if len(whole) else slice(0, 0))
            for whole, which in zip(self.domains, window.quanta, strict=True)
        )
        hidden = self.found.hidden.part(min(ends_ns, default=0), max(ends_ns, default=0))
        sampled = None if stacks is None else stacks.sampled.between(window.own_ns[0], window.until_ns)
        gpus = () if self.gpus is None else self.gpus.parts(window)
        if self.pools is None:
            return Job(window, quanta, hidden, held=self._held(number), stacks=sampled, gpus=gpus)
        joules = None if self.known is None else self.known.joules
        pools = self.pools.in_window(number, joules)
        return Job(window, quanta, hidden, pools, self._held(number), sampled, gpus)

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
