"""The instances of one host as its own trace has them, and those of several hosts on one clock.

What an instance needed may have been made on another host, and workers may have been idle on all of them, so this is
what every host contributes before the graph is built. It takes 77 bytes an instance, 44 a run and 8 a dependence, in
temporary files where there are many, and is read from the instances of a profile as they come: all at once, or
window by window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace import EventKind
from tprof.trace.long_arrays import AppendedColumns, computed, empty, filled, joined, release
from tprof.trace.long_sorts import first_rows, order_of, rows_of, sorted_arrays

from .keyed import Clocks, Needs, joined_needs, needs_of
from .runs import behind, joined_runs, read_thread_runs, runs_of
from .runtime_events import UNKNOWN
from .waits import wait_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.stored_instances import Piece

    from tprof.trace import Trace

    from .runs import Rows, Runs, ThreadRuns
    from .runtime_events import Ids, RuntimeEvents

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
NOT_NAMED = -2
"""No event names the instance whose end made another one ready."""


@dataclass(frozen=True)
class Instances:
    """One entry per instance, of one host by id; times in ns from the begin of the recorded block.

    Attributes
    ----------
    names : of the tasks
    task : index of each one's name, -1: none
    instance : ids
    energy_j : exclusive of nested tasks; NaN if not resolved
    own_ns : time in which its thread ran it
    spawn_ns, ready_ns : when it was spawned and when it could run, by events; `UNKNOWN` without
    releaser : row of the instance whose end made it ready, by events; -1: none; `NOT_NAMED`
    parent : row of the instance that spawned it, -1: none
    waits, waits_for : (edges,) rows of instances and of their dependences, by events, each pair once
    needs : dependences by keys
    runs : when threads ran them
    clocks, hosts : of several hosts also their names by their numbers; None, (): all are of one host
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
    releaser: Rows
    parent: Rows
    waits: Rows
    waits_for: Rows
    needs: Needs
    runs: Runs
    clocks: Clocks | None = None
    hosts: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.start_ns)

    def release(self) -> None:
        """Leave the pages of long arrays to the kernel."""
        release(
            self.task, self.instance, self.energy_j, self.start_ns, self.end_ns, self.own_ns, self.spawn_ns,
            self.ready_ns, self.releaser, self.parent, self.waits, self.waits_for,
        )  # fmt: skip

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


@dataclass(frozen=True)
class Ran:
    """What ran in a recording of one host: its instances by id, (n,) each, and the runs of its threads.

    Attributes
    ----------
    names : of the tasks
    task : index of each one's name, -1: none
    instance : ids, increasing
    start_ns, end_ns, own_ns, spawn_ns, ready_ns : as of `Instances`
    energy_j : NaN where not resolved
    parent : id of the instance that spawned it, or in which it nests; 0: none
    failed : whether it ended by an exception
    runs : of the threads
    waited : sums of waiting times by task; None without events
    """

    names: pd.Index[Any]
    task: NDArray[np.int32]
    instance: Ids
    start_ns: Times
    end_ns: Times
    own_ns: Times
    spawn_ns: Times
    ready_ns: Times
    energy_j: Floats
    parent: Ids
    failed: NDArray[np.bool_]
    runs: ThreadRuns
    waited: pd.DataFrame | None

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.instance)

    def rows(self, sought: Ids) -> NDArray[np.int64]:
        """Return the row of each id, -1 if it is 0 or not there."""
        return rows_of(self.instance, sought)


def read_ran(profile: Profile) -> Ran:
    """Read what ran, from a profile's instances and the trace's samples."""
    columns = _Columns(profile.trace, profile.sums.rows)
    profile.instances.share(columns.add)
    found = columns.by_id()
    ids = found["instance"]
    runs = read_thread_runs(profile.host_instances.segments(), lambda some: rows_of(ids, some), profile.trace.start_ns)
    return Ran(columns.names, **found, runs=runs, waited=columns.waited)


