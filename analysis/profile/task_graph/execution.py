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
from tprof.analysis.attribution import _loops

from tprof.trace.long_arrays import computed, release

from .instances import NOT_NAMED
from .keyed import earliest_spawn, needed_rows
from .runtime_events import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from .instances import Instances
    from .runs import Rows, Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Execution:
    """One entry per instance, in the order of the table of tasks; times in ns from the start of the recorded block.

    Attributes
    ----------
    own_ns : time in which its thread ran it
    energy_j : exclusive of nested tasks; NaN if not resolved
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

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(self.start_ns, self.end_ns, self.own_ns, self.energy_j, self.done_ns, self.spawn_ns, self.ready_ns)
        self.runs.release()


def build_execution(instances: Instances) -> Execution:
    """Find what each instance waited for."""
    start_ns, end_ns = instances.start_ns, instances.end_ns
    earliest_ns = earliest_spawn(instances.needs.keyed, start_ns, end_ns)
    spawn_ns = _known_or(instances.spawn_ns, lambda at: earliest_ns[at])
    parent, done_ns, void = _families(instances.parent, start_ns, end_ns, spawn_ns)
    waits, waits_for = instances.waits, instances.waits_for
    sound = (waits != waits_for) & (done_ns[waits_for] <= start_ns[waits])
    needs, makers, late = needed_rows(instances.needs, start_ns, end_ns, instances.clocks)
    contradicting = void + int((~sound).sum()) + late
    waits, waits_for = (
        np.concatenate((ours[sound], theirs.astype(np.int32))) for ours, theirs in ((waits, needs), (waits_for, makers))
    )
    last = _last_waited_for(waits, waits_for, done_ns)
    by_key = np.zeros(len(instances), bool)
    by_key[needs] = instances.ready_ns[needs] == UNKNOWN
    if len(needs):
        spawn_ns = np.where(by_key & (instances.spawn_ns == UNKNOWN), np.minimum(spawn_ns, done_ns[last]), spawn_ns)
    return Execution(
        start_ns=start_ns,
        end_ns=end_ns,
        own_ns=instances.own_ns,
        energy_j=instances.energy_j,
        done_ns=done_ns,
        spawn_ns=spawn_ns,
        ready_ns=_ready(instances.ready_ns, last, done_ns, spawn_ns, start_ns),
        releaser=np.where(instances.releaser == NOT_NAMED, last, instances.releaser),
        parent=parent,
        waits=waits,
        waits_for=waits_for,
        contradicting=contradicting,
        by_key=by_key,
        host=None if instances.clocks is None else instances.clocks.host,
        runs=instances.runs,
    )


def _families(parent: Rows, start_ns: Times, end_ns: Times, spawn_ns: Times) -> tuple[Rows, Times, int]:
    """Find the parents, and when each instance was complete: the latest end of itself and its descendants.

    Returns
    -------
    parent, done_ns : of each instance; a parent that began after its child is none
    void : number of such parents
    """
    child = np.flatnonzero(parent >= 0).astype(np.int32)
    if not len(child):
        return parent, end_ns, 0
    done_ns = computed(len(end_ns), np.int64, lambda at: end_ns[at], end_ns)
    # Parents come before their children.
    order = np.lexsort((spawn_ns, start_ns)).astype(np.int32)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    above = parent[child]
    sound = (start_ns[above] <= spawn_ns[child]) & (rank[above] < rank[child])
    kept = np.full(len(parent), -1, np.int32)
    kept[child[sound]] = above[sound]
    latest_first = order[kept[order] >= 0][::-1].copy()
    _loops.raise_parents(latest_first, kept[latest_first], done_ns)
    return kept, done_ns, int((~sound).sum())


def _ready(known_ns: Times, last: Rows, done_ns: Times, spawn_ns: Times, start_ns: Times) -> Times:
    """Return when each could have run: as events say, else when its last dependence was done after its spawn."""

    def possible(at: slice) -> Times:
        waits = np.where(last[at] >= 0, done_ns[last[at]], UNKNOWN)
        return np.minimum(np.maximum(waits, spawn_ns[at]), start_ns[at])

    return _known_or(known_ns, possible)


def _known_or(known_ns: Times, other_ns: Callable[[slice], Times]) -> Times:
    """Return times that are known, and others in the place of unknown ones, which a function returns for parts."""

    def times(at: slice) -> Times:
        return np.where(known_ns[at] == UNKNOWN, other_ns(at), known_ns[at])

    return computed(len(known_ns), np.int64, times, known_ns)


def _last_waited_for(waits: Rows, waits_for: Rows, done_ns: Times) -> Rows:
    """Return for each instance its dependence that was done last, -1: it has none."""
    by_time = np.argsort(done_ns[waits_for], kind="stable")
    last = np.full(len(done_ns), -1, np.int32)
    last[waits[by_time]] = waits_for[by_time]
    return last
