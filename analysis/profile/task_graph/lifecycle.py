"""The lifecycle of instances from events: parent, time of release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .runtime_events import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

    from tprof.trace import Trace

    from .runtime_events import RuntimeEvents

Floats = NDArray[np.float64]


def lifecycle_columns(events: RuntimeEvents, trace: Trace, tasks: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that events add to some rows of the table of instances, with `parent` from the events.

    Times are adjusted to spawned <= ready <= started, which clocks of several processors may violate. In a window it is
    not known when instances started that ran when it began, nor so how long they had waited for a worker.
    """
    ids = tasks["instance"].to_numpy(np.uint64)
    spawn_ns, ready_ns, steal_ns = (
        one.of(ids, "t_ns", UNKNOWN) for one in (events.spawns, events.releases, events.steals)
    )
    start_s = tasks["start_s"].to_numpy()
    spawn_s = np.minimum(_seconds(trace, spawn_ns), start_s)
    ready_s = np.minimum(np.fmax(_seconds(trace, ready_ns), spawn_s), start_s)
    ready_s[ready_ns == UNKNOWN] = np.nan
    spawner = events.spawns.of(ids, "other", 0)
    return {
        "parent": np.where(spawn_ns != UNKNOWN, spawner, tasks["parent"].to_numpy(np.uint64)),
        "spawn_s": spawn_s,
        "ready_s": ready_s,
        "wait_data_s": ready_s - spawn_s,
        "wait_worker_s": np.where(ran_before(trace, start_s), np.nan, start_s - ready_s),
        "stolen": steal_ns != UNKNOWN,
    }


def ran_before(trace: Trace, start_s: Floats) -> NDArray[np.bool_]:
    """Return which instances ran when a window began; none in a whole recording."""
    return (start_s <= 0) & (trace.recorded is not None and trace.start_ns > trace.recorded.start_ns)


def _seconds(trace: Trace, t_ns: NDArray[np.int64]) -> Floats:
    return np.where(t_ns != UNKNOWN, (t_ns - trace.start_ns) * 1e-9, np.nan)
