"""The sessions of which an export consists: one, or those of a job's hosts, each analysed when its turn comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tprof.analysis.names import shown

from tprof.trace.metadata import clock_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis.profile import Profile


class Host(NamedTuple):
    """A session in an export.

    Attributes
    ----------
    name : of the host in a job; None for the session of one host
    profile : of the session
    shift_ns : what is added to its CLOCK_MONOTONIC; 0 for the session of one host
    """

    name: str | None
    profile: Profile
    shift_ns: int

    @property
    def program(self) -> str:
        """What processes are called: the session, which is named after the program, or their host in a job."""
        return shown(self.name or self.profile.trace.path.stem)


def hosts_of(profile: Profile) -> Iterator[Host]:
    """Yield the sessions of a profile one after the other.

    Those of a job, several of which may be of one host, are on the job's clock, in UNIX time; a host whose clock is not
    known begins with the first one. Parts that cannot be read are left out, as in the profile.
    """
    if profile.job is None:
        yield Host(None, profile, 0)
        return
    first_ns = min((one.start_ns for one in profile.job.parts if one.start_ns is not None), default=0)
    for part, one in profile.job.profiles():
        yield Host(part.host, one, (first_ns if part.start_ns is None else part.start_ns) - one.trace.start_ns)


def wall_clock(host: Host) -> tuple[int, int] | None:
    """Return a time of the export's clock and the same in UNIX time; None if the session does not have it."""
    if host.name is not None:
        at = host.profile.trace.start_ns + host.shift_ns
        return at, at
    return clock_of(host.profile.trace.manifest)
