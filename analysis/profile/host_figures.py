"""The figures of one host of a job: its joules, watts, and how busy it was."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .summary import joined_quality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import Trace

    from .profile import Profile

POWER_BINS = 400
COLUMNS = (
    "quality", "energy_j", "tasks_j", "runtime_j", "other_j", "idle_j", "power_w", "duration_s", "cpus", "busy_share",
    "busy_s", "imbalance", "instances", "processes", "model", "recordings", "missing",
)  # fmt: skip
ACCOUNTS = ("tasks_j", "runtime_j", "other_j", "idle_j")


@dataclass(frozen=True)
class Figures:
    """A row of the table of hosts; `Profile.hosts` explains the columns.

    `own_s` is the time of its threads in tasks.
    """

    quality: str
    energy_j: float
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float
    power_w: float
    duration_s: float
    cpus: int
    busy_s: float
    busy_share: float
    own_s: float
    instances: int
    processes: int
    model: str


def figures_of(profile: Profile) -> Figures:
    """Return the figures of a host from the profile of its part."""
    trace, sums = profile.trace, profile.counted_accounts
    duration_s = float(profile.info["duration_s"])
    cpus, busy_s = cpus_of(trace), _busy_s(trace)
    energy_j = sums.get("measured_j", math.nan)
    return Figures(
        quality=str(profile.info["quality"]),
        energy_j=energy_j,
        **{name: sums.get(name, math.nan) for name in ACCOUNTS},
        power_w=energy_j / duration_s if duration_s > 0 else math.nan,
        duration_s=duration_s,
        cpus=cpus,
        busy_s=busy_s,
        busy_share=busy_s / (duration_s * cpus) if duration_s > 0 and cpus else math.nan,
        own_s=profile.sums.own_s,
        instances=profile.sums.rows,
        processes=len({thread.process for thread in trace.threads}),
        model=str(profile.info["model"]),
    )


def joined_figures(recordings: Sequence[Figures]) -> Figures:
    """Return the figures of a host that was recorded several times."""

    def total(name: str) -> Any:
        return sum(getattr(one, name) for one in recordings)

    cpus, duration_s = max(one.cpus for one in recordings), float(total("duration_s"))
    sums = ("energy_j", *ACCOUNTS, "duration_s", "busy_s", "own_s", "instances", "processes")
    return Figures(
        **{name: total(name) for name in sums},
        quality=joined_quality(one.quality for one in recordings),
        model=", ".join(sorted({one.model for one in recordings})),
        cpus=cpus,
        power_w=total("energy_j") / duration_s if duration_s > 0 else math.nan,
        busy_share=total("busy_s") / (duration_s * cpus) if duration_s > 0 and cpus else math.nan,
    )


def hosts_table(parts: Sequence[tuple[str, Figures | None, str | None]]) -> pd.DataFrame:
    """Return one row per host, given the host, the figures and what is missing of each part."""
    figures: dict[str, list[Figures]] = {}
    missing: dict[str, list[str]] = {}
    for host, known, why in parts:
        figures.setdefault(host, []).extend([] if known is None else [known])
        missing.setdefault(host, []).extend([] if why is None else [why])
    rows = [vars(joined_figures(known)) if known else {} for known in figures.values()]
    # Not by from_dict, which drops empty rows with pandas 3.0.
    table = pd.DataFrame(rows, pd.Index(list(figures), dtype=object, name="host"))
    table = table.reindex(columns=[*(name for name in COLUMNS if name in Figures.__annotations__), "own_s"])
    own_s = table.pop("own_s").astype(float)
    mean_s = own_s.mean()
    table["imbalance"] = own_s / mean_s - 1 if mean_s > 0 else math.nan
    table["recordings"] = [len(known) for known in figures.values()]
    table["missing"] = ["; ".join(whys) or None for whys in missing.values()]
    table["quality"] = table["quality"].fillna("missing")
    return table[list(COLUMNS)]


def binned_power(profile: Profile) -> pd.DataFrame:
    """Return the watts of all counted domains over time, in at most `POWER_BINS` rows."""
    power = profile.power_steps(POWER_BINS)
    names = [f"{one.name}_w" for one in profile.quanta if one.counted and len(one)]
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
    busy = [one for one in trace.readings.values() if one.quantity == "busy" and one.count > 1]
    block_ns = [trace.start_ns, trace.end_ns]
    sums = [np.diff(np.interp(block_ns, one.t_ns, one.value.astype(float)))[0] * one.unit for one in busy]
    return float(sum(sums)) if sums else math.nan
