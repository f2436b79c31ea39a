"""The sessions of which an export consists: one, or those of a job's hosts, each analysed when its turn comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tprof.analysis.names import shown
from tprof.analysis.profile import ClusterProfile
from tprof.analysis.profile.part_reading import part_profile

from tprof.errors import TraceError
from tprof.trace.metadata import clock_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.part_tables import PartTables


class Host(NamedTuple):
    """A session in an export.

    Attributes
    ----------
    name : of the host in a job; None for the session of one host
    profile : of the session
    shift_ns : what is added to its CLOCK_MONOTONIC; 0 for the session of one host
    part : of the job; None for the session of one host
    """

    name: str | None
    profile: Profile
    shift_ns: int
    part: PartTables | None = None

    @property
    def program(self) -> str:
        """What processes are called: the session, which is named after the program, or their host in a job."""
        return shown(self.name or self.profile.trace.path.stem)


def number_of_instances(profile: Profile | ClusterProfile) -> int:
    """Return how many instances all hosts have."""
    if isinstance(profile, ClusterProfile):
        return int(sum(one.figures.instances for one in profile.parts if one.figures is not None))
    return profile.sums.rows


def hosts_of(profile: Profile | ClusterProfile) -> Iterator[Host]:
    """Yield the sessions of a profile one after the other.

    Those of a job, several of which may be of one host, are on the job's clock, in UNIX time; a host whose clock is not
    known begins with the first one. Parts that cannot be read are left out, as in the profile.
    """
    if not isinstance(profile, ClusterProfile):
        yield Host(None, profile, 0)
        return
    parts = {one.part: one for one in profile.parts if one.figures is not None}
    starts = {name: one.start_ns for name, one in parts.items()}
    first_ns = min((start for start in starts.values() if start is not None), default=0)
    for part in profile.trace.hosts:
        if part.path is None or part.name not in starts:
            continue
        try:
            way = profile.analysis
            one = part_profile(part.load(), model=way.model, options=way.options)
        except TraceError:
            continue  # it was there when the profile was made; the table of hosts says why it is not now
        start_ns = starts[part.name]
        shift_ns = (first_ns if start_ns is None else start_ns) - one.trace.start_ns
        yield Host(parts[part.name].host, one, shift_ns, parts[part.name])


def wall_clock(host: Host) -> tuple[int, int] | None:
    """Return a time of the export's clock and the same in UNIX time; None if the session does not have it."""
    if host.name is not None:
        at = host.profile.trace.start_ns + host.shift_ns
        return at, at
    return clock_of(host.profile.trace.manifest)
