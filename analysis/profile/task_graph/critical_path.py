"""The critical path of a recording: the lower bound of its time for any number of workers, and what it consists of.

It is the longest path in a graph of constraints that hold for any number of workers. An instance without children is
one node. An instance with children has a node for each of its runs and one for its completion: a child begins after
its parent reached the spawn, a run after a pause begins after the children that had ended by then, and an instance
that waits for the parent also waits for its children (the strands of Blumofe and Leiserson, "Scheduling Multithreaded
Computations by Work Stealing", 1999, with dependences added). Time outside instances is excluded: all instances that
no other one spawned may begin at once.

The longest path takes nodes in the order of their edges (Kahn, 1962), then one pass: a node is taken after all edges
into it; nodes on a cycle are never taken, and no path leads through them. O(nodes + edges).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.attribution import _loops

from tprof.errors import UsageError
from tprof.trace.long_arrays import blocks, total

from .execution import build_execution
from .instances import read_instances
from .observed_chain import observed_chain
from .runs import count_until

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

    from .execution import Execution
    from .instances import Instances
    from .runs import Rows

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

    makespan_s: float
    work_s: float
    span_s: float
    energy_j: float
    heaviest_j: float
    chain: pd.DataFrame = field(repr=False)
    heaviest: pd.DataFrame = field(repr=False)
    observed: pd.DataFrame = field(repr=False)
    contradicting: int
    quality: str

    @property
    def share(self) -> float:
        """Length of the longest chain relative to the makespan."""
        return self.span_s / self.makespan_s if self.makespan_s > 0 else float("nan")

    @property
    def parallelism(self) -> float:
        """Work over span."""
        return self.work_s / self.span_s if self.span_s > 0 else float("nan")

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of the makespan by kind."""
        sums = self.observed.groupby("kind", observed=True)["duration_s"].sum()
        return {f"{kind}_s": float(sums.get(kind, 0.0)) for kind in self.observed["kind"].cat.categories}

    @property
    def host_changes(self) -> int:
        """How often the longest chain goes on to another host."""
        hosts = self.chain.get("host")
        return 0 if hosts is None else int((hosts.to_numpy()[1:] != hosts.to_numpy()[:-1]).sum())

    def __repr__(self) -> str:
        """Describe the path in one line."""
        of = f"{len(self.chain):,} instances, {self.span_s:.4g} s of {self.makespan_s:.4g} s"
        return f"<CriticalPath of {of}, parallelism {self.parallelism:.3g}>"


def critical_path(profile: Profile) -> CriticalPath:
    """Find the critical path of a profile.

    Raises
    ------
    UsageError
        If the trace has neither events of a task runtime nor keys.
    """
    if not profile.has_graph:
        raise UsageError(NONE)
    return path_through(read_instances(profile), str(profile.info["quality"]))


def path_through(instances: Instances, quality: str) -> CriticalPath:
    """Find the critical path of instances, of one host or of several; `quality` is that of their joules."""
    execution = build_execution(instances)
    execution.release()
    span_s, chain, heaviest_j, heaviest = _longest(instances, execution)
    execution.release()
    observed = observed_chain(execution)
    execution.release()
    row = np.array(observed["row"], np.int64)
    named = instances.table.iloc[np.maximum(row, 0)].reset_index(drop=True)
    table = observed.drop(columns="row").assign(
        task=named["task"].where(row >= 0), instance=named["instance"].where(row >= 0, np.uint64(0))
    )
    if "host" in named:
        table["host"] = named["host"].where(row >= 0)
    return CriticalPath(
        makespan_s=float(observed["duration_s"].sum()),
        work_s=total(execution.own_ns) * 1e-9,
        span_s=span_s,
        energy_j=float(chain["energy_j"].sum(min_count=1)),
        heaviest_j=heaviest_j if np.isfinite(instances.energy_j).any() else float("nan"),
        chain=chain,
        heaviest=heaviest,
        observed=table,
        contradicting=execution.contradicting,
        quality=quality,
    )


def _longest(instances: Instances, execution: Execution) -> tuple[float, pd.DataFrame, float, pd.DataFrame]:
    """Return the length of the longest chain and its instances, and the joules of the heaviest one and its own."""
    constraints = build_constraints(execution)
    execution.release()
    net = Net.of(constraints)
    span_s, chain = _path(instances, net, np.asarray(execution.own_ns * 1e-9, np.float64))
    heaviest_j, heaviest = _path(instances, net, np.where(execution.energy_j > 0, execution.energy_j, 0.0))
    return span_s, chain, heaviest_j, heaviest


def _path(instances: Instances, net: Net, by: Floats) -> tuple[float, pd.DataFrame]:
    """Return the greatest sum along a path and its instances."""
    constraints = net.constraints
    sum_of_path, nodes, edges = net.longest(by)
    share = np.zeros(len(nodes))
    share[:-1] = constraints.share[edges[:-1]]
    share[-1:] = constraints.final[nodes[-1:]]
    on, share = constraints.row[nodes][share > 0], share[share > 0]
    begins = np.flatnonzero(np.diff(on, prepend=-1))
    return sum_of_path, _table(instances, on[begins], np.add.reduceat(share, begins) if len(begins) else share)


def _table(instances: Instances, rows: Rows, share: Floats) -> pd.DataFrame:
    chosen = instances.table.iloc[rows]
    table = pd.DataFrame(
        {
            "task": chosen["task"].to_numpy(object),
            "instance": chosen["instance"].to_numpy(),
            "start_s": instances.start_ns[rows] * 1e-9,
            "path_s": share * instances.own_ns[rows] * 1e-9,
            "energy_j": share * instances.energy_j[rows],
        }
    )
    if "host" in chosen:
        table.insert(0, "host", chosen["host"].to_numpy(object))
    return table


