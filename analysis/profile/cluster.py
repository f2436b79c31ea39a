"""The profile of a job: one host's part after the other becomes tables, which are then joined.

Only tables leave a part, so memory is bounded by one part and the tables, and parts can be analysed on other machines.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from tprof.errors import TraceError, UsageError
from tprof.trace.clock_offset import wall_clock_step_ns
from tprof.trace.kinds import least_certain
from tprof.trace.metadata import clock_of

from .build import build_profile
from .grouped import group_key, grouped
from .host_figures import Figures, binned_power, figures_of
from .moments import joined_summary, moments

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from tprof.trace import ClusterTrace, HostPart, Trace

    from .profile import Profile

MIXED = "mixed"
"""Quality of figures to which hosts with a sensor and hosts without one contribute."""
MOST_OVERLAPS = 3
HOST_COLUMNS = (
    "quality", "energy_j", "tasks_j", "runtime_j", "other_j", "idle_j", "power_w", "duration_s", "cpus", "busy_share",
    "busy_s", "imbalance", "instances", "processes", "model", "missing",
)  # fmt: skip


class Recorded(NamedTuple):
    """When a machine was recorded: its boot identity, begin and end by its own clock, and its domains."""

    boot_id: str
    begin_ns: int
    end_ns: int
    domains: frozenset[str]

    def overlaps(self, other: Recorded) -> bool:
        """Return whether both hold joules of the same domain at the same time."""
        is_same = self.boot_id == other.boot_id and bool(self.domains & other.domains)
        return is_same and self.begin_ns < other.end_ns and other.begin_ns < self.end_ns


@dataclass(frozen=True)
class PartTables:
    """What leaves a part.

    Attributes
    ----------
    host : name of the part
    missing : why there are no tables, or not of all of the part; None if they are whole
    tasks : its instances; None if they are not asked for
    accounts : its accounts, with the names of domains that are part of the total
    moments : of each task, from which summaries of several hosts are made
    figures : of the host; None without tables
    power : watts of all counted domains over its block: time_s, duration_s, power_w, in at most `POWER_BINS` rows
    info : of the part's profile
    start_ns : begin of its block in UNIX time of the job's clock; None if it is not known
    recorded : the machine and the time of its block; None if the machine is not known
    """

    host: str
    missing: str | None
    tasks: pd.DataFrame | None = None
    accounts: pd.DataFrame | None = None
    moments: pd.DataFrame | None = None
    figures: Figures | None = None
    power: pd.DataFrame | None = None
    info: dict[str, Any] = field(default_factory=dict)
    start_ns: int | None = None
    recorded: Recorded | None = None


@dataclass(frozen=True)
class Analysis:
    """What parts are analysed with.

    Attributes
    ----------
    model : name of the power model
    options : further ones of `build_profile`
    map : calls a function for each part
    """

    model: str
    options: dict[str, Any]
    map: Callable[..., Iterable[Any]]


@dataclass(frozen=True, repr=False)
class ClusterProfile:
    """The joules of a job by task, over all its hosts.

    Attributes
    ----------
    trace : the job
    parts : what came from each host
    tasks : one row per instance, as in the profile of one host, with the column `host`. `start_s` is from the earliest
        begin of a host's block. Empty if the profile was made without instances.
    accounts : index `host` and `domain`, as in the profile of one host
    hosts : one row per host (index `host`): quality, energy_j, tasks_j, runtime_j, other_j, idle_j, power_w (mean of
        its block), duration_s, cpus, busy_s (of its processors), busy_share (of the time of all its processors),
        imbalance (its time in tasks relative to the mean of the hosts, less 1), instances, processes, model, missing
        (why the part is not there or not whole)
    info : quality, warnings (with the host before each), engine, hosts (the `info` of each), missing, duration_s
    analysis : what parts were analysed with, so that a report can analyse them again
    """

    trace: ClusterTrace
    parts: tuple[PartTables, ...]
    tasks: pd.DataFrame
    accounts: pd.DataFrame
    hosts: pd.DataFrame
    info: dict[str, Any]
    analysis: Analysis

    @property
    def measured_j(self) -> dict[str, float]:
        """Joules of the hosts' counted domains, by quality: figures of unlike quality are not added."""
        sums = self.hosts[self.hosts["energy_j"].notna()].groupby("quality")["energy_j"].sum()
        return {str(quality): float(joules) for quality, joules in sums.items()}

    def summary(self) -> pd.DataFrame:
        """Return one row per task over all hosts (index `task`), by energy; the columns are those of `Profile.summary`.

        `hosts` is the number of hosts with instances. Independent errors of hosts are added in squares, the error of
        watts that they all assume as it is. A task that ran on hosts of unlike quality has the quality "mixed", and
        columns such as `measured_j` and `estimated_j` show what each kind of host contributes.
        """
        return joined_summary([(one.host, one.info["quality"], one.moments) for one in self.parts if one.info])

    def by(self, *names: str) -> pd.DataFrame:
        """Return one row per host, or per value of a label, or both, such as ``by("host", "rank")``.

        The columns are those of `tprof.analysis.profile.grouped.grouped`, and `quality`: "mixed" if hosts with a
        sensor and hosts without one contribute.

        Raises
        ------
        UsageError
            If no process has such a label, or the profile was made without instances.
        """
        if "own_s" not in self.tasks:
            raise UsageError("tasks are summed by labels from their instances: make the profile with tasks=True")
        table = grouped(self.tasks, self.tasks["own_s"].to_numpy(), self.summary(), names)
        quality = self.tasks["host"].map({one.host: one.info["quality"] for one in self.parts if one.info})
        keys = [group_key(self.tasks, name) for name in names]
        kinds = quality.groupby(keys).agg(lambda found: found.iloc[0] if len(found.unique()) == 1 else MIXED)
        return table.assign(quality=kinds.reindex(table.index))

    def by_host(self) -> pd.DataFrame:
        """Return one row per task and host (index `task`, `host`): instances, energy_j, quality."""
        frames = [
            one.moments[["instances"]].assign(
                energy_j=one.moments["energy_j"].where(one.moments["resolved_instances"] > 0),
                quality=one.info["quality"],
                host=one.host,
            )
            for one in self.parts
            if one.moments is not None
        ]
        joined = pd.concat(frames) if frames else pd.DataFrame(columns=["instances", "energy_j", "host", "quality"])
        return joined.rename_axis("task").set_index("host", append=True)

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

    def late_s(self, part: PartTables) -> float:
        """Return when a part's block began, from the earliest begin of a host's block."""
        starts = [one.start_ns for one in self.parts if one.start_ns is not None]
        return 0.0 if part.start_ns is None else (part.start_ns - min(starts)) * 1e-9

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files into a directory."""
        from tprof.analysis.export import write_csv  # noqa: PLC0415 - loaded when used

        write_csv(self, directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files into a directory."""
        from tprof.analysis.export import write_parquet  # noqa: PLC0415 - loaded when used

        write_parquet(self, directory)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report of one self-contained HTML file, for which every part is read again."""
        from tprof.analysis.report.job_page import write_job_report  # noqa: PLC0415 - loaded when used

        write_job_report(self, path)

    def __repr__(self) -> str:
        """Describe the profile in one line."""
        joules = ", ".join(f"{value:.4g} J {quality}" for quality, value in self.measured_j.items()) or "no energy"
        return f"<ClusterProfile of {self.trace.path.name}: {len(self.trace.hosts)} hosts, {joules}>"


def build_cluster_profile(
    trace: ClusterTrace,
    *,
    model: str = "auto",
    map: Callable[..., Iterable[Any]] | None = None,  # noqa: A002 - it stands in for the built-in one
    tasks: bool = True,
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
    analyse = partial(part_tables, model=model, tasks=tasks, options=options)
    way = Analysis(model, options, map or _one_after_another)
    parts = tuple(way.map(analyse, trace.hosts))
    present = [one for one in parts if one.figures is not None]
    if not present:
        reasons = "; ".join(f"{one.host}: {one.missing}" for one in parts[:3])
        raise TraceError(f"{trace.path} has no part that can be read ({reasons})")
    starts = [one.start_ns for one in present if one.start_ns is not None]
    first_ns = min(starts, default=0)
    accounts = pd.concat({one.host: one.accounts for one in present}, names=["host", "domain"])
    return ClusterProfile(
        trace, parts, _all_tasks(present, first_ns), accounts, _hosts(parts), _info(trace, parts, first_ns), way
    )


def part_tables(part: HostPart, *, model: str, tasks: bool, options: dict[str, Any]) -> PartTables:
    """Analyse a part; what a part lacks is said in the tables, so that the others are used."""
    if part.path is None:
        return PartTables(part.name, part.missing or "it is not there")
    try:
        trace = part.load()
        profile = build_profile(trace, model=model, **options)
    except TraceError as error:
        return PartTables(part.name, str(error))
    clock = clock_of(trace.manifest)
    step_ns = wall_clock_step_ns(trace.manifest, trace.end)
    if step_ns:
        profile.info["warnings"].append(
            f"the host's wall clock was set by {step_ns * 1e-9:+.3g} s during the recording: its place in timelines "
            "may be off by as much; joules do not depend on it"
        )
    offset_ns = part.offset.offset_ns if part.offset is not None else clock[1] - clock[0] if clock else None
    return PartTables(
        part.name,
        part.missing,
        profile.tasks.assign(own_s=profile.own_s) if tasks else None,
        _counted_accounts(profile),
        moments(profile),
        figures_of(profile),
        binned_power(profile),
        profile.info,
        None if offset_ns is None else trace.start_ns + offset_ns,
        _recorded(trace, profile),
    )


def _recorded(trace: Trace, profile: Profile) -> Recorded | None:
    boot_id = trace.manifest.get("boot_id")
    if not isinstance(boot_id, str):
        return None
    counted = frozenset(quanta.name for quanta in profile.quanta if quanta.counted)
    return Recorded(boot_id, trace.start_ns, trace.end_ns, counted)


def _one_after_another(analyse: Callable[[Any], PartTables], hosts: Sequence[HostPart]) -> Iterable[PartTables]:
    return (analyse(host) for host in hosts)


def _counted_accounts(profile: Profile) -> pd.DataFrame:
    counted = {quanta.name: quanta.counted for quanta in profile.quanta}
    return profile.accounts.assign(counted=[counted[str(name)] for name in profile.accounts.index])


def _all_tasks(parts: Sequence[PartTables], first_ns: int) -> pd.DataFrame:
    """Join the tables of instances; times count from the first host's begin, where clocks are known."""
    frames = []
    for one in parts:
        if one.tasks is None:
            continue
        late_s = 0.0 if one.start_ns is None else (one.start_ns - first_ns) * 1e-9
        frames.append(one.tasks.assign(start_s=one.tasks["start_s"] + late_s, host=one.host))
    if not frames:
        return pd.DataFrame({"host": pd.Categorical([])})
    texts = [name for name in _columns(frames) if any(_is_categorical(frame, name) for frame in frames)] + ["host"]
    joined = pd.concat(frames, ignore_index=True)
    joined = joined.astype(dict.fromkeys(dict.fromkeys(texts), "category"))
    return joined[["host", *(name for name in joined.columns if name != "host")]]


