"""A recording that is read window by window, as often as needed: each time the joules of all windows are shared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tprof.analysis.attribution.accounts import NATIVE, Account, settle
from tprof.analysis.attribution.ended_ids import EndedIds
from tprof.analysis.attribution.instance_bounds import bounds, kept_of, widths_of
from tprof.analysis.attribution.instances import Ended
from tprof.analysis.attribution.sharing import plan_sharing
from tprof.analysis.attribution.stack_samples import SampledStacks, ThreadReach

from .fits import Planned
from .information import limits_of
from .instances import Piece
from .native_threads import PoolSums, WindowNativeTotals
from .profile_warnings import ran_in, stuck_sensor_warnings
from .recipe import repeatable
from .stack_shares import StackShares
from .tables import tasks_table
from .task_graph import ServedSegments
from .window_gpus import GpuTally, WindowGpus, without_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis.attribution.blocks import BlockReader, ReadFacts
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.natives.pools import StreamedPools
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window

    from tprof.trace import Thread, Trace
    from tprof.trace.estimate import WattsError

    from .fits import FittedDomain
    from .instances import Progress
    from .recipe import Recipe
    from .task_graph import Service


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
    facts: ReadFacts
    pools: PoolSums | None
    gpus: GpuTally | None
    served: ServedSegments
    again: NDArray[np.uint64]


@dataclass
class _Domain:
    """One domain's account so far, in which quanta anything ran, and its number among those that count."""

    quanta: Quanta
    number: int | None
    sums: NDArray[np.float64]
    ran: NDArray[np.bool_]

    @classmethod
    def every(cls, quanta: Sequence[Quanta]) -> list[_Domain]:
        """Begin all of them."""
        numbers = np.cumsum([one.counted for one in quanta]) - 1
        return [
            cls(one, int(number) if one.counted else None, np.zeros(6), np.zeros(len(one), bool))
            for one, number in zip(quanta, numbers, strict=True)
        ]

    def account(self) -> Account:
        """Return its account; NaN if it measured nothing."""
        if not len(self.quanta) or not self.quanta.valid.any():
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
        stacks: StackShares | None = None,
    ) -> None:
        """Share all joules once more, and give the instances of each window, whose table is completed, to a sink.

        The window's sampled stacks are stored too.
        """

        def add(ended: Ended, *, is_last: bool) -> None:  # noqa: ARG001
            piece = self.table(ended)
            sink(Piece(complete(piece.tasks), piece.own_s))

        self.run(add, None, progress, stacks)

    @cached_property
    def limits(self) -> tuple[WattsError, float]:
        """What `limits_of` returns."""
        return limits_of(self.trace, self.recipe)

    def table(self, ended: Ended) -> Piece:
        """Return the table of some instances, without what their samples do not say; changes their joules."""
        return Piece(tasks_table(self.trace, self.threads, ended, *self.limits), ended.column("own_s"))

    def begin_stacks(self) -> StackShares:
        """Read the sampled stacks, none of them weighed yet."""
        files = self.trace.stack_files
        reaches = [
            ThreadReach(
                of.ordinal, of.process, of.tid, *one.within(*self.trace.reach_ns), has_clock="cpu_ns" in of.columns
            )
            for one in self.found.threads
            for of in [one.thread]
        ]
        processes = {one.pid: one.process for one in files}
        python = (one for pool in (self.pools.pools if self.pools else ()) for one in pool.python)
        reaches += [ThreadReach(one, processes.get(one.pid, -1), *one[1:], has_clock=True) for one in python]
        return StackShares(SampledStacks(files, reaches))

    def segments(self) -> Iterator[tuple[tuple[int, int], list[Segments]]]:
        """Yield for each window when the segments begin that count in it, and those of its threads."""
        reader = self._reader(self.recipe.model.columns, {})
        for window in self.windows:
            yield window.own_ns, self.found.activity(reader, window).segments

    @property
    def index(self) -> SampleIndex:
        """The times of some samples of all threads."""
        t_ns = np.concatenate([np.empty(0, np.int64), *(one.t_ns for one in self.found.threads)])
        return SampleIndex(np.sort(t_ns), self.found.step)

    def run(
        self,
        sink: Callable[..., None],
        columns: Collection[str] | None,
        progress: Progress | None,
        stacks: StackShares | None = None,
    ) -> SharedWindows:
        """Share the joules of all windows. Raises TraceError.

        Parameters
        ----------
        sink : takes the instances that ended with a window, all of whose arrays may be changed, and `is_last`
        columns : counters of which instances need counts, besides those of the model; None: all
        progress : is told how many windows are done
        stacks : take the sampled stacks
        """
        run = _Run.of(self, columns)
        for number, window in enumerate(self.windows):
            sink(run.share(number, stacks), is_last=window.is_last)
            if progress is not None:
                progress("instances", number + 1, len(self.windows))
        return run.found()

    def planned(self, number: int) -> tuple[Activity, list[Sharing]]:
        """Return what ran in a window, and how the joules of its counted domains are shared, GPUs left out."""
        window, reader = self.windows[number], self._reader(self.recipe.model.columns, {})
        activity = self.found.activity(reader, window, self.pools)
        domains = zip(self.domains, window.quanta, strict=True)
        counted = ((domain, which) for domain, which in domains if domain.counted and which.stop > which.start)
        return activity, [self.plan(domain, which, activity, window).sharing for domain, which in counted]

    def plan(self, domain: Quanta, which: slice, activity: Activity, window: Window) -> Planned:
        """Share the joules of a window's quanta of a domain, `which` of all."""
        fitted = self.fitted.get(domain.name)
        if fitted is not None:
            return fitted.plan(which, activity, window)
        quanta, static_w = domain.part(which), self.recipe.static_power_w.get(domain.name, 0.0)
        power = partial(self.found.power, domain.package if len(self.recipe.packages) > 1 else None)
        shared = repeatable(activity, None, lambda ran, _: plan_sharing(ran.load(quanta), static_w, mean_power=power))
        return Planned(*shared, slice(0, len(quanta)), which.start)

    def _reader(self, columns: Collection[str] | None, widths: Mapping[str, int]) -> BlockReader:
        return self.found.reader(self.recipe.model, columns, widths=widths)

    def of_domain(self, name: str) -> WindowStream:
        """Return the stream in which a domain alone has quanta, and counts."""
        quanta = tuple(
            replace(one, counted=True) if one.name == name else replace(one.part(slice(0, 0)), counted=False)
            for one in self.recipe.quanta
        )
        recipe = replace(self.recipe, quanta=quanta)
        gpus = WindowGpus.of(self.trace, recipe)
        return replace(self, recipe=recipe, gpus=gpus, known=None, services=())

    def held(self, number: int) -> NDArray[np.uint64]:
        """Return the ids of instances that do not end with a window, even if they seem to have ended."""
        return self.again if self.pools is None else np.concatenate((self.pools.held[number], self.again))

    def shared_quanta(self, domain: Quanta) -> Quanta:
        """Return a domain's quanta as they are shared: with estimated edges, where these were fitted."""
        fitted = self.fitted.get(domain.name)
        return domain if fitted is None else fitted.quanta


