"""The timeline of a job: threads of all hosts on one clock, each host's part packed to its share of the pieces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.names import places, shown
from tprof.analysis.profile.build import build_profile

from tprof.errors import TraceError

from .timeline import LANES, PIECES, Pieces, fitted, own_segments, pack, segments_in_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.profile import ClusterProfile, Profile

    from tprof.trace import HostPart

LONGEST = 12  # instances of a task
LISTED = 1_000  # of all tasks together
_FACTS = ("energy_j", "energy_low_j", "energy_high_j", "cpu", "pid", "tid")


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
    longest : the longest instances: task, start_ns, duration_ns, own_s, thread and the facts of the table of instances
    segments, merged, not_drawn, threads_left_out : numbers
    cell_ns : length of a cell of time
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


def part_lanes(
    part: HostPart, *, model: str, options: Mapping[str, Any], late_ns: Mapping[str, int], most: int
) -> PartLanes | None:
    """Return the lanes of a part, at most `most` pieces; None for a part that is not there."""
    if part.path is None or part.name not in late_ns:
        return None
    try:
        profile = build_profile(part.load(), model=model, **options)
    except TraceError:
        return None  # the table of hosts says why
    trace, late = profile.trace, late_ns[part.name]
    names, number = places([shown(entry.name) for entry in trace.tasks])
    segments = segments_in_tasks(profile)
    kept = segments[: max(LANES // len(late_ns), 1)]
    every = [own_segments(one, np.append(number, len(names)), trace.start_ns - late) for one in kept]
    pieces, cell_ns, _ = fitted(every, most, windowed=False)
    total = sum(map(len, every))
    lanes = [
        {
            "host": part.name,
            "process": f"{part.name} {one.thread.process}",
            "pid": one.thread.pid,
            "tid": one.thread.tid,
            "name": f"{part.name}: {shown(one.thread.name) or f'thread-{one.thread.ordinal}'}",
            "pieces": len(lane),
        }
        for one, lane in zip(kept, pieces, strict=True)
    ]
    return PartLanes(
        part.name, lanes, pieces, list(names), _places(profile), _longest(profile, part.name, late, len(late_ns)),
        total, sum(int(lane.count[lane.count > 1].sum()) for lane in pieces),
        total - sum(int(lane.count.sum()) for lane in pieces), len(segments) - len(kept), cell_ns,
    )  # fmt: skip


def _places(profile: Profile) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in profile.trace.tasks:
        place = {"file": entry.file, "line": entry.line, "source": entry.source}
        found.setdefault(shown(entry.name), []).append(place)
    return found


def _longest(profile: Profile, host: str, late_ns: int, hosts: int) -> pd.DataFrame:
    """Return the longest instances of each task on a host, so few that those of all hosts fit."""
    tasks = profile.tasks
    each = int(np.clip(LISTED // max(hosts * len(tasks["task"].cat.categories), 1), 1, LONGEST))
    rows = tasks.assign(own_s=profile.own_s).sort_values("duration_s", ascending=False, kind="stable")
    rows = rows.groupby("task", observed=True, sort=False).head(each)
    return pd.DataFrame(
        {
            "task": rows["task"].astype(str),
            "start_ns": np.round(rows["start_s"] * 1e9).astype(np.int64) + late_ns,
            "duration_ns": np.round(rows["duration_s"] * 1e9).astype(np.int64),
            "own_s": rows["own_s"],
            "thread": host + ": " + rows["thread"].astype(str),
            **{name: rows[name] for name in _FACTS},
        }
    )


def lanes_of(profile: ClusterProfile, *, pieces: int = PIECES) -> list[PartLanes]:
    """Read the parts of a job again, as `map` does; returns the lanes of those that are there."""
    late_ns = {one.part: round(profile.late_s(one) * 1e9) for one in profile.parts if one.figures is not None}
    most = max(pieces // max(len(late_ns), 1), 1)
    way = profile.analysis
    read = partial(part_lanes, model=way.model, options=way.options, late_ns=late_ns, most=most)
    return [one for one in way.map(read, profile.trace.hosts) if one is not None]


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


def joined_longest(parts: Sequence[PartLanes]) -> dict[str, Any]:
    """Return the longest instances of each task over all hosts, by its number among the timeline's names."""
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    if not parts:
        return {}
    rows = pd.concat([part.longest for part in parts]).sort_values("duration_ns", ascending=False, kind="stable")
    code = {name: str(number) for number, name in enumerate(names)}
    return {
        code[str(task)]: {str(column): values.tolist() for column, values in mine.head(LONGEST).items()}
        for task, mine in rows.groupby("task", sort=False)
        if str(task) in code
    }
