"""The profile of a job: what leaves one host's part after the other is joined.

Only tables leave a part, so memory is bounded by one part and the tables, and parts can be analysed on other machines.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd
from tprof.analysis.display.frames import AccountsTable

from tprof.errors import TraceError, UsageError
from tprof.trace.directory import HOSTS
from tprof.trace.estimate import EXACT

from .flame import levels_of
from .flame_tree import joined
from .host_figures import hosts_table
from .instances import ROW_BYTES, Piece, scanned
from .memory import lacking
from .part import ask_parts, graph_of, read_part, table_of, tree_of
from .profile import Absent, Profile
from .summary import joined_quality, joined_sums
from .tables import whole_sum
from .task_graph import on_one_clock, path_through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.trace import ClusterTrace, HostPart, Trace

    from .flame_tree import Flame
    from .instances import Progress
    from .parallel_maps import Map
    from .part import Part
    from .summary import HostSums
    from .task_graph import CriticalPath
    from .task_sums import TaskSums

Found = TypeVar("Found")
MOST_OVERLAPS = 3
NO_GRAPH = (
    "no part of this job has keys of dask's tasks or events of a task runtime: record a cluster by tprof.dask.record, "
    "or a program whose tasks run in tprof.runtime"
)


@dataclass(frozen=True, repr=False)
class Job:
    """What came from the hosts of a job; with their instances, as of `Instances`, read again if not in memory.

    Attributes
    ----------
    trace : the job
    parts : what came from each host; those that could not be read are left out
    missing : why parts are not there, or not whole, by name
    options : of `build_profile`, with which parts can be read again
    map : calls a function for each part; None: one after the other in this process
    """

    trace: ClusterTrace
    parts: tuple[Part, ...]
    missing: dict[str, str]
    options: dict[str, Any]
    map: Map | None

    @cached_property
    def hosts(self) -> pd.DataFrame:
        """One row per host; `Profile.hosts` explains the columns."""
        known = {one.name: {"host": one.host, **one.figures} for one in self.parts}
        rows = [
            {"host": one.name, **known.get(one.name, {}), "missing": self.missing.get(one.name)}
            for one in self.trace.hosts
        ]
        return hosts_table(rows)

    @property
    def has_table(self) -> bool:
        """Whether the parts came with their tables of instances."""
        return all(table_of in one.known for one in self.parts)

    @cached_property
    def sums(self) -> TaskSums:
        """The sums over all instances."""
        return joined_sums(self.host_sums)[0]

    @property
    def has_domains(self) -> bool:
        """Whether a host has several domains, so that the table of hosts does not say all accounts."""
        return any(len(one.accounts) > 1 for one in self.parts)

    @property
    def host_sums(self) -> list[HostSums]:
        """The sums over the instances of each part."""
        return [replace(one.sums, host=one.host) for one in self.parts]

    def ask(
        self, call: Callable[[HostPart, Profile], Found], progress: Progress | None = None
    ) -> Iterator[tuple[Part, Found]]:
        """Yield the parts, with what a function returns for each and its profile.

        Unless they answered that when they were read, they are read again; those that are not there any more are left
        out.
        """
        if all(call in one.known for one in self.parts):
            yield from ((one, one.known[call]) for one in self.parts)
            return
        known = {one.name: one for one in self.parts}
        parts = [one for one in self.trace.hosts if one.name in known]
        for part, found in zip(parts, ask_parts(call, parts, self.options, self.map, progress), strict=True):
            if not isinstance(found, TraceError):
                yield known[part.name], found

    def profiles(self) -> Iterator[tuple[Part, Profile]]:
        """Read parts again in this process, one after the other: yields those that are there, with their profiles."""
        return replace(self, map=None).ask(lambda _, profile: profile)

    def each(
        self, call: Callable[..., Found], progress: Progress | None = None
    ) -> Iterator[tuple[str, dict[str, Any], Found]]:
        """Yield host, info and what a function returns for host and instances of each part; see `Profile.each`."""
        if self.has_table:
            yield from ((one.host, one.info, call(one.host, one.instances)) for one in self.parts)
            return
        hosts = {one.name: one.host for one in self.parts}
        for part, found in self.ask(partial(_of_instances, call=call, hosts=hosts), progress):
            yield part.host, part.info, found

    @property
    def power(self) -> pd.DataFrame:
        """Watts of each host over time; `Profile.power` explains the columns."""
        frames = [
            one.power.assign(time_s=one.power["time_s"] + one.late_s, quality=one.info["quality"]) for one in self.parts
        ]
        hosts = np.repeat([one.host for one in self.parts], [len(one) for one in frames]).astype(object)
        joined = pd.concat(frames, ignore_index=True)
        joined.insert(0, "host", hosts)
        return joined

    def flame(self, by: Sequence[str]) -> Flame:
        """Return the tree of the tasks; see `Profile.flame`."""
        levels = levels_of(by)
        return joined(list(self.ask(tree_of)), levels)

    @property
    def has_path(self) -> bool:
        """Whether the parts came with what the critical path is found from."""
        return any(one.known.get(graph_of) is not None for one in self.parts)

    def critical_path(self) -> CriticalPath:
        """Find the critical path over all hosts; parts are read again for it unless they were asked for it.

        What a task needed may have been made on another host. Raises as `Profile.critical_path`.
        """
        may_have = any(one.has_graph for one in self.parts)
        known = [(one, graph) for one, graph in self.ask(graph_of) if graph is not None] if may_have else []
        if not known:
            raise UsageError(NO_GRAPH)
        instances = on_one_clock(
            [one.host for one, _ in known],
            [graph for _, graph in known],
            [round(one.late_s * 1e9) for one, _ in known],
            [one.error_ns for one, _ in known],
        )
        path = path_through(instances, "none")
        used = {*path.chain["host"], *path.heaviest["host"]}
        return replace(path, quality=joined_quality(str(one.info["quality"]) for one, _ in known if one.host in used))

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per instance, with host and own_s. Raises UsageError if they do not fit into memory."""
        if not self.has_table and (lack := lacking(self.sums.rows, ROW_BYTES)) is not None:
            raise UsageError(
                f"the table of {self.sums.rows:,} instances of the job {lack}: write it by profile.to_parquet(…) "
                f"(tprof export {self.trace.path.name} parquet), or take the part of one host"
            )
        fitted = [self._fitted(part, tasks) for part, tasks in self.ask(table_of)]
        # As in `_accounts`: tables without rows are left out.
        return pd.concat([one for one in fitted if len(one)] or fitted[:1] or [self.last.tasks], ignore_index=True)

    @property
    def own_s(self) -> NDArray[np.float64]:
        """Their seconds, as of `Piece`. Raises as `tasks`."""
        return self.tasks["own_s"].to_numpy(float)

    @property
    def last(self) -> Piece:
        """None of them, with the columns of all."""
        part = self.parts[0]
        tasks = self._fitted(part, part.columns)
        return Piece(tasks, tasks["own_s"].to_numpy(float))

    def share(self, sink: Callable[[Piece], None], progress: Progress | None = None) -> None:
        """Give them to a sink, one host after the other, as they end."""
        for number, (part, profile) in enumerate(self.profiles()):
            if progress is not None:
                progress(part.name, number, len(self.parts))

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
        tables = [one.columns for one in self.parts]
        types: dict[str, Any] = {"host": _of_values(one.host for one in self.parts)}
        for name in dict.fromkeys(str(name) for table in tables for name in table):
            found = [table[name] for table in tables if name in table]
            if all(isinstance(one.dtype, pd.CategoricalDtype) for one in found):
                types[name] = _of_values(value for one in found for value in one.cat.categories)
            else:
                types[name] = float if len(found) < len(tables) and found[0].dtype.kind in "iuf" else None
        return types


