"""A profile: the tables that reports, exports and users read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tprof.analysis.display.frames import SummaryTable
from tprof.analysis.quantities import quantity

from tprof.errors import UsageError
from tprof.trace.plain_values import counted
from tprof.trace.sums_trace import refusal

from .flame import flame
from .grouped import grouped_table
from .host_figures import counted_accounts, figures_of, hosts_table
from .instance_accuracy import expected_errors
from .memory import GRAPH_BYTES, lacking
from .summary import HostSums, by_host, host_sums_of, summary_of, summary_of_job
from .tables import binned, decisions_table, power_table
from .task_graph import critical_path, dependences, read_instances, runtime_facts, starvation, waits

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.compare import Comparison
    from tprof.analysis.emissions import Footprint, Rates

    from tprof.trace import Trace
    from tprof.trace.estimate import WattsError

    from .cluster import Job
    from .flame_tree import Flame
    from .information import Said
    from .instances import Instances, Progress
    from .kept_sums import KeptSums
    from .native_threads import NativeBounds
    from .recipe import Recipe
    from .task_graph import CriticalPath, InstanceKeys, RuntimeEvents
    from .task_graph import Instances as GraphInstances
    from .task_sums import TaskSums

Found = TypeVar("Found")


class Absent:
    """Stands for what a profile lacks: all that is asked of it raises a UsageError, which says why."""

    def __init__(self, why: str) -> None:
        """Begin with a sentence on why it is not there, and what there is instead."""
        self._why = why

    def __getattr__(self, name: str) -> Any:
        """Raise UsageError."""
        if name.startswith("__"):  # asked by the interpreter and by pickle
            raise AttributeError(name)
        raise UsageError(self._why)


@dataclass(frozen=True, repr=False)
class Profile:
    """The joules of a recording by task: of one host, of a job of several hosts, or of sums that were kept.

    Attributes
    ----------
    trace : the recording; of a job its `ClusterTrace`, of sums their `SumsTrace`
    instances : what ran, of which `tasks`, `own_s` and `sums` are
    accounts : one row per domain, index `domain` (of a job `host` and `domain`): measured_j, tasks_j, runtime_j,
        other_j, idle_j, and of native threads spin_j (after the task that used them) and unidentified_j (of one of
        several tasks); the last six sum to measured_j; `quality`: whether this was measured, estimated, simulated or
        given
    info : sensor, model, warnings and other provenance; of a job quality, warnings (with the part before each), engine,
        hosts (the `info` of each part), missing (by part) and duration_s
    recipe : inputs of the sharing
    mean_error_j : (distinct names,) standard errors of the tasks' mean energies if powers were fitted, else None
    watts : factors of the error of an estimate's watts; the bounds of `tasks` include it
    native : bounds of what native threads add to the tasks; None if none serves a task
    said : what the recording says of instances besides its samples
    job : the parts of a job; None of one host
    kept : sums that were kept instead of samples; None where there are samples. Without samples there are no single
        instances, and of a job `recipe` and `said` are those of its parts: what is not there raises UsageError
    """

    trace: Trace
    instances: Instances | Job = field(repr=False)
    accounts: pd.DataFrame
    info: dict[str, Any]
    recipe: Recipe = field(repr=False)
    mean_error_j: NDArray[np.float64] | None = field(repr=False)
    watts: WattsError = field(repr=False)
    native: NativeBounds | None = field(repr=False)
    said: Said = field(repr=False)
    job: Job | None = field(default=None, repr=False)
    kept: KeptSums | None = field(default=None, repr=False)
    _trees: dict[tuple[str, ...], Flame] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def has_instances(self) -> bool:
        """Whether there are single instances, not only sums over them."""
        return self.kept is None

    @property
    def has_samples(self) -> bool:
        """Whether it is of the samples of one host, so that these can be read again."""
        return self.job is None and self.kept is None

    @property
    def has_stacks(self) -> bool:
        """Whether stacks were sampled on the host."""
        return self.has_samples and bool(self.trace.stack_files)

    @property
    def host_instances(self) -> Instances:
        """The instances of one host's samples, which can be read again. Raises UsageError for a job of several."""
        if self.job is not None:
            raise UsageError(f"{self.trace.path} has the samples of several hosts: take the part of one host")
        return cast("Instances", self.instances)

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per instance; energies and `cpu_s` are exclusive of nested tasks.

        `duration_s` is from first start to end with nested and suspended time in it; NaN energy is "not resolved". With
        a task runtime also: spawn_s, ready_s (both from the begin of the recorded block), wait_data_s (spawn to ready),
        wait_worker_s (ready to start), NaN if the trace does not have them, stolen (bool). If native threads (BLAS,
        OpenMP, polars, …) serve tasks: native_cpu_s, native_j (in energy_j), native_high_j (what it is at most), spin_j
        (after its end, not in energy_j). With tasks of dask: key, missing for others. Of a job also host and own_s, and
        `start_s` is from the earliest begin of a host's block; if it was made without instances, parts are read again.

        Raises
        ------
        UsageError
            If the table does not fit into memory, or only sums were kept.
        """
        return self.instances.tasks

    def scan_tasks(self) -> Any:
        """Return the table of instances as a `pyarrow.dataset.Dataset`, which is read lazily.

        ``polars.scan_pyarrow_dataset`` and DuckDB read it too. Its columns are those of `tasks`. The instances are
        written to a Parquet file in ``/var/tmp``, or in ``$TMPDIR`` if that is set. It has no name and takes space
        until the profile, the dataset and what scans it are gone, so another process cannot read it. Its rows are in
        the order in which instances ended.

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
        return self.instances.sums if self.kept is None else self.kept.sums

    def each(
        self, call: Callable[..., Found], progress: Progress | None = None
    ) -> Iterator[tuple[str | None, dict[str, Any], Found]]:
        """Yield name and info of each host, and what a function returns for its name and instances.

        Parts of a job that are not in memory are read again, where its `map` calls functions: they take no progress.
        """
        if self.job is None:
            yield self.hostname, self.info, call(self.hostname, self.instances, progress=progress)
        else:
            yield from self.job.each(call, progress)

    @property
    def quanta(self) -> tuple[Quanta, ...]:
        """The quanta of each domain."""
        return self.recipe.quanta

    @property
    def measured_j(self) -> float:
        """Sum of the counted domains' joules; NaN if none was resolved, or hosts are of unlike quality."""
        return self.counted_accounts.get("measured_j", math.nan)

    @property
    def measured_by_quality(self) -> dict[str, float]:
        """Joules of the counted domains of all hosts, by quality: figures of unlike quality are not added."""
        hosts = self.hosts.dropna(subset="energy_j")
        return {str(name): float(joules) for name, joules in hosts.groupby("quality")["energy_j"].sum().items()}

    @property
    def counted_accounts(self) -> dict[str, float]:
        """The sum of the accounts of all counted domains; empty if hosts are of unlike quality."""
        return counted_accounts(self)

    @property
    def hosts(self) -> pd.DataFrame:
        """One row per host (index `host`).

        Columns quality, energy_j, tasks_j, runtime_j, other_j, idle_j, power_w (mean of its block), duration_s, cpus,
        busy_s (of its processors), busy_share (of the time of all its processors), imbalance (its time in tasks
        relative to the mean of the hosts, less 1), instances, processes, model, recordings (of the host in this job,
        which are added), missing (why the part is not there or not whole).
        """
        if self.job is None:
            return hosts_table([{"host": str(self.hostname), **figures_of(self)}])
        return self.job.hosts

    @property
    def host_infos(self) -> dict[str, dict[str, Any]]:
        """The `info` of each part of a job that is there, by its name; of one host, its own under the host's name."""
        if self.job is None:
            return {str(self.hostname): self.info}
        return {name: info for name, info in self.info["hosts"].items() if info}

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
        without one. Of a job also `hosts`, the number of hosts with instances. A task that ran on hosts of unlike
        quality has the quality "mixed", and columns such as `measured_j` and `estimated_j` show what each kind of host
        contributes.
        """
        if self.job is not None:
            return SummaryTable(summary_of_job(self.job.host_sums, common=common))
        return SummaryTable(summary_of([self.host_sums], common=common))

    def by_host(self) -> pd.DataFrame:
        """Return one row per task and host (index `task`, `host`): instances, energy_j, quality."""
        return by_host([self.host_sums] if self.job is None else self.job.host_sums)

    @cached_property
    def host_sums(self) -> HostSums:
        """The sums over one host's instances with their errors, to which those of other hosts can be added."""
        return host_sums_of(self)

    def by(self, *names: str, progress: Progress | None = None) -> pd.DataFrame:
        """Return one row per value of a label, such as ``by("rank")``, of ``"host"``, or of several of them.

        Unless their table is in memory, the instances are shared once more, of which `progress` is told. The columns
        are those of `tprof.analysis.profile.grouped.GroupSums.table`; of a job also `quality`: "mixed" if hosts with a
        sensor and hosts without one contribute. Of kept sums only ``"process"`` and, with ``keep="threads"``,
        ``"thread"``: an instance counts in the thread in which it began, joules and times in that which ran it.

        Raises
        ------
        UsageError
            If no process has such a label, or no sums were kept by it.
        """
        if self.kept is not None:
            return self.kept.grouped(names).table(self.summary())
        return grouped_table(self, names, progress)

    def flame(self, *by: str) -> Flame:
        """Return the tree of nested tasks with their energy, as flame graphs show it.

        Its joules are those of all tasks, ``tasks["energy_j"].sum()``. With sampled stacks (`tprof run --stacks`)
        Python functions are below the tasks, and the nodes "(outside tasks)" add what recorded threads took outside
        them. This is a part of the account `runtime_j`, so the total never exceeds ``tasks_j + runtime_j``.

        Parameters
        ----------
        *by
            Top levels above the tasks: ``"host"``, ``"process"``, ``"thread"``. The bounds of hosts are added, so they
            are never too narrow.

        Raises
        ------
        UsageError
            If there is no such level, or only sums were kept.
        """
        if by not in self._trees:
            if self.kept is not None:
                raise UsageError(refusal(self.trace.path))
            self._trees[by] = flame(self, by) if self.job is None else self.job.flame(by)
        return self._trees[by]

    def waits(self) -> pd.DataFrame:
        """Return the waiting times of each task's instances; see `tprof.analysis.profile.task_graph.waits`."""
        return waits(self)

    def critical_path(self) -> CriticalPath:
        """Return the longest chain of dependences over all hosts, and the chain of waits in the run.

        Raises UsageError if no part of a job has keys of dask's tasks or events of a task runtime, their instances do
        not fit into memory, or only sums were kept.
        """
        return self._critical_path

    @cached_property
    def _critical_path(self) -> CriticalPath:
        return critical_path(self) if self.job is None else self.job.critical_path()

    @cached_property
    def dependences(self) -> pd.DataFrame:
        """Pairs, increasing: `instance` had to wait for `waits_for`, whose end its spawn or its data needed."""
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

    @cached_property
    def has_graph(self) -> bool:
        """Whether events or keys say what instances waited for, and there is memory to find chains of them."""
        if self.job is not None:
            return any(one.has_graph for one in self.job.parts)
        return self.has_samples and self.said.names_waits and lacking(self.sums.rows, GRAPH_BYTES) is None

    @cached_property
    def graph(self) -> GraphInstances:
        """The instances and the runs of the threads, from which delays are found."""
        return read_instances(self)

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """The decisions of a runtime's policy on one host; see `tprof.analysis.profile.tables.decisions_table`."""
        return (
            decisions_table(self.trace.decisions, self.trace.start_ns) if self.has_samples else decisions_table((), 0)
        )

    @cached_property
    def runtime(self) -> dict[str, float | int] | None:
        """Summary figures of a task runtime; None without one; see `tprof.analysis.profile.task_graph.waits`."""
        return runtime_facts(self) if self.job is None and self.has_graph else None

    def __repr__(self) -> str:
        """Describe the profile in one line."""
        sums = [f"{quantity(value, 'J')} ({quality})" for quality, value in self.measured_by_quality.items()]
        count = counted(self.sums.rows, "instance")
        if self.job is not None:
            count = f"{counted(len(self.hosts), 'host')}, {count}"
        model = ", ".join([self.info["model"]] if isinstance(self.info["model"], str) else self.info["model"])
        return f"<Profile of {self.trace.path.name}: {count}, {' and '.join(sums) or 'no energy'}, {model}>"

    def _repr_html_(self) -> str:
        from tprof.analysis.display import profile_html  # noqa: PLC0415 - loaded when used

        return profile_html(self)

    def plot(self) -> Figure:
        """Return a plotly figure of the joules of tasks with 95 % intervals, and of the power over time."""
        from tprof.analysis.display import plot  # noqa: PLC0415 - loaded when used

        return plot(self)

    @cached_property
    def power(self) -> pd.DataFrame:
        """Watts of each domain over time: `time_s`, `duration_s` and a column `<domain>_w` per domain.

        Of a job the watts of each host: host, time_s (of the job, as `start_s`), duration_s, power_w.
        """
        if (kind := self.job or self.kept) is not None:
            return kind.power
        return power_table(self.quanta, self.trace.start_ns).assign(quality=self.info["quality"])

    def power_steps(self, most: int) -> pd.DataFrame:
        """Return the watts of one host in at most so many rows, means over as many quanta each, or over kept spans."""
        return binned(self.power.drop(columns="quality"), most)

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

    def compare(self, other: Profile) -> Comparison:
        """Compare this profile (A) with another (B), task by task; `tprof.compare` takes several runs a side."""
        from tprof.analysis.compare import compare  # noqa: PLC0415 - loaded when used

        return compare(self, other)

    def footprint(self, rates: Rates) -> Footprint:
        """Return what all joules emitted and cost; see `emissions`."""
        from tprof.analysis.emissions import footprint_of  # noqa: PLC0415 - loaded when used

        return footprint_of(self, rates)

    def emissions(self, *, g_per_kwh: float | None = None, zone: str | None = None) -> Footprint:
        """Return what all joules emitted: `emissions_g` with the interval of the joules, of what the sensor covers.

        Parameters
        ----------
        g_per_kwh : grams of CO2 equivalents that a kilowatt-hour emits
        zone : instead, a code of `tprof.analysis.emissions.zones()`: ISO 3166-1 of two letters, or WORLD

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
        """Write a trace for https://ui.perfetto.dev, which needs the extra ``tprof-energy[perfetto]``.

        The hosts of a job are on one clock; each part is read again.
        """
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
        """Write a report that needs no network; of a job every part is read again for it.

        Parameters
        ----------
        path : of the page
        plotly : "inline": one file that holds the plot library (4.8 MB); "folder": the library is a file beside the
            page, which all pages of the folder share
        rates : what a kilowatt-hour emits and costs, to show that of the joules too
        """
        from tprof.analysis.report import write_report  # noqa: PLC0415 - loaded when used

        write_report(self, path, plotly=plotly, rates=rates)
