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
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.errors import UsageError
from tprof.trace.long_arrays import blocks, empty, is_somewhere, total
from tprof.trace.plain_values import counted

from .chains import Chain, chain_of
from .constraints import WEIGHTS, Paths, build_constraints
from .execution import build_execution
from .instances import read_instances
from .observed_chain import observed_chain

if TYPE_CHECKING:
    import pandas as pd
    from tprof.analysis.profile import Profile

    from .instances import Instances
    from .observed_chain import Pieces

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
    contradicting: int
    quality: str
    chain_columns: Chain = field(repr=False)
    heaviest_columns: Chain = field(repr=False)
    pieces: Pieces = field(repr=False)

    @cached_property
    def chain(self) -> pd.DataFrame:
        """The longest chain by duration."""
        return self.chain_columns.table()

    @cached_property
    def heaviest(self) -> pd.DataFrame:
        """The heaviest chain by joules."""
        return self.heaviest_columns.table()

    @cached_property
    def observed(self) -> pd.DataFrame:
        """The observed chain of waits."""
        return self.pieces.table()

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
        return {f"{kind}_s": length_ns * 1e-9 for kind, length_ns in self.pieces.length_ns.items()}

    @property
    def host_changes(self) -> int:
        """How often the longest chain goes on to another host."""
        return self.chain_columns.host_changes()

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

    def __repr__(self) -> str:
        """Describe the path in one line."""
        of = f"{counted(len(self.chain_columns), 'instance')}, {self.span_s:.4g} s of {self.makespan_s:.4g} s"
        return f"<CriticalPath of {of}, parallelism {self.parallelism:.3g}>"


def critical_path(profile: Profile) -> CriticalPath:
    """Find the critical path of a profile.

    Raises
    ------
    UsageError
        If the trace has neither events of a task runtime nor keys.
    """
    if not (len(profile.events) or len(profile.keys)):
        raise UsageError(NONE)
    return path_through(read_instances(profile), str(profile.info["quality"]))


def path_through(instances: Instances, quality: str) -> CriticalPath:
    """Find the critical path of instances, of one host or of several; `quality` is that of their joules."""
    execution = build_execution(instances)
    execution.release()
    constraints = build_constraints(execution)
    paths = Paths.of(constraints, _weights(instances))
    span_s, chain = _path(instances, paths, 0)
    heaviest_j, heaviest = _path(instances, paths, 1)
    del constraints, paths
    pieces = observed_chain(execution)
    execution.release()
    energy_j = instances.energy_j
    has_joules = is_somewhere(len(energy_j), lambda at: np.isfinite(energy_j[at]), energy_j)
    return CriticalPath(
        makespan_s=sum(pieces.length_ns.values()) * 1e-9,
        work_s=total(instances.own_ns) * 1e-9,
        span_s=span_s,
        energy_j=chain.joules(),
        heaviest_j=heaviest_j if has_joules else float("nan"),
        contradicting=execution.contradicting,
        quality=quality,
        chain_columns=chain,
        heaviest_columns=heaviest,
        pieces=pieces,
    )


def _weights(instances: Instances) -> Floats:
    """Return the seconds and joules of each instance, (rows, 2)."""
    weight = empty(WEIGHTS * len(instances), np.float64).reshape(-1, WEIGHTS)
    for at in blocks(len(instances), weight, instances.own_ns, instances.energy_j):
        weight[at, 0] = instances.own_ns[at] * 1e-9
        weight[at, 1] = np.where(instances.energy_j[at] > 0, instances.energy_j[at], 0.0)
    return weight


def _path(instances: Instances, paths: Paths, which: int) -> tuple[float, Chain]:
    """Return the greatest sum along a path and its instances."""
    sum_of_path, rows, shares = paths.longest(which)
    return sum_of_path, chain_of(instances, rows, shares)
