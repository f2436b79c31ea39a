"""The critical path of a recording: the lower bound of its time for any number of workers, and what it consists of.

It is the longest path in a graph of constraints that hold for any number of workers. An instance without children is
one node. An instance with children has a node for each of its runs and one for its completion: a child begins after
its parent reached the spawn, a run after a pause begins after the children that had ended by then, and an instance
that waits for the parent also waits for its children (the strands of Blumofe and Leiserson, "Scheduling Multithreaded
Computations by Work Stealing", 1999, with dependences added). Time outside instances is excluded: all instances that
no other one spawned may begin at once.

The longest path is found in one pass over nodes, each of which is taken after all edges into it (Kahn, 1962); nodes on
a cycle are never taken, and no path leads through them. O(nodes + edges), after edges are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.profile.tables import divided

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .dependences import placed, solved
from .observed_chain import observed_chain

if TYPE_CHECKING:
    import pandas as pd
    from tprof.analysis.profile import Profile

    from .instances import Instances, Rows

NONE = (
    "this trace has no events of a task runtime and no keys of dask's tasks: record a program whose tasks run in "
    "tprof.runtime, or a cluster by tprof.dask.record"
)
Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class CriticalPath:
    """The longest chain of instances that had to run one after the other, and the chain of waits in the run.

    Three chains, each a table in order of time:

    `chain` is the longest by duration in the graph of dependences. An instance follows its dependences and all their
    descendants; a child follows its parent's time until the spawn; a paused instance follows those of its children
    that had ended when it resumed. Nothing else delays it: with any number of workers, and spawning at no cost, the
    same instances could not have ended sooner than `span_s`.
    `heaviest` is the heaviest by joules in the same graph; it need not be the longest.
    `observed` is the observed chain of waits, backwards from the instance that ended last. The start of an instance
    waited for the latest of three events: its worker became free, its last dependence ended, or it was spawned. If no
    instance spawned it, the program outside its tasks did, and waited for the last time at which all instances spawned
    before had ended.

    Attributes
    ----------
    makespan_s : from the first spawn (or start) to the last end
    work_s : time in all instances, nested ones and pauses counted once
    span_s : length of `chain`
    share : span_s / makespan_s: at 1, more workers cannot help
    parallelism : work_s / span_s, the average number of workers that the graph can keep busy
    energy_j : joules of the resolved instances of `chain`
    heaviest_j : joules of `heaviest`
    chain, heaviest : task, instance, start_s, path_s (its time on the path), energy_j (its joules on the path); of a
        job also host, which is first
    observed : kind, start_s, duration_s, task, instance; of a job also host
    parts : the makespan by kind, which sum to it: running_s, data_s (from the end of the last dependence to the
        release), worker_s (ready, until a worker took it), spawning_s (the program outside its tasks, and from
        spawn to release without dependences), paused_s (inside an instance, for a reason not in the trace); of a job
        also transfer_s (data_s where another host made the data). Where only keys say what an instance needed, nothing
        says when it was released: while its worker was free, it waited for data
    contradicting : dependences and spawns that the recorded times contradict; left out
    quality : of the joules: measured, estimated, …; "mixed" if the hosts on it are unlike

    Notes
    -----
    `chain` and `heaviest` do not depend on the clocks of hosts, `observed` is as exact as these were compared.
    """

    work_s: float
    span_s: float
    heaviest_j: float
    contradicting: int
    quality: str
    parts: dict[str, float]
    chain: pd.DataFrame = field(repr=False)
    heaviest: pd.DataFrame = field(repr=False)
    observed: pd.DataFrame = field(repr=False)

    @property
    def makespan_s(self) -> float:
        """From the first spawn (or start) to the last end."""
        return sum(self.parts.values())

    @property
    def energy_j(self) -> float:
        """Joules of the resolved instances of the longest chain, NaN if there are none."""
        return float(self.chain["energy_j"].sum(min_count=1))

    @property
    def share(self) -> float:
        """Length of the longest chain relative to the makespan."""
        return self.span_s / self.makespan_s if self.makespan_s > 0 else float("nan")

    @property
    def parallelism(self) -> float:
        """Work over span."""
        return self.work_s / self.span_s if self.span_s > 0 else float("nan")

    @property
    def host_changes(self) -> int:
        """How often the longest chain goes on to another host."""
        hosts = self.chain["host"] if "host" in self.chain else self.chain.index[:0]
        return int((hosts[1:].to_numpy() != hosts[:-1].to_numpy()).sum())

    def facts(self) -> dict[str, float | int]:
        """Return its figures, as reports show them.

        Returns
        -------
        dict
            makespan_s, work_s, span_s, share, parallelism, path_j and heaviest_j (joules of both chains);
            run_running_s, run_data_s, … (`parts`); contradicting
        """
        return {
            "makespan_s": self.makespan_s,
            "work_s": self.work_s,
            "span_s": self.span_s,
            "share": self.share,
            "parallelism": self.parallelism,
            "path_j": self.energy_j,
            "heaviest_j": self.heaviest_j,
            **{f"run_{part}": seconds for part, seconds in self.parts.items()},
            "contradicting": self.contradicting,
        }

    def sums(self, *names: str, heaviest: bool = False) -> pd.DataFrame:
        """Return sums of a chain by task, host or both: index `names`, instances, path_s, energy_j; by falling time."""
        grouped = (self.heaviest if heaviest else self.chain).groupby(list(names), sort=False)
        sums = grouped.agg(instances=("instance", "nunique"), path_s=("path_s", "sum"))
        sums["energy_j"] = grouped["energy_j"].sum(min_count=1)
        return sums.sort_values("path_s", ascending=False, kind="stable")

    def __repr__(self) -> str:
        """Describe the path in one line."""
        of = f"{counted(len(self.chain), 'instance')}, {self.span_s:.4g} s of {self.makespan_s:.4g} s"
        return f"<CriticalPath of {of}, parallelism {self.parallelism:.3g}>"


def critical_path(profile: Profile) -> CriticalPath:
    """Find the critical path of a profile.

    Raises
    ------
    UsageError
        If the trace has neither events of a task runtime nor keys.
    """
    if not profile.said.names_waits:
        raise UsageError(NONE)
    return path_through(profile.graph, str(profile.info["quality"]))


def path_through(instances: Instances, quality: str) -> CriticalPath:
    """Find the critical path of instances, of one host or of several; `quality` is that of their joules."""
    execution, contradicting = solved(instances)
    constraints = _Constraints.of(execution)
    own_s, energy_j = instances.table["own_ns"].to_numpy() * 1e-9, instances.table["energy_j"].to_numpy()
    span_s, rows, shares = constraints.longest(own_s)
    heaviest_j, rows_of_heaviest, shares_of_heaviest = constraints.longest(np.where(energy_j > 0, energy_j, 0.0))
    parts, observed = observed_chain(execution)
    return CriticalPath(
        work_s=float(instances.table["own_ns"].sum()) * 1e-9,
        span_s=span_s,
        heaviest_j=heaviest_j if np.isfinite(energy_j).any() else float("nan"),
        contradicting=contradicting,
        quality=quality,
        parts=parts,
        chain=_chain(instances.table, rows, shares),
        heaviest=_chain(instances.table, rows_of_heaviest, shares_of_heaviest),
        observed=observed,
    )


def _chain(table: pd.DataFrame, rows: Rows, shares: Floats) -> pd.DataFrame:
    """Return the table of the instances on a path, of which these parts are on it."""
    some = table.iloc[rows].reset_index(drop=True)
    names = [name for name in ("host", "task", "instance") if name in some]
    return some[names].assign(
        task=np.asarray(some["task"], object), start_s=some["start_ns"] * 1e-9,
        path_s=shares * some["own_ns"] * 1e-9, energy_j=shares * some["energy_j"],
    )  # fmt: skip


@dataclass(frozen=True)
class _Constraints:
    """The graph of constraints, its nodes in the order of their instances and its edges in that of their sources.

    Attributes
    ----------
    row : (nodes,) the instance of each
    ends : (nodes,) which part of it runs in the node, if no edge leads from there: all, or none if it has children
    source, target : (edges,) nodes
    share : (edges,) the part of the source's instance that runs in the source before the target may begin, 0 to 1
    """

    row: Rows
    ends: Floats
    source: Rows
    target: Rows
    share: Floats

    @classmethod
    def of(cls, execution: Instances) -> _Constraints:
        table, every = execution.table, np.arange(len(execution.table) + 1)
        parent, spawn_ns, done_ns, own_ns = (
            table[name].to_numpy() for name in ("parent", "spawn_ns", "done_ns", "own_ns")
        )
        waits, waits_for = execution.edges.to_numpy().T
        child = np.flatnonzero(parent >= 0)
        above = parent[child]
        spawns = np.isin(every[:-1], above)
        runs = execution.runs[spawns[execution.runs["row"]]]
        of_run, begin_ns, end_ns = (runs[name].to_numpy() for name in ("row", "begin_ns", "end_ns"))
        # Before the nodes of an instance are those of all runs of the ones before it, and one more of each of these.
        first_run = np.searchsorted(of_run, every)
        first, node = first_run + every, np.arange(len(of_run)) + of_run
        last, ends = first[1:] - 1, np.where(spawns, 0.0, 1.0)
        # The run in which the parent spawned a child, and the first that began after this was complete.
        spawning = placed(of_run, begin_ns, above, spawn_ns[child], "right") - 1
        spawning = np.clip(spawning, first_run[above], first_run[above + 1] - 1)
        after = np.maximum(placed(of_run, begin_ns, above, done_ns[child], "left"), spawning + 1)
        before_ns = np.clip(spawn_ns[child], begin_ns[spawning], end_ns[spawning]) - begin_ns[spawning]
        edges = (
            (last[waits_for], first[waits], ends[waits_for]),
            (spawning + above, first[child], divided(before_ns, own_ns[above], 0.0)),
            (last[child], after + above, ends[child]),
            (node, node + 1, divided(end_ns - begin_ns, own_ns[of_run], 0.0)),
        )
        source, target, share = (np.concatenate(column) for column in zip(*edges, strict=True))
        order, row = np.argsort(source, kind="stable"), np.repeat(every[:-1], np.diff(first))
        return cls(row, ends[row], source[order], target[order], share[order])

    def longest(self, weight: Floats) -> tuple[float, Rows, Floats]:
        """Return the greatest sum of the weights (rows,), >= 0, of instances along a path.

        Returns
        -------
        total : 0 without nodes
        rows, shares : (k,) the instances on the path, first to last, and which part of each is on it
        """
        if not len(self.row):
            return 0.0, self.row, self.ends
        reached, came = self._paths(self.share * weight[self.row[self.source]])
        ends = reached + self.ends * weight[self.row]
        node = int(ends.argmax())
        nodes, edges = [node] if ends[node] >= 0 else [], list[int]()
        while nodes and (edge := int(came[nodes[-1]])) >= 0:
            edges.append(edge)
            nodes.append(int(self.source[edge]))
        path = np.array(nodes[::-1], np.intp)
        shares = np.append(self.share[edges[::-1]], self.ends[path[-1:]])
        rows, shares = self.row[path][shares > 0], shares[shares > 0]
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        total = max(float(ends[node]), 0.0)
        return total, rows[begins], np.add.reduceat(shares, begins) if len(begins) else shares

    def _paths(self, gain: Floats) -> tuple[Floats, Rows]:
        """Return the greatest sum to each node (-inf: never taken), and the last edge of that path (-1: none).

        Nodes are taken in their order, or, if they were passed by then, as soon as they can be.
        """
        nodes = len(self.row)
        arrays = np.zeros(nodes), np.full(nodes, -1), np.bincount(self.target, minlength=nodes)
        # Of views single values are quick to index, and they take no more memory.
        reached, came, missing = (one.data for one in arrays)
        first = np.searchsorted(self.source, np.arange(nodes + 1)).data
        targets, gains = self.target.data, gain.data
        for passed in range(nodes):
            taken = [] if missing[passed] else [passed]
            for node in taken:
                here = reached[node]
                for edge in range(first[node], first[node + 1]):
                    target, total = targets[edge], here + gains[edge]
                    if total > reached[target] or came[target] < 0:
                        reached[target], came[target] = total, edge
                    missing[target] -= 1
                    if not missing[target] and target <= passed:
                        taken.append(target)
        return np.where(arrays[2] == 0, arrays[0], -np.inf), arrays[1]
