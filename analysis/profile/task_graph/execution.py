"""A recording as a graph: instances with their times, dependences and parents.

Edges that contradict the recorded times are left out: an instance that started before another was complete did
not wait for it. The run satisfies all other edges, so no chain of them is longer than the run, and cycles exist
only among instances of no length. Between hosts this holds within the error of their clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .instances import NOT_NAMED, UNKNOWN
from .keyed import earliest_spawn, needed_rows

if TYPE_CHECKING:
    from .instances import Instances
    from .lifecycle import Rows
    from .runs import Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Execution:
    """One entry per instance, in the order of the table of tasks; times in ns from the start of the recorded block.

    Attributes
    ----------
    own_ns : time in which its thread ran it
    energy_j : exclusive of nested tasks; 0 if not resolved
    done_ns : when it and all its descendants had ended
    spawn_ns : when it was spawned; if unknown, when it started
    ready_ns : when it could have run; if unknown, when its last dependence was done
    releaser : row of the instance whose end made it ready, -1: none
    parent : row of the instance that spawned it, -1: none
    waits, waits_for : (edges,) rows of instances and of their dependences
    contradicting : edges and spawns that the recorded times contradict, left out
    by_key : whether only keys say what it waited for, and nothing when its worker could have begun
    host : number of its host; None: all are of one
    """

    start_ns: Times
    end_ns: Times
    own_ns: Times
    energy_j: Floats
    done_ns: Times
    spawn_ns: Times
    ready_ns: Times
    releaser: Rows
    parent: Rows
    waits: Rows
    waits_for: Rows
    contradicting: int
    by_key: NDArray[np.bool_]
    host: Rows | None
    runs: Runs

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.start_ns)


def build_execution(instances: Instances) -> Execution:
    """Find what each instance waited for."""
    start_ns, end_ns = instances.start_ns, instances.end_ns
    spawn_ns = earliest_spawn(instances.needs.keyed, start_ns, end_ns)
    spawn_ns = np.where(instances.spawn_ns == UNKNOWN, spawn_ns, instances.spawn_ns)
    parent, void = _parents(instances.parent, start_ns, spawn_ns)
    done_ns = _done(end_ns, parent, start_ns, spawn_ns)
    waits, waits_for = instances.waits, instances.waits_for
    sound = (waits != waits_for) & (done_ns[waits_for] <= start_ns[waits])
    needs, makers, late = needed_rows(instances.needs, start_ns, end_ns, instances.clocks)
    waits, waits_for = np.concatenate((waits[sound], needs)), np.concatenate((waits_for[sound], makers))
    last = _last_waited_for(waits, waits_for, done_ns)
    by_key = np.zeros(len(instances), bool)
    by_key[needs] = instances.ready_ns[needs] == UNKNOWN
    spawn_ns = np.where(by_key & (instances.spawn_ns == UNKNOWN), np.minimum(spawn_ns, done_ns[last]), spawn_ns)
    ready_ns = np.minimum(np.where(last >= 0, np.maximum(done_ns[last], spawn_ns), spawn_ns), start_ns)
    return Execution(
        start_ns=start_ns,
        end_ns=end_ns,
        own_ns=instances.own_ns,
        energy_j=np.nan_to_num(instances.table["energy_j"].to_numpy()),
        done_ns=done_ns,
        spawn_ns=spawn_ns,
        ready_ns=np.where(instances.ready_ns == UNKNOWN, ready_ns, instances.ready_ns),
        releaser=np.where(instances.releaser == NOT_NAMED, last, instances.releaser),
        parent=parent,
        waits=waits,
        waits_for=waits_for,
        contradicting=void + int((~sound).sum()) + late,
        by_key=by_key,
        host=None if instances.clocks is None else instances.clocks.host,
        runs=instances.runs,
    )


def _rank(start_ns: Times, spawn_ns: Times) -> Rows:
    """Number the instances so that parents come before their children."""
    order = np.lexsort((np.arange(len(start_ns)), spawn_ns, start_ns))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _parents(parent: Rows, start_ns: Times, spawn_ns: Times) -> tuple[Rows, int]:
    """Return the parents, without those that began after their child, and the number of these."""
    rank = _rank(start_ns, spawn_ns)
    child = np.arange(len(parent))
    sound = (parent >= 0) & (start_ns[parent] <= spawn_ns) & (rank[parent] < rank[child])
    return np.where(sound, parent, -1), int(((parent >= 0) & ~sound).sum())


def _done(end_ns: Times, parent: Rows, start_ns: Times, spawn_ns: Times) -> Times:
    """Return when each was complete: the latest end of itself and its descendants."""
    children = np.flatnonzero(parent >= 0)
    if not len(children):
        return end_ns.copy()
    latest_first = children[np.argsort(_rank(start_ns, spawn_ns)[children])[::-1]]
    done = end_ns.tolist()
    for child, above in zip(latest_first.tolist(), parent[latest_first].tolist(), strict=True):
        done[above] = max(done[above], done[child])
    return np.array(done, np.int64)


def _last_waited_for(waits: Rows, waits_for: Rows, done_ns: Times) -> Rows:
    """Return for each instance its dependence that was done last, -1: it has none."""
    by_time = np.argsort(done_ns[waits_for], kind="stable")
    last = np.full(len(done_ns), -1)
    last[waits[by_time]] = waits_for[by_time]
    return last
