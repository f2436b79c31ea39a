"""One row per task: its total energy, energy per instance, and correlation of energy with time (paper, table 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.operating_points.scales import NORMAL_95

from tprof.trace.estimate import EXACT

from .intervals import around, mean_half, run_half
from .task_sums import budgets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.trace import TaskEntry
    from tprof.trace.estimate import WattsError

    from .native_threads import NativeBounds
    from .task_sums import TaskSums

    Floats = NDArray[np.float64]


def summarize(
    sums: TaskSums,
    mean_error_j: NDArray[np.float64] | None = None,
    *,
    residual_share: float | None = None,
    static_share: float = 0.0,
    watts: WattsError = EXACT,
    common: bool = True,
    native: NativeBounds | None = None,
) -> pd.DataFrame:
    """Summarize instances by task.

    Parameters
    ----------
    sums : over the instances
    mean_error_j : (names,) standard errors of the means, if powers were fitted; otherwise the sensor's resolution
        bounds each instance
    residual_share : the model's own error, as a part of energy above static power, where a calibration measured it
    static_share : standard error of static power relative to it, where it was found beside the model
    watts : the error of an estimate's watts, which the bounds of instances hold
    common : whether the intervals of means hold that error, which is the same for all tasks
    native : bounds of the joules of native threads, which the intervals then hold; adds native_cpu_s, native_j,
        native_high_j (what native_j is at most) and spin_j (not in energy_j), sums over the instances

    Returns
    -------
    Index `task`, by falling energy: instances, energy_j, energy_low_j, energy_high_j, share (of all tasks' energy),
    dynamic_j (above static power), dynamic_low_j, dynamic_high_j, energy_mean_j, energy_std_j (of instances; NaN for
    one), energy_mean_low_j, energy_mean_high_j (NaN for one instance), energy_mean_at_most_j (of those that ran; NaN if
    resolved), duration_mean_s, power_w (energy over own time), power_low_w,
    power_high_w, edp_js (mean energy times mean own time), energy_time_corr (Pearson's r of energy with duration,
    NaN where either is the same for all), own_mean_s (without nested tasks and suspension), resolved (whether the
    interval of `dynamic_j` is clear of zero, the watts of an estimate taken as exact).
    With a GPU also gpu_j, the GPUs' part of energy_j; power and edp_js of tasks that have some are NaN.
    Low and high are the ends of 95 % intervals: for a mean, of all instances that could have run; for `energy_j`,
    `dynamic_j` and `power_w`, of what those that ran drew.
    Instances whose energy is not resolved count in `instances` and `duration_mean_s` only.
    """
    columns = sums.columns
    k = len(sums.names)
    count, resolved = (columns[name].astype(np.int64) for name in ("instances", "resolved"))
    with np.errstate(invalid="ignore", divide="ignore"):
        sum_j = np.where(resolved > 0, columns["energy_j"], np.nan)
        mean_j = sum_j / resolved
        mean_s = columns["duration_s"] / count
        own_mean_s = columns["own_s"] / count
        var_j, var_s, both = (columns[name] for name in ("energy_m2", "duration_m2", "both_m2"))
        std_j = np.sqrt(var_j / np.where(resolved > 1, resolved - 1, np.nan))
        # A spread below rounding cannot be correlated.
        flat = (var_j <= 1e-24 * resolved * mean_j**2) | (var_s <= 1e-24 * resolved * mean_s**2)
        corr = np.where(flat, np.nan, both / np.sqrt(var_j * var_s))
        own_sum_s = columns["resolved_own_s"]
        dynamic_j = columns["dynamic_j"] / resolved
        resolution_j = np.sqrt(columns["half_squares"] / resolved)
        if mean_error_j is None:
            half_j = run_half(resolved, resolution_j, (residual_share or 0.0) * dynamic_j)
        else:
            half_j = run_half(resolved, np.zeros(k), mean_error_j)
        static_half_j = np.zeros(k) if mean_error_j is not None else NORMAL_95 * static_share * (mean_j - dynamic_j)
        further = {} if native is None else _native(columns, native)
        below_j, above_j = (further.pop(name, np.zeros(k)) for name in ("below_j", "above_j"))
        half_mean_j = mean_half(std_j, resolved, half_j)
        of_mean_j = half_mean_j + below_j / resolved, half_mean_j + above_j / resolved
        error = watts if common else EXACT
        low_j, high_j = around(mean_j, of_mean_j, mean_j - dynamic_j, error)
        dynamic_sum_j, below_j, above_j = dynamic_j * resolved, half_j + below_j, half_j + above_j
        static_reach_j = static_half_j * resolved
        dynamic_reach_j = np.hypot(below_j, static_reach_j), np.hypot(above_j, static_reach_j)
        resolves = dynamic_sum_j > dynamic_reach_j[0]
        dynamic_low_j, dynamic_high_j = around(dynamic_sum_j, dynamic_reach_j, np.zeros(k), error)
        sum_low_j, sum_high_j = around(sum_j, (below_j, above_j), sum_j - dynamic_sum_j, error)
        power_w, power_low_w, power_high_w = (
            np.where(own_sum_s > 0, joules / own_sum_s, np.nan) for joules in (sum_j, sum_low_j, sum_high_j)
        )
        share = sum_j / np.nansum(sum_j) if np.nansum(sum_j) > 0 else np.full(k, np.nan)
    frame = pd.DataFrame(
        {
            "instances": count,
            "energy_j": sum_j,
            "energy_low_j": sum_low_j,
            "energy_high_j": sum_high_j,
            "share": share,
            "dynamic_j": dynamic_sum_j,
            "dynamic_low_j": dynamic_low_j,
            "dynamic_high_j": dynamic_high_j,
            "energy_mean_j": mean_j,
            "energy_std_j": std_j,
            "energy_mean_low_j": low_j,
            "energy_mean_high_j": high_j,
            "energy_mean_at_most_j": np.where(resolves, np.nan, sum_high_j / resolved),
            "duration_mean_s": mean_s,
            "power_w": power_w,
            "power_low_w": power_low_w,
            "power_high_w": power_high_w,
            "edp_js": mean_j * own_mean_s,
            "energy_time_corr": np.clip(corr, -1.0, 1.0),
            "own_mean_s": own_mean_s,
            "resolved": resolves,
            **further,
        },
        index=pd.Index(np.asarray(sums.names, object), name="task"),
    )
    return _ordered(frame, columns.get("gpu_j"))


def _ordered(frame: pd.DataFrame, gpu_j: Floats | None) -> pd.DataFrame:
    """Return the tasks that ran, by energy, with the joules of GPUs."""
    if gpu_j is not None:
        frame = without_gpu_power(frame.assign(gpu_j=gpu_j))
    return frame[frame["instances"] > 0].sort_values("energy_j", ascending=False, kind="stable", na_position="last")


def without_gpu_power(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without the powers and EDP of rows with joules of a GPU.

    A GPU works for a task in another time than the task's own, so no power follows from the two.
    """
    if "gpu_j" in table:
        columns = [name for name in ("power_w", "power_low_w", "power_high_w", "edp_js") if name in table]
        table.loc[table["gpu_j"] > 0, columns] = np.nan
    return table


def _native(columns: Mapping[str, Floats], native: NativeBounds) -> dict[str, Floats]:
    """Return the columns of native threads, and how far their joules may be below and above."""
    sums = {name: columns[name] for name in ("native_cpu_s", "native_j", "spin_j")}
    least_j, most_j = np.minimum(native.least_j, sums["native_j"]), np.maximum(native.most_j, sums["native_j"])
    return {
        "native_cpu_s": sums["native_cpu_s"],
        "native_j": sums["native_j"],
        "native_high_j": most_j,
        "spin_j": sums["spin_j"],
        "below_j": sums["native_j"] - least_j,
        "above_j": most_j - sums["native_j"],
    }


def with_budgets(table: pd.DataFrame, sums: TaskSums, entries: Sequence[TaskEntry]) -> pd.DataFrame:
    """Add `budget_j` and `over_budget` (number of instances over it) to a summary, if any task has a budget.

    Parameters
    ----------
    table : one row per task, index its name
    sums : over the instances
    entries : of the trace; tasks of the same name get the smallest of their budgets
    """
    known = budgets(entries)
    if not known:
        return table
    counts = dict(zip(sums.names, sums.columns["over"], strict=True))
    return table.assign(
        budget_j=[known.get(str(name), np.nan) for name in table.index],
        over_budget=[float(counts[name]) if name in known else np.nan for name in table.index],
    )
