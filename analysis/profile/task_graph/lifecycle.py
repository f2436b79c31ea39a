"""The lifecycle of instances from events: parent, time of release, dependences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace import EventKind

if TYPE_CHECKING:
    from tprof.trace import Graph, Trace

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Finds the rows of instances in a table with unique ids."""

    order: NDArray[np.intp]
    ids: NDArray[np.uint64]

    @classmethod
    def of(cls, instance: NDArray[np.uint64]) -> Places:
        """Sort the ids of a table."""
        order = np.argsort(instance, kind="stable")
        return cls(order, instance[order])

    def rows(self, sought: NDArray[np.uint64]) -> Rows:
        """Return the row of each id, -1 if it is 0 or not in the table."""
        if not len(self.ids):
            return np.full(len(sought), -1)
        at = np.minimum(np.searchsorted(self.ids, sought), len(self.ids) - 1)
        return np.where((self.ids[at] == sought) & (sought != 0), self.order[at], -1)


def first_events(graph: Graph, kind: EventKind, places: Places) -> tuple[Rows, Rows]:
    """Return for each row of a table the place of its first event of a kind, -1 without any.

    Returns
    -------
    event : (rows,) int64
    at : (events of the kind,) int64, all places with that kind
    """
    at = np.flatnonzero(graph.kind == kind)
    rows = places.rows(graph.instance[at])
    known = rows >= 0
    event = np.full(len(places.ids), -1)
    # If a row repeats, the last assignment wins: the earliest event.
    event[rows[known][::-1]] = at[known][::-1]
    return event, at


def lifecycle_columns(trace: Trace, tasks: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that events add to the table of instances, with `parent` from the events.

    Times are adjusted to spawned <= ready <= started, which clocks of several processors may violate. In a window it is
    not known when instances started that ran when it began, nor so how long they had waited for a worker.
    """
    graph = trace.graph
    places = Places.of(tasks["instance"].to_numpy())
    spawn, _ = first_events(graph, EventKind.SPAWN, places)
    ready, _ = first_events(graph, EventKind.READY, places)
    steal, _ = first_events(graph, EventKind.STEAL, places)
    start_s = tasks["start_s"].to_numpy()
    spawn_s = np.minimum(_seconds(trace, spawn), start_s)
    ready_s = np.minimum(np.fmax(_seconds(trace, ready), spawn_s), start_s)
    ready_s[ready < 0] = np.nan
    return {
        "parent": np.where(spawn >= 0, _at(graph.other, spawn), tasks["parent"].to_numpy()),
        "spawn_s": spawn_s,
        "ready_s": ready_s,
        "wait_data_s": ready_s - spawn_s,
        "wait_worker_s": np.where(ran_before(trace, start_s), np.nan, start_s - ready_s),
        "stolen": steal >= 0,
    }


def ran_before(trace: Trace, start_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which instances ran when a window began; none in a whole recording."""
    return (start_s <= 0) & (trace.recorded is not None and trace.start_ns > trace.recorded.start_ns)


def _at(values: NDArray[Any], event: Rows) -> NDArray[Any]:
    """Return a value per event; for -1 that of the first."""
    return values[np.maximum(event, 0)]


def _seconds(trace: Trace, event: Rows) -> NDArray[np.float64]:
    return np.where(event >= 0, (_at(trace.graph.t_ns, event) - trace.start_ns) * 1e-9, np.nan)


def spawn_dependences(graph: Graph) -> pd.DataFrame:
    """Return one row for each dependence between instances that events name: `instance`, `waits_for`."""
    at = np.flatnonzero((graph.kind == EventKind.DEPENDENCE) & (graph.instance != 0) & (graph.other != 0))
    pairs = pd.DataFrame({"instance": graph.instance[at], "waits_for": graph.other[at]})
    return pairs.drop_duplicates(ignore_index=True)