def _of_values(values: Iterable[Any]) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(pd.Index(list(dict.fromkeys(values)), dtype=object))


def _of_instances(part: HostPart, profile: Profile, *, call: Callable[..., Found], hosts: Mapping[str, str]) -> Found:
    return call(hosts[part.name], profile.instances)


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
    options["model"] = model
    questions = [*((table_of, tree_of) if tables else ()), *((graph_of,) if (tables if path is None else path) else ())]
    found = list(ask_parts(partial(read_part, questions=questions), trace.hosts, options, map, progress))
    reasons = {
        part.name: str(one) if isinstance(one, TraceError) and part.path is not None else part.missing
        for part, one in zip(trace.hosts, found, strict=True)
    }
    missing = {name: why for name, why in reasons.items() if why is not None}
    parts = _placed([one for one in found if not isinstance(one, TraceError)])
    if not parts:
        first = "; ".join(f"{name}: {why}" for name, why in itertools.islice(missing.items(), 3))
        raise TraceError(f"{trace.path} has no part that can be read ({first})")
    job = Job(trace, parts, missing, options, map)
    absent: Any = Absent(
        f"{trace.path} is a job of several hosts, and this is known of one: take the part of a host in "
        f"{trace.path / HOSTS}"
    )
    of, accounts = cast("Trace", trace), AccountsTable(_accounts(parts))
    return Profile(of, job, accounts, _info(job), absent, None, EXACT, None, absent, job=job)


