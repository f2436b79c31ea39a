"""Sums over a task's instances on one host, from which the summary of several hosts is made without the instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .intervals import Factors, mean_half, widened
from .summary import without_gpu_power

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from pandas.api.typing import DataFrameGroupBy

    from .profile import Profile

    Floats = NDArray[np.float64]

SUMS = (
    "instances", "resolved_instances", "energy_j", "dynamic_j", "duration_s", "own_s", "resolved_own_s",
)  # fmt: skip
"""Columns that are added over hosts."""
FURTHER = ("native_cpu_s", "native_j", "native_high_j", "spin_j", "gpu_j", "over_budget")
"""Columns that only some profiles have, added over those that have them."""


def joined_quality(qualities: Iterable[str]) -> str:
    """Return the quality of a figure of several hosts: "mixed" if these are unlike, "none" without any."""
    found = set(qualities)
    return "mixed" if len(found) > 1 else found.pop() if found else "none"


def moments(profile: Profile) -> pd.DataFrame:
    """Return one row per task (index `task`).

    Returns
    -------
    DataFrame
        instances, resolved_instances (whose energy is known); energy_j, dynamic_j of these; duration_s and own_s of
        all, resolved_own_s of the known; of the known, sums of squares about their means: energy_m2, duration_m2, and
        of products: both_m2, and the mean resolved_duration_s. How far the 95 % interval of energy_j reaches by
        the host's own errors: below_j, above_j; and the factors of the error that hosts may share: idle_factor,
        busy_factor.
    """
    alone, columns = profile.summary(common=False), profile.sums.columns
    count = columns["resolved"].astype(np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_s = columns["resolved_duration_s"] / count
    table = pd.DataFrame(
        {
            "instances": columns["instances"].astype(np.int64),
            "resolved_instances": count,
            **{name: columns[name] for name in ("energy_j", "dynamic_j", "duration_s", "own_s", "resolved_own_s")},
            "resolved_duration_s": mean_s,
            **{name: columns[name] for name in ("energy_m2", "duration_m2", "both_m2")},
        },
        index=pd.Index(np.asarray(profile.sums.names, object), name="task"),
    )
    table = table[table["instances"] > 0]
    alone = alone.reindex(table.index)
    return table.assign(
        below_j=(alone["energy_j"] - alone["energy_low_j"]).fillna(0.0),
        above_j=(alone["energy_high_j"] - alone["energy_j"]).fillna(0.0),
        idle_factor=profile.watts.idle,
        busy_factor=profile.watts.busy,
        **{name: alone[name] for name in (*FURTHER, "budget_j") if name in alone},
    )


def joined_summary(hosts: Sequence[tuple[str, str, pd.DataFrame | None]], *, common: bool = True) -> pd.DataFrame:
    """Return the summary over hosts, given the name, quality and moments of each; see `ClusterProfile.summary`."""
    frames = [table.assign(host=host, quality=quality) for host, quality, table in hosts if table is not None]
    rows = pd.concat(frames).rename_axis("task").reset_index()
    if not common:
        rows[["idle_factor", "busy_factor"]] = 1.0
    groups = rows.groupby("task", sort=False)
    sums = groups[list(SUMS)].sum()
    resolved = sums["resolved_instances"]
    energy_j = sums["energy_j"].where(resolved > 0)
    mean_j = energy_j / resolved
    m2_j, m2_s, both = _pooled(rows, groups)
    std_j = np.sqrt(m2_j / (resolved - 1).where(resolved > 1))
    dynamic_j, static_j = sums["dynamic_j"], sums["energy_j"] - sums["dynamic_j"]
    reach_j = _reach(rows, "below_j"), _reach(rows, "above_j")
    resolves = dynamic_j > reach_j[0]
    mean_reach_j = [mean_half(np.asarray(std_j), resolved.to_numpy(), one.to_numpy()) for one in reach_j]
    error = _common_error(rows)
    mean_low_j, mean_high_j = _interval(mean_j, mean_reach_j, static_j / resolved, error)
    low_j, high_j = _interval(energy_j, reach_j, static_j, error)
    dynamic_low_j, dynamic_high_j = _interval(dynamic_j, reach_j, 0.0 * static_j, error)
    own_mean_s = sums["own_s"] / sums["instances"]
    flat = (m2_j <= 1e-24 * resolved * mean_j**2) | (m2_s <= 0)
    own_s = sums["resolved_own_s"].where(sums["resolved_own_s"] > 0)
    table = pd.DataFrame(
        {
            "instances": sums["instances"],
            "hosts": groups["host"].nunique(),
            "energy_j": energy_j,
            "energy_low_j": low_j,
            "energy_high_j": high_j,
            "share": energy_j / energy_j.sum() if energy_j.sum() > 0 else np.nan,
            "dynamic_j": dynamic_j.where(resolved > 0),
            "dynamic_low_j": dynamic_low_j,
            "dynamic_high_j": dynamic_high_j,
            "energy_mean_j": mean_j,
            "energy_std_j": std_j,
            "energy_mean_low_j": mean_low_j,
            "energy_mean_high_j": mean_high_j,
            "energy_mean_at_most_j": (high_j / resolved).where(~resolves),
            "duration_mean_s": sums["duration_s"] / sums["instances"],
            "power_w": energy_j / own_s,
            "power_low_w": low_j / own_s,
            "power_high_w": high_j / own_s,
            "edp_js": mean_j * own_mean_s,
            "energy_time_corr": (both / np.sqrt((m2_j * m2_s).where(~flat))).clip(-1.0, 1.0),
            "own_mean_s": own_mean_s,
            "resolved": resolves,
            **{name: groups[name].sum(min_count=1) for name in FURTHER if name in rows},
            **({"budget_j": groups["budget_j"].min()} if "budget_j" in rows else {}),
            **_by_quality(rows),
            "quality": groups["quality"].agg(joined_quality),
        }
    )
    return without_gpu_power(table).sort_values("energy_j", ascending=False, kind="stable", na_position="last")


def _interval(
    value: pd.Series, reach_j: Sequence[pd.Series | Floats], static_j: pd.Series, error: Factors
) -> tuple[pd.Series, pd.Series]:
    return widened((value - reach_j[0]).clip(lower=0), value + reach_j[1], static_j, error)


def _reach(rows: pd.DataFrame, name: str) -> pd.Series:
    """Return how far the energy over hosts may be off: their own errors add in squares."""
    return _sum(rows, rows[name] ** 2) ** 0.5


def _common_error(rows: pd.DataFrame) -> Factors:
    """Return the error that hosts may share, each host's factors weighted by its energy; see `common_error`."""
    parts = {"busy": rows["dynamic_j"], "idle": rows["energy_j"] - rows["dynamic_j"]}
    return Factors(**{name: _mean_factor(rows, f"{name}_factor", weight) for name, weight in parts.items()})


