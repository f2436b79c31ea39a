"""The instances of one host as its own trace has them, and those of several hosts on one clock.

What an instance needed may have been made on another host, and workers may have been idle on all of them, so this is
what every host contributes before the graph is built. It takes 77 bytes an instance, 44 a run and 8 a dependence, in
temporary files where there are many, and is read from the instances of a profile as they come: all at once, or
window by window.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace import EventKind
from tprof.trace.long_arrays import AppendedColumns, computed, filled, joined
from tprof.trace.long_sorts import first_rows, rows_of, sorted_arrays

from .keyed import Clocks, Needs, joined_needs, needs_of
from .runs import joined_columns, joined_runs, read_thread_runs, runs_of
from .runtime_events import UNKNOWN
from .waits import wait_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.stored_instances import Piece

    from tprof.trace import Trace

    from .runs import Rows, Runs, ThreadRuns
    from .runtime_events import Ids, RuntimeEvents

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
TIMES = ("start_ns", "end_ns", "spawn_ns", "ready_ns")
NOT_NAMED = -2
"""No event names the instance whose end made another one ready."""


@dataclass(frozen=True)
class Timed:
    """Instances and their times, (n,) each; times in ns from the begin of the recorded block.

    Attributes
    ----------
    names : of the tasks
    task : index of each one's name, -1: none
    instance : ids, of one host increasing
    energy_j : exclusive of nested tasks; NaN if not resolved
    own_ns : time in which its thread ran it
    spawn_ns, ready_ns : when it was spawned and when it could run, by events; `UNKNOWN` without
    """

    names: pd.Index[Any]
    task: Rows
    instance: Ids
    energy_j: Floats
    start_ns: Times
    end_ns: Times
    own_ns: Times
    spawn_ns: Times
    ready_ns: Times

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.instance)


@dataclass(frozen=True)
class Ran(Timed):
    """What ran in a recording of one host.

    Attributes
    ----------
    parent : id of the instance that spawned it, or in which it nests; 0: none
    failed : whether it ended by an exception
    runs : of the threads
    waited : sums of waiting times by task; None without events
    """

    parent: Ids
    failed: NDArray[np.bool_]
    runs: ThreadRuns
    waited: pd.DataFrame | None

    def rows(self, sought: Ids) -> NDArray[np.int64]:
        """Return the row of each id, -1 if it is 0 or not there."""
        return rows_of(self.instance, sought)


@dataclass(frozen=True)
class Instances(Timed):
    """What instances of one host or of several waited for.

    Attributes
    ----------
    releaser : row of the instance whose end made it ready, by events; -1: none; `NOT_NAMED`
    parent : row of the instance that spawned it, -1: none
    waits, waits_for : (edges,) rows of instances and of their dependences, by events, each pair once
    needs : dependences by keys
    runs : when threads ran them
    clocks, hosts : of several hosts also their names by their numbers; None, (): all are of one host
    """

    releaser: Rows
    parent: Rows
    waits: Rows
    waits_for: Rows
    needs: Needs
    runs: Runs
    clocks: Clocks | None = None
    hosts: tuple[str, ...] = ()

    def named(self, rows: Rows) -> Named:
        """Return which task, instance and host some rows are of, -1: none."""
        numbers = None if self.clocks is None else self.clocks.host

        def found(values: NDArray[Any], absent: int) -> NDArray[Any]:
            def some(at: slice) -> NDArray[Any]:
                return np.where(rows[at] < 0, values.dtype.type(absent), values[np.maximum(rows[at], 0)])

            return computed(len(rows), values.dtype, some, rows, values)

        host = None if numbers is None else found(numbers, -1)
        return Named(self.names, found(self.task, -1), found(self.instance, 0), self.hosts, host)


@dataclass(frozen=True)
class Named:
    """What rows are of: indices of names of tasks and of hosts, -1: none, None: of a host's own; and ids, 0: none."""

    names: pd.Index[Any]
    task: Rows
    instance: Ids
    hosts: tuple[str, ...]
    host: Rows | None

    def part(self, at: slice) -> Named:
        """Return what some of the rows are of."""
        host = None if self.host is None else self.host[at]
        return Named(self.names, self.task[at], self.instance[at], self.hosts, host)

    def tasks(self) -> pd.Categorical:
        """Return the names of the tasks."""
        return pd.Categorical.from_codes(self.task, categories=self.names)

    def host_names(self) -> NDArray[np.object_] | None:
        """Return the names of the hosts, NaN without one; None: of a host's own instances."""
        if self.host is None:
            return None
        names = np.array([*self.hosts, np.nan], object)
        return names[self.host]


def read_ran(profile: Profile) -> Ran:
    """Read what ran, from a profile's instances and the trace's samples."""
    kinds: dict[str, Any] = {
        "instance": np.uint64,
        "task": np.int32,
        **dict.fromkeys(TIMES, np.int64),
        "own_ns": np.int64,
    }
    kinds |= {"energy_j": np.float64, "parent": np.uint64, "failed": np.bool_}
    found, sums = AppendedColumns(*kinds.values()), []

    def take(piece: Piece) -> None:
        columns = _columns(profile.trace, piece)
        found.add(*(columns[name] for name in kinds))
        if "stolen" in piece.tasks:
            sums.append(wait_sums(piece.tasks, piece.own_s))

    profile.instances.share(take)
    ran = dict(zip(kinds, sorted_arrays(found.finish()), strict=True))
    rows = partial(rows_of, ran["instance"])
    runs = read_thread_runs(profile.host_instances.segments(), rows, profile.trace.start_ns)
    names = pd.Index(profile.sums.names, dtype=object)
    return Ran(names, **ran, runs=runs, waited=reduce(add, sums) if sums else None)


