"""The instances of a job: those of its hosts, which are read again where they are not in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from tprof.errors import UsageError

from .instances import ROW_BYTES, Piece, scanned
from .memory import lacking
from .part import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from .cluster import Job
    from .instances import Progress
    from .part import Part
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
        if not self.has_table and (lack := lacking(self.sums.rows, ROW_BYTES)) is not None:
            raise UsageError(
                f"the table of {self.sums.rows:,} instances of the job {lack}: write it by profile.to_parquet(…) "
                f"(tprof export {self.job.trace.path.name} parquet), or take the part of one host"
            )
        fitted = [self._fitted(part, tasks) for part, tasks in self.job.ask(table_of)]
        # As in `cluster._accounts`: tables without rows are left out.
        return pd.concat([one for one in fitted if len(one)] or fitted[:1] or [self.last.tasks], ignore_index=True)

    @property
    def own_s(self) -> NDArray[np.float64]:
        """Their seconds, as of `Piece`. Raises as `tasks`."""
        return self.tasks["own_s"].to_numpy(float)

    @property
    def last(self) -> Piece:
        """None of them, with the columns of all."""
        part = self.job.parts[0]
        tasks = self._fitted(part, part.columns)
        return Piece(tasks, tasks["own_s"].to_numpy(float))

    def share(self, sink: Callable[[Piece], None], progress: Progress | None = None) -> None:
        """Give them to a sink, one host after the other, as they end."""
        for number, (part, profile) in enumerate(self.job.profiles()):
            if progress is not None:
                progress(part.name, number, len(self.job.parts))

            def add(piece: Piece, part: Part = part) -> None:
                sink(Piece(self._fitted(part, piece.tasks.assign(own_s=piece.own_s)), piece.own_s))

            profile.instances.share(add, progress)

    @cached_property
    def dataset(self) -> Any:
        """All of them as a dataset of pyarrow. Raises UsageError without it, TprofError if there is no space."""
        return scanned(self.share)

    def _fitted(self, part: Part, tasks: pd.DataFrame) -> pd.DataFrame:
        """Return instances of a part with the columns of all parts, their host, and their begin in the job."""
        placed = tasks.assign(start_s=tasks["start_s"] + part.late_s, host=part.host)
        found = placed.reindex(columns=[*self._types])
        return found.astype({name: kind for name, kind in self._types.items() if kind is not None})

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The columns that any part has, and the types that all of them have where they might differ.

        Those are columns of few values, and numbers that not all parts have, which are NaN there.
        """
        tables = [one.columns for one in self.job.parts]
        types: dict[str, Any] = {"host": _of_values(one.host for one in self.job.parts)}
        for name in dict.fromkeys(str(name) for table in tables for name in table):
            found = [table[name] for table in tables if name in table]
            if all(isinstance(one.dtype, pd.CategoricalDtype) for one in found):
                types[name] = _of_values(value for one in found for value in one.cat.categories)
            else:
                types[name] = float if len(found) < len(tables) and found[0].dtype.kind in "iuf" else None
        return types


def _of_values(values: Iterable[Any]) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(pd.Index(list(dict.fromkeys(values)), dtype=object))