def _mean_factor(rows: pd.DataFrame, name: str, weight: pd.Series) -> pd.Series:
    whole = _sum(rows, weight)
    return (_sum(rows, weight * rows[name]) / whole.where(whole > 0)).fillna(1.0)


def _by_quality(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return what hosts of each quality contribute to a task, if there are several."""
    qualities = sorted(rows["quality"].unique())
    if len(qualities) < 2:
        return {}
    known = rows[rows["resolved_instances"] > 0]
    parts = known.pivot_table(index="task", columns="quality", values="energy_j", aggfunc="sum")
    parts = parts.reindex(rows["task"].unique())
    return {f"{quality}_j": parts[quality] for quality in qualities if quality in parts}


def _pooled(rows: pd.DataFrame, groups: DataFrameGroupBy[Any, Any]) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Return the sums of squares about the means of all hosts, by Chan's rule for joining parts."""
    count = rows["resolved_instances"]
    means = rows["energy_j"] / count.where(count > 0), rows["resolved_duration_s"]
    centres = [_sum(rows, (mean * count).fillna(0.0)) / groups["resolved_instances"].sum() for mean in means]
    # Not by `map`, whose result for no rows is a column of text in pandas 3.
    off_j, off_s = (
        (mean - centre.reindex(rows["task"]).to_numpy()).fillna(0.0)
        for mean, centre in zip(means, centres, strict=True)
    )
    return (
        _sum(rows, rows["energy_m2"] + count * off_j**2),
        _sum(rows, rows["duration_m2"] + count * off_s**2),
        _sum(rows, rows["both_m2"] + count * off_j * off_s),
    )


def _sum(rows: pd.DataFrame, values: pd.Series) -> pd.Series:
    return values.groupby(rows["task"], sort=False).sum()
