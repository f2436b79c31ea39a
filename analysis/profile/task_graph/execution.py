"""A recording as a graph: instances with their times, dependences and parents.

Edges that contradict the recorded times are left out: an instance that started before another was complete did
not wait for it. The run satisfies all other edges, so no chain of them is longer than the run, and cycles exist
only among instances of no length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.trace import EventKind

from .keyed import earliest_spawn, needed_rows
from .lifecycle import Places, first_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.profile import Profile

    from tprof.trace import Graph

    from .lifecycle import Rows

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
    runs: Runs

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.start_ns)


def read_execution(profile: Profile) -> Execution:
    """Combine a profile with its trace's events; reads the trace's samples again."""
    tasks, trace = profile.tasks, profile.trace
    places = Places.of(tasks["instance"].to_numpy())
    runs = read_runs(profile.recipe.read(trace).segments, places, trace.start_ns)
    start_ns = _ns(tasks["start_s"].to_numpy())
    end_ns = start_ns + _ns(tasks["duration_s"].to_numpy())
    spawn_ns = earliest_spawn(trace.keys, tasks, start_ns, end_ns)
    if "spawn_s" in tasks:
        spawn_ns = _ns_or(tasks["spawn_s"].to_numpy(), spawn_ns)
    parent, void = _parents(places.rows(tasks["parent"].to_numpy()), tasks, start_ns, spawn_ns)
    done_ns = _done(end_ns, parent, start_ns, spawn_ns)
    waits, waits_for, contradicting = _edges(trace.graph, places, start_ns, done_ns)
    needs, makers = needed_rows(trace.keys, tasks, start_ns, end_ns)
    waits, waits_for = np.concatenate((waits, needs)), np.concatenate((waits_for, makers))
    last = _last_waited_for(waits, waits_for, done_ns)
    ready_ns = np.minimum(np.where(last >= 0, np.maximum(done_ns[last], spawn_ns), spawn_ns), start_ns)
    return Execution(
        start_ns=start_ns,
        end_ns=end_ns,
        own_ns=np.minimum(_ns(profile.own_s), end_ns - start_ns),
        energy_j=np.nan_to_num(tasks["energy_j"].to_numpy()),
        done_ns=done_ns,
        spawn_ns=spawn_ns,
        ready_ns=_ns_or(tasks["ready_s"].to_numpy() if "ready_s" in tasks else np.full(len(tasks), np.nan), ready_ns),
        releaser=_releasers(trace.graph, places, last),
        parent=parent,
        waits=waits,
        waits_for=waits_for,
        contradicting=contradicting + void,
        runs=runs,
    )


def _ns(seconds: Floats) -> Times:
    """Return whole nanoseconds; exact below a hundred days, where a float's step is less than half a nanosecond."""
    return np.rint(seconds * 1e9).astype(np.int64)


def _ns_or(seconds: Floats, otherwise: Times) -> Times:
    known = ~np.isnan(seconds)
    return np.where(known, _ns(np.where(known, seconds, 0.0)), otherwise)


def _rank(start_ns: Times, spawn_ns: Times) -> Rows:
    """Number the instances so that parents come before their children."""
    order = np.lexsort((np.arange(len(start_ns)), spawn_ns, start_ns))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _parents(parent: Rows, tasks: pd.DataFrame, start_ns: Times, spawn_ns: Times) -> tuple[Rows, int]:
    """Return the parents, without those that began after their child, and the number of these."""
    rank = _rank(start_ns, spawn_ns)
    child = np.arange(len(tasks))
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


def _edges(graph: Graph, places: Places, start_ns: Times, done_ns: Times) -> tuple[Rows, Rows, int]:
    """Return distinct pairs of an instance and its dependence, and the number of pairs that the times contradict."""
    at = np.flatnonzero((graph.kind == EventKind.DEPENDENCE) | (graph.kind == EventKind.READY))
    waits, waits_for = places.rows(graph.instance[at]), places.rows(graph.other[at])
    known = (waits >= 0) & (waits_for >= 0)
    pairs: NDArray[Any] = np.unique(waits[known] * len(places.ids) + waits_for[known])
    waits, waits_for = pairs // max(len(places.ids), 1), pairs % max(len(places.ids), 1)
    sound = (waits != waits_for) & (done_ns[waits_for] <= start_ns[waits])
    return waits[sound], waits_for[sound], int((~sound).sum())


