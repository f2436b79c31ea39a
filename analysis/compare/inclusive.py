"""Joules of instances with all tasks that they contain, as tests and benchmarks are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.profile.intervals import narrowed

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile


def inclusive(profile: Profile, names: Collection[str], *, besides: bool = False) -> pd.DataFrame:
    """Return the instances of some tasks, with what the tasks inside them took.

    Parameters
    ----------
    profile : of one host
    names : of the tasks; one inside another counts for the outermost
    besides : whether tasks of other threads of the process that begin meanwhile count too; only for tasks of which a
        process runs one after the other

    Returns
    -------
    DataFrame
        Index `task`, in order of their start: start_s, duration_s, cpu_s (with that of native threads), energy_j,
        static_j, energy_low_j and energy_high_j (95 %), sure_low_j and sure_high_j (the same, an error of watts that
        all instances share left out).
    """
    tasks = profile.tasks
    outer = outermost(tasks, names)
    if besides:
        outer = _with_besides(tasks, outer)
    low_j, high_j = (tasks[name].to_numpy(float) for name in ("energy_low_j", "energy_high_j"))
    if not profile.watts.is_none:
        sure_low_j, sure_high_j = narrowed(low_j, high_j, tasks["static_j"].to_numpy(float), profile.watts)
    else:
        sure_low_j, sure_high_j = low_j, high_j
    cpu_s = tasks["cpu_s"].to_numpy(float)
    if "native_cpu_s" in tasks:
        cpu_s = cpu_s + tasks["native_cpu_s"].to_numpy(float)
    known = outer >= 0
    parts = pd.DataFrame(
        {
            "cpu_s": cpu_s[known],
            "energy_j": tasks["energy_j"].to_numpy(float)[known],
            "static_j": tasks["static_j"].to_numpy(float)[known],
            "energy_low_j": low_j[known],
            "energy_high_j": high_j[known],
            "sure_low_j": sure_low_j[known],
            "sure_high_j": sure_high_j[known],
        }
    )
    sums = parts.groupby(outer[known]).sum(min_count=1)
    rows = np.unique(outer[known])
    frame = tasks.iloc[rows][["task", "start_s", "duration_s"]].reset_index(drop=True)
    found = pd.concat([frame, sums.loc[rows].reset_index(drop=True)], axis=1)
    return found.astype({"task": str}).sort_values("start_s", kind="stable").set_index("task")


def _with_besides(tasks: pd.DataFrame, outer: NDArray[np.int64]) -> NDArray[np.int64]:
    """Let instances that are in none count for the one of their process in whose time they begin."""
    pid, start_s = tasks["pid"].to_numpy(), tasks["start_s"].to_numpy(float)
    end_s = start_s + tasks["duration_s"].to_numpy(float)
    found = outer.copy()
    for process in np.unique(pid):
        rows = np.unique(outer[(outer >= 0) & (pid == process)])
        rows = rows[np.argsort(start_s[rows], kind="stable")]
        others = np.flatnonzero((outer < 0) & (pid == process))
        before = np.searchsorted(start_s[rows], start_s[others], side="right") - 1
        inside = (before >= 0) & (start_s[others] < end_s[rows[before]]) if len(rows) else np.zeros(len(others), bool)
        found[others[inside]] = rows[before[inside]]
    return found


def outermost(tasks: pd.DataFrame, names: Collection[str]) -> NDArray[np.int64]:
    """Return for each instance the row of the outermost instance of some tasks that contains it; -1 if none does."""
    wanted = tasks["task"].isin(list(names)).to_numpy()
    instance = tasks["instance"].to_numpy(np.uint64)
    order = np.argsort(instance, kind="stable")
    parent = tasks["parent"].to_numpy(np.uint64)
    place = np.minimum(np.searchsorted(instance[order], parent), len(order) - 1)
    above = np.where(instance[order[place]] == parent, order[place], -1) if len(order) else np.empty(0, np.int64)
    above = np.where(parent == 0, -1, above)
    found = np.where(wanted, np.arange(len(instance)), -1)
    current = above.copy()
    for _ in range(len(instance)):  # as deep as tasks are nested
        inside = current >= 0
        if not inside.any():
            break
        found = np.where(inside & wanted[current], current, found)
        current = np.where(inside, above[current], -1)
    return np.asarray(found, np.int64)
