"""The lifecycle of instances from events: parent, time of release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .runtime_events import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

    from tprof.trace import Trace

    from .runtime_events import RuntimeEvents

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


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


def lifecycle_columns(events: RuntimeEvents, trace: Trace, tasks: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that events add to some rows of the table of instances, with `parent` from the events.

    Times are adjusted to spawned <= ready <= started, which clocks of several processors may violate. In a window it is
    not known when instances started that ran when it began, nor so how long they had waited for a worker.
    """
    row = events.rows(tasks["instance"].to_numpy(np.uint64))
    spawn_ns, ready_ns = (_of_rows(times, row, UNKNOWN) for times in (events.spawn_ns, events.ready_ns))
    start_s = tasks["start_s"].to_numpy()
    spawn_s = np.minimum(_seconds(trace, spawn_ns), start_s)
    ready_s = np.minimum(np.fmax(_seconds(trace, ready_ns), spawn_s), start_s)
    ready_s[ready_ns == UNKNOWN] = np.nan
    spawner = _of_rows(events.spawner, row, 0)
    columns = {
        "parent": np.where(spawn_ns != UNKNOWN, spawner, tasks["parent"].to_numpy(np.uint64)),
        "spawn_s": spawn_s,
        "ready_s": ready_s,
        "wait_data_s": ready_s - spawn_s,
        "wait_worker_s": np.where(ran_before(trace, start_s), np.nan, start_s - ready_s),
        "stolen": _of_rows(events.stolen, row, 0),
    }
    events.release()
    return columns


def ran_before(trace: Trace, start_s: Floats) -> NDArray[np.bool_]:
    """Return which instances ran when a window began; none in a whole recording."""
    return (start_s <= 0) & (trace.recorded is not None and trace.start_ns > trace.recorded.start_ns)


def _of_rows(values: NDArray[Any], row: Rows, absent: int) -> NDArray[Any]:
    """Return the values of rows, and another one for -1."""
    found = np.full(len(row), absent, values.dtype)
    known = row >= 0
    found[known] = values[row[known]]
    return found


def _seconds(trace: Trace, t_ns: NDArray[np.int64]) -> Floats:
    return np.where(t_ns != UNKNOWN, (t_ns - trace.start_ns) * 1e-9, np.nan)
