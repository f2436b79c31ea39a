"""The critical path of a recording: the lower bound of its time for any number of workers, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tprof.errors import UsageError

from .constraints import build_constraints
from .execution import read_execution
from .longest import Net
from .observed_chain import PARTS, observed_chain

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile

    from .constraints import Constraints
    from .lifecycle import Rows

NONE = "this trace has no events of a task runtime: record a program whose tasks run in tprof.runtime"


@dataclass(frozen=True, repr=False)
class CriticalPath:
    """The longest chain of instances that had to run one after the other, and the chain of waits in the run.

    Three chains, each a table in order of time:

    `chain` is the longest by duration in the graph of dependences. An instance follows its dependences and all their
    descendants; a child follows its parent's time until the spawn; a paused instance follows those of its children
    that had ended when it resumed. Nothing else delays it: with any number of workers, and spawning at no cost, the
    same instances could not have ended sooner than `span_s`.
    `heaviest` is the heaviest by joules in the same graph; it need not be the longest.
    `realised` is the observed chain of waits, backwards from the instance that ended last. The start of an instance
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
    chain, heaviest : task, instance, start_s, path_s (its time on the path), energy_j (its joules on the path)
    realised : kind, start_s, duration_s, task, instance
    parts : the makespan by kind, which sum to it: running_s, data_s (from the end of the last dependence to the
        release), worker_s (ready, until a worker took it), spawning_s (the program outside its tasks, and from
        spawn to release without dependences), paused_s (inside an instance, for a reason not in the trace)
    contradicting : dependences and spawns that the recorded times contradict; left out
    """

    makespan_s: float
    work_s: float
    span_s: float
    energy_j: float
    heaviest_j: float
    chain: pd.DataFrame = field(repr=False)
    heaviest: pd.DataFrame = field(repr=False)
    realised: pd.DataFrame = field(repr=False)
    contradicting: int

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
        sums = self.realised.groupby("kind", observed=True)["duration_s"].sum()
        return {f"{kind}_s": float(sums.get(kind, 0.0)) for kind in PARTS}

    def __repr__(self) -> str:
        """Describe the path in one line."""
        of = f"{len(self.chain):,} instances, {self.span_s:.4g} s of {self.makespan_s:.4g} s"
        return f"<CriticalPath of {of}, parallelism {self.parallelism:.3g}>"


def critical_path(profile: Profile) -> CriticalPath:
    """Find the critical path of a profile.

    Raises
    ------
    UsageError
        If the trace has no events of a task runtime.
    """
    if not len(profile.trace.graph):
        raise UsageError(NONE)
    execution = read_execution(profile)
    constraints = build_constraints(execution)
    net = Net.of(len(constraints.row), constraints.source, constraints.target)
    own_s = execution.own_ns.astype(np.float64) * 1e-9
    span_s, chain = _path(profile, net, constraints, own_s, by=own_s)
    heaviest_j, heaviest = _path(profile, net, constraints, own_s, by=np.maximum(execution.energy_j, 0.0))
    observed = observed_chain(execution)
    row = np.array(observed["row"], np.int64)
    named = profile.tasks.iloc[np.maximum(row, 0)].reset_index(drop=True)
    table = observed.drop(columns="row").assign(
        task=named["task"].where(row >= 0), instance=named["instance"].where(row >= 0, np.uint64(0))
    )
    resolved = chain["energy_j"].notna()
    return CriticalPath(
        makespan_s=float(observed["duration_s"].sum()),
        work_s=float(own_s.sum()),
        span_s=span_s,
        energy_j=float(chain["energy_j"].sum()) if resolved.any() else float("nan"),
        heaviest_j=heaviest_j if profile.tasks["energy_j"].notna().any() else float("nan"),
        chain=chain,
        heaviest=heaviest,
        realised=table,
        contradicting=execution.contradicting,
    )


def _path(
    profile: Profile, net: Net, constraints: Constraints, own_s: NDArray[np.float64], *, by: NDArray[np.float64]
) -> tuple[float, pd.DataFrame]:
    """Return the greatest sum along a path and its instances."""
    row, source = constraints.row, constraints.source
    total, nodes, edges = net.longest(constraints.share * by[row[source]], constraints.final * by[row])
    if not len(nodes):
        return total, _table(profile, np.empty(0, np.int64), np.empty(0), own_s)
    share = (
        np.where(edges >= 0, constraints.share[edges], constraints.final[nodes])
        if len(source)
        else (constraints.final[nodes])
    )
    on, share = row[nodes][share > 0], share[share > 0]
    begins = np.flatnonzero(np.diff(on, prepend=-1))
    return total, _table(profile, on[begins], np.add.reduceat(share, begins) if len(begins) else share, own_s)


def _table(profile: Profile, rows: Rows, share: NDArray[np.float64], own_s: NDArray[np.float64]) -> pd.DataFrame:
    chosen = profile.tasks.iloc[rows]
    return pd.DataFrame(
        {
            "task": chosen["task"].to_numpy(object),
            "instance": chosen["instance"].to_numpy(),
            "start_s": chosen["start_s"].to_numpy(),
            "path_s": share * own_s[rows],
            "energy_j": share * chosen["energy_j"].to_numpy(),
        }
    )
