"""One row per task: its total energy, energy per instance, and correlation of energy with time (paper, table 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from tprof.analysis.operating_points.scales import NORMAL_95

from tprof.trace.estimate import EXACT

from .intervals import Factors, around, mean_half, run_half
from .task_sums import TaskSums, added, budgets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tprof.trace.estimate import WattsError

    from .native_threads import NativeBounds
    from .profile import Profile

    Floats = NDArray[np.float64]


class TaskErrors(NamedTuple):
    """How far the energy of all instances of each task may be off, (k,) float64 each, joules with 95 % confidence.

    Attributes
    ----------
    half_j : (below, above) by the sensor's resolution, by the model or by the fit
    native_j : (below, above) as far as native threads may have taken less or more
    native_high_j : what native threads took at most; None without any
    static_j : by static power that was found beside the model; it moves `dynamic_j` only
    watts : the error that is common to all instances; of several hosts each task has its own
    """

    half_j: tuple[Floats, Floats]
    native_j: tuple[Floats, Floats]
    native_high_j: Floats | None
    static_j: Floats
    watts: WattsError | Factors

    @property
    def reach_j(self) -> tuple[Floats, Floats]:
        """How far energies reach below and above without the common error."""
        return self.half_j[0] + self.native_j[0], self.half_j[1] + self.native_j[1]


def errors_of(
    sums: TaskSums,
    mean_error_j: NDArray[np.float64] | None = None,
    *,
    residual_share: float | None = None,
    static_share: float = 0.0,
    watts: WattsError = EXACT,
    native: NativeBounds | None = None,
) -> TaskErrors:
    """Return the errors of the sums of one host.

    Parameters
    ----------
    sums : over the instances
    mean_error_j : (names,) standard errors of the means, if powers were fitted; otherwise the sensor's resolution
        bounds each instance
    residual_share : the model's own error, as a part of energy above static power, where a calibration measured it
    static_share : standard error of static power relative to it, where it was found beside the model
    watts : the error of an estimate's watts, which the bounds of instances hold
    native : bounds of the joules of native threads
    """
    columns, nothing = sums.columns, np.zeros(len(sums.names))
    resolved = columns["resolved"].astype(np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        if mean_error_j is None:
            resolution_j = np.sqrt(columns["half_squares"] / resolved)
            half_j = run_half(resolved, resolution_j, (residual_share or 0.0) * columns["dynamic_j"] / resolved)
            static_j = NORMAL_95 * static_share * (columns["energy_j"] - columns["dynamic_j"])
        else:
            half_j, static_j = run_half(resolved, nothing, mean_error_j), nothing
    if native is None:
        return TaskErrors((half_j, half_j), (nothing, nothing), None, static_j, watts)
    native_j = columns["native_j"]
    least_j, most_j = np.minimum(native.least_j, native_j), np.maximum(native.most_j, native_j)
    return TaskErrors((half_j, half_j), (native_j - least_j, most_j - native_j), most_j, static_j, watts)


@dataclass(frozen=True)
class HostSums:
    """What the tasks of a host sum to.

    Attributes
    ----------
    host : its name
    quality : of its joules
    sums : over its instances
    errors : of these
    budgets : joules that an instance may use, by task
    """

    host: str
    quality: str
    sums: TaskSums
    errors: TaskErrors = field(repr=False)
    budgets: dict[str, float] = field(default_factory=dict)


def host_sums_of(profile: Profile) -> HostSums:
    """Return the sums over the instances of one host's profile, and their errors."""
    sums, host, quality = profile.sums, str(profile.hostname), str(profile.info["quality"])
    if profile.kept is not None:
        return HostSums(host, quality, sums, errors_of(sums, watts=profile.watts))
    stored = profile.recipe.model.stored
    errors = errors_of(
        sums,
        profile.mean_error_j,
        residual_share=None if stored is None else stored.residual_share,
        static_share=profile.recipe.static_share,
        watts=profile.watts,
        native=profile.native,
    )
    return HostSums(host, quality, sums, errors, budgets(profile.trace.tasks))


def joined_quality(qualities: Iterable[str]) -> str:
    """Return the quality of a figure of several hosts: "mixed" if these are unlike, "none" without any."""
    found = set(qualities)
    return "mixed" if len(found) > 1 else found.pop() if found else "none"


