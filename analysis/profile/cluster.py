"""The profile of a job: one host's part after the other becomes tables, which are then joined.

Only tables leave a part, so memory is bounded by one part and the tables, and parts can be analysed on other machines.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.display.frames import AccountsTable, SummaryTable
from tprof.analysis.quantities import quantity

from tprof.errors import TraceError
from tprof.trace.plain_values import counted

from .flame import Flame, cluster_flame
from .host_figures import hosts_table
from .job_instances import all_tasks, job_by
from .job_path import path_of_job
from .part_reading import Analysis, Found
from .part_tables import part_tables
from .summary import by_host, joined_quality, joined_sums, summary_of_job

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tprof.analysis.emissions import Footprint, Rates

    from tprof.trace import ClusterTrace

    from .part_tables import PartTables
    from .profile import Profile
    from .stored_instances import Progress
    from .summary import HostSums
    from .task_graph import CriticalPath
    from .task_sums import TaskSums

MOST_OVERLAPS = 3


@dataclass(frozen=True, repr=False)
class ClusterProfile:
    """The joules of a job by task, over all its hosts.

    Attributes
    ----------
    trace : the job
    parts : what came from each host
    accounts : index `host` and `domain`, as in the profile of one host
    hosts : one row per host (index `host`): quality, energy_j, tasks_j, runtime_j, other_j, idle_j, power_w (mean of
        its block), duration_s, cpus, busy_s (of its processors), busy_share (of the time of all its processors),
        imbalance (its time in tasks relative to the mean of the hosts, less 1), instances, processes, model, recordings
        (of the host in this job, which are added), missing (why the part is not there or not whole)
    info : quality, warnings (with the part before each), engine, hosts (the `info` of each part), missing (by part),
        duration_s
    analysis : what parts were analysed with, so that a report can analyse them again
    """

    trace: ClusterTrace
    parts: tuple[PartTables, ...]
    accounts: pd.DataFrame
    hosts: pd.DataFrame
    info: dict[str, Any]
    analysis: Analysis

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per instance, as in the profile of one host, with the columns `host` and `own_s`.

        `start_s` is from the earliest begin of a host's block. Of a profile that was made without instances, parts are
        read again for it.

        Raises
        ------
        UsageError
            If the table does not fit into memory.
        """
        return all_tasks(self)

    @property
    def has_tasks(self) -> bool:
        """Whether the profile was made with the table of instances."""
        return all(one.tasks is not None for one in self.parts if one.figures is not None)

    def again(
        self, call: Callable[[str, Profile], Found], progress: Progress | None = None
    ) -> Iterator[tuple[PartTables, Found]]:
        """Read parts again: yields those that are there, with what a function returns for name and profile of each."""
        known = {one.part: one for one in self.parts if one.figures is not None}
        parts = [one for one in self.trace.hosts if one.name in known]
        for part, found in zip(parts, self.analysis.ask(call, parts, progress), strict=True):
            if found is not None:
                yield known[part.name], found

    @property
    def measured_j(self) -> dict[str, float]:
        """Joules of the hosts' counted domains, by quality: figures of unlike quality are not added."""
        sums = self.hosts[self.hosts["energy_j"].notna()].groupby("quality")["energy_j"].sum()
        return {str(quality): float(joules) for quality, joules in sums.items()}

    def summary(self, *, common: bool = True) -> pd.DataFrame:
        """Return one row per task over all hosts (index `task`), by energy; the columns are those of `Profile.summary`.

        `hosts` is the number of hosts with instances. Independent errors of hosts are added in squares, the error of
        watts that they all assume as it is. A task that ran on hosts of unlike quality has the quality "mixed", and
        columns such as `measured_j` and `estimated_j` show what each kind of host contributes. Without `common` the
        intervals exclude the error that hosts may share, as in `Profile.summary`.
        """
        return SummaryTable(summary_of_job(self.host_sums, common=common))

    @property
    def host_sums(self) -> list[HostSums]:
        """The sums over the instances of each part."""
        return [replace(one.sums, host=one.host) for one in self.parts if one.sums is not None]

    @cached_property
    def sums(self) -> TaskSums:
        """Sums over the instances of all hosts, by task."""
        return joined_sums(self.host_sums)[0]

    def by(self, *names: str, progress: Progress | None = None) -> pd.DataFrame:
        """Return one row per host, or per value of a label, or both, such as ``by("host", "rank")``.

        The columns are those of `tprof.analysis.profile.grouped.GroupSums.table`, and `quality`: "mixed" if hosts with
        a sensor and hosts without one contribute. Of a profile that was made without instances, parts are read again,
        of which `progress` is told.

        Raises
        ------
        UsageError
            If no process has such a label.
        """
        return job_by(self, names, progress)

    def flame(self, *by: str) -> Flame:
        """Return the tree of nested tasks of all hosts; see `Profile.flame`.

        The bounds of hosts are added, so they are never too narrow.

        Raises
        ------
        UsageError
            If there is no such level.
        """
        return cluster_flame(self, by)

    def by_host(self) -> pd.DataFrame:
        """Return one row per task and host (index `task`, `host`): instances, energy_j, quality."""
        return by_host(self.host_sums)

    @property
    def power(self) -> pd.DataFrame:
        """Watts of each host over time: host, time_s (of the job, as `start_s`), duration_s, power_w, quality."""
        frames = [
            one.power.assign(time_s=one.power["time_s"] + self.late_s(one), host=one.host, quality=one.info["quality"])
            for one in self.parts
            if one.power is not None
        ]
        joined = pd.concat(frames, ignore_index=True)
        return joined[["host", *joined.columns.drop("host")]]

    def critical_path(self) -> CriticalPath:
        """Return the longest chain of dependences over all hosts, and the chain of waits; see `CriticalPath`.

        Raises
        ------
        UsageError
            If no part has keys of dask's tasks or events of a task runtime, or their instances do not fit into memory.
        """
        return self._critical_path

    @cached_property
    def _critical_path(self) -> CriticalPath:
        return path_of_job(self)

    def late_s(self, part: PartTables) -> float:
        """Return when a part's block began, from the earliest begin of a host's block."""
        starts = [one.start_ns for one in self.parts if one.start_ns is not None]
        return 0.0 if part.start_ns is None else (part.start_ns - min(starts)) * 1e-9

    def footprint(self, rates: Rates) -> Footprint:
        """Return what all joules emitted and cost, those of all hosts together; see `Profile.emissions`."""
        from tprof.analysis.emissions import footprint_of  # noqa: PLC0415 - loaded when used

        return footprint_of(self, rates)

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files into a directory."""
        self._write("csv", directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files into a directory."""
        self._write("parquet", directory)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for https://ui.perfetto.dev with the hosts on one clock; each part is read again."""
        self._write("perfetto", path)

    def _write(self, form: str, path: str | os.PathLike[str]) -> None:
        from tprof.analysis.export import format_named  # noqa: PLC0415 - loaded when used

        format_named(form).write(self, path)

    def to_html(self, path: str | os.PathLike[str], *, plotly: str = "inline", rates: Rates | None = None) -> None:
        """Write a report that needs no network, for which every part is read again; the rest as in a profile's."""
        from tprof.analysis.report.job_page import write_job_report  # noqa: PLC0415 - loaded when used

        write_job_report(self, path, plotly=plotly, rates=rates)

    def _repr_html_(self) -> str:
        from tprof.analysis.display import job_html  # noqa: PLC0415 - loaded when used

        return job_html(self)

    def __repr__(self) -> str:
        """Describe the profile in one line."""
        joules = (
            ", ".join(f"{quantity(value, 'J')} {quality}" for quality, value in self.measured_j.items()) or "no energy"
        )
        return f"<ClusterProfile of {self.trace.path.name}: {counted(len(self.trace.hosts), 'host')}, {joules}>"


