"""The critical path of a job, over all its hosts: what a task needed may have been made on another host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tprof.errors import UsageError

from .moments import joined_quality
from .task_graph import on_one_clock, path_through

if TYPE_CHECKING:
    from .cluster import ClusterProfile
    from .part_tables import PartTables
    from .task_graph import CriticalPath

CLOCK_ERROR_NS = 1_000_000_000
"""The most by which a host's wall clock may be off that nothing compared with others."""
NO_GRAPH = (
    "no part of this job has keys of dask's tasks or events of a task runtime: record a cluster by tprof.dask.record, "
    "or a program whose tasks run in tprof.runtime"
)
NO_INSTANCES = "the critical path consists of instances: make the profile with tasks=True"


def path_of_job(profile: ClusterProfile) -> CriticalPath:
    """Find the critical path over all hosts.

    Raises
    ------
    UsageError
        If no part has keys or events of a task runtime, or the profile was made without instances.
    """
    parts = [one for one in profile.parts if one.instances is not None]
    if not parts:
        made = all(one.tasks is not None for one in profile.parts if one.figures is not None)
        raise UsageError(NO_GRAPH if made else NO_INSTANCES)
    instances = on_one_clock(
        [one.host for one in parts],
        [one.instances for one in parts if one.instances is not None],
        [round(profile.late_s(one) * 1e9) for one in parts],
        [_error_ns(profile, one) for one in parts],
    )
    path = path_through(instances, "none")
    used = {*path.chain["host"], *path.heaviest["host"]}
    return replace(path, quality=joined_quality(str(one.info["quality"]) for one in parts if one.host in used))


def _error_ns(profile: ClusterProfile, part: PartTables) -> int:
    offset = next((one.offset for one in profile.trace.hosts if one.name == part.part), None)
    return CLOCK_ERROR_NS if offset is None or offset.uncertainty_ns is None else offset.uncertainty_ns
