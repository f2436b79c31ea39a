"""Waiting times of each task's instances, for data and for a worker, and the figures of the whole runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.names import places, shown

from tprof.trace import EventKind

from .path_tables import path_facts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile

SERVICE = ("served_s", "running_s", "suspended_s", "starved_s", "overhead_s")


def waits(profile: Profile) -> pd.DataFrame:
    """Return the waiting times of each task's instances.

    Returns
    -------
    Index `task`, by falling time waited: instances (that ran), wait_data_mean_s (spawn to ready),
    wait_worker_mean_s (ready to start), own_mean_s (running), steals, cancelled (that never ran). Means are over
    instances with known times, NaN without any. Empty for a trace without events.
    """
    tasks, graph = profile.tasks, profile.trace.graph
    names, number = places([shown(entry.name) for entry in profile.trace.tasks])
    if not len(graph):
        tasks, names = tasks.iloc[:0].assign(stolen=False, wait_data_s=0.0, wait_worker_s=0.0), []
    code = tasks["task"].cat.codes.to_numpy().astype(np.int64)
    known = code >= 0
    frame = pd.DataFrame(
        {
            "instances": np.bincount(code[known], minlength=len(names)),
            "wait_data_mean_s": _mean(code, tasks["wait_data_s"].to_numpy(float), len(names)),
            "wait_worker_mean_s": _mean(code, tasks["wait_worker_s"].to_numpy(float), len(names)),
            "own_mean_s": _mean(code, profile.own_s[: len(tasks)], len(names)),
            "steals": np.bincount(code[known & tasks["stolen"].to_numpy(bool)], minlength=len(names)),
            "cancelled": _cancelled(profile, number, len(names)),
        },
        index=pd.Index(np.array(names, object), name="task"),
    )
    waited_s = frame["instances"] * (frame["wait_data_mean_s"].fillna(0.0) + frame["wait_worker_mean_s"].fillna(0.0))
    kept = frame[(frame["instances"] > 0) | (frame["cancelled"] > 0)]
    return kept.loc[waited_s[kept.index].sort_values(ascending=False, kind="stable").index]


def _mean(code: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    good = (code >= 0) & ~np.isnan(values)
    instances = np.bincount(code[good], minlength=count)
    total = np.bincount(code[good], weights=values[good], minlength=count)
    return np.where(instances > 0, total / np.maximum(instances, 1), np.nan)


def _cancelled(profile: Profile, number: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Count cancelled instances by task, from their CANCEL event, else from their SPAWN event."""
    graph, (begin_ns, end_ns) = profile.trace.graph, profile.trace.reach_ns
    lookup = np.append(number, -1)
    named = lookup[np.minimum(graph.task, len(number))]
    cancelled = np.flatnonzero((graph.kind == EventKind.CANCEL) & (graph.t_ns >= begin_ns) & (graph.t_ns < end_ns))
    ended = pd.DataFrame({"instance": graph.instance[cancelled], "task": named[cancelled]})
    spawned = np.flatnonzero((graph.kind == EventKind.SPAWN) & (named >= 0))
    by_spawn = pd.Series(named[spawned], index=graph.instance[spawned])
    by_spawn = by_spawn[~by_spawn.index.duplicated()]
    ended["task"] = ended["task"].where(ended["task"] >= 0, ended["instance"].map(by_spawn).fillna(-1))
    once = ended.drop_duplicates("instance")["task"].to_numpy(np.int64)
    return np.bincount(once[once >= 0], minlength=count)


def runtime_facts(profile: Profile) -> dict[str, float | int] | None:
    """Return the figures; None for a trace without a runtime's events.

    Returns
    -------
    those of `path_facts`; workers, and over all of them served_s, running_s, suspended_s, starved_s, overhead_s as in
    `starvation`; steals, cancelled
    """
    if not len(profile.trace.graph):
        return None
    path, workers, tasks = profile.critical_path(), profile.starvation, profile.waits()
    return {
        **path_facts(path),
        "workers": len(workers),
        **{name: float(workers[name].sum()) for name in SERVICE},
        "steals": int(tasks["steals"].sum()),
        "cancelled": int(tasks["cancelled"].sum()),
    }
