"""Sums over a task's instances on one host, from which the summary of several hosts is made without the instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .summary import without_gpu_power

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pandas.api.typing import DataFrameGroupBy

    from .profile import Profile

SUMS = (
    "instances", "resolved_instances", "energy_j", "dynamic_j", "duration_s", "own_s", "resolved_own_s",
)  # fmt: skip
"""Columns that are added over hosts."""
FURTHER = ("native_cpu_s", "native_j", "native_high_j", "spin_j", "gpu_j", "over_budget")
"""Columns that only some profiles have, added over those that have them."""
OF_INTERVALS = ("mean", "sum", "dynamic")
"""Figures with an interval: the mean energy, the sum of all instances, and its dynamic part."""


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
        of products: both_m2, and the mean resolved_duration_s. How far the 95 % interval of each of `OF_INTERVALS`
        reaches: NAME_below_j and NAME_above_j by the host's own errors, NAME_common_below_j and NAME_common_above_j
        further by the error that hosts may share.
    """
    summary, alone, columns = profile.summary(), profile.summary(common=False), profile.sums.columns
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
    return table.assign(**_errors(table, summary.reindex(table.index), alone.reindex(table.index)))


def _errors(table: pd.DataFrame, summary: pd.DataFrame, alone: pd.DataFrame) -> dict[str, pd.Series]:
    """Return how far the intervals reach, and the columns that only some profiles have."""
    own_s = table["resolved_own_s"]
    found = {name: summary[name] for name in (*FURTHER, "budget_j") if name in summary}
    for name, value, low, high in (
        ("mean", summary["energy_mean_j"], "energy_mean_low_j", "energy_mean_high_j"),
        ("sum", table["energy_j"] / own_s, "power_low_w", "power_high_w"),
        ("dynamic", table["dynamic_j"], "dynamic_low_j", "dynamic_high_j"),
    ):
        scale = own_s if name == "sum" else 1.0
        reaches = {
            "below": value - alone[low],
            "above": alone[high] - value,
            "common_below": alone[low] - summary[low],
            "common_above": summary[high] - alone[high],
        }
        found |= {f"{name}_{side}_j": (reach * scale).clip(lower=0).fillna(0.0) for side, reach in reaches.items()}
    return found


def joined_summary(hosts: Sequence[tuple[str, str, pd.DataFrame | None]], *, common: bool = True) -> pd.DataFrame:
    """Return the summary over hosts, given the name, quality and moments of each; see `ClusterProfile.summary`."""
    frames = [table.assign(host=host, quality=quality) for host, quality, table in hosts if table is not None]
    rows = pd.concat(frames).rename_axis("task").reset_index()
    if not common:
        rows[[f"{name}_common_{side}_j" for name in OF_INTERVALS for side in ("below", "above")]] = 0.0
    rows["weight"] = rows["resolved_instances"] / rows.groupby("task")["resolved_instances"].transform("sum")
    groups = rows.groupby("task", sort=False)
    sums = groups[list(SUMS)].sum()
    resolved = sums["resolved_instances"]
    energy_j = sums["energy_j"].where(resolved > 0)
    mean_j = energy_j / resolved
    m2_j, m2_s, both = _pooled(rows, groups)
    mean_low_j, mean_high_j = _interval(rows, "mean", mean_j)
    low_j, high_j = _interval(rows, "sum", energy_j)
    dynamic_low_j, dynamic_high_j = _interval(rows, "dynamic", sums["dynamic_j"])
    own_mean_s = sums["own_s"] / sums["instances"]
    flat = (m2_j <= 1e-24 * resolved * mean_j**2) | (m2_s <= 0)
    own_s = sums["resolved_own_s"].where(sums["resolved_own_s"] > 0)
    table = pd.DataFrame(
        {
            "instances": sums["instances"],
            "hosts": groups["host"].nunique(),
            "energy_j": energy_j,
            "share": energy_j / energy_j.sum() if energy_j.sum() > 0 else np.nan,
            "dynamic_j": sums["dynamic_j"].where(resolved > 0),
            "dynamic_low_j": dynamic_low_j,
            "dynamic_high_j": dynamic_high_j,
            "energy_mean_j": mean_j,
            "energy_std_j": np.sqrt(m2_j / (resolved - 1).where(resolved > 1)),
            "energy_mean_low_j": mean_low_j,
            "energy_mean_high_j": mean_high_j,
            "duration_mean_s": sums["duration_s"] / sums["instances"],
            "power_w": energy_j / own_s,
            "power_low_w": low_j / own_s,
            "power_high_w": high_j / own_s,
            "edp_js": mean_j * own_mean_s,
            "energy_time_corr": (both / np.sqrt((m2_j * m2_s).where(~flat))).clip(-1.0, 1.0),
            "own_mean_s": own_mean_s,
            "resolved": sums["dynamic_j"] / resolved > _own_reach(rows, "mean_above_j", rows["weight"]),
            **{name: groups[name].sum(min_count=1) for name in FURTHER if name in rows},
            **({"budget_j": groups["budget_j"].min()} if "budget_j" in rows else {}),
            **_by_quality(rows),
            "quality": groups["quality"].agg(joined_quality),
        }
    )
    return without_gpu_power(table).sort_values("energy_j", ascending=False, kind="stable", na_position="last")


def _interval(rows: pd.DataFrame, name: str, value: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return the ends of the interval over hosts: own errors add in squares, those that hosts share as they are."""
    weight = rows["weight"].fillna(0.0) if name == "mean" else pd.Series(1.0, rows.index)
    below, above = (
        _own_reach(rows, f"{name}_{side}_j", weight) + _sum(rows, weight * rows[f"{name}_common_{side}_j"])
        for side in ("below", "above")
    )
    return (value - below).clip(lower=0), value + above


def _own_reach(rows: pd.DataFrame, name: str, weight: pd.Series) -> pd.Series:
    return _sum(rows, (weight.fillna(0.0) * rows[name]) ** 2) ** 0.5


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