def build_cluster_profile(
    trace: ClusterTrace,
    *,
    model: str = "auto",
    map: Callable[..., Iterable[Any]] | None = None,  # noqa: A002 - it stands in for the built-in one
    tasks: bool = True,
    path: bool | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ClusterProfile:
    """Attribute the joules of a job's parts; see `ClusterTrace.profile`.

    Raises
    ------
    TraceError
        If no part can be read.
    UsageError
        If the model is unknown, or a trace lacks what it needs.
    """
    analyse = partial(part_tables, model=model, tasks=tasks, path=tasks if path is None else path, options=options)
    way = Analysis(model, options, map)
    parts = _by_host(way.read(analyse, trace.hosts, progress))
    present = [one for one in parts if one.figures is not None]
    if not present:
        reasons = "; ".join(f"{one.part}: {one.missing}" for one in parts[:3])
        raise TraceError(f"{trace.path} has no part that can be read ({reasons})")
    starts = [one.start_ns for one in present if one.start_ns is not None]
    first_ns = min(starts, default=0)
    return ClusterProfile(
        trace,
        parts,
        AccountsTable(_accounts(present)),
        hosts_table([(one.host, one.figures, one.missing) for one in parts]),
        _info(trace, parts, first_ns),
        way,
    )


def _by_host(parts: Iterable[PartTables]) -> tuple[PartTables, ...]:
    """Give parts of the same machine one host's name, that of the first."""
    names: dict[tuple[str, str], str] = {}
    found = []
    for one in parts:
        machine = (one.part, "") if one.recorded is None else (one.recorded.boot_id, one.recorded.name)
        found.append(replace(one, host=names.setdefault(machine, one.part)))
    return tuple(found)


def _accounts(parts: Sequence[PartTables]) -> pd.DataFrame:
    """Join the accounts; those of several recordings of a host are added."""
    found = [(one.host, one.accounts) for one in parts if one.accounts is not None]
    # pandas 2 warns of tables without rows, and in pandas 3 they change the kind of a column.
    shown = [one for one in found if len(one[1])] or found
    joined = pd.concat([one for _, one in shown], keys=[host for host, _ in shown], names=["host", "domain"])
    if joined.index.is_unique:
        return joined
    kinds: dict[str, Any] = {"quality": joined_quality, "counted": "all"}
    sums: dict[Any, Any] = {
        name: kinds.get(str(name), lambda column: column.sum(skipna=False)) for name in joined.columns
    }
    return joined.groupby(level=["host", "domain"], sort=False).agg(sums)


def _info(trace: ClusterTrace, parts: Sequence[PartTables], first_ns: int) -> dict[str, Any]:
    present = [one for one in parts if one.info]
    qualities = {str(one.info["quality"]) for one in present} - {"none"}
    warnings = [*trace.notes]
    if len(qualities) > 1:
        warnings.append(
            f"hosts are {' and '.join(sorted(qualities))}: their joules are shown apart, and sums of both are mixed"
        )
    warnings += [
        f"{one.part} and {other.part} were recorded on one machine at the same time: its joules are counted twice"
        for one, other in itertools.combinations(present, 2)
        if one.recorded is not None and other.recorded is not None and one.recorded.overlaps(other.recorded)
    ][:MOST_OVERLAPS]
    for one in parts:
        warnings += [f"{one.part}: {one.missing}"] if one.missing else []
        warnings += [f"{one.part}: {text}" for text in one.info.get("warnings", ())]
    ends = [one.start_ns - first_ns + one.info["duration_s"] * 1e9 for one in present if one.start_ns is not None]
    durations = [one.info["duration_s"] for one in present]
    return {
        "quality": joined_quality(qualities),
        "engine": trace.engine,
        "hosts": {one.part: one.info for one in parts},
        "missing": {one.part: one.missing for one in parts if one.missing},
        "model": sorted({str(one.info["model"]) for one in present}),
        "duration_s": float(max([*(np.array(ends) * 1e-9), *durations], default=math.nan)),
        "warnings": warnings,
    }
