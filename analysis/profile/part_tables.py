"""Reads the parts of a job: one after the other or as a `map` does. Only tables leave a part."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tprof.analysis.attribution.blocks import counters_of

from tprof.errors import TraceError
from tprof.trace.clock_offset import wall_clock_step_ns
from tprof.trace.metadata import clock_of

from .build import build_profile
from .flame import OF_HOST
from .host_figures import POWER_BINS, figures_of, total_power
from .information import with_quality
from .instances import InstanceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

    from tprof.trace import HostPart, Trace

    from .flame_tree import Flame
    from .parallel_maps import Map
    from .profile import Profile
    from .stored_instances import Progress
    from .summary import HostSums
    from .task_graph import Instances as GraphInstances


Found = TypeVar("Found")


@dataclass(frozen=True)
class Analysis:
    """What parts are analysed with.

    Attributes
    ----------
    options : of `build_profile`
    map : calls a function for each part; None: one after the other in this process
    """

    options: dict[str, Any]
    map: Map | None = None

    def read(
        self, call: Callable[..., Found], parts: Sequence[HostPart], progress: Progress | None = None
    ) -> Iterator[Found]:
        """Yield what a function returns for each part; it also takes `progress`, which names the host."""
        if self.map is not None:
            for number, found in enumerate(self.map(call, parts)):
                if progress is not None:
                    progress("hosts", number + 1, len(parts))
                yield found
            return
        for number, part in enumerate(parts):
            yield call(part, progress=None if progress is None else _of_host(progress, part, number, len(parts)))

    def ask(
        self, call: Callable[[str, Profile], Found], parts: Sequence[HostPart], progress: Progress | None = None
    ) -> Iterator[Found | None]:
        """Yield what a function returns for the name and the profile of each part; None of one that cannot be read."""
        return self.read(partial(_asked, call=call, options=self.options), parts, progress)


def _asked(
    part: HostPart,
    *,
    call: Callable[[str, Profile], Found],
    options: dict[str, Any],
    progress: Progress | None = None,
) -> Found | None:
    try:
        profile = build_profile(part.load(), progress=progress, **{"tables": False} | options)
    except TraceError:
        return None  # it was there when the profile was made; the table of hosts says why it is not now
    return call(part.name, profile)


def _of_host(progress: Progress, part: HostPart, number: int, hosts: int) -> Progress:
    """Return what says of a host how far it is, and begin with how many hosts are done."""
    progress(part.name, number, hosts)
    return lambda doing, done, of: progress(f"{part.name} ({number + 1} of {hosts}): {doing}", done, of)


class Recorded(NamedTuple):
    """When a machine was recorded: its boot identity and name, begin and end by its own clock, and its domains."""

    boot_id: str
    name: str
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
    part : its name
    host : name of its host: that of the first part of the same machine, which was recorded more than once
    missing : why there are no tables, or not of all of the part; None if they are whole
    tasks : its instances, with `own_s`; None if they are not asked for
    columns : the table of its instances without rows; None without tables
    accounts : its accounts, with the names of domains that are part of the total
    sums : over its instances, from which summaries of several hosts are made
    flame : the tree of its nested tasks below processes and threads; None if `tasks` are not asked for
    figures : of the host; None without tables
    power : watts of all counted domains over its block: time_s, duration_s, power_w, in at most `POWER_BINS` rows
    info : of the part's profile
    start_ns : begin of its block in UNIX time of the job's clock; None if it is not known
    recorded : the machine and the time of its block; None if the machine is not known
    has_graph : whether it has keys of dask's tasks or events of a task runtime, so that a critical path can be found
    graph : what the critical path is found from; None without `has_graph`, or if it is not asked for
    """

    part: str
    host: str
    missing: str | None
    tasks: pd.DataFrame | None = None
    columns: pd.DataFrame | None = None
    accounts: pd.DataFrame | None = None
    sums: HostSums | None = None
    figures: dict[str, Any] | None = None
    power: pd.DataFrame | None = None
    info: dict[str, Any] = field(default_factory=dict)
    start_ns: int | None = None
    recorded: Recorded | None = None
    has_graph: bool = False
    graph: GraphInstances | None = field(default=None, repr=False)
    flame: Flame | None = None

    @property
    def instances(self) -> InstanceTable:
        """Its instances, if it came with their table."""
        assert self.tasks is not None and self.sums is not None  # noqa: PT018, S101 - for the type checker
        return InstanceTable(self.sums.sums, self.tasks, self.tasks["own_s"].to_numpy(float))


def part_tables(
    part: HostPart, *, tables: bool, path: bool, options: dict[str, Any], progress: Progress | None = None
) -> PartTables:
    """Analyse a part; what a part lacks is said in the tables, so that the others are used.

    Parameters
    ----------
    part : of a job
    tables : whether its table of instances is asked for
    path : whether what the critical path is found from is asked for
    options : as of `Analysis`
    progress : is told how far it is
    """
    if part.path is None:
        return PartTables(part.name, part.name, part.missing or "it is not there")
    try:
        trace = part.load()
        profile = build_profile(trace, progress=progress, **{"tables": tables} | options)
    except TraceError as error:
        return PartTables(part.name, part.name, str(error))
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
        part.name,
        part.missing,
        with_own(profile) if tables else None,
        _columns(profile),
        _counted_accounts(profile),
        profile.host_sums,
        figures_of(profile),
        total_power(profile, POWER_BINS),
        profile.info,
        None if offset_ns is None else trace.start_ns + offset_ns,
        _recorded(trace, profile),
        profile.has_graph,
        profile.graph if path and profile.has_graph else None,
        profile.flame(*OF_HOST) if tables else None,
    )


def _columns(profile: Profile) -> pd.DataFrame:
    """Return the table of instances without rows; the last ones, from which it is, have no counts."""
    table = profile.instances.last.tasks.head(0)
    counters = counters_of([one for one in profile.trace.threads if one.count])
    places = {"ipc": [*counters, "ipc"]}
    table = table.reindex(columns=[one for name in table.columns for one in places.get(name, [name])])
    return with_quality(table, profile.info["quality"]).assign(own_s=0.0)


def with_own(profile: Profile) -> pd.DataFrame:
    """Return the table of instances with their seconds in the column `own_s`. Raises UsageError if it does not fit."""
    return profile.tasks.assign(own_s=profile.own_s)


def _recorded(trace: Trace, profile: Profile) -> Recorded | None:
    boot_id = trace.manifest.get("boot_id")
    if not isinstance(boot_id, str):
        return None
    counted = frozenset(quanta.name for quanta in profile.quanta if quanta.counted)
    name = (trace.manifest.get("host") or {}).get("hostname")
    return Recorded(boot_id, name if isinstance(name, str) else "", trace.start_ns, trace.end_ns, counted)


def _counted_accounts(profile: Profile) -> pd.DataFrame:
    counted = {quanta.name: quanta.counted for quanta in profile.quanta}
    return profile.accounts.assign(counted=[counted[str(name)] for name in profile.accounts.index])