def _placed(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Give parts of the same machine one host's name, that of the first, and all their begin in the job."""
    first_ns = min((one.start_ns for one in parts if one.start_ns is not None), default=0)
    names: dict[tuple[str, str], str] = {}
    found = []
    for one in parts:
        machine = (one.name, "") if one.recorded is None else (one.recorded.boot_id, one.recorded.name)
        late_s = 0.0 if one.start_ns is None else (one.start_ns - first_ns) * 1e-9
        found.append(replace(one, host=names.setdefault(machine, one.name), late_s=late_s))
    return tuple(found)


def _accounts(parts: Sequence[Part]) -> pd.DataFrame:
    """Join the accounts; those of several recordings of a host are added."""
    # pandas 2 warns of tables without rows, and in pandas 3 they change the kind of a column.
    shown = [one for one in parts if len(one.accounts)] or parts
    joined = pd.concat([one.accounts for one in shown], keys=[one.host for one in shown], names=["host", "domain"])
    if joined.index.is_unique:
        return joined
    kinds: dict[Any, Any] = dict.fromkeys(joined.columns, whole_sum) | {"quality": joined_quality, "counted": "all"}
    return joined.groupby(level=["host", "domain"], sort=False).agg(kinds)


def _info(job: Job) -> dict[str, Any]:
    trace, parts, infos = job.trace, job.parts, {one.name: one.info for one in job.parts}
    qualities = {str(one["quality"]) for one in infos.values()} - {"none"}
    warnings = [*trace.notes]
    if len(qualities) > 1:
        warnings.append(
            f"hosts are {' and '.join(sorted(qualities))}: their joules are shown apart, and sums of both are mixed"
        )
    warnings += [
        f"{one.name} and {other.name} were recorded on one machine at the same time: its joules are counted twice"
        for one, other in itertools.combinations(parts, 2)
        if one.recorded is not None and other.recorded is not None and one.recorded.overlaps(other.recorded)
    ][:MOST_OVERLAPS]
    for name in (one.name for one in trace.hosts):
        texts = [job.missing.get(name), *infos.get(name, {}).get("warnings", ())]
        warnings += [f"{name}: {text}" for text in texts if text]
    return {
        "quality": joined_quality(qualities),
        "engine": trace.engine,
        "hosts": {one.name: infos.get(one.name, {}) for one in trace.hosts},
        "missing": job.missing,
        "model": sorted({str(one["model"]) for one in infos.values()}),
        "duration_s": float(max(one.late_s + one.info["duration_s"] for one in parts)),
        "warnings": warnings,
    }
