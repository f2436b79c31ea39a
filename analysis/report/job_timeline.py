"""The timeline of a job: threads of all hosts on one clock, each host's part packed to its share of the pieces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.names import shown

from .profile_data import longest, places_of
from .timeline import LANES, PIECES, Pieces, drawn_of, pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.cluster import Job
    from tprof.analysis.profile.flame_tree import Flame

    from tprof.trace import HostPart


@dataclass(frozen=True)
class PartLanes:
    """The lanes of a host.

    Attributes
    ----------
    host : its name
    lanes : host, process, pid, tid, name of each thread
    pieces : of each thread, their tasks as places in `names`
    names : of the tasks
    places : file and line of each task
    longest : the longest instances of its tasks
    segments, merged, not_drawn, threads_left_out : numbers
    cell_ns : length of a cell of time
    flame : the tree of its nested tasks
    """

    host: str
    lanes: list[dict[str, Any]]
    pieces: list[Pieces]
    names: list[str]
    places: dict[str, list[dict[str, Any]]]
    longest: pd.DataFrame
    segments: int
    merged: int
    not_drawn: int
    threads_left_out: int
    cell_ns: int
    flame: Flame | None


def part_lanes(part: HostPart, profile: Profile, *, late_ns: Mapping[str, int], most: int) -> PartLanes:
    """Return the lanes of a part, at most `most` pieces, given by how much each part began later than the first."""
    name, late = part.name, late_ns[part.name]
    start_ns = profile.trace.start_ns - late
    drawn = drawn_of(profile, start_ns, most, windowed=False, threads=max(LANES // len(late_ns), 1))
    lanes = [
        {
            "host": name,
            "process": f"{name} {one.process}",
            "pid": one.pid,
            "tid": one.tid,
            "name": f"{name}: {shown(one.name) or f'thread-{one.ordinal}'}",
            "pieces": len(lane),
        }
        for one, lane in zip(drawn.threads, drawn.lanes, strict=True)
    ]
    rows = longest(profile, len(late_ns))
    rows = rows.assign(start_ns=rows["start_ns"] + late, thread=f"{name}: " + rows["thread"].astype(str))
    return PartLanes(
        name, lanes, list(drawn.lanes), drawn.names, places_of(profile.trace.tasks),
        rows, drawn.segments, drawn.merged, drawn.not_drawn, drawn.threads_left_out, drawn.cell_ns, profile.flame(),
    )  # fmt: skip


def lanes_of(job: Job, *, pieces: int = PIECES) -> list[PartLanes]:
    """Read the parts of a job again, as `map` does; returns the lanes of those that are there."""
    late_ns = {one.name: round(one.late_s * 1e9) for one in job.parts}
    most = max(pieces // max(len(late_ns), 1), 1)
    return [one for _, one in job.ask(partial(part_lanes, late_ns=late_ns, most=most))]


def joined_timeline(parts: Sequence[PartLanes], duration_s: float) -> dict[str, Any]:
    """Return the timeline of all hosts, as `timeline.timeline_data` does for one."""
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    place = {name: code for code, name in enumerate(names)}
    pieces = []
    for part in parts:
        code = np.array([*(place[name] for name in part.names), len(names)], np.int64)
        pieces += [Pieces(**{**vars(one), "task": code[one.task]}) for one in part.pieces]
    return {
        "lanes": [lane for part in parts for lane in part.lanes],
        "names": names,
        "duration_ns": round(duration_s * 1e9),
        "columns": pack(pieces),
        **{
            name: sum(getattr(part, name) for part in parts)
            for name in ("segments", "merged", "not_drawn", "threads_left_out")
        },
        "cell_ns": max((part.cell_ns for part in parts), default=0),
        "windows": [],
    }
