"""Tasks summed by what tells processes apart: their host and their labels, such as an MPI rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.names import shown

from tprof.errors import UsageError

from .summary import without_gpu_power

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MPI = "MPI_"
"""How the tasks begin that stand for calls of MPI."""
NONE = "(none)"
"""What stands for the label of a process without it."""


def grouped(
    tasks: pd.DataFrame, own_s: NDArray[np.float64], summary: pd.DataFrame, names: Sequence[str]
) -> pd.DataFrame:
    """Sum instances by host or labels.

    Parameters
    ----------
    tasks : one row per instance, of one host or of a job
    own_s : (len(tasks),) seconds in which each ran on its thread, without nested tasks or suspension
    summary : the tasks' summary, from which the intervals are
    names : ``"host"`` or names of labels, one or more

    Returns
    -------
    Index of these names, ordered by it, numbers as numbers; a process without the label is under ``"(none)"``.
    processes, instances, energy_j, energy_low_j and energy_high_j (95 %), share (of all tasks' energy), own_s (in
    tasks), cpu_s, power_w (energy over own time; NaN with joules of a GPU). If calls of MPI are tasks also mpi_s and
    mpi_j, their parts of own_s and energy_j. The intervals take the errors of a task's mean energy as common to all its
    instances and the errors of all tasks as of one sign, so they are never too narrow.

    Raises
    ------
    UsageError
        If no process has such a label.
    """
    frame = pd.DataFrame({"task": tasks["task"], "pid": tasks["pid"], "cpu_s": tasks["cpu_s"]})
    frame["energy_j"], frame["own_s"], frame["instances"] = tasks["energy_j"], own_s, 1
    frame["process"] = (
        frame["pid"] if "host" not in tasks else tasks["host"].astype(str) + " " + frame["pid"].astype(str)
    )
    for name in names:
        frame[name] = group_key(tasks, name)
    by_task = frame.groupby([*names, "task"], observed=True, sort=False)
    parts = by_task[["energy_j", "own_s", "cpu_s", "instances"]].sum(min_count=1).reset_index()
    _bound(parts, summary)
    is_mpi = parts["task"].astype(str).str.startswith(MPI)
    if is_mpi.any():
        parts["mpi_s"], parts["mpi_j"] = parts["own_s"].where(is_mpi, 0.0), parts["energy_j"].where(is_mpi, 0.0)
    table = parts.drop(columns="task").groupby(list(names), sort=False).sum(min_count=1)
    table["processes"] = frame.groupby(list(names), sort=False)["process"].nunique()
    table["share"] = table["energy_j"] / table["energy_j"].sum()
    table["power_w"] = table["energy_j"] / table["own_s"].where(table["own_s"] > 0)
    if "gpu_j" in tasks:
        groups = frame.assign(gpu_j=tasks["gpu_j"]).groupby(list(names), sort=False)
        table = without_gpu_power(table.assign(gpu_j=groups["gpu_j"].sum()))
    order = [
        "processes",
        "instances",
        "energy_j",
        "energy_low_j",
        "energy_high_j",
        "share",
        "own_s",
        "cpu_s",
        "power_w",
    ]
    order += [name for name in ("mpi_s", "mpi_j") if name in table]
    return table.loc[sorted(table.index, key=_natural), order].astype({"instances": int, "processes": int})


def group_key(tasks: pd.DataFrame, name: str) -> pd.Series[str]:
    """Return the host or the label of each instance. Raises UsageError if there is none of this name."""
    values = tasks[_column(tasks, name)].astype(object)
    return values.where(values.notna(), NONE).rename(name)


def _column(tasks: pd.DataFrame, name: str) -> str:
    column = name if name == "host" else f"label_{name}"
    if column in tasks:
        return column
    known = ["host", *(str(one).removeprefix("label_") for one in tasks.columns if str(one).startswith("label_"))]
    raise UsageError(
        f"no process has the label {shown(name)}: choose from {', '.join(map(shown, known))}, or label processes by "
        "tprof.label(NAME=…)"
    )


def _bound(parts: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Add the bounds of each part, which are as far from it as those of its task's mean energy are from the mean."""
    means = summary["energy_mean_j"].where(summary["energy_mean_j"] > 0)
    names = parts["task"].astype(object)
    for bound in ("low", "high"):
        ratio = (summary[f"energy_mean_{bound}_j"] / means).reindex(names).to_numpy(float)
        parts[f"energy_{bound}_j"] = np.where(parts["energy_j"] > 0, parts["energy_j"] * ratio, parts["energy_j"])


def _natural(key: object) -> tuple[tuple[bool, int, str], ...]:
    parts = key if isinstance(key, tuple) else (key,)
    texts = [str(part) for part in parts]
    return tuple((not text.isdecimal(), int(text) if text.isdecimal() else 0, text) for text in texts)