def _columns(frames: Sequence[pd.DataFrame]) -> list[str]:
    return list(dict.fromkeys(str(name) for frame in frames for name in frame.columns))


def _is_categorical(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and isinstance(frame[name].dtype, pd.CategoricalDtype)


def _hosts(parts: Sequence[PartTables]) -> pd.DataFrame:
    rows = {one.host: {} if one.figures is None else vars(one.figures) for one in parts}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("host")
    table = table.reindex(columns=[name for name in (*HOST_COLUMNS, "own_s") if name not in ("imbalance", "missing")])
    own_s = table.pop("own_s").astype(float)
    mean_s = own_s.mean()
    table["imbalance"] = own_s / mean_s - 1 if mean_s > 0 else math.nan
    table["missing"] = [one.missing for one in parts]
    table["quality"] = table["quality"].fillna("missing")
    return table[list(HOST_COLUMNS)]


def _info(trace: ClusterTrace, parts: Sequence[PartTables], first_ns: int) -> dict[str, Any]:
    present = [one for one in parts if one.info]
    qualities = {str(one.info["quality"]) for one in present} - {"none"}
    warnings = [*trace.notes]
    if len(qualities) > 1:
        warnings.append(
            f"hosts are {' and '.join(sorted(qualities))}: their joules are shown apart, and sums of both are mixed"
        )
    warnings += [
        f"{one.host} and {other.host} were recorded on one machine at the same time: its joules are counted twice"
        for one, other in itertools.combinations(present, 2)
        if one.recorded is not None and other.recorded is not None and one.recorded.overlaps(other.recorded)
    ][:MOST_OVERLAPS]
    for one in parts:
        warnings += [f"{one.host}: {one.missing}"] if one.missing else []
        warnings += [f"{one.host}: {text}" for text in one.info.get("warnings", ())]
    ends = [one.start_ns - first_ns + one.info["duration_s"] * 1e9 for one in present if one.start_ns is not None]
    durations = [one.info["duration_s"] for one in present]
    return {
        "quality": MIXED if len(qualities) > 1 else least_certain(qualities),
        "engine": trace.engine,
        "hosts": {one.host: one.info for one in parts},
        "missing": {one.host: one.missing for one in parts if one.missing},
        "model": sorted({str(one.info["model"]) for one in present}),
        "duration_s": float(max([*(np.array(ends) * 1e-9), *durations], default=math.nan)),
        "warnings": warnings,
    }
