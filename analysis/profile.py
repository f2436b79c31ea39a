"""A profile: the tables that reports, exports and users read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .budgets import with_budgets
from .decisions import decisions_table
from .expected import expected_errors
from .graph import CriticalPath, critical_path, dependences, runtime_facts, starvation, waits
from .summary import summarize
from .tables import power_table, segments_table

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from tprof.trace import Trace
    from tprof.trace.estimate import WattsError

    from .build import Recipe
    from .quanta import Quanta


@dataclass(frozen=True, repr=False)
class Profile:
    """Where the joules of a recording went.

    Attributes
    ----------
    trace : what was recorded
    tasks : one row an instance; energies and `cpu_s` are exclusive of nested tasks, `duration_s` is from
        first start to end with nested and suspended time in it; NaN energy is "not resolved". Where a task runtime
        ran them also: spawn_s, ready_s (both from the begin of the recorded block), wait_data_s (spawn to ready),
        wait_worker_s (ready to start), NaN for instances of which the trace does not know, stolen (bool)
    accounts : one row a domain, index `domain`: measured_j, tasks_j, runtime_j, other_j, idle_j
    info : sensor, model, warnings and what else a reader must know
    recipe : how the joules were shared
    own_s : (instances,) seconds in which each was what its thread ran, without nested tasks or suspension
    mean_error_j : (distinct names,) standard errors of the tasks' mean energies where powers were fitted, else None
    watts : by which factors the watts of an estimate may be off; the bounds of `tasks` hold that
    """

    trace: Trace
    tasks: pd.DataFrame
    accounts: pd.DataFrame
    info: dict[str, Any]
    recipe: Recipe = field(repr=False)
    own_s: NDArray[np.float64] = field(repr=False)
    mean_error_j: NDArray[np.float64] | None = field(repr=False)
    watts: WattsError = field(repr=False)

    @property
    def quanta(self) -> tuple[Quanta, ...]:
        """What the sensors resolved, by domain."""
        return self.recipe.quanta

    @property
    def measured_j(self) -> float:
        """Joules of the counted domains together; NaN if none was resolved."""
        return self.counted_accounts["measured_j"]

    @property
    def counted_accounts(self) -> dict[str, float]:
        """The accounts of all counted domains added up."""
        counted = self.accounts.loc[[q.name for q in self.quanta if q.counted]].drop(columns="quality")
        return {str(name): float(value) for name, value in counted.astype(float).sum(min_count=1).items()}

    def summary(self, *, common: bool = True) -> pd.DataFrame:
        """Return one row a task (index `task`), by energy; see `tprof.analysis.summary.summarize`.

        Without `common` the intervals leave out the error of an estimate's watts, which is the same for all tasks and
        runs of a machine: for comparisons of them.

        Where a task has a budget for its instances also `budget_j` and `over_budget`, how many took more; NaN for
        tasks without one.
        """
        stored = self.recipe.model.stored
        share = None if stored is None else stored.residual_share
        table = summarize(
            self.tasks, self.own_s, self.mean_error_j, residual_share=share, watts=self.watts, common=common
        )
        return with_budgets(table.assign(quality=self.info["quality"]), self.tasks, self.trace.tasks)

    def waits(self) -> pd.DataFrame:
        """Return what the instances of each task waited for; see `tprof.analysis.graph.waits`."""
        return waits(self)

    def critical_path(self) -> CriticalPath:
        """Return the longest chain of dependences, and what the run waited for; see `CriticalPath`."""
        return self._critical_path

    @cached_property
    def _critical_path(self) -> CriticalPath:
        return critical_path(self)

    @cached_property
    def dependences(self) -> pd.DataFrame:
        """Pairs of instances: `instance` had to wait for `waits_for`, which had not ended when it was spawned."""
        return dependences(self.trace.graph)

    @cached_property
    def starvation(self) -> pd.DataFrame:
        """What each worker of a task runtime did; see `tprof.analysis.graph.starvation`."""
        return starvation(self)

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """What a runtime's policy decided, one row a decision; see `tprof.analysis.decisions.decisions_table`."""
        return decisions_table(self.trace)

    @cached_property
    def runtime(self) -> dict[str, float | int] | None:
        """What a task runtime came to, in figures; None without one; see `tprof.analysis.graph.facts`."""
        return runtime_facts(self)

    def __repr__(self) -> str:
        """Say in one line what it is a profile of."""
        joules = f"{self.measured_j:.4g} J" if self.measured_j == self.measured_j else "no energy"
        quality, model = self.info["quality"], self.info["model"]
        return f"<Profile of {self.trace.path.name}: {len(self.tasks):,} instances, {joules} ({quality}), {model}>"

    @cached_property
    def power(self) -> pd.DataFrame:
        """Watts of each domain over time: `time_s`, `duration_s` and a column `<domain>_w` a domain."""
        return power_table(self.quanta, self.trace.start_ns).assign(quality=self.info["quality"])

    @cached_property
    def segments(self) -> pd.DataFrame:
        """What each thread ran when, with its joules; read again from the trace when first asked for."""
        segments, plans = self.recipe.again(self.trace)
        return segments_table(self.trace, segments, plans)

    @cached_property
    def expected_errors(self) -> pd.DataFrame:
        """What error to expect for instances of each length; see `tprof.analysis.expected.expected_errors`."""
        return expected_errors(self)

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files into a directory."""
        from .export import csv  # noqa: PLC0415 - loaded when used

        csv.write(self, directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files into a directory."""
        from .export import parquet  # noqa: PLC0415 - loaded when used

        parquet.write(self, directory)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report of one self-contained HTML file."""
        from .report import write_report  # noqa: PLC0415 - loaded when used

        write_report(self, path)
