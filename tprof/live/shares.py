"""Shares the joules of a session block after block, by the rules and loops of a profile by the model `cputime`.

Where quanta of several domains overlap, a block waits until each domain's quantum has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.accounts import settle
from tprof.analysis.attribution.instance_bounds import WIDTH, EdgeJoules
from tprof.analysis.attribution.load import Activity
from tprof.analysis.attribution.segment_energy import gather, padded
from tprof.analysis.attribution.sharing import dynamic_rates, plan_sharing, split_static, static_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.attribution.hidden import Hidden
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.engine.instance_table import InstanceTable, Records

    from .blocks import LiveBlocks
    from .pools import LiveNativeTotals, LivePools
    from .quanta import GrowingQuanta

Floats = NDArray[np.float64]


@dataclass
class Accounts:
    """Joules so far.

    Attributes
    ----------
    task_j, own_task_j, starts : by index in the task table; joules, those of this process, instances that have begun
    tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j, measured_j : of all
    own_j : the part of this process and of threads that tprof does not see, without `other_j` and `idle_j`
    others_j : the rest of that
    """

    task_j: Floats = field(default_factory=lambda: np.zeros(0))
    own_task_j: Floats = field(default_factory=lambda: np.zeros(0))
    starts: Floats = field(default_factory=lambda: np.zeros(0))
    tasks_j: float = 0.0
    runtime_j: float = 0.0
    other_j: float = 0.0
    idle_j: float = 0.0
    spin_j: float = 0.0
    unidentified_j: float = 0.0
    measured_j: float = 0.0
    own_j: float = 0.0
    others_j: float = 0.0

    @property
    def parts_j(self) -> tuple[float, ...]:
        """The accounts, in the order of `tprof.trace.metric_names.ACCOUNTS`."""
        return self.tasks_j, self.runtime_j, self.other_j, self.idle_j, self.spin_j, self.unidentified_j

    def add_gpu(self, energy_j: float) -> None:
        """Add joules of a GPU."""
        self.measured_j += energy_j
        self.runtime_j += energy_j
        self.own_j += energy_j


def added(sums: Floats, key: NDArray[np.integer], values: Floats | NDArray[np.bool_]) -> Floats:
    """Return the sums with values added under their keys, longer where a key is new."""
    if not len(key):
        return sums
    more = np.bincount(key, weights=values, minlength=len(sums)).astype(np.float64)
    more[: len(sums)] += sums
    return more


@dataclass(frozen=True)
class Block:
    """What a block gave to the instances that ran in it, (n,) each.

    Attributes
    ----------
    begin_ns : of the block
    ran : the segments
    records : the instances, with all joules so far
    energy_j, dynamic_j : joules of the block
    new, over : whether an instance began in it, and whether it ended
    half_j, resolved : half the bounds that the sensor's resolution gives so far, and whether it resolved anything
    part_j : (parts, 2) joules and dynamic ones of what each thread has of an instance; None unless asked for
    """

    begin_ns: int
    ran: JoinedSegments
    records: Records
    energy_j: Floats
    dynamic_j: Floats
    new: NDArray[np.bool_]
    over: NDArray[np.bool_]
    half_j: Floats
    resolved: NDArray[np.bool_]
    part_j: Floats | None


class LiveSharing:
    """Shares the joules of a session's counted domains.

    Attributes
    ----------
    listeners : called with each block
    by_domain : `Accounts.parts_j` of each domain that has shared any, by its name
    """

    def __init__(
        self,
        domains: Sequence[GrowingQuanta],
        packages: Sequence[int],
        gpus: Sequence[GrowingQuanta],
        *,
        process: int,
        processes: Mapping[int, int],
        most_w: float = np.inf,
        by_thread: bool = False,
    ) -> None:
        """Begin without joules.

        Parameters
        ----------
        domains : whose joules are shared; may grow before the first block
        packages : of all domains, counted or not; likewise
        gpus : whose joules go to `runtime_j`: when they worked for whom is known only later
        process : ordinal of this process
        processes : that of each thread by the thread's ordinal, which grows
        most_w : what an instance's thread draws at most
        by_thread : whether listeners want the joules of parts
        """
        self.accounts = Accounts()
        self.listeners: list[Callable[[Block], None]] = []
        self.by_domain: dict[str, tuple[float, ...]] = {}
        self._domains, self._packages, self._gpus = domains, packages, gpus
        self._process, self._processes, self._most_w, self._by_thread = process, processes, most_w, by_thread

    def step(
        self,
        blocks: LiveBlocks,
        ran: JoinedSegments,
        begin_ns: int,
        end_ns: int,
        before: int,
        hidden: Hidden,
        pools: LivePools | None,
    ) -> None:
        """Share the quanta that begin in a block.

        Parameters
        ----------
        blocks, ran : the block
        begin_ns, end_ns : when it begins and ends
        before : how many instances were there before
        hidden : CPU time without samples
        pools : of native threads, which were found for this block; None: none are looked for
        """
        table = blocks.instances
        records, rows = table.records, table.count
        energy_j, dynamic_j = np.zeros((2, rows))
        own = np.isin(records["thread"], [one for one, process in self._processes.items() if process == self._process])
        part_j = np.zeros((len(ran.parts), 2)) if self._by_thread else None
        cuts = [] if pools is None else pools.cuts
        activity = Activity(ran, cuts, hidden, tuple(self._packages))  # type: ignore[arg-type]
        native = None if pools is None else pools.totals(rows)
        for number, domain in enumerate(self._domains):
            quanta = domain.take(end_ns)
            if len(quanta):
                before_j = self.accounts.parts_j
                found = self._share(activity, domain, number, quanta, table, own, part_j, native)
                energy_j += found[0] + found[1]
                dynamic_j += found[0]
                self._note(domain.name, before_j)
        for gpu in self._gpus:
            before_j = self.accounts.parts_j
            self.accounts.add_gpu(float(gpu.take(end_ns).energy_j.sum()))
            self._note(gpu.name, before_j)
        records["dynamic_j"] += dynamic_j
        records["static_j"] += energy_j - dynamic_j
        new, over = np.arange(rows) >= before, blocks.over()
        self._add(records, energy_j, new, own)
        if self.listeners:
            half_j, resolved = self._bounds(records, table.sums)
            found_here = Block(begin_ns, ran, records, energy_j, dynamic_j, new, over, half_j, resolved, part_j)
            for listener in self.listeners:
                listener(found_here)

    def _note(self, name: str, before_j: tuple[float, ...]) -> None:
        """Add what the accounts got from a domain to its own."""
        known_j = self.by_domain.get(name, (0.0,) * len(before_j))
        parts_j = zip(known_j, self.accounts.parts_j, before_j, strict=True)
        self.by_domain[name] = tuple(known + after - before for known, after, before in parts_j)

    def _share(
        self,
        activity: Activity,
        domain: GrowingQuanta,
        number: int,
        quanta: Quanta,
        table: InstanceTable,
        own: NDArray[np.bool_],
        part_j: Floats | None,
        native: LiveNativeTotals | None,
    ) -> tuple[Floats, Floats]:
        """Share the quanta that a domain has just given; returns the dynamic and the static joules of instances."""
        ran, accounts = activity.ran, self.accounts
        sums = table.sums
        plan = plan_sharing(activity.load(quanta), domain.static_w, 1.0)
        kept = sums["edges"][:, number * WIDTH : (number + 1) * WIDTH]
        edges = EdgeJoules.begin(table, number, quanta, domain.taken - len(quanta))
        found = settle(plan, ran, activity.pools, native, edges)
        edges.end(kept, found.dynamic_j)
        whole_j = padded(plan.dynamic_j)
        for column, place in enumerate((edges.first, edges.last)):
            here = place >= 0
            sums["most"][here, 2 * number + column] = whole_j[place[here]]
        tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j = found.sums.tolist()
        accounts.tasks_j += tasks_j
        accounts.runtime_j += runtime_j
        accounts.other_j += other_j
        accounts.idle_j += idle_j
        accounts.spin_j += spin_j
        accounts.unidentified_j += unidentified_j
        accounts.measured_j += float(quanta.energy_j.sum())
        others_j, ours_j = (0.0, 0.0) if native is None else native.take()
        outside_j = self._others_outside(plan, ran) + others_j
        own_j = float((found.dynamic_j + found.static_j)[own].sum()) + ours_j
        accounts.own_j += own_j + runtime_j - outside_j
        accounts.others_j += tasks_j + spin_j + unidentified_j - own_j + outside_j
        if part_j is not None:
            parts = len(ran.parts) + 1
            dynamic_j = gather(plan.load.located[0], plan.rate)
            all_j = dynamic_j
            if plan.static_rate is not None:
                all_j = dynamic_j + gather(plan.static_load.busy_segments(0), plan.static_rate)
            for column, values in enumerate((all_j, dynamic_j)):
                part_j[:, column] += np.bincount(ran.slot, weights=values, minlength=parts)[1:]
        return found.dynamic_j, found.static_j

    def _others_outside(self, plan: Sharing, ran: JoinedSegments) -> float:
        """Return the joules of other processes' threads outside tasks."""
        if all(one.process == self._process for one in ran.threads):
            return 0.0
        return sum(
            float(energy_j[ran.slot[at] == 0].sum())
            for one, at, energy_j in zip(ran.threads, ran.joints.parts(), plan.energies(), strict=False)
            if one.process != self._process
        )

    def _add(self, records: Records, energy_j: Floats, new: NDArray[np.bool_], own: NDArray[np.bool_]) -> None:
        """Add the joules of instances, and those that began, by task."""
        accounts, task = self.accounts, records["task"].astype(np.int64)
        known = task < np.iinfo(np.uint32).max
        mine = known & own
        accounts.task_j = added(accounts.task_j, task[known], energy_j[known])
        accounts.own_task_j = added(accounts.own_task_j, task[mine], energy_j[mine])
        begun = known & new & records["begun"]
        accounts.starts = added(accounts.starts, task[begun], np.ones(int(begun.sum())))

    def _bounds(self, records: Records, sums: Mapping[str, Floats]) -> tuple[Floats, NDArray[np.bool_]]:
        """Return half the bounds of instances, as those of a profile, and whether any quantum holds them."""
        energy_j, count = records["dynamic_j"] + records["static_j"], len(records)
        edge_j, most_j, resolved = np.zeros(count), np.zeros(count), np.zeros(count, bool)
        for number in range(len(self._domains)):
            first, last, first_j, last_j, all_j = sums["edges"][:, number * WIDTH : (number + 1) * WIDTH].T
            first_most_j, last_most_j = sums["most"][:, 2 * number : 2 * number + 2].T
            spans = (last != first) & (last > 0)
            here_j = np.where(spans, first_j + last_j, all_j)
            here = (here_j > 0) | (len(self._packages) < 2)
            edge_j += here_j
            most_j += np.where(here, first_most_j + np.where(spans, last_most_j, 0.0), 0.0)
            resolved |= first > 1
        low_j = np.clip(energy_j - edge_j, 0.0, energy_j)
        high_j = energy_j - edge_j + most_j
        if np.isfinite(self._most_w):
            high_j = np.minimum(high_j, self._most_w * records["own_s"])
        return (np.maximum(high_j, energy_j) - low_j) / 2, resolved


def process_joules(quanta: Quanta, static_w: float, own_s: Floats, hidden: Hidden) -> float:
    """Return the joules of a process by its CPU seconds in each quantum, (k,), and of threads without samples."""
    edges_ns, seconds = quanta.edges_ns, np.diff(quanta.edges_ns) * 1e-9
    other_s, unseen_s = hidden.between(edges_ns, quanta.package)
    used_s = own_s + other_s + unseen_s
    static_j, dynamic_j = split_static(quanta.energy_j, static_w, seconds)
    dynamic, _ = dynamic_rates(dynamic_j, used_s, seconds, lambda: np.ones(len(seconds), bool))
    static, _ = static_rates(static_j, used_s, seconds)
    return float(((dynamic + static) * (own_s + unseen_s)).sum())
