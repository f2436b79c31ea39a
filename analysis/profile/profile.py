"""A profile: the tables that reports, exports and users read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .grouped import grouped
from .instance_accuracy import expected_errors
from .summary import summarize, with_budgets
from .tables import decisions_table, power_table, segments_table
from .task_graph import CriticalPath, critical_path, dependences, runtime_facts, starvation, waits

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace
    from tprof.trace.estimate import WattsError

    from .build import Recipe
    from .native_threads import NativeBounds


@dataclass(frozen=True, repr=False)
class Profile:
    """The joules of a recording by task.

    Attributes
    ----------
    trace : the recording
    tasks : one row per instance; energies and `cpu_s` are exclusive of nested tasks, `duration_s` is from
        first start to end with nested and suspended time in it; NaN energy is "not resolved". With a task runtime
        also: spawn_s, ready_s (both from the begin of the recorded block), wait_data_s (spawn to ready),
        wait_worker_s (ready to start), NaN if the trace does not have them, stolen (bool). If native threads
        (BLAS, OpenMP, polars, …) serve tasks: native_cpu_s, native_j (in energy_j), native_high_j (what it is at most),
        spin_j (after its end, not in energy_j). With tasks of dask: key, missing for others
    accounts : one row per domain, index `domain`: measured_j, tasks_j, runtime_j, other_j, idle_j, and of native
        threads spin_j (after the task that used them) and unidentified_j (of one of several tasks); the last six sum to
        measured_j; `quality`: whether this was measured, estimated or simulated
    info : sensor, model, warnings and other provenance
    recipe : inputs of the sharing
    own_s : (instances,) seconds in which its thread ran each, without nested tasks or suspension
    mean_error_j : (distinct names,) standard errors of the tasks' mean energies if powers were fitted, else None
    watts : factors of the error of an estimate's watts; the bounds of `tasks` include it
    native : bounds of what native threads add to the tasks; None if none serves a task
    """

    trace: Trace
    tasks: pd.DataFrame
    accounts: pd.DataFrame
    info: dict[str, Any]
    recipe: Recipe = field(repr=False)
    own_s: NDArray[np.float64] = field(repr=False)
    mean_error_j: NDArray[np.float64] | None = field(repr=False)
    watts: WattsError = field(repr=False)
    native: NativeBounds | None = field(default=None, repr=False)

    @property
    def quanta(self) -> tuple[Quanta, ...]:
        """The quanta of each domain."""
        return self.recipe.quanta

    @property
    def measured_j(self) -> float:
        """Sum of the counted domains' joules; NaN if none was resolved."""
        return self.counted_accounts["measured_j"]

    @property
    def counted_accounts(self) -> dict[str, float]:
        """The sum of the accounts of all counted domains."""
        counted = self.accounts.loc[[q.name for q in self.quanta if q.counted]].drop(columns="quality")
        return {str(name): float(value) for name, value in counted.astype(float).sum(min_count=1).items()}

    def summary(self, *, common: bool = True) -> pd.DataFrame:
        """Return one row per task (index `task`), by energy; see `tprof.analysis.profile.summary.summarize`.

        Without `common` the intervals exclude the error of an estimate's watts, which is the same for all tasks and
        runs of a machine; this is for comparisons between them.

        If any task has a budget, also `budget_j` and `over_budget`, the number of instances over it; NaN for tasks
        without one.
        """
        stored = self.recipe.model.stored
        share = None if stored is None else stored.residual_share
        table = summarize(
            self.tasks,
            self.own_s,
            self.mean_error_j,
            residual_share=share,
            watts=self.watts,
            common=common,
            native=self.native,
        )
        return with_budgets(table.assign(quality=self.info["quality"]), self.tasks, self.trace.tasks)

    def by(self, *names: str) -> pd.DataFrame:
        """Return one row per value of a label, such as ``by("rank")``; see `tprof.analysis.profile.grouped.grouped`."""
        tasks = self.tasks
        if "host" in names:
            tasks = tasks.assign(host=(self.trace.manifest.get("host") or {}).get("hostname"))
        return grouped(tasks, self.own_s, self.summary(), names)

    def waits(self) -> pd.DataFrame:
        """Return the waiting times of each task's instances; see `tprof.analysis.profile.task_graph.waits`."""
        return waits(self)

    def critical_path(self) -> CriticalPath:
        """Return the longest chain of dependences, and the chain of waits in the run; see `CriticalPath`."""
        return self._critical_path

    @cached_property
    def _critical_path(self) -> CriticalPath:
        return critical_path(self)

    @cached_property
    def dependences(self) -> pd.DataFrame:
        """Pairs of instances: `instance` had to wait for `waits_for`, which had not ended when it was spawned.

        A task of dask waits for those whose results it needs.
        """
        return dependences(self.trace, self.tasks)

    @cached_property
    def starvation(self) -> pd.DataFrame:
        """The time of each worker of a task runtime, by activity; see `task_graph.starvation`."""
        return starvation(self)

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """The decisions of a runtime's policy, one row each; see `tprof.analysis.profile.tables.decisions_table`."""
        return decisions_table(self.trace)

    @cached_property
    def runtime(self) -> dict[str, float | int] | None:
        """Summary figures of a task runtime; None without one; see `tprof.analysis.profile.task_graph.waits`."""
        return runtime_facts(self)

    def __repr__(self) -> str:
        """Describe the profile in one line."""
        joules = f"{self.measured_j:.4g} J" if self.measured_j == self.measured_j else "no energy"
        quality, model = self.info["quality"], self.info["model"]
        return f"<Profile of {self.trace.path.name}: {len(self.tasks):,} instances, {joules} ({quality}), {model}>"

    @cached_property
    def power(self) -> pd.DataFrame:
        """Watts of each domain over time: `time_s`, `duration_s` and a column `<domain>_w` per domain."""
        return power_table(self.quanta, self.trace.start_ns).assign(quality=self.info["quality"])

    @cached_property
    def energy_by_domain(self) -> pd.DataFrame:
        """Joules of each task (index `task`) in each domain (columns); read again from the trace at first use.

        Domains nest, so the columns overlap: add those only that are `counted` in `info["domains"]`.
        """
        from .build import energy_by_domain  # noqa: PLC0415 - which makes profiles

        return energy_by_domain(self.recipe, self.trace)

    @cached_property
    def segments(self) -> pd.DataFrame:
        """The segments of each thread with their joules; read again from the trace at first use."""
        segments, plans = self.recipe.again(self.trace)
        return segments_table(self.trace, segments, plans)

    @cached_property
    def expected_errors(self) -> pd.DataFrame:
        """The expected error of instances by length; see `tprof.analysis.profile.instance_accuracy.expected_errors`."""
        return expected_errors(self)

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files into a directory."""
        from tprof.analysis.export import write_csv  # noqa: PLC0415 - loaded when used

        write_csv(self, directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files into a directory."""
        from tprof.analysis.export import write_parquet  # noqa: PLC0415 - loaded when used

        write_parquet(self, directory)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report of one self-contained HTML file."""
        from tprof.analysis.report import write_report  # noqa: PLC0415 - loaded when used

        write_report(self, path)
