"""A host's part of a job: what leaves it for the profile of the job, and how parts are read, here or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tprof.analysis.attribution.blocks import counters_of

from tprof.errors import TraceError
from tprof.trace.clock_offset import wall_clock_step_ns
from tprof.trace.metadata import clock_of

from .build import build_profile
from .flame_tree import OF_HOST
from .host_figures import POWER_BINS, figures_of, total_power
from .information import with_quality
from .instances import InstanceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

    from tprof.trace import HostPart

    from .flame_tree import Flame
    from .instances import Progress
    from .parallel_maps import Map
    from .profile import Profile
    from .summary import HostSums
    from .task_graph import Instances as GraphInstances

    Question = Callable[[HostPart, Profile], Any]
    """Is sent to where a part is read, and returns what travels back."""


Found = TypeVar("Found")
CLOCK_ERROR_NS = 1_000_000_000
"""The most by which a host's wall clock may be off that nothing compared with others."""


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
class Part:
    """What leaves a part.

    Attributes
    ----------
    name : of the part
    host : name of its host: that of the first part of the same machine, which was recorded more than once
    columns : the table of its instances, with `own_s`, without rows
    accounts : its accounts, with the names of domains that are part of the total
    sums : over its instances, from which summaries of several hosts are made
    figures : of the host
    power : watts of all counted domains over its block: time_s, duration_s, power_w, in at most `POWER_BINS` rows
    info : of the part's profile
    start_ns : begin of its block in UNIX time of the job's clock; None if it is not known
    error_ns : the most by which this may be off
    recorded : the machine and the time of its block; None if the machine is not known
    has_graph : whether it has keys of dask's tasks or events of a task runtime, so that a critical path can be found
    known : answers to what it was asked when it was read, by question
    late_s : when its block began, from the earliest begin of a part's block
    """

    name: str
    host: str
    columns: pd.DataFrame
    accounts: pd.DataFrame
    sums: HostSums
    figures: dict[str, Any]
    power: pd.DataFrame
    info: dict[str, Any]
    start_ns: int | None
    error_ns: int
    recorded: Recorded | None
    has_graph: bool
    known: dict[Question, Any] = field(repr=False)
    late_s: float = 0.0

    @property
    def instances(self) -> InstanceTable:
        """Its instances, if it was asked for their table."""
        return InstanceTable(self.sums.sums, self.known[table_of])


def table_of(_: HostPart, profile: Profile) -> pd.DataFrame:
    """Return the table of instances with their seconds in the column `own_s`. Raises UsageError if it does not fit."""
    return profile.tasks.assign(own_s=profile.own_s)


def tree_of(_: HostPart, profile: Profile) -> Flame:
    """Return the tree of nested tasks below processes and threads."""
    return profile.flame(*OF_HOST)


def graph_of(_: HostPart, profile: Profile) -> GraphInstances | None:
    """Return what the critical path is found from; None without keys or events."""
    return profile.graph if profile.has_graph else None


def read_part(part: HostPart, profile: Profile, *, questions: Sequence[Question]) -> Part:
    """Return what leaves a part, with the answers to some questions."""
    trace, known = profile.trace, {one: one(part, profile) for one in questions}
    if step_ns := wall_clock_step_ns(trace.manifest, trace.end):
        profile.info["warnings"].append(
            f"the host's wall clock was set by {step_ns * 1e-9:+.3g} s during the recording: its place in timelines "
            "may be off by as much; joules do not depend on it"
        )
    clock, offset_ns, error_ns = clock_of(trace.manifest), None, None
    if part.offset is not None:
        offset_ns, error_ns, _ = part.offset
    elif clock:
        offset_ns = clock[1] - clock[0]
    counted = [one["counted"] for one in profile.info["domains"]]
    boot_id, domains = trace.manifest.get("boot_id"), frozenset(profile.accounts.index[counted])
    return Part(
        part.name,
        part.name,
        _columns(profile),
        profile.accounts.assign(counted=counted),
        profile.host_sums,
        figures_of(profile),
        total_power(profile, POWER_BINS),
        profile.info,
        None if offset_ns is None else trace.start_ns + offset_ns,
        CLOCK_ERROR_NS if error_ns is None else error_ns,
        Recorded(boot_id, str(profile.hostname or ""), trace.start_ns, trace.end_ns, domains)
        if isinstance(boot_id, str)
        else None,
        profile.has_graph,
        known,
    )


def _columns(profile: Profile) -> pd.DataFrame:
    """Return the table of instances without rows; the last ones, from which it is, have no counts."""
    table = profile.instances.last.tasks.head(0)
    counters = counters_of([one for one in profile.trace.threads if one.count])
    places = {"ipc": [*counters, "ipc"]}
    table = table.reindex(columns=[one for name in table.columns for one in places.get(name, [name])])
    return with_quality(table, profile.info["quality"]).assign(own_s=0.0)


def ask_parts(
    call: Callable[[HostPart, Profile], Found],
    parts: Sequence[HostPart],
    options: dict[str, Any],
    map: Map | None,  # noqa: A002 - it stands in for the built-in one
    progress: Progress | None = None,
) -> Iterator[Found | TraceError]:
    """Yield what a function returns for each part and its profile, or why the part cannot be read.

    Parameters
    ----------
    call : can be sent to other processes, unless `map` is None
    parts : of a job
    options : of `build_profile`
    map : calls a function for each part; None: one after the other in this process
    progress : is told how far it is, of which host in this process
    """
    ask = partial(_asked, call=call, options=options)
    if map is None:
        for number, part in enumerate(parts):
            yield ask(part, progress=None if progress is None else _of_host(progress, part, number, len(parts)))
        return
    for number, found in enumerate(map(ask, parts)):
        if progress is not None:
            progress("hosts", number + 1, len(parts))
        yield found


def _asked(
    part: HostPart,
    *,
    call: Callable[[HostPart, Profile], Found],
    options: dict[str, Any],
    progress: Progress | None = None,
) -> Found | TraceError:
    try:
        profile = build_profile(part.load(), progress=progress, tables=False, **options)
    except TraceError as error:
        return error
    return call(part, profile)


def _of_host(progress: Progress, part: HostPart, number: int, hosts: int) -> Progress:
    """Return what says of a host how far it is, and begin with how many hosts are done."""
    progress(part.name, number, hosts)
    return lambda doing, done, of: progress(f"{part.name} ({number + 1} of {hosts}): {doing}", done, of)
