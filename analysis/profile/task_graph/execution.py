"""A recording as a graph: instances with their times, dependences and parents.

Edges that contradict the recorded times are left out: an instance that started before another was complete did
not wait for it. The run satisfies all other edges, so no chain of them is longer than the run, and cycles exist
only among instances of no length. Between hosts this holds within the error of their clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import _loops

from tprof.trace.long_arrays import AppendedColumns, blocks, computed, empty, filled, joined, release, zeros
from tprof.trace.long_sorts import places

from .instances import NOT_NAMED
from .keyed import earliest_spawn, needed_rows
from .runtime_events import UNKNOWN

if TYPE_CHECKING:
    from .instances import Instances
    from .runs import Rows

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Execution:
    """One entry per instance; times in ns from the start of the recorded block.

    Attributes
    ----------
    of : the instances, with what is known of all of them now: spawn_ns (if unknown, when it started), ready_ns (if
        unknown, when its last dependence was done), releaser, parent, and waits and waits_for of events and keys, as
        far as the recorded times do not contradict
    done_ns : when it and all its descendants had ended
    contradicting : edges and spawns that the recorded times contradict, left out
    by_key : whether only keys say what it waited for, and nothing when its worker could have begun
    """

    of: Instances
    done_ns: Times
    contradicting: int
    by_key: NDArray[np.bool_]

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(self.done_ns, self.by_key, *vars(self.of).values(), *vars(self.of.runs).values())


def build_execution(instances: Instances) -> Execution:
    """Find what each instance waited for."""
    start_ns, end_ns = instances.start_ns, instances.end_ns
    given_ns, earliest_ns = instances.spawn_ns, earliest_spawn(instances.needs.keyed, start_ns, end_ns)

    def spawned(at: slice) -> Times:
        return np.where(given_ns[at] == UNKNOWN, earliest_ns[at], given_ns[at])

    spawn_ns = computed(len(instances), np.int64, spawned, given_ns, earliest_ns)
    parent, done_ns, void = _families(instances.parent, start_ns, end_ns, spawn_ns)
    *edges, unsound = _sound_edges(instances, done_ns)
    needs, makers, late = needed_rows(instances.needs, start_ns, end_ns, instances.clocks)
    waits, waits_for = (joined(np.int32, both) for both in zip(edges, (needs, makers), strict=True))
    last = filled(len(instances), np.int32, -1)
    for at in blocks(len(waits), waits, waits_for, done_ns, last):
        _loops.find_last(waits[at], waits_for[at], done_ns, last)
    by_key = zeros(len(instances), np.bool_)
    for at in blocks(len(needs), needs, by_key, instances.ready_ns):
        by_key[needs[at]] = instances.ready_ns[needs[at]] == UNKNOWN
    spawn_ns, ready_ns, releaser = _delays(instances, by_key, last, done_ns, spawn_ns)
    known = replace(
        instances, spawn_ns=spawn_ns, ready_ns=ready_ns, releaser=releaser, parent=parent, waits=waits,
        waits_for=waits_for,
    )  # fmt: skip
    return Execution(known, done_ns, void + unsound + late, by_key)


def _families(parent: Rows, start_ns: Times, end_ns: Times, spawn_ns: Times) -> tuple[Rows, Times, int]:
    """Find the parents, and when each instance was complete: the latest end of itself and its descendants.

    Returns
    -------
    parent, done_ns : of each instance; a parent that began after its child is none
    void : number of such parents
    """
    kept, void, has_parents = empty(len(parent), np.int32), 0, False
    for at in blocks(len(parent), parent, kept, start_ns, spawn_ns):
        child = places(at)
        given, above = parent[at] >= 0, np.maximum(parent[at], 0)
        # Parents come before their children.
        is_before = (start_ns[above] < start_ns[at]) | (
            (start_ns[above] == start_ns[at])
            & ((spawn_ns[above] < spawn_ns[at]) | ((spawn_ns[above] == spawn_ns[at]) & (above < child)))
        )
        sound = given & is_before & (start_ns[above] <= spawn_ns[at])
        kept[at] = np.where(sound, above, -1)
        void += int((given & ~sound).sum())
        has_parents = has_parents or bool(given.any())
    if not has_parents:
        return parent, end_ns, 0
    done_ns = computed(len(end_ns), np.int64, lambda at: end_ns[at], end_ns)
    backwards, raised = True, 1
    while raised:  # once and once more if all parents have lower rows, as they mostly do
        raised = 0
        for at in blocks(len(kept), kept, done_ns, backwards=backwards):
            raised += _loops.raise_parents(kept[at], at.start, backwards, done_ns)
        backwards = not backwards
    return kept, done_ns, void


def _sound_edges(instances: Instances, done_ns: Times) -> tuple[Rows, Rows, int]:
    """Return the dependences that the times confirm, and how many others there are."""
    waits, waits_for, start_ns = instances.waits, instances.waits_for, instances.start_ns
    kept = AppendedColumns(np.int32, np.int32)
    for at in blocks(len(waits), waits, waits_for, start_ns, done_ns):
        ours, theirs = waits[at], waits_for[at]
        sound = (ours != theirs) & (done_ns[theirs] <= start_ns[ours])
        kept.add(ours[sound], theirs[sound])
    sound_waits, sound_waits_for = kept.finish()
    return sound_waits, sound_waits_for, len(waits) - len(sound_waits)


def _delays(
    instances: Instances, by_key: NDArray[np.bool_], last: Rows, done_ns: Times, spawn_ns: Times
) -> tuple[NDArray[Any], ...]:
    """Return when each was spawned and could run, and whose end made it ready.

    What events do not say is decided by the dependence that was done `last`. One that keys alone make wait was spawned
    when that was done, or before.
    """
    found, given, start_ns = AppendedColumns(np.int64, np.int64, np.int32), instances, instances.start_ns
    sources = (given.spawn_ns, given.ready_ns, given.releaser, start_ns, by_key, last, done_ns, spawn_ns)
    for at in blocks(len(last), *sources):
        waits_ns = np.where(last[at] >= 0, done_ns[last[at]], UNKNOWN)
        waited = by_key[at] & (given.spawn_ns[at] == UNKNOWN)
        spawned_ns = np.where(waited, np.minimum(spawn_ns[at], waits_ns), spawn_ns[at])
        possible_ns = np.minimum(np.maximum(waits_ns, spawned_ns), start_ns[at])
        ready_ns = np.where(given.ready_ns[at] == UNKNOWN, possible_ns, given.ready_ns[at])
        found.add(spawned_ns, ready_ns, np.where(given.releaser[at] == NOT_NAMED, last[at], given.releaser[at]))
    return found.finish()