@dataclass(frozen=True)
class Constraints:
    """Nodes and edges.

    Attributes
    ----------
    row : (nodes,) the instance of each
    source, target : (edges,) nodes
    share : (edges,) the part of the source's instance that runs in the source before the target may begin, 0 to 1
    final : (nodes,) whether all of its instance runs in the node
    """

    row: Rows
    source: Rows
    target: Rows
    share: Floats
    final: NDArray[np.bool_]


def build_constraints(execution: Execution) -> Constraints:
    """Build the graph; O((runs + edges) log (runs + edges))."""
    runs, parent, count = execution.runs, execution.parent, len(execution)
    child = np.flatnonzero(parent >= 0).astype(np.int32)
    above = parent[child]
    spawns = np.zeros(count, bool)
    spawns[above] = True
    length = np.diff(runs.first)
    first = np.concatenate(([0], np.cumsum(np.where(spawns, length + 1, 1)))).astype(np.int32)
    row = np.repeat(np.arange(count, dtype=np.int32), np.diff(first))
    done = first[1:] - 1
    at_spawn = count_until(runs.first, runs.begin_ns, above, execution.spawn_ns[child], inclusive=True)
    at_spawn = np.clip(at_spawn - 1, 0, length[above] - 1)
    after = count_until(runs.first, runs.begin_ns, above, execution.done_ns[child], inclusive=False)
    after = np.maximum(after, at_spawn + 1)
    inner = np.flatnonzero(spawns[runs.row])
    within = first[runs.row[inner]] + (inner - runs.first[runs.row[inner]])
    parts = (
        (done[execution.waits_for], first[execution.waits], ~spawns[execution.waits_for]),
        (first[above] + at_spawn, first[child], _until_spawn(execution, child, above, at_spawn)),
        (within, within + 1, _of_runs(execution, inner)),
        (done[child], first[above] + after, ~spawns[child]),
    )
    source, target = (np.concatenate([part[column] for part in parts], dtype=np.int32) for column in range(2))
    share = np.concatenate([part[2] for part in parts], dtype=np.float64)
    final = np.zeros(len(row), bool)
    final[done] = ~spawns
    return Constraints(row, source, target, share, final)


def _of_runs(execution: Execution, at: NDArray[np.intp]) -> Floats:
    """Return some runs as parts of their instances."""
    runs = execution.runs
    return _divided(runs.end_ns[at] - runs.begin_ns[at], execution.own_ns[runs.row[at]])


def _until_spawn(execution: Execution, child: Rows, above: Rows, at_spawn: Rows) -> Floats:
    """Return the part of the parent that lies in the spawning run before the spawn."""
    runs = execution.runs
    run = runs.first[above] + at_spawn
    until_ns = np.clip(execution.spawn_ns[child], runs.begin_ns[run], runs.end_ns[run])
    return _divided(until_ns - runs.begin_ns[run], execution.own_ns[above])


def _divided(above: NDArray[np.int64], below: NDArray[np.int64]) -> Floats:
    return np.where(below > 0, above / np.maximum(below, 1), 0.0)


@dataclass(frozen=True)
class Net:
    """Constraints in order.

    Attributes
    ----------
    first : (nodes + 1,) where the edges of each node begin
    by_source : (edges,) edges by their source
    order : nodes in topological order, without those on cycles
    """

    constraints: Constraints
    first: Rows
    by_source: Rows
    order: Rows

    @classmethod
    def of(cls, constraints: Constraints) -> Net:
        """Sort the edges and nodes."""
        nodes = len(constraints.row)
        first, by_source = np.empty(nodes + 1, np.int32), np.empty(len(constraints.source), np.int32)
        order = np.empty(nodes, np.int32)
        missing = np.empty(nodes, np.int32)
        count = _loops.sort_graph(constraints.source, constraints.target, first, by_source, missing, order)
        return cls(constraints, first, by_source, order[:count])

    def longest(self, weight: Floats) -> tuple[float, Rows, Rows]:
        """Return the greatest sum of weights along a path, and the path.

        Parameters
        ----------
        weight : (rows,) >= 0, of each instance

        Returns
        -------
        total : 0 without nodes
        nodes : (k,) the path, first to last
        edges : (k,) the edge by which it leaves each; -1 for the last
        """
        if not len(self.order):
            return 0.0, np.empty(0, np.int32), np.empty(0, np.int32)
        of = self.constraints
        reached, came = np.zeros(len(of.row)), np.full(len(of.row), -1, np.int32)
        _loops.longest_paths(
            of.source, of.target, self.first, self.by_source, of.share, of.row, weight, self.order, reached, came
        )
        node, greatest = -1, -1.0
        for at in blocks(len(self.order)):
            some = self.order[at]
            ends = reached[some] + np.where(of.final[some], weight[of.row[some]], 0.0)
            place = int(ends.argmax())
            if ends[place] > greatest:
                node, greatest = int(some[place]), float(ends[place])
        nodes, edges = array("i", [node]), array("i", [-1])
        while (edge := int(came[node])) >= 0:
            node = int(of.source[edge])
            edges.append(edge)
            nodes.append(node)
        return greatest, np.array(nodes, np.int32)[::-1], np.array(edges, np.int32)[::-1]