def summary_of(hosts: Sequence[HostSums], *, common: bool = True) -> pd.DataFrame:
    """Return the summary of one host or of several; with budgets also `budget_j` and `over_budget`; see `summarize`.

    Independent errors of hosts are added in squares, the error that is common to the instances of a host as it is.
    """
    sums, errors = joined_sums(hosts)
    table = summarize(sums, errors, common=common)
    ran = _ran_on(hosts)
    by_task = ran.groupby(level="task")["quality"]
    table["quality"] = by_task.agg(joined_quality).reindex(table.index) if len(hosts) > 1 else hosts[0].quality
    known: dict[str, float] = {}
    for one in hosts:
        known |= {name: min(joules, known.get(name, np.inf)) for name, joules in one.budgets.items()}
    if not known:
        return table
    counts = dict(zip(sums.names, sums.columns["over"], strict=True))
    return table.assign(
        budget_j=[known.get(str(name), np.nan) for name in table.index],
        over_budget=[float(counts[name]) if name in known else np.nan for name in table.index],
    )


def summary_of_job(hosts: Sequence[HostSums], *, common: bool = True) -> pd.DataFrame:
    """Return the same with `hosts`, the number of hosts with instances, and what hosts of each quality contribute."""
    table, ran = summary_of(hosts, common=common), _ran_on(hosts)
    table.insert(1, "hosts", ran.groupby("task")["host"].nunique().reindex(table.index))
    qualities = sorted(set(ran["quality"]))
    if len(qualities) > 1:
        parts = ran.dropna(subset="energy_j").pivot_table("energy_j", "task", "quality", aggfunc="sum")
        for quality in filter(parts.columns.__contains__, qualities):
            table.insert(len(table.columns) - 1, f"{quality}_j", parts[quality].reindex(table.index))
    return table


def by_host(hosts: Sequence[HostSums]) -> pd.DataFrame:
    """Return one row per task and host (index `task`, `host`): instances, energy_j, quality."""
    groups = _ran_on(hosts).groupby(["task", "host"], sort=False)
    table = groups.agg({"instances": "sum", "quality": joined_quality})
    return table.assign(energy_j=groups["energy_j"].sum(min_count=1))[["instances", "energy_j", "quality"]]


def _ran_on(hosts: Sequence[HostSums]) -> pd.DataFrame:
    """Return one row for each task that ran on a host, and the host."""
    frames = []
    for one in hosts:
        columns = one.sums.columns
        frame = pd.DataFrame({"instances": columns["instances"].astype(np.int64)}, index=_index(one.sums.names))
        energy_j = np.where(columns["resolved"] > 0, columns["energy_j"], np.nan)
        frame = frame.assign(energy_j=energy_j, quality=one.quality, host=one.host)
        frames.append(frame[frame["instances"] > 0])
    return pd.concat(frames)


def _index(names: Sequence[str]) -> pd.Index[Any]:
    index: pd.Index[Any] = pd.Index(np.asarray(names, object), name="task")
    return index


def joined_sums(hosts: Sequence[HostSums]) -> tuple[TaskSums, TaskErrors]:
    """Return the sums over all hosts and their errors."""
    if len(hosts) == 1:
        return hosts[0].sums, hosts[0].errors
    ran = dict.fromkeys(str(name) for name in _ran_on(hosts).index)
    columns = dict.fromkeys(name for one in hosts for name in one.sums.columns)
    sums = [one.sums.of_names(tuple(ran), columns) for one in hosts]
    errors = [_of_names(one, tuple(ran)) for one in hosts]
    nothing = np.zeros(len(ran))
    below_j, above_j, static_j = (
        np.sqrt(sum((one**2 for one in parts), nothing))
        for parts in zip(*((*one.half_j, one.static_j) for one in errors), strict=True)
    )
    static = [one.columns["energy_j"] - one.columns["dynamic_j"] for one in sums]
    watts = Factors(
        _mean_factor([one.watts.idle for one in errors], static),
        _mean_factor([one.watts.busy for one in errors], [one.columns["dynamic_j"] for one in sums]),
    )
    known_j = [one.native_high_j for one in errors if one.native_high_j is not None]
    native_high_j = reduce(added, known_j) if known_j else None
    # What native threads of a host may have taken less or more is in the reach of its tasks.
    return reduce(TaskSums.plus, sums), TaskErrors(
        (below_j, above_j), (nothing, nothing), native_high_j, static_j, watts
    )


