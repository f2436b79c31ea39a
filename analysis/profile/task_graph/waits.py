"""Waiting times of each task's instances, for data and for a worker, and the figures of the whole runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import places, shown

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

SERVICE = ("served_s", "running_s", "suspended_s", "starved_s", "overhead_s")
MEANS = ("wait_data", "wait_worker", "own")
Floats = NDArray[np.float64]


@dataclass
class WaitSums:
    """Sums over instances by task, which come in parts.

    Attributes
    ----------
    instances, steals : (tasks,) how many there are, and how many of them were stolen
    seconds, known : of each of `MEANS` the sum, and over how many instances
    """

    instances: Floats = field(default_factory=lambda: np.zeros(0))
    steals: Floats = field(default_factory=lambda: np.zeros(0))
    seconds: dict[str, Floats] = field(default_factory=dict)
    known: dict[str, Floats] = field(default_factory=dict)

    def add(self, tasks: pd.DataFrame, own_s: Floats) -> None:
        """Add the instances of a part of the table; nothing without events."""
        if "stolen" not in tasks:
            return
        count = len(tasks["task"].cat.categories)
        code = tasks["task"].cat.codes.to_numpy().astype(np.int64)
        stolen = tasks["stolen"].to_numpy(bool)
        self.instances = _plus(self.instances, code, None, count)
        self.steals = _plus(self.steals, code[stolen], None, count)
        columns = {name: tasks[f"{name}_s"].to_numpy(float) for name in MEANS[:2]} | {"own": own_s[: len(tasks)]}
        for name, values in columns.items():
            good = ~np.isnan(values)
            nothing = np.zeros(0)
            self.seconds[name] = _plus(self.seconds.get(name, nothing), code[good], values[good], count)
            self.known[name] = _plus(self.known.get(name, nothing), code[good], None, count)

    def mean_s(self, name: str) -> Floats:
        """Return the mean of each task, NaN without any."""
        known = self.known[name]
        return np.where(known > 0, self.seconds[name] / np.maximum(known, 1), np.nan)


def _plus(sums: Floats, code: NDArray[np.int64], values: Floats | None, count: int) -> Floats:
    is_known = code >= 0
    weights = None if values is None else values[is_known]
    more = np.bincount(code[is_known], weights=weights, minlength=count).astype(float)
    return more if not len(sums) else sums + more


def waits(profile: Profile) -> pd.DataFrame:
    """Return the waiting times of each task's instances.

    Returns
    -------
    Index `task`, by falling time waited: instances (that ran), wait_data_mean_s (spawn to ready),
    wait_worker_mean_s (ready to start), own_mean_s (running), steals, cancelled (that never ran). Means are over
    instances with known times, NaN without any. Empty for a trace without events.
    """
    events, sums = profile.events, WaitSums()
    names, number = places([shown(entry.name) for entry in profile.trace.tasks])
    if not len(events):
        names = []
    elif len(profile.ran):
        sums = profile.ran.waited
    nothing = np.zeros(len(names))
    frame = pd.DataFrame(
        {
            "instances": sums.instances if len(sums.instances) else nothing,
            **{f"{name}_mean_s": sums.mean_s(name) if sums.seconds else nothing + np.nan for name in MEANS},
            "steals": sums.steals if len(sums.steals) else nothing,
            "cancelled": _cancelled(profile, number, len(names)),
        },
        index=pd.Index(np.array(names, object), name="task"),
    ).astype({"instances": np.int64, "steals": np.int64})
    waited_s = frame["instances"] * (frame["wait_data_mean_s"].fillna(0.0) + frame["wait_worker_mean_s"].fillna(0.0))
    kept = frame[(frame["instances"] > 0) | (frame["cancelled"] > 0)]
    return kept.loc[waited_s[kept.index].sort_values(ascending=False, kind="stable").index]


def _cancelled(profile: Profile, number: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Count cancelled instances by task, from their CANCEL event, else from their SPAWN event."""
    events, (begin_ns, end_ns) = profile.events, profile.trace.reach_ns
    cancels, lookup = events.cancels, np.append(number, -1)
    at = np.flatnonzero((cancels.t_ns >= begin_ns) & (cancels.t_ns < end_ns))
    _, first = np.unique(cancels.instance[at], return_index=True)
    at = at[np.sort(first)]
    task = lookup[np.minimum(cancels.task[at], len(number))]
    row = events.rows(cancels.instance[at])
    unnamed = (task < 0) & (row >= 0)
    task[unnamed] = lookup[np.minimum(events.task[row[unnamed]], len(number))]
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
