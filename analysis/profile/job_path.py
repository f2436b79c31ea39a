"""The critical path of a job, over all its hosts: what a task needed may have been made on another host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tprof.errors import UsageError

from .summary import joined_quality
from .task_graph import on_one_clock, path_through, read_instances

if TYPE_CHECKING:
    from .cluster import ClusterProfile
    from .part_tables import PartTables
    from .profile import Profile
    from .task_graph import CriticalPath, Instances

CLOCK_ERROR_NS = 1_000_000_000
"""The most by which a host's wall clock may be off that nothing compared with others."""
NO_GRAPH = (
    "no part of this job has keys of dask's tasks or events of a task runtime: record a cluster by tprof.dask.record, "
    "or a program whose tasks run in tprof.runtime"
)


def path_of_job(profile: ClusterProfile) -> CriticalPath:
    """Find the critical path over all hosts; parts are read again for it unless they were asked for it.

    Raises
    ------
    UsageError
        If no part has keys or events of a task runtime, or their instances do not fit into memory.
    """
    if not any(one.has_graph for one in profile.parts):
        raise UsageError(NO_GRAPH)
    known = [(one, one.instances) for one in profile.parts if one.instances is not None]
    if not known:
        known = [(one, found) for one, (found,) in profile.again(_instances_of) if found is not None]
    parts = [one for one, _ in known]
    instances = on_one_clock(
        [one.host for one in parts],
        [found for _, found in known],
        [round(profile.late_s(one) * 1e9) for one in parts],
        [_error_ns(profile, one) for one in parts],
    )
    path = path_through(instances, "none")
    used = path.chain_columns.hosts() | path.heaviest_columns.hosts()
    return replace(path, quality=joined_quality(str(one.info["quality"]) for one in parts if one.host in used))


def _instances_of(_: str, profile: Profile) -> tuple[Instances | None]:
    return (read_instances(profile) if profile.has_graph else None,)


def _error_ns(profile: ClusterProfile, part: PartTables) -> int:
    offset = next((one.offset for one in profile.trace.hosts if one.name == part.part), None)
    return CLOCK_ERROR_NS if offset is None or offset.uncertainty_ns is None else offset.uncertainty_ns
