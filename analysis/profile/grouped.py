"""Tasks summed by what tells processes apart: their host and their labels, such as an MPI rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.names import shown

from tprof.errors import UsageError

from .intervals import part_reach
from .summary import without_gpu_power

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .profile import Profile
    from .stored_instances import Piece, Progress

MPI = "MPI_"
"""How the tasks begin that stand for calls of MPI."""
NONE = "(none)"
"""What stands for the label of a process without it."""
_BOUNDS = (("low", -1), ("high", 1))
_ADDED = ("energy_j", "own_s", "cpu_s", "instances")
_OF_INSTANCES = ("half_squares", "most_low_j", "most_high_j")


@dataclass(frozen=True)
class GroupSums:
    """Sums over instances by group and task, to which those of other instances can be added.

    Attributes
    ----------
    names : what makes a group: ``"host"`` or names of labels, one or more
    parts : one row for each group and task: these names, task, energy_j, own_s, cpu_s, instances, half_squares (of the
        half bounds), most_low_j and most_high_j (how far the bounds reach), and gpu_j if a GPU was measured
    processes : these names and process, once for each process of a group
    """

    names: tuple[str, ...]
    parts: pd.DataFrame
    processes: pd.DataFrame

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
        frame = pd.DataFrame({"task": tasks["task"], "cpu_s": tasks["cpu_s"], "energy_j": tasks["energy_j"]})
        frame["own_s"], frame["instances"] = own_s, 1
        half_j = (tasks["energy_high_j"] - tasks["energy_low_j"]) / 2
        frame["half_squares"] = half_j.where(tasks["energy_j"].notna()) ** 2
        for bound, sign in _BOUNDS:
            frame[f"most_{bound}_j"] = sign * (tasks[f"energy_{bound}_j"] - tasks["energy_j"])
        if "gpu_j" in tasks:
            frame["gpu_j"] = tasks["gpu_j"].fillna(0.0)
        for name in names:
            frame[name] = group_key(tasks, name)
        frame["process"] = (
            tasks["pid"] if "host" not in tasks else tasks["host"].astype(str) + " " + tasks["pid"].astype(str)
        )
        processes = frame[[*names, "process"]].drop_duplicates()
        return cls(tuple(names), _by_task(frame.drop(columns="process"), names), processes)

    def plus(self, later: GroupSums) -> GroupSums:
        """Return the sums of both, of the same names."""
        if not len(self.processes) or not len(later.processes):
            return later if len(later.processes) else self
        parts, processes = (pd.concat(both) for both in ((self.parts, later.parts), (self.processes, later.processes)))
        return GroupSums(self.names, _by_task(parts, self.names), processes.drop_duplicates())

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
        parts = self.parts.copy()
        _bound(parts, summary)
        is_mpi = parts["task"].astype(str).str.startswith(MPI)
        if is_mpi.any():
            parts["mpi_s"], parts["mpi_j"] = parts["own_s"].where(is_mpi, 0.0), parts["energy_j"].where(is_mpi, 0.0)
        table = _summed(parts, self.processes, self.names)
        if "gpu_j" in table:
            table = without_gpu_power(table)
        return _ordered(table, [name for name in ("mpi_s", "mpi_j") if name in table])


def _by_task(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the sums of each group and task; NaN if no instance has a value."""
    return rows.groupby([*names, "task"], observed=True, sort=False).sum(min_count=1).reset_index()


def grouped(
    profile: Profile, names: Sequence[str], *, further: Mapping[str, str | None], progress: Progress | None = None
) -> GroupSums:
    """Sum the instances of one host by labels or `host`; those that are not kept are shared once more.

    Parameters
    ----------
    profile, names : as of `Profile.by`
    further : columns that all instances get, `host` among them
    progress : is told how far that is

    Raises
    ------
    UsageError
        If no process has such a label.
    """
    instances = profile.instances
    first = instances.last
    sums = [GroupSums.of(first.tasks.head(0).assign(**further), first.own_s[:0], names)]

    def add(piece: Piece) -> None:
        sums.append(sums.pop().plus(GroupSums.of(piece.tasks.assign(**further), piece.own_s, names)))

    instances.share(add, progress)
    return sums[0]


