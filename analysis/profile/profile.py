"""A profile: the tables that reports, exports and users read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tprof.analysis.display.frames import SummaryTable
from tprof.analysis.quantities import quantity

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .flame import Flame, flame
from .grouped import grouped
from .instance_accuracy import expected_errors
from .summary import HostSums, errors_of, summary_of
from .tables import decisions_table, power_parts, power_steps, power_table
from .task_graph import (
    CriticalPath,
    Dependences,
    Ran,
    critical_path,
    dependences,
    read_ran,
    runtime_facts,
    starvation,
    waits,
)
from .task_sums import TaskSums, budgets

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.compare import Comparison
    from tprof.analysis.emissions import Footprint, Rates

    from tprof.trace import Trace
    from tprof.trace.estimate import WattsError

    from .cluster import ClusterProfile
    from .information import Said
    from .instances import Instances
    from .native_threads import NativeBounds
    from .recipe import Recipe
    from .stored_instances import Progress
    from .task_graph import InstanceKeys, RuntimeEvents


@dataclass(frozen=True, repr=False)
class Profile:
    """The joules of a recording by task.

    Attributes
    ----------
    trace : the recording
    instances : what ran, of which `tasks`, `own_s` and `sums` are
    accounts : one row per domain, index `domain`: measured_j, tasks_j, runtime_j, other_j, idle_j, and of native
        threads spin_j (after the task that used them) and unidentified_j (of one of several tasks); the last six sum to
        measured_j; `quality`: whether this was measured, estimated, simulated or given
    info : sensor, model, warnings and other provenance
    recipe : inputs of the sharing
    mean_error_j : (distinct names,) standard errors of the tasks' mean energies if powers were fitted, else None
    watts : factors of the error of an estimate's watts; the bounds of `tasks` include it
    native : bounds of what native threads add to the tasks; None if none serves a task
    said : what the recording says of instances besides its samples
    """

    trace: Trace
    instances: Instances = field(repr=False)
    accounts: pd.DataFrame
    info: dict[str, Any]
    recipe: Recipe = field(repr=False)
    mean_error_j: NDArray[np.float64] | None = field(repr=False)
    watts: WattsError = field(repr=False)
    native: NativeBounds | None = field(repr=False)
    said: Said = field(repr=False)

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per instance; energies and `cpu_s` are exclusive of nested tasks.

        `duration_s` is from first start to end with nested and suspended time in it; NaN energy is "not resolved". With
        a task runtime also: spawn_s, ready_s (both from the begin of the recorded block), wait_data_s (spawn to ready),
        wait_worker_s (ready to start), NaN if the trace does not have them, stolen (bool). If native threads (BLAS,
        OpenMP, polars, …) serve tasks: native_cpu_s, native_j (in energy_j), native_high_j (what it is at most), spin_j
        (after its end, not in energy_j). With tasks of dask: key, missing for others.

        Raises
        ------
        UsageError
            If the table does not fit into memory.
        """
        return self.instances.tasks

    def scan_tasks(self) -> Any:
        """Return the table of instances as a dataset of pyarrow, of which as much is read as is asked for.

        Its columns are those of `tasks`. The instances are written to a Parquet file in ``/var/tmp``, or in ``$TMPDIR``
        if that is set. It has no name and takes space until the profile, the dataset and what scans it are gone, so
        another process cannot read it. Its rows are in the order in which instances ended.

        Returns
        -------
        pyarrow.dataset.Dataset
            ``polars.scan_pyarrow_dataset`` and DuckDB read it too.

        Raises
        ------
        UsageError
            If pyarrow is not installed (``tprof-energy[parquet]``).
        TprofError
            If the file cannot be written.
        """
        return self.instances.dataset

    @property
    def own_s(self) -> NDArray[np.float64]:
        """Seconds in which its thread ran each instance, without nested tasks or suspension. Raises as `tasks`."""
        return self.instances.own_s

    @property
    def sums(self) -> TaskSums:
        """Sums over the instances, by task."""
        return self.instances.sums

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

    @property
    def hostname(self) -> str | None:
        """The name of the host, if the recording says it."""
        name: str | None = (self.trace.manifest.get("host") or {}).get("hostname")
        return name

    def summary(self, *, common: bool = True) -> pd.DataFrame:
        """Return one row per task (index `task`), by energy; see `tprof.analysis.profile.summary.summarize`.

        Without `common` the intervals exclude the error of an estimate's watts, which is the same for all tasks and
        runs of a machine; this is for comparisons between them.

        If any task has a budget, also `budget_j` and `over_budget`, the number of instances over it; NaN for tasks
        without one.
        """
        return SummaryTable(summary_of([self.host_sums], common=common))

    @cached_property
    def host_sums(self) -> HostSums:
        """The sums over the instances with their errors, which those of other hosts can be added to."""
        stored = self.recipe.model.stored
        share = None if stored is None else stored.residual_share
        errors = errors_of(
            self.sums,
            self.mean_error_j,
            residual_share=share,
            static_share=self.recipe.static_share,
            watts=self.watts,
            native=self.native,
        )
        return HostSums(str(self.hostname), str(self.info["quality"]), self.sums, errors, budgets(self.trace.tasks))

    def by(self, *names: str, progress: Progress | None = None) -> pd.DataFrame:
        """Return one row per value of a label, such as ``by("rank")``, or of ``"host"``.

        Unless their table is in memory, the instances are shared once more, of which `progress` is told. The columns
        are those of `tprof.analysis.profile.grouped.GroupSums.table`.

        Raises
        ------
        UsageError
            If no process has such a label.
        """
        return grouped(self, names, further={"host": self.hostname}, progress=progress).table(self.summary())

    def flame(self, *by: str) -> Flame:
        """Return the tree of nested tasks with their energy, as flame graphs show it.

        Its joules are those of all tasks, ``tasks["energy_j"].sum()``. With sampled stacks (`tprof run --stacks`)
        Python functions are below the tasks, and the nodes "(outside tasks)" add what recorded threads took outside
        them. This is a part of the account `runtime_j`, so the total never exceeds ``tasks_j + runtime_j``.

        Parameters
        ----------
        *by
            Top levels above the tasks: ``"host"``, ``"process"``, ``"thread"``.

        Raises
        ------
        UsageError
            If there is no such level.
        """
        return flame(self, by) if by else self._flame

    @cached_property
    def _flame(self) -> Flame:
        return flame(self, ())

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
        """Pairs of instances, increasing: `instance` had to wait for `waits_for`, which had not ended at its spawn.

        A task of dask waits for those whose results it needs.
        """
        return self.dependence_columns.table()

    @cached_property
    def dependence_columns(self) -> Dependences:
        """The same in columns, in temporary files where they are long."""
        return dependences(self)

    @cached_property
    def starvation(self) -> pd.DataFrame:
        """The time of each worker of a task runtime, by activity; see `task_graph.starvation`."""
        return starvation(self)

    @property
    def events(self) -> RuntimeEvents:
        """What the events of a task runtime say of instances."""
        return self.said.events

    @property
    def keys(self) -> InstanceKeys:
        """The keys of an engine's tasks."""
        return self.said.keys

    @property
    def has_graph(self) -> bool:
        """Whether events or keys say what instances waited for, so that chains of them can be found."""
        return bool(len(self.events) or len(self.keys))

    @cached_property
    def ran(self) -> Ran:
        """The instances in columns and the runs of the threads, from which delays are found."""
        return read_ran(self)

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
        joules = quantity(self.measured_j, "J") if self.measured_j == self.measured_j else "no energy"
        count = counted(self.sums.rows, "instance")
        quality, model = self.info["quality"], self.info["model"]
        return f"<Profile of {self.trace.path.name}: {count}, {joules} ({quality}), {model}>"

    def _repr_html_(self) -> str:
        from tprof.analysis.display import profile_html  # noqa: PLC0415 - loaded when used

        return profile_html(self)

    def plot(self) -> Figure:
        """Return a plotly figure of the joules of tasks with 95 % intervals, and of the power over time."""
        from tprof.analysis.display import plot  # noqa: PLC0415 - loaded when used

        return plot(self)

    @cached_property
    def power(self) -> pd.DataFrame:
        """Watts of each domain over time: `time_s`, `duration_s` and a column `<domain>_w` per domain."""
        return power_table(self.quanta, self.trace.start_ns).assign(quality=self.info["quality"])

    def power_parts(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of `power` in parts."""
        for part in power_parts(self.quanta, self.trace.start_ns):
            yield part.assign(quality=self.info["quality"])

    def power_steps(self, most: int) -> pd.DataFrame:
        """Return the same in at most so many rows, means over as many quanta each, without a table of all quanta."""
        return power_steps(self.quanta, self.trace.start_ns, most)

    @cached_property
    def energy_by_domain(self) -> pd.DataFrame:
        """Joules of each task (index `task`) in each domain (columns); read again from the trace at first use.

        Domains nest, so the columns overlap: add those only that are `counted` in `info["domains"]`.
        """
        from .build import energy_by_domain  # noqa: PLC0415 - which makes profiles

        return energy_by_domain(self)

    @cached_property
    def expected_errors(self) -> pd.DataFrame:
        """The expected error of instances by length; see `tprof.analysis.profile.instance_accuracy.expected_errors`."""
        return expected_errors(self)

    def compare(self, other: Profile | ClusterProfile) -> Comparison:
        """Compare this profile (A) with another (B), task by task; `tprof.compare` takes several runs a side."""
        from tprof.analysis.compare import compare  # noqa: PLC0415 - loaded when used

        return compare(self, other)

    def footprint(self, rates: Rates) -> Footprint:
        """Return what all joules emitted and cost; see `emissions`."""
        from tprof.analysis.emissions import footprint_of  # noqa: PLC0415 - loaded when used

        return footprint_of(self, rates)

    def emissions(self, *, g_per_kwh: float | None = None, zone: str | None = None) -> Footprint:
        """Return what all joules emitted.

        Parameters
        ----------
        g_per_kwh : grams of CO2 equivalents that a kilowatt-hour emits
        zone : instead, a code of `tprof.analysis.emissions.zones()`: ISO 3166-1 of two letters, or WORLD

        Returns
        -------
        Footprint
            `emissions_g` with the interval of the joules, only of what the sensor covers.

        Raises
        ------
        UsageError
            If not exactly one of them is given, or there is no such zone.
        """
        from tprof.analysis.emissions import Rates, footprint_of  # noqa: PLC0415 - loaded when used

        if (g_per_kwh is None) == (zone is None):
            raise UsageError("give either g_per_kwh or a zone")
        return footprint_of(self, Rates.of(g_per_kwh if zone is None else zone, None) or Rates())

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files into a directory."""
        self._write("csv", directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files into a directory."""
        self._write("parquet", directory)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for https://ui.perfetto.dev, which needs the extra ``tprof-energy[perfetto]``."""
        self._write("perfetto", path)

    def to_polars(self) -> dict[str, Any]:
        """Return all tables as frames of polars, by name; needs the extra ``tprof-energy[polars]``."""
        from tprof.analysis.export.formats import need  # noqa: PLC0415 - loaded when used

        need("polars", "polars", "to_polars")
        need("pyarrow", "polars", "to_polars")
        from tprof.analysis.export.arrow import polars_of  # noqa: PLC0415 - for the same reason

        return polars_of(self)

    def _write(self, form: str, path: str | os.PathLike[str]) -> None:
        from tprof.analysis.export import format_named  # noqa: PLC0415 - loaded when used

        format_named(form).write(self, path)

    def to_html(self, path: str | os.PathLike[str], *, plotly: str = "inline", rates: Rates | None = None) -> None:
        """Write a report that needs no network.

        Parameters
        ----------
        path : of the page
        plotly : "inline": one file that holds the plot library (4.8 MB); "folder": the library is a file beside the
            page, which all pages of the folder share
        rates : what a kilowatt-hour emits and costs, to show that of the joules too
        """
        from tprof.analysis.report import write_report  # noqa: PLC0415 - loaded when used

        write_report(self, path, plotly=plotly, rates=rates)
