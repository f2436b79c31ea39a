"""What each instance waited for, by events of a task runtime and by the keys of an engine's tasks, as dask's.

A key may belong to several instances: a task was tried again, or computed again after its worker was lost. What an
instance needed came from the last of those that had ended without failure when it started. Clocks of hosts agree only
within an error, so an instance of another host may have made it even if it seems to have ended up to that much later.

Edges that contradict the recorded times are left out: an instance that started before another was complete did
not wait for it. The run satisfies all other edges, so no chain of them is longer than the run, and cycles exist
only among instances of no length. Between hosts this holds within the error of their clocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tprof.trace import EventKind

from .events import UNKNOWN
from .instances import NOT_NAMED

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

    from .instances import Instances, Rows, Times


def dependences(profile: Profile) -> pd.DataFrame:
    """Return the pairs of ids of which the first had to wait for the second: `Profile.dependences`."""
    named = profile.events.of(EventKind.DEPENDENCE)[["instance", "other"]]
    named = named[(named != 0).all(axis=1)]
    if profile.trace.recorded is not None:
        named = named[named["instance"].isin(profile.graph.ids)]
    pairs = named.to_numpy()
    if len(profile.keys):
        waits, waits_for, _ = _by_keys(profile.graph)
        ids = profile.graph.ids.to_numpy()
        pairs = np.concatenate((pairs, np.column_stack((ids[waits], ids[waits_for]))))
    found = pd.DataFrame(pairs, columns=["instance", "waits_for"]).drop_duplicates()
    return found.sort_values(["instance", "waits_for"], ignore_index=True)


def solved(instances: Instances) -> tuple[Instances, int]:
    """Find what each instance waited for.

    Returns
    -------
    instances : with spawn_ns (if unknown, when it started), ready_ns (if unknown, when its last dependence was done),
        parent and edges, of events and keys, as far as the recorded times do not contradict, and releaser; also with
        done_ns (when it and all its descendants had ended) and by_key (only keys say what it waited for, and nothing
        when its worker could have begun)
    contradicting : how many edges and spawns the recorded times contradict
    """
    columns = ("start_ns", "end_ns", "spawn_ns", "ready_ns", "releaser", "parent")
    start_ns, end_ns, given_ns, ready_ns, releaser, given_parent = (
        instances.table[name].to_numpy() for name in columns
    )
    spawn_ns = np.where(given_ns == UNKNOWN, _earliest_spawn(instances.table), given_ns)
    parent = _sound_parents(given_parent, start_ns, spawn_ns)
    done_ns = _done(parent, end_ns)
    named = instances.edges.to_numpy().T
    sound = (named[0] != named[1]) & (done_ns[named[1]] <= start_ns[named[0]])
    needing, makers, late = _by_keys(instances)
    waits, waits_for = np.concatenate((named[:, sound], (needing, makers)), axis=1)
    # The dependence that was done last; of several rows for one instance the last remains.
    by_end = np.argsort(done_ns[waits_for], kind="stable")
    last = np.full(len(start_ns), -1)
    last[waits[by_end]] = waits_for[by_end]
    by_key = np.isin(np.arange(len(last)), needing) & (ready_ns == UNKNOWN)
    waits_ns = np.where(last >= 0, done_ns[last], UNKNOWN)
    # What keys alone make wait was spawned when the last of what it needed was done, or before.
    spawn_ns = np.where(by_key & (given_ns == UNKNOWN), np.minimum(spawn_ns, waits_ns), spawn_ns)
    possible_ns = np.minimum(np.maximum(waits_ns, spawn_ns), start_ns)
    table = instances.table.assign(
        spawn_ns=spawn_ns, ready_ns=np.where(ready_ns == UNKNOWN, possible_ns, ready_ns), parent=parent,
        releaser=np.where(releaser == NOT_NAMED, last, releaser), done_ns=done_ns, by_key=by_key,
    )  # fmt: skip
    contradicting = int((given_parent >= 0).sum() - (parent >= 0).sum()) + int((~sound).sum()) + late
    return replace(instances, table=table, edges=pd.DataFrame({"waits": waits, "waits_for": waits_for})), contradicting


def _earliest_spawn(table: pd.DataFrame) -> Times:
    """Return when instances with keys may have been there to run, and the start of the others.

    The workers do not know when a task was submitted. It was there when what it needed was, so `waits_ns` decides for a
    task that needs others. Any other counts as submitted when the workers last began to work after a time in which no
    task ran anywhere.
    """
    by_start = table[["start_ns", "end_ns", "key"]].sort_values("start_ns", kind="stable")
    idle_until = by_start["start_ns"] > by_start["end_ns"].cummax().shift(fill_value=UNKNOWN)
    since_ns = by_start["start_ns"].where(idle_until, UNKNOWN).cummax()
    return since_ns.where(by_start["key"] != 0, by_start["start_ns"]).sort_index().to_numpy()


def _sound_parents(parent: Rows, start_ns: Times, spawn_ns: Times) -> Rows:
    """Return the parents that began before their children, -1 for others."""
    rank = np.empty(len(parent), np.intp)
    rank[np.lexsort((spawn_ns, start_ns))] = np.arange(len(parent))
    child = np.flatnonzero(parent >= 0)
    above, found = parent[child], np.full(len(parent), -1)
    sound = (rank[above] < rank[child]) & (start_ns[above] <= spawn_ns[child])
    found[child[sound]] = above[sound]
    return found


def _done(parent: Rows, end_ns: Times) -> Times:
    """Return the latest end of each instance and of its descendants, up to 1, 2, 4, … generations below it."""
    above, done_ns = parent, end_ns.copy()
    while len(child := np.flatnonzero(above >= 0)):
        np.maximum.at(done_ns, above[child], done_ns[child])
        further = np.full(len(parent), -1)
        further[child] = above[above[child]]
        above = further
    return done_ns


def _by_keys(instances: Instances) -> tuple[Rows, Rows, int]:
    """Return rows of instances and of those that made what they needed.

    Also how many needs only an instance of another host could have made, which ended too late for it.
    """
    table, waiting = instances.table, instances.needs["row"].to_numpy()
    made = np.flatnonzero((table["key"] != 0) & ~table["failed"])
    if not (len(made) and len(waiting)):
        return np.empty(0, np.intp), np.empty(0, np.intp), 0
    start_ns, end_ns = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    key = pd.factorize(np.concatenate((table["key"].to_numpy()[made], instances.needs["hash"])))[0]
    by_end = np.lexsort((end_ns[made], key[: len(made)]))
    maker, group, wanted = made[by_end], key[by_end], key[len(made) :]
    place = placed(group, end_ns[maker], wanted, start_ns[waiting], "right") - 1
    is_made, contradicting = (place >= 0) & (group[place] == wanted), 0
    if "host" in table:
        host, error_ns = table["host"].to_numpy(), table["error_ns"].to_numpy()
        # Where none had ended, the first that ended later.
        later = np.flatnonzero(~is_made & (group[np.minimum(place + 1, len(maker) - 1)] == wanted))
        place[later] += 1
        ours, theirs = waiting[later], maker[place[later]]
        is_other = host[ours] != host[theirs]
        is_made[later] = is_other & (end_ns[theirs] - start_ns[ours] <= error_ns[ours] + error_ns[theirs])
        contradicting = int((is_other & ~is_made[later]).sum())
    return waiting[is_made], maker[place[is_made]], contradicting


def placed(group: Rows, t_ns: Times, of_group: Rows, at_ns: Times, side: Any) -> Rows:
    """Return where pairs of a group and a time belong among others in order, as `numpy.searchsorted`."""
    rank = np.unique(np.concatenate((t_ns, at_ns)), return_inverse=True)[1]
    pair = np.concatenate((group, of_group)).astype(np.int64) * (len(rank) + 1) + rank
    return np.searchsorted(pair[: len(group)], pair[len(group) :], side)
