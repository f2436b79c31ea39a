"""The tasks of a session as points of a roofline: flops and bytes as declared or counted, time and joules as recorded.

A task's time is that in which at least one of its instances ran: the machine's roofline is that of all its cores, and a
task that runs on one core alone stands as low under it as it uses little of the machine. Flops are those that the task
declares (`tprof.task(flops=...)`) or of a column `flops`; instructions are not flops. Bytes are those it declares, else
64 for each LLC miss, and are then labelled so: prefetched lines and write-backs are not among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.names import places, shown
from tprof.analysis.profile.profile_warnings import failed_declarations

from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    import pandas as pd
    from tprof.analysis.profile import Profile

    from tprof.trace.tasks import TaskEntry

    from .roofline import Machine

LINE_BYTES = 64
DECLARED, COUNTED, FROM_MISSES = "declared", "counted", "from LLC misses"


@dataclass(frozen=True)
class TaskPoint:
    """One task.

    Attributes
    ----------
    task : its name.
    instances : how many ran.
    flops, traffic_bytes : of all of them.
    flops_from : "declared" or "counted".
    bytes_from : "declared", "counted" or "from LLC misses".
    time_s : in which at least one instance ran.
    energy_j : of all of them; None where it was not resolved.
    quality : of the joules: "measured", "estimated", …
    """

    task: str
    instances: int
    flops: float
    traffic_bytes: float
    flops_from: str
    bytes_from: str
    time_s: float
    energy_j: float | None
    quality: str

    @property
    def intensity(self) -> float:
        """Flops a byte."""
        return self.flops / self.traffic_bytes

    @property
    def flops_per_s(self) -> float:
        """Flops a second of `time_s`."""
        return self.flops / self.time_s

    @property
    def flops_per_j(self) -> float | None:
        """Flops a joule."""
        return None if self.energy_j is None else self.flops / self.energy_j

    @property
    def power_w(self) -> float | None:
        """Watts while it ran."""
        return None if self.energy_j is None else self.energy_j / self.time_s

    def of_roof(self, machine: Machine) -> float:
        """Return the performance relative to the machine's limit at this intensity."""
        return self.flops_per_s / float(machine.flops_per_s(self.intensity))


def task_points(profile: Profile) -> tuple[list[TaskPoint], list[str]]:
    """Return a point for each task whose flops and bytes are known, by falling flops, and notes on the others.

    Parameters
    ----------
    profile
        Of a session.
    """
    entries = _entries_by_name(profile)
    summary, busy_s = profile.summary(), _busy_s(profile)
    points, notes = [], failed_declarations(profile.trace.tasks)
    for name, row in summary.iterrows():
        count = int(row["instances"])
        counts = profile.tasks[profile.tasks["task"] == name]
        flops, flops_from = _amount(entries.get(str(name), []), "flops", count, counts)
        traffic, bytes_from = _amount(entries.get(str(name), []), "bytes", count, counts)
        if flops is None:
            continue
        if not flops or not traffic or not busy_s.get(str(name)):
            notes.append(f"{name} is no point: {_why(flops, traffic)}")
            continue
        energy_j = float(row["energy_j"]) if row["resolved"] and row["energy_j"] > 0 else None
        quality = str(row["quality"])
        point = (str(name), count, flops, traffic, flops_from, bytes_from, busy_s[str(name)], energy_j, quality)
        points.append(TaskPoint(*point))
        notes += _lost(str(name), entries.get(str(name), []), count)
    return sorted(points, key=lambda point: -point.flops), notes


def _entries_by_name(profile: Profile) -> dict[str, list[TaskEntry]]:
    entries: dict[str, list[TaskEntry]] = {}
    for entry in profile.trace.tasks:
        entries.setdefault(shown(entry.name), []).append(entry)
    return entries


def _amount(entries: list[TaskEntry], kind: str, instances: int, counts: pd.DataFrame) -> tuple[float | None, str]:
    """Return flops or bytes of all instances, None if unknown, and their origin."""
    each = {value for entry in entries if (value := getattr(entry, kind)) is not None}
    summed = [(entry.calls, value) for entry in entries if (value := getattr(entry, f"{kind}_sum")) is not None]
    # Tasks of the same name with different work cannot be distinguished.
    if len(each) == 1 and not summed:
        return each.pop() * instances, DECLARED
    calls = sum(count for count, _ in summed)
    if calls and not each:
        return sum(value for _, value in summed) / calls * instances, DECLARED
    if kind in counts:
        return float(counts[kind].sum()), COUNTED
    if kind == "bytes" and "llc_misses" in counts:
        return LINE_BYTES * float(counts["llc_misses"].sum()), FROM_MISSES
    return None, ""


def _why(flops: float, traffic: float | None) -> str:
    if not flops:
        return "it does no flops"
    if traffic is None:
        return "its bytes are not known: declare them with tprof.task(bytes=...), or count LLC misses"
    return "it moves no bytes, so it has no intensity" if not traffic else "it took no time"


def _lost(name: str, entries: list[TaskEntry], instances: int) -> list[str]:
    calls = sum(entry.calls for entry in entries)
    if not calls or calls >= instances:
        return []
    known = f"{calls:,} of {counted(instances, 'instance')}"
    return [f"{name}: flops and bytes of {known} are known; the others count as their mean"]


def _busy_s(profile: Profile) -> dict[str, float]:
    """Return for each task the seconds in which at least one thread ran it."""
    names, codes = places([shown(entry.name) for entry in profile.trace.tasks])
    code = np.append(codes, -1)
    busy_s, until_ns = np.zeros(len(names)), np.zeros(len(names), np.int64)
    for own_ns, segments in profile.host_instances.segments():
        ran = []
        for one in segments:
            own = slice(*np.searchsorted(one.t_ns[:-1], own_ns).tolist())
            ran.append((code[one.task_numbers(len(codes))[own]], one.t_ns[:-1][own], one.t_ns[1:][own]))
        nothing = (np.empty(0, np.int64),) * 3
        task, begin_ns, end_ns = (np.concatenate(column) for column in zip(nothing, *ran, strict=True))
        for number in np.unique(task[task >= 0]).tolist():
            order = np.argsort(begin_ns[task == number], kind="stable")
            begins, ends = begin_ns[task == number][order], end_ns[task == number][order]
            before = np.maximum.accumulate(np.append(until_ns[number], ends))
            busy_s[number] += np.maximum(ends - np.maximum(begins, before[:-1]), 0).sum() * 1e-9
            until_ns[number] = before[-1]
    return dict(zip(names, busy_s.tolist(), strict=True))