def _columns(trace: Trace, piece: Piece) -> dict[str, NDArray[Any]]:
    tasks = piece.tasks
    start_ns = _ns(tasks["start_s"].to_numpy())
    end_ns = start_ns + _ns(tasks["duration_s"].to_numpy())
    return {
        **{name: tasks[name].to_numpy() for name in ("instance", "energy_j", "parent", "failed")},
        "task": tasks["task"].cat.codes.to_numpy(),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "own_ns": np.minimum(_ns(piece.own_s), end_ns - start_ns),
        "spawn_ns": _in_window(trace, _ns_or_unknown(tasks, "spawn_s")),
        "ready_ns": _in_window(trace, _ns_or_unknown(tasks, "ready_s")),
    }


def read_instances(profile: Profile) -> Instances:
    """Combine what ran with the trace's events and keys."""
    ran, events = profile.ran, profile.events
    count = len(ran)
    waits, waits_for = _edges(events, ran)
    return Instances(
        **{one.name: getattr(ran, one.name) for one in fields(Timed)},
        releaser=computed(count, np.int32, lambda at: _releasers(events, ran, at), ran.instance),
        parent=computed(count, np.int32, lambda at: ran.rows(ran.parent[at]), ran.instance, ran.parent),
        waits=waits,
        waits_for=waits_for,
        needs=needs_of(profile.keys, ran),
        runs=runs_of(ran.runs, count),
    )


def _edges(events: RuntimeEvents, ran: Ran) -> tuple[Rows, ...]:
    """Return distinct pairs of an instance and its dependence."""
    found = AppendedColumns(np.int32, np.int32)
    for _, part in events.parts():
        named = part[np.isin(part["kind"], (EventKind.DEPENDENCE, EventKind.READY))]
        waits, waits_for = ran.rows(named["instance"]), ran.rows(named["other"])
        known = (waits >= 0) & (waits_for >= 0)
        found.add(waits[known], waits_for[known])
    return first_rows(sorted_arrays(found.finish(), keys=2), keys=2)


def _releasers(events: RuntimeEvents, ran: Ran, at: slice) -> NDArray[np.int64]:
    """Return the instance that READY names; `NOT_NAMED` without such an event, or if that instance never ran."""
    ids, ready = ran.instance[at], events.releases
    other, is_known = ready.of(ids, "other", 0), ready.of(ids, "t_ns", UNKNOWN) != UNKNOWN
    named = ran.rows(other)
    return np.where(is_known & ((named >= 0) | (other == 0)), named, NOT_NAMED)


def on_one_clock(
    hosts: Sequence[str], parts: Sequence[Instances], late_ns: Sequence[int], error_ns: Sequence[int]
) -> Instances:
    """Join the instances of several hosts.

    Parameters
    ----------
    hosts : their names; several recordings of one host have one
    parts : the instances of each
    late_ns : when the recorded block of each began, from the earliest begin
    error_ns : the most by which the clock of each may be off
    """
    offsets = np.cumsum([0, *(len(one) for one in parts)])[:-1].tolist()
    names = pd.Index(list(dict.fromkeys(name for one in parts for name in one.names)), dtype=object)
    numbers = {host: place for place, host in enumerate(hosts)}
    host = (filled(len(one), np.int32, numbers[name]) for name, one in zip(hosts, parts, strict=True))
    return Instances(
        names=names,
        task=joined(np.int32, (_renamed(one, names) for one in parts)),
        **joined_columns(parts, ("instance", "energy_j", "own_ns")),
        **joined_columns(parts, TIMES, late_ns, UNKNOWN),
        **joined_columns(parts, ("releaser", "parent", "waits", "waits_for"), offsets),
        needs=joined_needs([one.needs for one in parts], offsets),
        runs=joined_runs([one.runs for one in parts], late_ns, offsets),
        clocks=Clocks(joined(np.int32, host), np.array(error_ns, np.int64)),
        hosts=tuple(hosts),
    )


def _renamed(one: Instances, names: pd.Index[Any]) -> Rows:
    """Return each one's place among other names."""
    place = np.append(names.get_indexer(one.names), -1).astype(np.int32)
    return computed(len(one), np.int32, lambda at: place[one.task[at]], one.task)


def _ns(seconds: Floats) -> Times:
    """Return whole nanoseconds; exact below a hundred days, where a float's step is less than half a nanosecond."""
    return np.rint(seconds * 1e9).astype(np.int64)


def _ns_or_unknown(tasks: pd.DataFrame, name: str) -> Times:
    if name not in tasks:
        return np.full(len(tasks), UNKNOWN)
    seconds = tasks[name].to_numpy()
    known = ~np.isnan(seconds)
    return np.where(known, _ns(np.where(known, seconds, 0.0)), UNKNOWN)


def _in_window(trace: Trace, t_ns: Times) -> Times:
    """Raise known times before a window to its begin: chains are followed in the window only."""
    return t_ns if trace.recorded is None else np.where(t_ns == UNKNOWN, UNKNOWN, np.maximum(t_ns, 0))
