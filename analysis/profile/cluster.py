"""The profile of a job: one host's part after the other becomes tables, which are then joined.

Only tables leave a part, so memory is bounded by one part and the tables, and parts can be analysed on other machines.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd
from tprof.analysis.display.frames import AccountsTable

from tprof.errors import TraceError, UsageError
from tprof.trace.directory import HOSTS
from tprof.trace.estimate import EXACT

from .host_figures import hosts_table
from .job_instances import JobInstances
from .part_tables import Analysis, part_tables
from .profile import Absent, Profile
from .summary import joined_quality, joined_sums
from .task_graph import on_one_clock, path_through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tprof.trace import ClusterTrace, Trace

    from .part_tables import PartTables
    from .stored_instances import Progress
    from .summary import HostSums
    from .task_graph import CriticalPath
    from .task_graph import Instances as GraphInstances

Found = TypeVar("Found")
MOST_OVERLAPS = 3
CLOCK_ERROR_NS = 1_000_000_000
"""The most by which a host's wall clock may be off that nothing compared with others."""
NO_GRAPH = (
    "no part of this job has keys of dask's tasks or events of a task runtime: record a cluster by tprof.dask.record, "
    "or a program whose tasks run in tprof.runtime"
)


@dataclass(frozen=True, repr=False)
class Job:
    """What came from the hosts of a job.

    Attributes
    ----------
    trace : the job
    parts : what came from each host
    analysis : what parts were analysed with, so that they can be read again
    """

    trace: ClusterTrace
    parts: tuple[PartTables, ...]
    analysis: Analysis

    @cached_property
    def hosts(self) -> pd.DataFrame:
        """One row per host; `Profile.hosts` explains the columns."""
        return hosts_table([(one.host, one.figures, one.missing) for one in self.parts])

    @property
    def present(self) -> list[PartTables]:
        """The parts that are there."""
        return [one for one in self.parts if one.figures is not None]

    @property
    def has_tables(self) -> bool:
        """Whether the parts came with their tables of instances."""
        return all(one.tasks is not None for one in self.present)

    @property
    def has_domains(self) -> bool:
        """Whether a host has several domains, so that the table of hosts does not say all accounts."""
        return any(one.accounts is not None and len(one.accounts) > 1 for one in self.parts)

    @property
    def host_sums(self) -> list[HostSums]:
        """The sums over the instances of each part."""
        return [replace(one.sums, host=one.host) for one in self.parts if one.sums is not None]

    def again(
        self, call: Callable[[str, Profile], Found], progress: Progress | None = None
    ) -> Iterator[tuple[PartTables, Found]]:
        """Read parts again: yields those that are there, with what a function returns for name and profile of each."""
        known = {one.part: one for one in self.present}
        parts = [one for one in self.trace.hosts if one.name in known]
        for part, found in zip(parts, self.analysis.ask(call, parts, progress), strict=True):
            if found is not None:
                yield known[part.name], found

    def profiles(self) -> Iterator[tuple[PartTables, Profile]]:
        """Read parts again in this process, one after the other: yields those that are there, with their profiles."""
        here = replace(self, analysis=replace(self.analysis, map=None))
        return here.again(lambda _, profile: profile)

    def each(
        self, call: Callable[..., Found], progress: Progress | None = None
    ) -> Iterator[tuple[str, dict[str, Any], Found]]:
        """Yield host, info and what a function returns for host and instances of each part; see `Profile.each`."""
        if self.has_tables:
            for one in self.present:
                yield one.host, one.info, call(one.host, one.instances)
            return
        hosts = {one.part: one.host for one in self.present}
        for part, found in self.again(partial(_of_instances, call=call, hosts=hosts), progress):
            yield part.host, part.info, found

    @property
    def power(self) -> pd.DataFrame:
        """Watts of each host over time; `Profile.power` explains the columns."""
        frames = [
            one.power.assign(time_s=one.power["time_s"] + self.late_s(one), host=one.host, quality=one.info["quality"])
            for one in self.parts
            if one.power is not None
        ]
        joined = pd.concat(frames, ignore_index=True)
        return joined[["host", *joined.columns.drop("host")]]

    def late_s(self, part: PartTables) -> float:
        """Return when a part's block began, from the earliest begin of a host's block."""
        starts = [one.start_ns for one in self.parts if one.start_ns is not None]
        return 0.0 if part.start_ns is None else (part.start_ns - min(starts)) * 1e-9

    @property
    def has_path(self) -> bool:
        """Whether the parts came with what the critical path is found from."""
        return any(one.graph is not None for one in self.parts)

    def critical_path(self) -> CriticalPath:
        """Find the critical path over all hosts; parts are read again for it unless they were asked for it.

        What a task needed may have been made on another host. Raises as `Profile.critical_path`.
        """
        known = [(one, one.graph) for one in self.parts if one.graph is not None]
        if not known and any(one.has_graph for one in self.parts):
            known = [(one, found) for one, (found,) in self.again(_graph_of) if found is not None]
        if not known:
            raise UsageError(NO_GRAPH)
        parts = [one for one, _ in known]
        instances = on_one_clock(
            [one.host for one in parts],
            [found for _, found in known],
            [round(self.late_s(one) * 1e9) for one in parts],
            [self._error_ns(one) for one in parts],
        )
        path = path_through(instances, "none")
        used = {*path.chain["host"], *path.heaviest["host"]}
        return replace(path, quality=joined_quality(str(one.info["quality"]) for one in parts if one.host in used))

    def _error_ns(self, part: PartTables) -> int:
        offset = next((one.offset for one in self.trace.hosts if one.name == part.part), None)
        return CLOCK_ERROR_NS if offset is None or offset.uncertainty_ns is None else offset.uncertainty_ns


def _of_instances(name: str, profile: Profile, *, call: Callable[..., Found], hosts: dict[str, str]) -> Found:
    return call(hosts[name], profile.instances)


def _graph_of(_: str, profile: Profile) -> tuple[GraphInstances | None]:
    return (profile.graph if profile.has_graph else None,)


def profile_of_job(
    trace: ClusterTrace,
    *,
    model: str = "auto",
    map: Callable[..., Iterable[Any]] | None = None,  # noqa: A002 - it stands in for the built-in one
    tables: bool = True,
    path: bool | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Profile:
    """Attribute the joules of a job's parts; see `ClusterTrace.profile`.

    Raises
    ------
    TraceError
        If no part can be read.
    UsageError
        If the model is unknown, or a trace lacks what it needs.
    """
    way = Analysis({"model": model} | options, map)
    analyse = partial(part_tables, tables=tables, path=tables if path is None else path, options=way.options)
    parts = _by_host(way.read(analyse, trace.hosts, progress))
    present = [one for one in parts if one.figures is not None]
    if not present:
        reasons = "; ".join(f"{one.part}: {one.missing}" for one in parts[:3])
        raise TraceError(f"{trace.path} has no part that can be read ({reasons})")
    job = Job(trace, parts, way)
    sums, _ = joined_sums(job.host_sums)
    absent: Any = Absent(
        f"{trace.path} is a job of several hosts, and this is known of one: take the part of a host in "
        f"{trace.path / HOSTS}"
    )
    accounts, info = AccountsTable(_accounts(present)), _info(trace, parts)
    of = cast("Trace", trace)
    return Profile(of, JobInstances(job, sums), accounts, info, absent, None, EXACT, None, absent, job=job)


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


def _info(trace: ClusterTrace, parts: Sequence[PartTables]) -> dict[str, Any]:
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
    first_ns = min((one.start_ns for one in present if one.start_ns is not None), default=0)
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
