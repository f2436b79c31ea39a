"""The instances of a job: those of its hosts, which are read again where they are not in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from tprof.errors import UsageError

from .instances import ROW_BYTES
from .memory import lacking
from .part_tables import with_own
from .stored_instances import Piece, scanned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from .cluster import Job
    from .part_tables import PartTables
    from .profile import Profile
    from .stored_instances import Progress
    from .task_sums import TaskSums


@dataclass(frozen=True, repr=False)
class JobInstances:
    """The instances of all hosts.

    Attributes
    ----------
    job : whose they are
    sums : over them
    """

    job: Job
    sums: TaskSums

    @property
    def has_table(self) -> bool:
        """Whether the table of all of them is in memory already."""
        return self.job.has_tables

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per instance, with host and own_s. Raises UsageError if they do not fit into memory."""
        if self.job.has_tables:
            frames = [(one, one.tasks) for one in self.job.parts if one.tasks is not None]
        else:
            self._check_memory()
            frames = list(self.job.again(_table_of))
        if not frames:
            return pd.DataFrame({"host": pd.Categorical([])})
        columns, hosts = JobColumns.of([tasks for _, tasks in frames]), [part.host for part, _ in frames]
        fitted = [columns.fitted(self._placed(part, tasks), hosts) for part, tasks in frames]
        # As in `cluster._accounts`: tables without rows are left out.
        return pd.concat([one for one in fitted if len(one)] or fitted[:1], ignore_index=True)

    @property
    def own_s(self) -> NDArray[np.float64]:
        """Their seconds, as of `Piece`. Raises as `tasks`."""
        return self.tasks["own_s"].to_numpy(float)

    @property
    def last(self) -> Piece:
        """None of them, with the columns of all."""
        columns = [one.columns for one in self.job.parts if one.columns is not None]
        tasks = pd.DataFrame(columns=["host", *columns_of(columns)])
        return Piece(tasks, tasks["own_s"].to_numpy(float))

    def share(self, sink: Callable[[Piece], None], progress: Progress | None = None) -> None:
        """Give them to a sink, one host after the other, as they end."""
        columns = JobColumns.of([one.columns for one in self.job.parts if one.columns is not None])
        hosts = [one.host for one in self.job.parts]
        for number, (part, profile) in enumerate(self.job.profiles()):
            if progress is not None:
                progress(part.part, number, len(hosts))

            def add(piece: Piece, part: PartTables = part) -> None:
                tasks = self._placed(part, piece.tasks.assign(own_s=piece.own_s))
                sink(Piece(columns.fitted(tasks, hosts), piece.own_s))

            profile.instances.share(add, progress)

    @cached_property
    def dataset(self) -> Any:
        """All of them as a dataset of pyarrow. Raises UsageError without it, TprofError if there is no space."""
        return scanned(self.share)

    def _placed(self, part: PartTables, tasks: pd.DataFrame) -> pd.DataFrame:
        """Return instances of a part with the name of their host, and their begin from that of the job."""
        return tasks.assign(start_s=tasks["start_s"] + self.job.late_s(part), host=part.host)

    def _check_memory(self) -> None:
        if (lack := lacking(self.sums.rows, ROW_BYTES)) is not None:
            raise UsageError(
                f"the table of {self.sums.rows:,} instances of the job {lack}: write it by profile.to_parquet(…) "
                f"(tprof export {self.job.trace.path.name} parquet), or take the part of one host"
            )


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
