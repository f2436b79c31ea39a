"""The figures of hosts: their joules, watts, and how busy they were."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.attribution.hidden import machine_busy_s

from .summary import joined_quality
from .tables import whole_sum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.trace import Trace

    from .profile import Profile

POWER_BINS = 400
COLUMNS = (
    "quality", "energy_j", "tasks_j", "runtime_j", "other_j", "idle_j", "power_w", "duration_s", "cpus", "busy_share",
    "busy_s", "imbalance", "instances", "processes", "model", "recordings", "missing",
)  # fmt: skip
ADDED = (
    "energy_j", "tasks_j", "runtime_j", "other_j", "idle_j", "duration_s", "busy_s", "own_s", "instances", "processes",
)  # fmt: skip
"""Columns that are added over the recordings of a host."""


def figures_of(profile: Profile) -> dict[str, Any]:
    """Return the figures of one host: those of `ADDED`, where own_s is the time of its threads in tasks, and others."""
    trace, sums = profile.trace, profile.counted_accounts
    return {
        "quality": str(profile.info["quality"]),
        "energy_j": sums.get("measured_j", math.nan),
        **{name: sums.get(name, math.nan) for name in ADDED[1:5]},
        "duration_s": float(profile.info["duration_s"]),
        "cpus": cpus_of(trace),
        "busy_s": _busy_s(trace) if profile.has_samples else math.nan,
        "own_s": profile.sums.own_s,
        "instances": profile.sums.rows,
        "processes": len({thread.process for thread in trace.threads}) if profile.has_samples else math.nan,
        "model": str(profile.info["model"]),
    }


def counted_accounts(profile: Profile) -> dict[str, float]:
    """Return the sums of the accounts of all counted domains; none if hosts are of unlike quality."""
    if profile.job is None:
        counted = [one["counted"] for one in profile.info["domains"]]
    elif len(profile.measured_by_quality) < 2:
        counted = profile.accounts["counted"].astype(bool).tolist()
    else:
        return {}
    sums = profile.accounts[counted].drop(columns=["quality", "counted"], errors="ignore").astype(float)
    return {str(name): float(value) for name, value in sums.sum(min_count=1).items()}


def hosts_table(parts: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per host, given the host of each part, its figures if it is there, and what is missing of it."""
    rows = pd.DataFrame(parts, columns=["host", "quality", "model", "cpus", *ADDED, "missing"])
    known = rows.groupby("host", sort=False)
    table = (
        known[[*ADDED]]
        .agg(whole_sum)
        .assign(
            quality=known["quality"].agg(lambda kinds: joined_quality(kinds.fillna("missing"))),
            model=known["model"].agg(lambda models: ", ".join(sorted(set(models.dropna()))) or None),
            cpus=known["cpus"].max(),
            recordings=known["quality"].count(),
            missing=known["missing"].agg(lambda texts: "; ".join(texts.dropna()) or None),
        )
    )
    duration_s, own_s = table["duration_s"].where(table["duration_s"] > 0), table["own_s"]
    return table.assign(
        power_w=table["energy_j"] / duration_s,
        busy_share=table["busy_s"] / (duration_s * table["cpus"].where(table["cpus"] > 0)),
        imbalance=own_s / own_s.mean() - 1 if own_s.mean() > 0 else math.nan,
    )[[*COLUMNS]]


def total_power(profile: Profile, most: int) -> pd.DataFrame:
    """Return the watts of all counted domains of a host over time, means in at most so many rows.

    Returns
    -------
    time_s, duration_s, power_w; NaN where one of the domains is not known
    """
    power = profile.power_steps(most)
    names = [name for one in profile.info["domains"] if one["counted"] and (name := f"{one['name']}_w") in power]
    if power.empty or not names:
        return pd.DataFrame({"time_s": np.empty(0), "duration_s": np.empty(0), "power_w": np.empty(0)})
    return power[["time_s", "duration_s"]].assign(power_w=power[names].sum(axis=1, skipna=False))


def cpus_of(trace: Trace) -> int:
    """Return the number of the host's processors; 0 where it is not known."""
    topology = trace.manifest.get("topology") or ()
    count = (trace.manifest.get("host") or {}).get("cpus")
    return len(topology) or (count if isinstance(count, int) else 0)


def _busy_s(trace: Trace) -> float:
    """Return the time for which the host's processors were busy in the recorded block; NaN if it was not read."""
    if not any(one.quantity == "busy" and one.count > 1 for one in trace.readings.values()):
        return math.nan
    return float(machine_busy_s(trace.readings.values(), np.array([trace.start_ns, trace.end_ns])).sum())
