"""The instances of one host as its own trace has them, and those of several hosts on one clock.

What an instance needed may have been made on another host, and workers may have been idle on all of them, so this is
what every host contributes before the graph is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace import EventKind

from .keyed import Clocks, Needs, joined_needs, needs_of
from .lifecycle import Places, first_events
from .runs import Runs, joined_runs, read_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.profile import Profile

    from tprof.trace import Graph, Trace

    from .lifecycle import Rows

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
UNKNOWN = np.iinfo(np.int64).min
NOT_NAMED = -2
"""No event names the instance whose end made another one ready."""
TABLE = ["task", "instance", "start_s", "energy_j"]


@dataclass(frozen=True)
class Instances:
    """One entry per instance, in the order of the table of tasks; times in ns from the begin of the recorded block.

    Attributes
    ----------
    table : task, instance, start_s, energy_j, and of several hosts host
    own_ns : time in which its thread ran it
    spawn_ns, ready_ns : when it was spawned and when it could run, by events; `UNKNOWN` without
    releaser : row of the instance whose end made it ready, by events; -1: none; `NOT_NAMED`
    parent : row of the instance that spawned it, -1: none
    waits, waits_for : (edges,) rows of instances and of their dependences, by events, each pair once
    needs : dependences by keys
    runs : when threads ran them
    clocks : None: all are of one host
    """

    table: pd.DataFrame = field(repr=False)
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

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.start_ns)


def read_instances(profile: Profile) -> Instances:
    """Combine a profile with its trace's events and keys; reads the trace's samples again."""
    tasks, trace = profile.tasks, profile.trace
    places = Places.of(tasks["instance"].to_numpy())
    start_ns = _ns(tasks["start_s"].to_numpy())
    end_ns = start_ns + _ns(tasks["duration_s"].to_numpy())
    waits, waits_for = _edges(trace.graph, places)
    return Instances(
        table=tasks[TABLE],
        start_ns=start_ns,
        end_ns=end_ns,
        own_ns=np.minimum(_ns(profile.own_s), end_ns - start_ns),
        spawn_ns=_in_window(trace, _ns_or_unknown(tasks, "spawn_s")),
        ready_ns=_in_window(trace, _ns_or_unknown(tasks, "ready_s")),
        releaser=_releasers(trace.graph, places),
        parent=places.rows(tasks["parent"].to_numpy()),
        waits=waits,
        waits_for=waits_for,
        needs=needs_of(trace.keys, tasks),
        runs=read_runs(profile.recipe.read(trace).segments, places, trace.start_ns),
    )


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
    tables = [
        one.table.assign(host=host, start_s=one.table["start_s"] + late * 1e-9, task=one.table["task"].astype(object))
        for host, (one, late, _) in zip(hosts, every, strict=True)
    ]
    numbers = {host: place for place, host in enumerate(hosts)}
    number = np.repeat([numbers[host] for host in hosts], [len(one) for one in parts])

    def times(name: str) -> Times:
        return np.concatenate([_later(getattr(one, name), late) for one, late, _ in every])

    def rows(name: str) -> Rows:
        return np.concatenate([_behind(getattr(one, name), offset) for one, _, offset in every])

    return Instances(
        table=pd.concat(tables, ignore_index=True),
        start_ns=times("start_ns"),
        end_ns=times("end_ns"),
        own_ns=np.concatenate([one.own_ns for one in parts]),
        spawn_ns=times("spawn_ns"),
        ready_ns=times("ready_ns"),
        releaser=rows("releaser"),
        parent=rows("parent"),
        waits=rows("waits"),
        waits_for=rows("waits_for"),
        needs=joined_needs([one.needs for one in parts], offsets),
        runs=joined_runs([one.runs for one in parts], late_ns, offsets),
        clocks=Clocks(number, np.array(error_ns, np.int64)),
    )


def _later(times_ns: Times, late_ns: int) -> Times:
    return np.where(times_ns == UNKNOWN, UNKNOWN, times_ns + late_ns)


def _behind(rows: Rows, offset: int) -> Rows:
    return np.where(rows < 0, rows, rows + offset)


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


def _edges(graph: Graph, places: Places) -> tuple[Rows, Rows]:
    """Return distinct pairs of an instance and its dependence."""
    at = np.flatnonzero((graph.kind == EventKind.DEPENDENCE) | (graph.kind == EventKind.READY))
    waits, waits_for = places.rows(graph.instance[at]), places.rows(graph.other[at])
    known = (waits >= 0) & (waits_for >= 0)
    pairs: NDArray[Any] = np.unique(waits[known] * len(places.ids) + waits_for[known])
    return pairs // max(len(places.ids), 1), pairs % max(len(places.ids), 1)


def _releasers(graph: Graph, places: Places) -> Rows:
    """Return the instance that READY names; `NOT_NAMED` without such an event, or if that instance never ran."""
    ready, _ = first_events(graph, EventKind.READY, places)
    if not (ready >= 0).any():
        return np.full(len(ready), NOT_NAMED)
    other = graph.other[np.maximum(ready, 0)]
    named = places.rows(other)
    return np.where((ready >= 0) & ((named >= 0) | (other == 0)), named, NOT_NAMED)
