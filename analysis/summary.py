"""One row a task: what all its instances took together, and how sure the mean is."""

from __future__ import annotations

import numpy as np
import pandas as pd

CONFIDENCE = 0.95
NORMAL = 1.959963984540054


def summarise(tasks: pd.DataFrame, measured_j: float) -> pd.DataFrame:
    """Make `Profile.summary()`.

    Parameters
    ----------
    tasks
        `Profile.tasks`.
    measured_j
        Joules of the counted domains, of which `share` is a part.

    Returns
    -------
    pandas.DataFrame
        Index `task`; by energy, largest first. `energy_mean_low_j` and `energy_mean_high_j` are a 95 % interval
        of the mean from the spread between instances and the sensor's resolution (each instance's own bound
        taken as uniform and independent). `energy_time_corr` is Pearson's r of energy and duration over
        instances (table 6 of the paper), NaN where one of the two does not vary.
    """
    groups = tasks.groupby("task", observed=True, sort=False)
    energy = groups["energy_j"]
    resolved = energy.count()
    frame = pd.DataFrame(
        {
            "instances": groups.size(),
            "energy_j": energy.sum(min_count=1),
            "energy_mean_j": energy.mean(),
            "energy_std_j": energy.std(),
            "duration_mean_s": groups["duration_s"].mean(),
        }
    )
    half_j = _half_width(tasks, frame, resolved)
    frame["energy_mean_low_j"] = (frame["energy_mean_j"] - half_j).clip(lower=0.0)
    frame["energy_mean_high_j"] = frame["energy_mean_j"] + half_j
    frame["share"] = frame["energy_j"] / measured_j if measured_j > 0 else np.nan
    own_s = tasks["energy_j"] / tasks["power_w"]
    own_total_s = own_s.groupby(tasks["task"], observed=True, sort=False).sum(min_count=1)
    frame["power_w"] = frame["energy_j"] / own_total_s.where(own_total_s > 0)
    frame["edp_js"] = frame["energy_mean_j"] * frame["duration_mean_s"]
    frame["energy_time_corr"] = _correlation(tasks)
    frame.index = pd.Index(frame.index.astype(str), name="task")
    columns = [
        "instances",
        "energy_j",
        "share",
        "energy_mean_j",
        "energy_std_j",
        "energy_mean_low_j",
        "energy_mean_high_j",
        "duration_mean_s",
        "power_w",
        "edp_js",
        "energy_time_corr",
    ]
    return frame[columns].sort_values("energy_j", ascending=False, kind="stable")


def _half_width(tasks: pd.DataFrame, frame: pd.DataFrame, resolved: pd.Series) -> pd.Series:
    # A uniform error over a width has the variance width ** 2 / 12.
    width_j = tasks["energy_high_j"] - tasks["energy_low_j"]
    resolution = (width_j**2 / 12).groupby(tasks["task"], observed=True, sort=False).sum() / resolved**2
    sampling = (frame["energy_std_j"] ** 2 / resolved).fillna(0.0)
    return NORMAL * np.sqrt(resolution + sampling)


def _correlation(tasks: pd.DataFrame) -> pd.Series:
    """Return Pearson's r by task, from sums of centred products."""
    keys = tasks["task"]
    both = tasks["energy_j"].notna()
    energy = tasks["energy_j"].where(both)
    duration = tasks["duration_s"].where(both)
    means = tasks.groupby("task", observed=True, sort=False)
    x = energy - means["energy_j"].transform("mean")
    y = duration - duration.groupby(keys, observed=True, sort=False).transform("mean")
    sums = pd.DataFrame({"xy": x * y, "xx": x * x, "yy": y * y}).groupby(keys, observed=True, sort=False).sum()
    scale = np.sqrt(sums["xx"] * sums["yy"])
    # What only rounding makes vary does not vary.
    noise = 1e-12 * means["energy_j"].sum().abs() * means["duration_s"].sum().abs() / means.size()
    return (sums["xy"] / scale).where(scale > noise)
