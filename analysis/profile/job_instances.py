"""The instances of a job: a table of all hosts, or sums over them for which parts are read again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from tprof.errors import UsageError

from .grouped import GroupSums, group_key, grouped
from .instances import ROW_BYTES
from .memory import available_bytes, size_text
from .part_tables import with_own
from .summary import joined_quality

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .cluster import ClusterProfile
    from .part_tables import PartTables
    from .profile import Profile
    from .stored_instances import Progress


def all_tasks(profile: ClusterProfile) -> pd.DataFrame:
    """Return the instances of all hosts; times count from the first host's begin, where clocks are known.

    Raises
    ------
    UsageError
        If parts have to be read again for it, and it does not fit into memory.
    """
    if profile.has_tasks:
        frames = [(one, one.tasks) for one in profile.parts if one.tasks is not None]
    else:
        _check_memory(profile)
        frames = list(profile.again(_table_of))
    if not frames:
        return pd.DataFrame({"host": pd.Categorical([])})
    placed = [placed_on_job(profile, part, tasks) for part, tasks in frames]
    texts = [name for name in columns_of(placed) if any(_is_categorical(frame, name) for frame in placed)]
    # As in `cluster._accounts`: tables without rows are left out.
    joined = pd.concat([one for one in placed if len(one)] or placed, ignore_index=True)
    joined = joined.reindex(columns=columns_of(placed))
    joined = joined.astype(dict.fromkeys(texts, "category")).astype({"host": "category"})
    return joined[["host", *(name for name in joined.columns if name != "host")]]


def placed_on_job(profile: ClusterProfile, part: PartTables, tasks: pd.DataFrame) -> pd.DataFrame:
    """Return instances of a part with the name of their host, and their begin from that of the job."""
    return tasks.assign(start_s=tasks["start_s"] + profile.late_s(part), host=part.host)


def columns_of(frames: Sequence[pd.DataFrame]) -> list[str]:
    """Return the columns that any table has."""
    return list(dict.fromkeys(str(name) for frame in frames for name in frame.columns))


class JobColumns(NamedTuple):
    """The columns of a job's table, which parts of it have in the same order and with the same names.

    Attributes
    ----------
    names : of the columns
    categories : of those that have few values, all of them
    lacking : columns that not all hosts have; what is a number or a flag on one of them is none on others
    """

    names: list[str]
    categories: dict[str, pd.Index[Any]]
    lacking: list[str]

    @classmethod
    def of(cls, tables: Sequence[pd.DataFrame]) -> JobColumns:
        """Take them from the hosts' tables, whose rows do not matter."""
        names = columns_of(tables)
        values: dict[str, dict[Any, None]] = {}
        for table in tables:
            for name in filter(partial(_is_categorical, table), names):
                values.setdefault(name, {}).update(dict.fromkeys(table[name].cat.categories))
        lacking = [name for name in names if any(name not in table for table in tables)]
        categories = {name: pd.Index(list(found), dtype=object) for name, found in values.items()}
        return cls(["host", *names], categories, lacking)

    def fitted(self, tasks: pd.DataFrame, hosts: Sequence[str]) -> pd.DataFrame:
        """Return some instances with all columns; `hosts` are all names of them."""
        known = self.categories | {"host": pd.Index(dict.fromkeys(hosts), dtype=object)}
        found = tasks.reindex(columns=self.names)
        for name, categories in known.items():
            found[name] = pd.Categorical(found[name], categories=categories)
        for name in self.lacking:
            if name not in known and found[name].dtype.kind in "iu":
                found[name] = found[name].astype(float)
        return found


def _is_categorical(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and isinstance(frame[name].dtype, pd.CategoricalDtype)


def _table_of(_: str, profile: Profile) -> pd.DataFrame:
    return with_own(profile)


def _check_memory(profile: ClusterProfile) -> None:
    """Raise UsageError if the table of all instances does not fit into memory."""
    rows = sum(one.figures.instances for one in profile.parts if one.figures is not None)
    needed, free = rows * ROW_BYTES, available_bytes()
    if needed > free:
        raise UsageError(
            f"the table of {rows:,} instances of the job would take {size_text(needed)} of memory and "
            f"{size_text(free)} are free: write it by profile.to_parquet(…) (tprof export {profile.trace.path.name} "
            "parquet), or take the part of one host"
        )


def job_by(profile: ClusterProfile, names: Sequence[str], progress: Progress | None = None) -> pd.DataFrame:
    """Return the sums of groups of instances; see `ClusterProfile.by`.

    Raises
    ------
    UsageError
        If no process has such a label.
    """
    columns = [one.columns for one in profile.parts if one.columns is not None]
    for name in names:
        group_key(pd.DataFrame(columns=["host", *columns_of(columns)]), name)
    hosts = {one.part: one.host for one in profile.parts}
    sums: list[GroupSums] = []
    keys: list[pd.DataFrame] = []
    for part, found in _groups(profile, names, hosts, progress):
        sums.append(sums.pop().plus(found) if sums else found)
        quality = str(part.info["quality"])
        keys.append(found.parts[list(names)].drop_duplicates().assign(quality=quality))
    table = sums[0].table(profile.summary())
    kinds = pd.concat(keys).groupby(list(names))["quality"].agg(joined_quality)
    return table.assign(quality=kinds.reindex(table.index))


def _groups(
    profile: ClusterProfile, names: Sequence[str], hosts: Mapping[str, str], progress: Progress | None
) -> list[tuple[PartTables, GroupSums]]:
    if not profile.has_tasks:
        return list(profile.again(partial(_grouped, names=names, hosts=hosts), progress))
    found = []
    for one in profile.parts:
        if one.tasks is not None:
            tasks = one.tasks.assign(host=one.host, **_lacking(one.tasks, names))
            found.append((one, GroupSums.of(tasks, tasks["own_s"].to_numpy(float), names)))
    return found


def _grouped(name: str, profile: Profile, *, names: Sequence[str], hosts: Mapping[str, str]) -> GroupSums:
    lacking = _lacking(profile.instances.last.tasks, names)
    return grouped(profile, names, further={"host": hosts[name], **lacking})


def _lacking(tasks: pd.DataFrame, names: Sequence[str]) -> dict[str, None]:
    """Return columns of the labels that no process of a host has."""
    return {column: None for name in names if (column := f"label_{name}") not in tasks and name != "host"}
