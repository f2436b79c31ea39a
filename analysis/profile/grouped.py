"""Tasks summed by what tells processes apart: their host and their labels, such as an MPI rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.names import shown

from tprof.errors import UsageError

from .intervals import part_reach
from .summary import joined_quality, without_gpu_power

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .instances import Instances, InstanceTable, Piece, Progress
    from .profile import Profile

MPI = "MPI_"
"""How the tasks begin that stand for calls of MPI."""
NONE = "(none)"
"""What stands for the label of a process without it."""
BOUNDS = (("low", -1), ("high", 1))
COLUMNS = (
    "processes", "instances", "energy_j", "energy_low_j", "energy_high_j", "share", "own_s", "cpu_s", "power_w",
    "mpi_s", "mpi_j",
)  # fmt: skip


@dataclass(frozen=True)
class GroupSums:
    """Sums over instances by group, process and task, to which those of other instances can be added.

    Attributes
    ----------
    names : what makes a group: ``"host"`` or names of labels, one or more
    parts : one row for each group, process and task: these names, host, process, task, energy_j, own_s, cpu_s,
        instances, half_squares (of the half bounds), most_low_j and most_high_j (how far the bounds reach), and gpu_j
        if a GPU was measured
    """

    names: tuple[str, ...]
    parts: pd.DataFrame

    @classmethod
    def of(cls, tasks: pd.DataFrame, own_s: NDArray[np.float64], names: Sequence[str]) -> GroupSums:
        """Sum instances.

        Parameters
        ----------
        tasks : one row per instance, of one host or of a job
        own_s : (len(tasks),) seconds in which each ran on its thread, without nested tasks or suspension
        names : as above

        Raises
        ------
        UsageError
            If no process has such a label.
        """
        host = group_key(tasks, "host") if "host" in tasks else ""
        frame = bounded(tasks, own_s).assign(cpu_s=tasks["cpu_s"], process=tasks["pid"], host=host)
        if "gpu_j" in tasks:
            frame["gpu_j"] = tasks["gpu_j"].fillna(0.0)
        return cls.of_sums(frame.assign(**{name: group_key(tasks, name) for name in names}), names)

    @classmethod
    def of_sums(cls, sums: pd.DataFrame, names: Sequence[str]) -> GroupSums:
        """Sum rows that are sums over instances already, with all columns of `parts`."""
        return cls(tuple(names), by_task(sums, list(dict.fromkeys([*names, "host", "process"]))))

    def plus(self, later: GroupSums) -> GroupSums:
        """Return the sums of both, of the same names."""
        frames = [one.parts for one in (self, later) if len(one.parts)]
        return self if not frames else GroupSums.of_sums(pd.concat(frames), self.names)

    def table(self, summary: pd.DataFrame) -> pd.DataFrame:
        """Return one row for each group.

        Parameters
        ----------
        summary : the tasks' summary, from which the intervals are

        Returns
        -------
        Index of the names, ordered by it, numbers as numbers; a process without the label is under ``"(none)"``.
        processes, instances, energy_j, energy_low_j and energy_high_j (95 %), share (of all tasks' energy), own_s (in
        tasks), cpu_s, power_w (energy over own time; NaN with joules of a GPU). If calls of MPI are tasks also mpi_s
        and mpi_j, their parts of own_s and energy_j. The intervals take the errors of a task's mean energy as common to
        all its instances and the errors of all tasks as of one sign, so they are never too narrow.
        """
        names = list(self.names)
        parts = by_task(self.parts, names)
        for name, ends_j in bounds_of(parts, summary).items():
            parts[name] = ends_j.where(parts["energy_j"] > 0, parts["energy_j"])
        is_mpi = parts["task"].astype(str).str.startswith(MPI)
        if is_mpi.any():
            parts["mpi_s"], parts["mpi_j"] = (parts[name].where(is_mpi, 0.0) for name in ("own_s", "energy_j"))
        table = parts.groupby(names, sort=False).sum(min_count=1, numeric_only=True)
        table["processes"] = self.parts.drop_duplicates([*names, "host", "process"]).groupby(names).size()
        table["share"] = table["energy_j"] / table["energy_j"].sum()
        table["power_w"] = table["energy_j"] / table["own_s"].where(table["own_s"] > 0)
        if "gpu_j" in table:
            table = without_gpu_power(table)
        columns = [name for name in COLUMNS if name in table]
        return table.loc[sorted(table.index, key=natural_order), columns].astype({"instances": int, "processes": int})


def bounded(tasks: pd.DataFrame, own_s: NDArray[np.float64]) -> pd.DataFrame:
    """Return the figures of instances whose sums `bounds_of` takes."""
    frame = tasks[["task", "energy_j"]].assign(own_s=own_s, instances=1)
    half_j = (tasks["energy_high_j"] - tasks["energy_low_j"]) / 2
    frame["half_squares"] = half_j.where(tasks["energy_j"].notna()) ** 2
    for bound, sign in BOUNDS:
        frame[f"most_{bound}_j"] = sign * (tasks[f"energy_{bound}_j"] - tasks["energy_j"])
    return frame


def by_task(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the sums of each group and task; NaN if no instance has a value."""
    groups = rows.groupby([*names, "task"], observed=True, sort=False)
    return groups.sum(min_count=1, numeric_only=True).reset_index()