class _Columns:
    """The columns of the instances, of which so many come in parts."""

    def __init__(self, trace: Trace, count: int) -> None:
        self.names: pd.Index[Any] = pd.Index([], dtype=object)
        self.waited: pd.DataFrame | None = None
        self._trace = trace
        times = dict.fromkeys(("start_ns", "end_ns", "own_ns", "spawn_ns", "ready_ns"), np.int64)
        kinds = {"task": np.int32, "instance": np.uint64, **times, "energy_j": np.float64, "parent": np.uint64}
        self._columns = {name: empty(count, kind) for name, kind in {**kinds, "failed": np.bool_}.items()}
        self._done = 0

    def add(self, piece: Piece) -> None:
        tasks = piece.tasks
        self.names = tasks["task"].cat.categories
        if "stolen" in tasks:
            more = wait_sums(tasks, piece.own_s)
            self.waited = more if self.waited is None else self.waited + more
        at = slice(self._done, self._done + len(tasks))
        start_ns = _ns(tasks["start_s"].to_numpy())
        end_ns = start_ns + _ns(tasks["duration_s"].to_numpy())
        found = {
            "task": tasks["task"].cat.codes.to_numpy(),
            "instance": tasks["instance"].to_numpy(),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "own_ns": np.minimum(_ns(piece.own_s[: len(tasks)]), end_ns - start_ns),
            "spawn_ns": _in_window(self._trace, _ns_or_unknown(tasks, "spawn_s")),
            "ready_ns": _in_window(self._trace, _ns_or_unknown(tasks, "ready_s")),
            "energy_j": tasks["energy_j"].to_numpy(),
            "parent": tasks["parent"].to_numpy(),
            "failed": tasks["failed"].to_numpy(),
        }
        for name, values in found.items():
            self._columns[name][at] = values
        release(*self._columns.values())
        self._done = at.stop

    def by_id(self) -> dict[str, Any]:
        """Return the columns in order of ids."""
        ids, order = order_of(self._columns["instance"][: self._done])
        for name, values in self._columns.items():
            self._columns[name] = ids if name == "instance" else _in_order(values, order)
        return self._columns


def _in_order(values: NDArray[Any], order: Rows) -> NDArray[Any]:
    return computed(len(order), values.dtype, lambda at: values[order[at]], values, order)


def read_instances(profile: Profile) -> Instances:
    """Combine what ran with the trace's events and keys."""
    ran, events = profile.ran, profile.events
    count = len(ran)
    waits, waits_for = _edges(events, ran)
    return Instances(
        names=ran.names,
        task=ran.task,
        instance=ran.instance,
        energy_j=ran.energy_j,
        start_ns=ran.start_ns,
        end_ns=ran.end_ns,
        own_ns=ran.own_ns,
        spawn_ns=ran.spawn_ns,
        ready_ns=ran.ready_ns,
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
    every = list(zip(parts, late_ns, offsets, strict=True))
    names = pd.Index(list(dict.fromkeys(name for one in parts for name in one.names)), dtype=object)
    numbers = {host: place for place, host in enumerate(hosts)}

    def columns(kind: type[Any], of: Callable[[Instances], NDArray[Any]]) -> NDArray[Any]:
        return joined(kind, (of(one) for one in parts))

    def times(name: str) -> Times:
        return joined(np.int64, (_later(getattr(one, name), late) for one, late, _ in every))

    def rows(name: str) -> Rows:
        return joined(np.int32, (behind(getattr(one, name), offset) for one, _, offset in every))

    return Instances(
        names=names,
        task=columns(np.int32, lambda one: _renamed(one, names)),
        instance=columns(np.uint64, lambda one: one.instance),
        energy_j=columns(np.float64, lambda one: one.energy_j),
        start_ns=times("start_ns"),
        end_ns=times("end_ns"),
        own_ns=columns(np.int64, lambda one: one.own_ns),
        spawn_ns=times("spawn_ns"),
        ready_ns=times("ready_ns"),
        releaser=rows("releaser"),
        parent=rows("parent"),
        waits=rows("waits"),
        waits_for=rows("waits_for"),
        needs=joined_needs([one.needs for one in parts], offsets),
        runs=joined_runs([one.runs for one in parts], late_ns, offsets),
        clocks=Clocks(
            joined(
                np.int32, (filled(len(one), np.int32, numbers[host]) for host, one in zip(hosts, parts, strict=True))
            ),
            np.array(error_ns, np.int64),
        ),
        hosts=tuple(hosts),
    )


def _renamed(one: Instances, names: pd.Index[Any]) -> Rows:
    """Return each one's place among other names."""
    place = np.append(names.get_indexer(one.names), -1).astype(np.int32)
    return computed(len(one), np.int32, lambda at: place[one.task[at]], one.task)


def _later(times_ns: Times, late_ns: int) -> Times:
    def found(at: slice) -> Times:
        return np.where(times_ns[at] == UNKNOWN, UNKNOWN, times_ns[at] + late_ns)

    return computed(len(times_ns), np.int64, found, times_ns)


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
