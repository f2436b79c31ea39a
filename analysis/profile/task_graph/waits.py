"""Waiting times of each task's instances, for data and for a worker, and the figures of the whole runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.names import places, shown

from tprof.trace import layout

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile

SERVICE = ("served_s", "running_s", "suspended_s", "starved_s", "overhead_s")
MEANS = ("wait_data", "wait_worker", "own")


def wait_sums(tasks: pd.DataFrame, own_s: NDArray[np.float64]) -> pd.DataFrame:
    """Return the sums of some instances by task: whether they were stolen and their times, and how many are known."""
    times = {name: tasks[f"{name}_s"] for name in MEANS[:-1]} | {"own": own_s}
    groups = pd.DataFrame({"stolen": tasks["stolen"], **times}).groupby(tasks["task"], observed=False)
    return groups.sum().join(groups.count().add_suffix("_known"))


def waits(profile: Profile) -> pd.DataFrame:
    """Return the waiting times of each task's instances.

    Returns
    -------
    Index `task`, by falling time waited: instances (that ran), wait_data_mean_s (spawn to ready),
    wait_worker_mean_s (ready to start), own_mean_s (running), steals, cancelled (that never ran). Means are over
    instances with known times, NaN without any. Empty for a trace without events.
    """
    has_events = len(profile.events) > 0
    names, number = places([shown(entry.name) for entry in profile.trace.tasks])
    index = pd.Index(np.array(names if has_events else [], object), name="task")
    waited = profile.ran.waited if has_events else None
    if waited is None:
        sums = ("stolen", *MEANS)
        waited = pd.DataFrame(0, index=index, columns=[*sums, *(f"{name}_known" for name in sums)])
    means = {f"{name}_mean_s": waited[name] / waited[f"{name}_known"] for name in MEANS}
    frame = pd.DataFrame({"instances": waited["stolen_known"], **means, "steals": waited["stolen"]}).set_axis(index)
    frame = frame.astype({"instances": np.int64, "steals": np.int64})
    frame["cancelled"] = _cancelled(profile, number, len(index))
    waited_s = frame["instances"] * frame[["wait_data_mean_s", "wait_worker_mean_s"]].fillna(0.0).sum(axis=1)
    kept = frame[(frame["instances"] > 0) | (frame["cancelled"] > 0)]
    return kept.loc[waited_s[kept.index].sort_values(ascending=False, kind="stable").index]


def _cancelled(profile: Profile, number: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Count cancelled instances by task, from their CANCEL event, else from their SPAWN event."""
    cancels, spawns, (begin_ns, end_ns) = profile.events.cancels, profile.events.spawns, profile.trace.reach_ns
    at, lookup = (cancels.t_ns >= begin_ns) & (cancels.t_ns < end_ns), np.append(number, -1)
    of_cancel, of_spawn = (
        lookup[np.minimum(task, len(number))]
        for task in (cancels.task[at], spawns.of(cancels.ids[at], "task", layout.NO_TASK))
    )
    task = np.where(of_cancel < 0, of_spawn, of_cancel)
    return np.bincount(task[task >= 0], minlength=count)


def runtime_facts(profile: Profile) -> dict[str, float | int] | None:
    """Return the figures; None for a trace without a runtime's events.

    Returns
    -------
    those of `CriticalPath.facts`; workers, and over all of them served_s, running_s, suspended_s, starved_s,
    overhead_s as in `starvation`; steals, cancelled
    """
    if not len(profile.events):
        return None
    path, workers, tasks = profile.critical_path(), profile.starvation, profile.waits()
    return {
        **path.facts(),
        "workers": len(workers),
        **{name: float(workers[name].sum()) for name in SERVICE},
        "steals": int(tasks["steals"].sum()),
        "cancelled": int(tasks["cancelled"].sum()),
    }
