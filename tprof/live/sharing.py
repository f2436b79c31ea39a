"""Shares the joules of a session block after block, by the rules and loops of a profile by the model `cputime`.

Where quanta of several domains overlap, a block waits until each domain's quantum has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.accounts import settle
from tprof.analysis.attribution.instance_bounds import kept_of, widths_of
from tprof.analysis.attribution.load import Activity
from tprof.analysis.attribution.segment_energy import gather
from tprof.analysis.attribution.sharing import dynamic_rates, plan_sharing, split_static, static_rates
from tprof.trace.metric_names import ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.analysis.attribution.hidden import Hidden
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.engine.instance_table import InstanceTable, Records

    from .domains import Domains
    from .pools import LivePools
    from .threads import LiveBlocks

Floats = NDArray[np.float64]
OUTSIDE = -1
"""In place of this process's ordinal: it is none of those that record."""
RUNTIME = ACCOUNTS.index("runtime")


class Accounts:
    """Joules so far.

    Attributes
    ----------
    by_domain : of each domain that has shared any, its joules in the order of `ACCOUNTS`
    task_j, own_task_j, starts : by index in the task table; joules, those of this process, instances that have begun
    own_j : of this process and of threads that tprof does not see, without other processes and idle time
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


@dataclass(frozen=True)
class Block:
    """What a block gave to the instances that ran in it, (n,) each.

    Attributes
    ----------
    own_ns : when it begins and ends
    ran : the segments
    table, records : the instances, with all joules so far
    energy_j, dynamic_j : joules of the block
    new, over : whether an instance began in it, and whether it ended
    plans : how each domain that has quanta here was shared
    """

    own_ns: tuple[int, int]
    ran: JoinedSegments
    table: InstanceTable
    energy_j: Floats
    dynamic_j: Floats
    new: NDArray[np.bool_]
    over: NDArray[np.bool_]
    plans: list[Sharing]

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

    def __init__(
        self,
        domains: Domains,
        accounts: Accounts,
        *,
        process: int,
        processes: Mapping[int, int],
        with_bounds: bool = False,
    ) -> None:
        """Begin with the joules so far.

        Parameters
        ----------
        domains : may grow before the first block
        accounts : the joules, to which it adds
        process : ordinal of this process, or `OUTSIDE`
        processes : that of each thread by the thread's ordinal, which grows
        """
        self.accounts = accounts
        self.listeners: list[Callable[[Block], None]] = []
        self.with_bounds = with_bounds
        self._domains, self._process, self._processes = domains, process, processes

    @property
    def widths(self) -> dict[str, int]:
        """What further sums of instances are needed."""
        return widths_of(len(self._domains.counted)) if self.with_bounds else {}

    def step(self, blocks: LiveBlocks, ran: JoinedSegments, own_ns: tuple[int, int], pools: LivePools | None) -> None:
        """Share the quanta that begin in a block.

        Parameters
        ----------
        blocks, ran : the block
        own_ns : when it begins and ends
        pools : of native threads, which were found for this block; None: none are looked for
        """
        table, accounts = blocks.instances, self.accounts
        records, rows = table.records, table.count
        energy_j, dynamic_j = np.zeros((2, rows))
        own = np.isin(records["thread"], [one for one, process in self._processes.items() if process == self._process])
        cuts = [] if pools is None else pools.cuts
        activity = Activity(ran, cuts, self._domains.hidden, tuple(self._domains.packages))  # type: ignore[arg-type]
        native = None if pools is None else pools.totals(rows)
        plans: list[Sharing] = []
        for number, domain in enumerate(self._domains.counted):
            quanta = domain.take(own_ns[1])
            if not len(quanta):
                continue
            plan = plan_sharing(activity.load(quanta), domain.static_w, 1.0)
            kept = kept_of(table, number) if self.with_bounds else None
            found = settle(plan, ran, cuts, native, kept, domain.taken - len(quanta))
            accounts.add(domain.name, found.sums)
            energy_j += found.dynamic_j + found.static_j
            dynamic_j += found.dynamic_j
            plans.append(plan)
            accounts.own_j += found.sums[RUNTIME] - self._others_outside(plan, ran)
        for gpu in self._domains.gpus:
            parts_j = float(gpu.take(own_ns[1]).energy_j.sum()) * np.eye(len(ACCOUNTS))[RUNTIME]
            accounts.add(gpu.name, parts_j)
            accounts.own_j += float(parts_j[RUNTIME])
        records["dynamic_j"] += dynamic_j
        records["static_j"] += energy_j - dynamic_j
        new = np.arange(rows) >= blocks.before
        others_j, ours_j = (0.0, 0.0) if native is None else native.take()
        accounts.own_j += float(energy_j[own].sum()) + ours_j - others_j
        task = records["task"].astype(np.int64)
        known = task < np.iinfo(np.uint32).max
        accounts.add_tasks(task[known], energy_j[known], (new & records["begun"])[known])
        accounts.own_task_j = added(accounts.own_task_j, task[known & own], energy_j[known & own])
        for listener in self.listeners:
            listener(Block(own_ns, ran, table, energy_j, dynamic_j, new, blocks.over(), plans))

    def _others_outside(self, plan: Sharing, ran: JoinedSegments) -> float:
        """Return the joules of other processes' threads outside tasks, where one of them is this process."""
        others = [at for one, at in zip(ran.threads, ran.joints.parts(), strict=True) if one.process != self._process]
        if not others or self._process == OUTSIDE:
            return 0.0
        outside_j = np.where(ran.slot == 0, joules_of_segments(plan)[0], 0.0)
        return sum(float(outside_j[at].sum()) for at in others)


def process_joules(quanta: Quanta, static_w: float, own_s: Floats, hidden: Hidden) -> float:
    """Return the joules of a process by its CPU seconds in each quantum, (k,), and of threads without samples."""
    edges_ns, seconds = quanta.edges_ns, np.diff(quanta.edges_ns) * 1e-9
    other_s, unseen_s = hidden.between(edges_ns, quanta.package)
    used_s = own_s + other_s + unseen_s
    static_j, dynamic_j = split_static(quanta.energy_j, static_w, seconds)
    dynamic, _ = dynamic_rates(dynamic_j, used_s, seconds, lambda: np.ones(len(seconds), bool))
    static, _ = static_rates(static_j, used_s, seconds)
    return float(((dynamic + static) * (own_s + unseen_s)).sum())