def grouped(
    host: str | None, instances: Instances | InstanceTable, *, names: Sequence[str], progress: Progress | None = None
) -> GroupSums:
    """Sum the instances of a host; those that are not kept are shared once more, of which `progress` is told."""
    sums: list[GroupSums] = []

    def add(piece: Piece) -> None:
        lacking = {column: None for column in map(_column, names) if column not in piece.tasks}
        found = GroupSums.of(piece.tasks.assign(**lacking | {"host": host}), piece.own_s, names)
        sums[:] = [sums[0].plus(found) if sums else found]

    instances.share(add, progress)
    return sums[0]


def grouped_table(profile: Profile, names: Sequence[str], progress: Progress | None = None) -> pd.DataFrame:
    """Return the sums of groups of instances; see `Profile.by`.

    Raises
    ------
    UsageError
        If no process of any host has such a label.
    """
    known = profile.instances.last.tasks.assign(host=None)
    for name in names:
        group_key(known, name)
    found = list(profile.each(partial(grouped, names=names), progress))
    table = reduce(GroupSums.plus, (sums for *_, sums in found)).table(profile.summary())
    if profile.job is None:
        return table
    kinds = pd.concat([sums.parts.assign(quality=info["quality"]) for _, info, sums in found])
    return table.assign(quality=kinds.groupby(list(names))["quality"].agg(joined_quality))


def group_key(tasks: pd.DataFrame, name: str) -> pd.Series[str]:
    """Return the host or the label of each instance. Raises UsageError if there is none of this name."""
    column = _column(name)
    if column in tasks:
        values = tasks[column].astype(object)
        return values.where(values.notna(), NONE).rename(name)
    if name in ("process", "thread"):
        keep = "summary" if name == "process" else "threads"
        raise UsageError(f"sums by {name} are in recordings of tprof run --keep {keep} only: choose host or a label")
    known = ["host", *(str(one).removeprefix("label_") for one in tasks.columns if str(one).startswith("label_"))]
    raise UsageError(
        f"no process has the label {shown(name)}: choose from {', '.join(map(shown, known))}, or label processes by "
        "tprof.label(NAME=…)"
    )


def _column(name: str) -> str:
    return name if name == "host" else f"label_{name}"


def bounds_of(parts: pd.DataFrame, summary: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """Return the bounds of parts: by the relative error of their tasks' energies, and their own resolution."""
    whole_j, names = summary["energy_j"].where(summary["energy_j"] > 0), parts["task"].astype(object)
    part = np.nan_to_num(parts["instances"].to_numpy() / summary["instances"].reindex(names).to_numpy(float))
    joules, half_squares = parts["energy_j"], parts["half_squares"].fillna(0.0).to_numpy(float)
    found = {}
    for bound, sign in BOUNDS:
        ratio = (summary[f"energy_{bound}_j"] / whole_j).reindex(names).fillna(1.0).to_numpy(float)
        most_j = parts[f"most_{bound}_j"].fillna(0.0).to_numpy(float)
        reach_j = part_reach((sign * joules * (ratio - 1)).to_numpy(float), half_squares, part, most_j)
        found[f"energy_{bound}_j"] = (joules + sign * reach_j).clip(lower=0.0)
    return found


def natural_order(key: object) -> tuple[tuple[bool, int, str], ...]:
    """Return what sorts the keys of groups: numbers as numbers, before words."""
    parts = key if isinstance(key, tuple) else (key,)
    texts = [str(part) for part in parts]
    return tuple((not text.isdecimal(), int(text) if text.isdecimal() else 0, text) for text in texts)