def _last_waited_for(waits: Rows, waits_for: Rows, done_ns: Times) -> Rows:
    """Return for each instance its dependence that was done last, -1: it has none."""
    by_time = np.argsort(done_ns[waits_for], kind="stable")
    last = np.full(len(done_ns), -1)
    last[waits[by_time]] = waits_for[by_time]
    return last


def _releasers(graph: Graph, places: Places, last: Rows) -> Rows:
    """Return the instance that READY names; `last` without such an event, or if that instance never ran."""
    ready, _ = first_events(graph, EventKind.READY, places)
    if not (ready >= 0).any():
        return last
    other = graph.other[np.maximum(ready, 0)]
    named = places.rows(other)
    return np.where((ready >= 0) & ((named >= 0) | (other == 0)), named, last)


@dataclass(frozen=True)
class Runs:
    """Intervals in which a thread ran an instance itself, by row of the instance and then by time.

    Attributes
    ----------
    row : (m,) int64, the instance's row in the table of tasks
    begin_ns, end_ns : (m,) int64, from the start of the recorded block
    before : (m,) int64, the thread's previous run, -1: none
    first : (rows + 1,) int64, index of each instance's first run
    """

    row: Rows
    begin_ns: Times
    end_ns: Times
    before: Rows
    first: Rows


def read_runs(threads: Sequence[Segments], places: Places, start_ns: int) -> Runs:
    """Collect the runs of all threads."""
    parts = [_of_thread(one, places) for one in threads]
    row, begin_ns, end_ns = (np.concatenate([np.empty(0, np.int64), *column]) for column in _columns(parts))
    before = np.arange(-1, len(row) - 1)
    offsets = np.cumsum([0, *(len(part[0]) for part in parts)])[:-1]
    before[offsets[offsets < len(row)]] = -1
    order = np.lexsort((begin_ns, row))
    place = np.empty(len(row) + 1, np.int64)
    place[order] = np.arange(len(row))
    place[-1] = -1
    first = np.searchsorted(row[order], np.arange(len(places.ids) + 1))
    return Runs(row[order], begin_ns[order] - start_ns, end_ns[order] - start_ns, place[before[order]], first)


def _columns(parts: list[tuple[Rows, Times, Times]]) -> list[list[NDArray[np.int64]]]:
    return [[part[column] for part in parts] for column in range(3)]


def _of_thread(segments: Segments, places: Places) -> tuple[Rows, Times, Times]:
    begins = np.flatnonzero(np.diff(segments.slot, prepend=-1))
    ends = np.append(begins[1:], len(segments.slot))
    kept = segments.slot[begins] > 0
    begins, ends = begins[kept], ends[kept]
    rows = places.rows(segments.rows.instance)[segments.slot[begins] - 1]
    return rows, segments.t_ns[begins], segments.t_ns[ends]


def count_until(first: Rows, times: Times, rows: Rows, until: Times, *, inclusive: bool) -> Rows:
    """Count the times of a row that are before (or at) another time.

    Parameters
    ----------
    first : (k + 1,) index of each row's first time
    times : (m,) not decreasing within a row
    rows, until : (q,) the queries

    Returns
    -------
    (q,) int64; O((m + q) log(m + q)).
    """
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    asked = np.concatenate((np.zeros(len(times), bool), np.ones(len(rows), bool)))
    last = asked if inclusive else ~asked
    order = np.lexsort((last, np.concatenate((times, until)), np.concatenate((owner, rows))))
    counted = np.empty(len(order), np.int64)
    counted[order] = np.cumsum(~asked[order])
    return counted[len(times) :] - first[rows]
