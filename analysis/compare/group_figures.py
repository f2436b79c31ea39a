"""The figures of groups of instances, such as those of a host or an MPI rank, as a comparison takes them of tasks.

A group holds instances of unlike tasks, so its joules scatter by those of each task in it (a stratified sample): the
variances of the tasks' sums are added. What the attribution may give a task too much is shared over its groups by their
part of its joules, and the errors of all tasks are taken as of one sign, as in `tprof.analysis.profile.grouped`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95
from tprof.analysis.profile.grouped import group_key, natural_order

from .evidence import SURE_DF
from .run_figures import ENERGIES, FIGURES, Places, reach_of
from .scatter import Spread

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
_SUMS = {
    "energy_j": ("energy_j", "resolved", None),
    "energy_mean_j": ("energy_j", "resolved", "resolved"),
    "duration_mean_s": ("duration_s", "instances", "instances"),
    "own_mean_s": ("own_s", "instances", "instances"),
    "power_w": ("energy_j", "own_s", "own_s"),
}
"""Of each figure: what is summed, what makes a task's mean its sum, what the sum is divided by."""
_STEMS = {"energy_j": "energy", "energy_mean_j": "energy", "duration_mean_s": "duration", "own_mean_s": "own"}
_BOUNDS = ("below", "above", "common_below", "common_above")


def group_figures(
    tasks: pd.DataFrame, own_s: Floats, summaries: tuple[pd.DataFrame, pd.DataFrame], names: Sequence[str]
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Return what `RunFigures` holds as `figures` and `where`, of groups instead of tasks.

    Parameters
    ----------
    tasks : one row per instance
    own_s : (len(tasks),) seconds in which each ran on its thread
    summaries : of the tasks, with the errors that all tasks share and without
    names : ``"host"`` or names of labels

    Raises
    ------
    UsageError
        If no process has such a label.
    """
    keys = [group_key(tasks, name).astype(str) for name in names]
    group = pd.concat(keys, axis=1).agg(" ".join, axis=1) if len(keys) > 1 else keys[0]
    frame = pd.DataFrame({"group": group, "task": tasks["task"].astype(object), "own_s": own_s})
    frame["energy_j"], frame["duration_s"] = tasks["energy_j"], tasks["duration_s"]
    frame["instances"], frame["resolved"] = 1, frame["energy_j"].notna().astype(int)
    pairs = frame.groupby(["group", "task"], sort=False)
    number = pairs.ngroup()
    parts = pairs[["energy_j", "duration_s", "own_s", "instances", "resolved"]].sum(min_count=1).reset_index()
    spread = Spread.of(tasks.assign(task=pd.Categorical(number, categories=range(len(parts)))), own_s)
    reach = _shares_of(parts, reach_of(*summaries), summaries[0])
    order = sorted(parts["group"].unique(), key=natural_order)
    sums = parts.groupby("group")[["energy_j", "duration_s", "own_s", "instances", "resolved"]].sum(min_count=1)
    sums = sums.reindex(order)
    figures = {name: _figure(name, parts, sums, spread) for name in FIGURES}
    for name in FIGURES:
        figures[name] = _with_bounds(name, figures[name], reach.reindex(order), sums)
    if "gpu_j" in tasks:  # the joules of a GPU do not fall into the seconds of a thread
        has_gpu = tasks["gpu_j"].fillna(0.0).groupby(group).sum().reindex(order) > 0
        figures["power_w"].loc[has_gpu, ["value", "variance"]] = np.nan
    places = Places()
    places.add(tasks.assign(task=pd.Categorical(group, categories=order)))
    return figures, places.table(sums)


def _figure(name: str, parts: pd.DataFrame, sums: pd.DataFrame, spread: Spread) -> pd.DataFrame:
    """Return a figure of each group with the variance by its instances."""
    column, to_sum, over = _SUMS[name]
    errors = spread.errors(_STEMS.get(name, "power")).reindex(range(len(parts)))
    variance = errors["variance"].to_numpy(float) * parts[to_sum].to_numpy(float) ** 2
    terms = pd.DataFrame({"group": parts["group"], "variance": variance, "square": variance**2 / errors["df"]})
    divisor = sums[over].where(sums[over] > 0) if over else 1.0
    # One instance alone has no scatter, so what holds it has none that is known either.
    columns = terms.groupby("group")[["variance", "square"]]
    added = columns.sum().where(columns.count().eq(columns.size(), axis=0)).reindex(sums.index)
    df = (added["variance"] ** 2 / added["square"].where(added["square"] > 0)).clip(upper=SURE_DF)
    df = df.where(added["square"] != 0, SURE_DF)
    return pd.DataFrame({"value": sums[column] / divisor, "variance": added["variance"] / divisor**2, "df": df})


def _shares_of(parts: pd.DataFrame, reach: dict[str, pd.Series[float]], summary: pd.DataFrame) -> pd.DataFrame:
    """Return how far the joules of each group may be off, by reason."""
    names = parts["task"]
    whole = summary["energy_j"].where(summary["energy_j"] > 0).reindex(names).to_numpy(float)
    share = parts["energy_j"].to_numpy(float) / whole
    table = pd.DataFrame({reason: share * values.reindex(names).to_numpy(float) for reason, values in reach.items()})
    return table.fillna(0.0).groupby(parts["group"]).sum()


def _with_bounds(name: str, figure: pd.DataFrame, reach: pd.DataFrame, sums: pd.DataFrame) -> pd.DataFrame:
    """Return a figure with what the attribution adds to its variance, and its bounds."""
    if name not in ENERGIES:
        return figure.assign(**dict.fromkeys(_BOUNDS, 0.0))
    over = _SUMS[name][2]
    divisor = sums[over].where(sums[over] > 0) if over else 1.0
    scatter = figure["variance"]
    variance = scatter + (reach["random"] / divisor / NORMAL_95) ** 2
    weight = (scatter / variance).where(variance > 0, 1.0)
    df = (figure["df"] / weight**2).clip(upper=SURE_DF)
    return figure.assign(variance=variance, df=df, **{bound: reach[bound] / divisor for bound in _BOUNDS})
