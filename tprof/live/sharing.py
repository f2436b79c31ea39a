"""Shares the joules of a session block after block, by the rules and loops of a profile by the model `cputime`.

Where quanta of several domains overlap, a block waits until each domain's quantum has ended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.accounts import NATIVE, NativeTotals, settle
from tprof.analysis.attribution.instance_bounds import kept_of, widths_of
from tprof.analysis.attribution.load import Activity
from tprof.analysis.attribution.segment_energy import gather
from tprof.analysis.attribution.sharing import dynamic_rates, plan_sharing, split_static, static_rates
from tprof.trace.layout import NO_TASK
from tprof.trace.metric_names import ACCOUNTS

from .threads import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.analysis.attribution.hidden import Hidden
    from tprof.analysis.attribution.natives.pools import CutPool
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.engine.instance_table import InstanceTable, Records
    from tprof.trace import Thread

    from .domains import Domains
    from .threads import LiveThreads

Floats = NDArray[np.float64]
RUNTIME = ACCOUNTS.index("runtime")


class Accounts:
    """Joules so far.

    Attributes
    ----------
    by_domain : of each domain that has shared any, its joules in the order of `ACCOUNTS`
    task_j, own_task_j, starts : by index in the task table; joules, those of this process, instances that have begun
    own_j : of this process and of threads that tprof does not see
    """

    def __init__(self) -> None:
        """Begin without joules."""
        self.by_domain: dict[str, Floats] = {}
        self.task_j, self.own_task_j, self.starts = np.zeros((3, 0))
        self.own_j = 0.0

    @property
    def parts_j(self) -> Floats:
        """The joules of all domains, in the order of `ACCOUNTS`."""
        return sum(self.by_domain.values(), np.zeros(len(ACCOUNTS)))

    def add(self, domain: str, parts_j: Floats) -> None:
        """Add joules of a domain, in the order of `ACCOUNTS`."""
        self.by_domain[domain] = self.by_domain.get(domain, 0.0) + parts_j

    def add_tasks(self, task: NDArray[np.integer], energy_j: Floats, starts: Floats | NDArray[np.bool_]) -> None:
        """Add joules of tasks, and instances that began."""
        self.task_j, self.starts = added(self.task_j, task, energy_j), added(self.starts, task, starts)


def added(sums: Floats, key: NDArray[np.integer], values: Floats | NDArray[np.bool_]) -> Floats:
    """Return the sums with values added under their keys, longer where a key is new."""
    more = np.bincount(key, weights=values, minlength=len(sums)).astype(np.float64, copy=False)
    more[: len(sums)] += sums
    return more


class SharedDomain(NamedTuple):
    """The quanta of a domain that begin in a block, and where their joules went.

    Attributes
    ----------
    name, quanta : of the domain
    sums : its joules in the order of `ACCOUNTS`; 0 if it does not count
    plan : how they were shared; None: they were not
    """

    name: str
    quanta: Quanta
    sums: Floats
    plan: Sharing | None = None


@dataclass(frozen=True)
class Block:
    """What a block gave to the instances that ran in it, (n,) each.

    Attributes
    ----------
    own_ns : when it begins and ends
    ran : the segments
    table : the instances, with all joules so far
    new, over : whether an instance began in it, and whether it ended
    shared : each domain that has quanta here
    """

    own_ns: tuple[int, int]
    ran: JoinedSegments
    table: InstanceTable
    new: NDArray[np.bool_]
    over: NDArray[np.bool_]
    shared: list[SharedDomain]

    @property
    def records(self) -> Records:
        """The instances."""
        return self.table.records


def joules_of_segments(plan: Sharing) -> tuple[Floats, Floats]:
    """Return the joules of the segments of threads, and the dynamic ones among them."""
    dynamic_j = gather(plan.load.located[0], plan.rate)
    if plan.static_rate is None:
        return dynamic_j, dynamic_j
    return dynamic_j + gather(plan.static_load.busy_segments(0), plan.static_rate), dynamic_j


class LiveSharing:
    """Shares the joules of a session's counted domains.

    Attributes
    ----------
    listeners : called with each block
    with_bounds : whether they need bounds of instances
    """

    def __init__(self, domains: Domains, accounts: Accounts, process: int, *, with_bounds: bool = False) -> None:
        """Begin with the joules so far.

        Parameters
        ----------
        domains : may grow before the first block
        accounts : the joules, to which it adds
        process : ordinal of this process, or `OUTSIDE`
        """
        self.accounts = accounts
        self.listeners: list[Callable[[Block], None]] = []
        self.with_bounds = with_bounds
        self._domains, self._process = domains, process

    @property
    def widths(self) -> dict[str, int]:
        """What further sums of instances are needed."""
        return widths_of(len(self._domains.counted)) if self.with_bounds else {}

    def step(self, threads: LiveThreads, ran: JoinedSegments, own_ns: tuple[int, int], cuts: list[CutPool]) -> None:
        """Share the quanta that begin in a block.

        Parameters
        ----------
        threads, ran : the block
        own_ns : when it begins and ends
        cuts : the pools of native threads in it
        """
        table, accounts = threads.instances, self.accounts
        records, rows = table.records, table.count
        dynamic_j, static_j = np.zeros((2, rows))
        activity = Activity(ran, cuts, self._domains.hidden, tuple(self._domains.packages))  # type: ignore[arg-type]
        native = NativeTotals(np.zeros((len(NATIVE), rows)))
        shared: list[SharedDomain] = []
        number = 0
        for domain in self._domains.shown:
            quanta, sums = domain.take(own_ns[1]), np.zeros(len(ACCOUNTS))
            if not domain.counted or domain.is_gpu:
                sums[RUNTIME] = quanta.energy_j.sum() if domain.counted else 0.0
                shared.append(SharedDomain(domain.name, quanta, sums))
                accounts.own_j += float(sums[RUNTIME])
            elif len(quanta):
                plan = plan_sharing(activity.load(quanta), domain.static_w, 1.0)
                kept = kept_of(table, number) if self.with_bounds else None
                found = settle(plan, ran, cuts, native, kept, domain.taken - len(quanta))
                dynamic_j += found.dynamic_j
                static_j += found.static_j
                shared.append(SharedDomain(domain.name, quanta, found.sums, plan))
                accounts.own_j += (
                    float(found.sums.sum()) - plan.other_j - plan.idle_j - self._of_others(plan, ran, cuts)
                )
            if domain.counted and len(quanta):
                accounts.add(domain.name, shared[-1].sums)
            number += domain.counted and not domain.is_gpu
        records["dynamic_j"] += dynamic_j
        records["static_j"] += static_j
        new = np.arange(rows) >= threads.before
        known = records["task"] < NO_TASK
        task, energy_j = records["task"][known].astype(np.int64), (dynamic_j + static_j)[known]
        accounts.add_tasks(task, energy_j, (new & records["begun"])[known])
        if self._process != OUTSIDE:
            own = np.isin(records["thread"][known], [one.ordinal for one in ran.threads if self._is_own(one)])
            accounts.own_task_j = added(accounts.own_task_j, task[own], energy_j[own])
        for listener in self.listeners:
            listener(Block(own_ns, ran, table, new, threads.over(), shared))

    def _is_own(self, thread: Thread) -> bool:
        return thread.process == self._process

    def _of_others(self, plan: Sharing, ran: JoinedSegments, cuts: list[CutPool]) -> float:
        """Return the joules of the threads of other processes, where one of them is this process."""
        own = [*map(self._is_own, ran.threads), *(one.found.process == os.getpid() for one in cuts)]
        if self._process == OUTSIDE or all(own):
            return 0.0
        return sum(float(one.sum()) for one, is_own in zip(plan.energies(), own, strict=True) if not is_own)


def process_joules(quanta: Quanta, static_w: float, own_s: Floats, hidden: Hidden) -> float:
    """Return the joules of a process by its CPU seconds in each quantum, (k,), and of threads without samples."""
    edges_ns, seconds = quanta.edges_ns, np.diff(quanta.edges_ns) * 1e-9
    other_s, unseen_s = hidden.between(edges_ns, quanta.package)
    used_s = own_s + other_s + unseen_s
    static_j, dynamic_j = split_static(quanta.energy_j, static_w, seconds)
    dynamic, _ = dynamic_rates(dynamic_j, used_s, seconds, lambda: np.ones(len(seconds), bool))
    static, _ = static_rates(static_j, used_s, seconds)
    return float(((dynamic + static) * (own_s + unseen_s)).sum())