def _of_names(host: HostSums, names: tuple[str, ...]) -> TaskErrors:
    """Return a host's errors by other names; no energy reaches below zero, and those that are not known are 0."""
    at = host.sums.places_of(names)
    below_j, above_j = host.errors.reach_j
    parts = np.minimum(below_j, host.sums.columns["energy_j"]), above_j, host.errors.static_j
    below_j, above_j, static_j = (np.append(np.nan_to_num(one), 0.0)[at] for one in parts)
    high_j = host.errors.native_high_j
    native_high_j = None if high_j is None else np.append(high_j, np.nan)[at]
    return TaskErrors((below_j, above_j), (0.0 * below_j, 0.0 * above_j), native_high_j, static_j, host.errors.watts)


def _mean_factor(factors: Sequence[float | Floats], weights: Sequence[Floats]) -> Floats:
    """Return the factor that hosts may share, each host's weighted by its energy."""
    whole = np.asarray(sum(weights))
    mean = sum(factor * weight for factor, weight in zip(factors, weights, strict=True)) / np.where(whole > 0, whole, 1)
    return np.where(whole > 0, mean, 1.0)


def summarize(sums: TaskSums, errors: TaskErrors, *, common: bool = True) -> pd.DataFrame:
    """Summarize instances by task.

    Parameters
    ----------
    sums : over the instances
    errors : of these. With bounds of native threads: adds native_cpu_s, native_j, native_high_j (what native_j is at
        most) and spin_j (not in energy_j), sums over the instances
    common : whether the intervals hold the error of an estimate's watts or of the sensor, which is the same for all
        tasks

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
        dynamic_j = np.where(resolved > 0, columns["dynamic_j"], np.nan)
        half_means_j = [mean_half(std_j, resolved, half_j) for half_j in errors.half_j]
        natives_j = [native_j / resolved for native_j in errors.native_j]
        of_mean_j = half_means_j[0] + natives_j[0], half_means_j[1] + natives_j[1]
        error = errors.watts if common else EXACT
        low_j, high_j = around(mean_j, of_mean_j, mean_j - dynamic_j / resolved, error)
        reach_j = errors.reach_j
        dynamic_reach_j = np.hypot(reach_j[0], errors.static_j), np.hypot(reach_j[1], errors.static_j)
        resolves = dynamic_j > dynamic_reach_j[0]
        dynamic_low_j, dynamic_high_j = around(dynamic_j, dynamic_reach_j, 0.0 * sum_j, error)
        sum_low_j, sum_high_j = around(sum_j, reach_j, sum_j - dynamic_j, error)
        power_w, power_low_w, power_high_w = (
            np.where(own_sum_s > 0, joules / own_sum_s, np.nan) for joules in (sum_j, sum_low_j, sum_high_j)
        )
        share = sum_j / np.nansum(sum_j) if np.nansum(sum_j) > 0 else np.full(len(sum_j), np.nan)
    frame = pd.DataFrame(
        {
            "instances": count,
            "energy_j": sum_j,
            "energy_low_j": sum_low_j,
            "energy_high_j": sum_high_j,
            "share": share,
            "dynamic_j": dynamic_j,
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
            **_native(sums, errors),
            **({"gpu_j": columns["gpu_j"]} if "gpu_j" in columns else {}),
        },
        index=_index(sums.names),
    )
    frame = without_gpu_power(frame[frame["instances"] > 0])
    return frame.sort_values("energy_j", ascending=False, kind="stable", na_position="last")


def _native(sums: TaskSums, errors: TaskErrors) -> dict[str, Floats]:
    if errors.native_high_j is None:
        return {}
    cpu_s, native_j, spin_j = (sums.columns[name] for name in ("native_cpu_s", "native_j", "spin_j"))
    return {"native_cpu_s": cpu_s, "native_j": native_j, "native_high_j": errors.native_high_j, "spin_j": spin_j}


def without_gpu_power(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without the powers and EDP of rows with joules of a GPU.

    A GPU works for a task in another time than the task's own, so no power follows from the two.
    """
    if "gpu_j" in table:
        columns = [name for name in ("power_w", "power_low_w", "power_high_w", "edp_js") if name in table]
        table.loc[table["gpu_j"] > 0, columns] = np.nan
    return table