@dataclass
class _Run:
    """All joules of a recording, shared window after window."""

    stream: WindowStream
    reader: BlockReader
    domains: list[_Domain]
    served: ServedSegments
    pools: PoolSums | None
    gpus: GpuTally | None
    ended: EndedIds = field(default_factory=EndedIds)

    @classmethod
    def of(cls, stream: WindowStream, columns: Collection[str] | None) -> _Run:
        """Begin before the first window; `columns` are those of `WindowStream.run`."""
        domains = _Domain.every([stream.shared_quanta(one) for one in stream.domains])
        counted = [one.quanta for one in domains if one.number is not None]
        widths = widths_of(len(counted)) | ({} if stream.pools is None else {"native": len(NATIVE)})
        return cls(
            stream,
            stream._reader(columns, widths),  # noqa: SLF001 - of this file
            domains,
            ServedSegments(stream.services),
            None if stream.pools is None else PoolSums(stream.pools, len(counted), len(stream.trace.tasks)),
            None if stream.gpus is None else GpuTally(stream.gpus),
        )

    def share(self, number: int, stacks: StackShares | None) -> Ended:
        """Share the joules of a window; returns the instances that ended with it."""
        stream, window, reader = self.stream, self.stream.windows[number], self.reader
        activity = stream.found.activity(reader, window, stream.pools)
        # Only now: with a window those are forgotten that ended before it.
        reader.held = stream.held(number)
        native = None
        if self.pools is not None:
            cuts, count = activity.pools, reader.instances.count
            native = WindowNativeTotals.begin(window.own_ns, cuts, self.pools, stream.known, count)
        plans = self._share_domains(window, activity, native)
        if native is not None:
            reader.instances.sums["native"] += native.sums.T
        if stacks is not None:
            stacks.add(window, activity, plans)
        if self.gpus is not None:
            self.gpus.share(window, activity.ran)
        ended = self._ended()
        if self.gpus is not None:
            self.gpus.take(ended)
        return ended

    def _share_domains(self, window: Window, activity: Activity, native: WindowNativeTotals | None) -> list[Planned]:
        """Share the joules of all domains in a window; returns how, for those that count."""
        segments = activity.segments if self.stream.services else []
        self.served.add_processors(segments, window.own_ns)
        plans: list[Planned] = []
        for one, which in zip(self.domains, window.quanta, strict=True):
            if native is not None and one.number is not None:
                native.domain = one.number
            if len(one.quanta) and which.stop > which.start:
                plan = self._settle(one, window, which, activity, native)
                if one.number is not None:
                    plans.append(plan)
                    self.served.add_joules(segments, plan.sharing)
            elif one.number is not None and native is not None:
                native.add_nothing()
        return plans

    def _settle(
        self, one: _Domain, window: Window, which: slice, activity: Activity, native: WindowNativeTotals | None
    ) -> Planned:
        """Share the joules of a domain in a window, and add them to the instances if it counts."""
        plan = self.stream.plan(one.quanta, which, activity, window)
        records, pools = self.reader.instances.records, activity.pools
        if one.number is None:
            found = settle(plan.sharing, activity.ran, pools, None)
        else:
            kept = kept_of(self.reader.instances, one.number)
            found = settle(plan.sharing, activity.ran, pools, native, kept, plan.before)
            records["dynamic_j"] += found.dynamic_j
            records["static_j"] += found.static_j
        one.sums += found.sums
        if plan.sharing.measured.stuck.any():
            one.ran[which] = ran_in(plan.sharing)[plan.own]
        return plan

    def _ended(self) -> Ended:
        """Return the instances that ended with the window, and their joules; with counts if all are needed."""
        reader = self.reader
        records, counts, sums = reader.instances.taken(reader.over())
        counted = [one.quanta for one in self.domains if one.number is not None]
        kept = [sums[name] for name in widths_of(len(counted))]
        reaches_ns = [tuple(one.edges_ns[[0, -1]].tolist()) if len(one) else (0, 0) for one in counted]
        low_j, high_j, covered = bounds(kept, reaches_ns, records, packages=reader.packages)
        joules = {name: np.ascontiguousarray(records[name]) for name in ("dynamic_j", "static_j")}
        joules |= {"low_j": low_j, "high_j": high_j, "covered": covered}
        if "native" in sums:
            joules |= dict(zip(NATIVE, np.ascontiguousarray(sums["native"].T), strict=True))
        if reader.guessed:
            # Others of their process may have used all of it.
            low_j[np.isin(records["instance"], np.array(reader.guessed, np.uint64))] = -np.inf
        self.ended.add(records["instance"])
        has_counts = reader.columns is None
        of_names = dict(zip(reader.names, np.ascontiguousarray(counts.T), strict=True)) if has_counts else {}
        return Ended(records, of_names, joules, reader.packages)

    def found(self) -> SharedWindows:
        """Return what all windows found."""
        stream = self.stream
        accounts = {one.quanta.name: one.account() for one in self.domains}
        stuck = {
            one.quanta.name: stuck_sensor_warnings(one.quanta, one.ran, stream.trace.start_ns)
            for one in self.domains
            if one.quanta.stuck.any()
        }
        if self.gpus is not None:
            settled = self.gpus.settled()
            accounts, stuck = accounts | settled[0], stuck | settled[1]
        return SharedWindows(accounts, stuck, self.reader.facts, self.pools, self.gpus, self.served, self.ended.again)