def grouped_sums(sums: pd.DataFrame, summary: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Sum rows that are sums over instances already, as `GroupSums` does for instances.

    Parameters
    ----------
    sums : task, process, those of `names`, instances, energy_j, own_s, cpu_s, and half_squares: of the half bounds
    summary, names : as of `GroupSums`
    """
    parts = sums.groupby([*names, "task"], observed=True, sort=False)[[*_ADDED, "half_squares"]].sum().reset_index()
    parts = parts.assign(most_low_j=np.inf, most_high_j=np.inf)
    _bound(parts, summary)
    return _ordered(_summed(parts, sums, names))


def _summed(parts: pd.DataFrame, rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    found = parts.drop(columns=["task", *_OF_INSTANCES]).groupby(list(names), sort=False).sum(min_count=1)
    found["processes"] = rows.groupby(list(names), sort=False)["process"].nunique()
    found["share"] = found["energy_j"] / found["energy_j"].sum()
    found["power_w"] = found["energy_j"] / found["own_s"].where(found["own_s"] > 0)
    return found


def _ordered(table: pd.DataFrame, more: Sequence[str] = ()) -> pd.DataFrame:
    joules = ["energy_j", "energy_low_j", "energy_high_j"]
    order = ["processes", "instances", *joules, "share", "own_s", "cpu_s", "power_w", *more]
    return table.loc[sorted(table.index, key=natural_order), order].astype({"instances": int, "processes": int})


def with_host(profile: Profile) -> pd.DataFrame:
    """Return the instances of a host's profile with the host's name in the column `host`."""
    return profile.tasks.assign(host=profile.hostname)


def group_key(tasks: pd.DataFrame, name: str) -> pd.Series[str]:
    """Return the host or the label of each instance. Raises UsageError if there is none of this name."""
    values = tasks[_column(tasks, name)].astype(object)
    return values.where(values.notna(), NONE).rename(name)


def _column(tasks: pd.DataFrame, name: str) -> str:
    column = name if name == "host" else f"label_{name}"
    if column in tasks:
        return column
    if name in ("process", "thread"):
        keep = "summary" if name == "process" else "threads"
        raise UsageError(f"sums by {name} are in recordings of tprof run --keep {keep} only: choose host or a label")
    known = ["host", *(str(one).removeprefix("label_") for one in tasks.columns if str(one).startswith("label_"))]
    raise UsageError(
        f"no process has the label {shown(name)}: choose from {', '.join(map(shown, known))}, or label processes by "
        "tprof.label(NAME=…)"
    )


def _bound(parts: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Add the bounds of each part: the relative error of its task's energy, and its own instances' resolution."""
    whole_j = summary["energy_j"].where(summary["energy_j"] > 0)
    names = parts["task"].astype(object)
    part = (parts["instances"] / summary["instances"].reindex(names).to_numpy(float)).to_numpy(float)
    joules, half_squares = parts["energy_j"].to_numpy(float), parts["half_squares"].fillna(0.0).to_numpy(float)
    for bound, sign in _BOUNDS:
        ratio = (summary[f"energy_{bound}_j"] / whole_j).reindex(names).to_numpy(float)
        most_j = parts[f"most_{bound}_j"].fillna(0.0).to_numpy(float)
        reach_j = part_reach(sign * joules * (ratio - 1), half_squares, part, most_j)
        parts[f"energy_{bound}_j"] = np.where(joules > 0, np.maximum(joules + sign * reach_j, 0.0), joules)


def natural_order(key: object) -> tuple[tuple[bool, int, str], ...]:
    """Return what sorts the keys of groups: numbers as numbers, before words."""
    parts = key if isinstance(key, tuple) else (key,)
    texts = [str(part) for part in parts]
    return tuple((not text.isdecimal(), int(text) if text.isdecimal() else 0, text) for text in texts)
