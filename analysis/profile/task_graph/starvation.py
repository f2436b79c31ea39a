"""The time of each worker: running tasks, starved without a ready instance, or idle in spite of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import shown

from tprof.trace import EventKind, layout

from .lifecycle import Places, first_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.profile import Profile

    from tprof.trace import Graph, Thread, Trace

CHUNK_RECORDS = 1 << 16
Floats = NDArray[np.float64]
Times = NDArray[np.int64]
COLUMNS = (
    "worker", "pid", "thread", "cpu", "served_s", "running_s", "suspended_s", "starved_s", "overhead_s", "steals",
    "idle_j",
)  # fmt: skip


def starvation(profile: Profile) -> pd.DataFrame:
    """Return the time of each worker between its BEGIN and END events, by activity.

    Returns
    -------
    worker, pid, thread, cpu (the one used most, -1: not known), served_s and its four parts: running_s (in an
    instance), suspended_s (an instance on this thread waits inside its body and nothing else runs here), starved_s
    (nothing runs, and no instance of the process is ready), overhead_s (nothing runs although one is ready); steals
    (instances taken from others), idle_j (joules that the model assigns to its thread outside tasks in this time; NaN
    without energy). One row for each thread that was a worker. Empty without such events.
    """
    trace = profile.trace
    services = _services(trace)
    if not services:
        return pd.DataFrame({name: [] for name in COLUMNS})
    segments, plans = profile.recipe.again(trace)
    outside = {one.thread.ordinal: _joules(one, index, plans) for index, one in enumerate(segments)}
    by_thread = {one.thread.ordinal: one for one in segments}
    threads = {thread.ordinal: thread for thread in trace.threads}
    process_of = {file.ordinal: file.process for file in trace.events}
    ready = {process: _Ready.of(profile, process) for process in sorted({process_of[one.thread] for one in services})}
    rows = [
        _row(
            service, threads.get(service.thread), by_thread.get(service.thread), outside.get(service.thread),
            ready[process_of[service.thread]],
        )
        for service in services
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["pid", "worker"], ignore_index=True)


@dataclass(frozen=True)
class _Service:
    """The intervals in which a thread was a worker: (k,) times, increasing and disjoint."""

    thread: int
    worker: int
    begin_ns: Times
    end_ns: Times
    steals: int


def _services(trace: Trace) -> list[_Service]:
    """Pair BEGIN and END by thread; without an END an interval lasts until the thread's next BEGIN or its end.

    Of a window only the intervals in it.
    """
    graph, reach_ns = trace.graph, trace.reach_ns
    ends = {thread.ordinal: thread.end_ns for thread in trace.threads}
    found: list[_Service] = []
    at = np.flatnonzero(np.isin(graph.kind, (EventKind.BEGIN, EventKind.END)))
    for thread in np.unique(graph.thread[at]).tolist():
        mine = at[graph.thread[at] == thread]
        end_ns = ends.get(thread) or trace.end_ns
        t_ns = np.append(graph.t_ns[mine], max(end_ns, int(graph.t_ns[mine[-1]])))
        begins = np.flatnonzero(graph.kind[mine] == EventKind.BEGIN)
        for worker in np.unique(graph.worker[mine[begins]]).tolist():
            of = begins[graph.worker[mine[begins]] == worker]
            begin_ns, last_ns = np.clip(t_ns[of], *reach_ns), np.clip(t_ns[of + 1], *reach_ns)
            if trace.recorded is not None:
                served = last_ns > begin_ns
                begin_ns, last_ns = begin_ns[served], last_ns[served]
            if len(begin_ns):
                found.append(_Service(thread, worker, begin_ns, last_ns, _steals(graph, thread, begin_ns, last_ns)))
    return found


def _steals(graph: Graph, thread: int, begin_ns: Times, end_ns: Times) -> int:
    when = graph.t_ns[(graph.kind == EventKind.STEAL) & (graph.thread == thread)]
    place = np.searchsorted(begin_ns, when, side="right") - 1
    return int(((place >= 0) & (when <= end_ns[np.maximum(place, 0)])).sum())


@dataclass(frozen=True)
class _Ready:
    """Cumulative time in which at least one instance of a process was ready and had not started."""

    edges_ns: Times
    until_ns: Times

    @classmethod
    def of(cls, profile: Profile, process: int) -> _Ready:
        """Use the READY events of a process; an instance that never started was ready until it was cancelled."""
        graph, trace = profile.trace.graph, profile.trace
        ordinals = [file.ordinal for file in trace.events if file.process == process]
        mine = (graph.kind == EventKind.READY) & (graph.instance != 0) & np.isin(graph.thread, ordinals)
        instance, first = np.unique(graph.instance[mine], return_index=True)
        ready_ns = graph.t_ns[mine][first]
        tasks = profile.tasks
        row = Places.of(tasks["instance"].to_numpy()).rows(instance)
        start_ns = np.rint(tasks["start_s"].to_numpy() * 1e9).astype(np.int64) + trace.start_ns
        cancelled, _ = first_events(graph, EventKind.CANCEL, Places.of(instance))
        otherwise = np.where(cancelled >= 0, graph.t_ns[np.maximum(cancelled, 0)], max(trace.end_ns, 0))
        if trace.recorded is not None:
            ran = np.isin(instance, _ran_before(trace, instance[(row < 0) & (ready_ns < trace.start_ns)]))
            otherwise = np.where(ran, trace.start_ns, otherwise)
        until_ns = np.maximum(np.where(row >= 0, start_ns[row], otherwise) if len(tasks) else otherwise, ready_ns)
        times = np.concatenate((ready_ns, until_ns))
        change = np.repeat((1, -1), len(ready_ns))
        order = np.argsort(times, kind="stable")
        edges_ns = times[order]
        waiting = np.cumsum(change[order])[:-1] > 0
        total_ns = np.concatenate(([0], np.cumsum(np.diff(edges_ns) * waiting))) if len(times) else times
        return cls(edges_ns, total_ns.astype(np.int64))

    def between(self, begin_ns: Times, end_ns: Times) -> Times:
        """Return the time of each interval in which an instance was ready."""
        return self._until(end_ns) - self._until(begin_ns)

    def _until(self, t_ns: Times) -> Times:
        if not len(self.edges_ns):
            return np.zeros(len(t_ns), np.int64)
        place = np.clip(np.searchsorted(self.edges_ns, t_ns, side="right") - 1, 0, len(self.edges_ns) - 1)
        after = np.minimum(place + 1, len(self.edges_ns) - 1)
        rises = self.until_ns[after] > self.until_ns[place]
        return self.until_ns[place] + np.where(rises, np.maximum(t_ns - self.edges_ns[place], 0), 0)


def _ran_before(window: Trace, instances: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return which of some instances ran before a window; reads the instances of all samples before it."""
    found = [np.empty(0, np.uint64)]
    for thread in window.recorded.threads if window.recorded is not None and len(instances) else ():
        last = thread.stream.first_at(thread.dtype, window.start_ns)
        for first in range(0, last, CHUNK_RECORDS):
            ids = thread.stream.read_part(thread.dtype, first, min(first + CHUNK_RECORDS, last))["instance"]
            found.append(np.intersect1d(ids, instances))
    return np.unique(np.concatenate(found))


def _row(
    service: _Service, thread: Thread | None, segments: Segments | None, idle_j: Floats | None, ready: _Ready
) -> tuple[object, ...]:
    """Cut a thread's time at the ends of its segments and intervals, and classify each piece."""
    segments_ns = np.empty(0, np.int64) if segments is None else segments.t_ns
    edges_ns = np.unique(np.concatenate((segments_ns, service.begin_ns, service.end_ns)))
    begin_ns, end_ns = edges_ns[:-1], edges_ns[1:]
    place = np.searchsorted(service.begin_ns, begin_ns, side="right") - 1
    served = (place >= 0) & (begin_ns < service.end_ns[np.maximum(place, 0)])
    begin_ns, end_ns = begin_ns[served], end_ns[served]
    running = suspended = np.zeros(len(begin_ns), bool)
    cpu, joules = -1, float("nan") if idle_j is None else 0.0
    if segments is not None and idle_j is not None:
        segment = np.searchsorted(segments.t_ns, begin_ns, side="right") - 1
        inside = (segment >= 0) & (segment < len(segments.slot))
        segment = np.clip(segment, 0, len(segments.slot) - 1)
        running = inside & (segments.slot[segment] > 0)
        suspended = inside & ~running & _waits_inside(segments)[segment]
        length_ns = np.maximum(segments.t_ns[segment + 1] - segments.t_ns[segment], 1)
        quiet = inside & ~running
        joules = float((idle_j[segment] * (end_ns - begin_ns) / length_ns)[quiet].sum())
        cpu = _most_used(segments.cpu[segment[running]], (end_ns - begin_ns)[running])
    idle = ~running & ~suspended
    length_ns = end_ns - begin_ns
    overhead_ns = int(ready.between(begin_ns[idle], end_ns[idle]).sum())
    name = "" if thread is None else shown(thread.name)
    seconds = (length_ns.sum(), length_ns[running].sum(), length_ns[suspended].sum())
    starved_ns = int(length_ns[idle].sum()) - overhead_ns
    return (
        service.worker, 0 if thread is None else thread.pid, name or f"thread-{service.thread}", cpu,
        *(float(ns) * 1e-9 for ns in (*seconds, starved_ns, overhead_ns)), service.steals, joules,
    )  # fmt: skip


def _waits_inside(segments: Segments) -> NDArray[np.bool_]:
    """Mark the segments without a task between two runs of the same instance on this thread."""
    at = np.flatnonzero(segments.slot > 0)
    change = np.zeros(len(segments.slot) + 1, np.int64)
    _, first = np.unique(segments.slot[at], return_index=True)
    _, last = np.unique(segments.slot[at][::-1], return_index=True)
    np.add.at(change, at[first], 1)
    np.add.at(change, at[::-1][last], -1)
    return np.asarray((np.cumsum(change)[:-1] > 0) & (segments.slot == 0))


def _most_used(cpu: NDArray[np.uint16], length_ns: Times) -> int:
    known = cpu != layout.NO_CPU
    if not known.any():
        return -1
    return int(np.bincount(cpu[known], weights=length_ns[known]).argmax())


def _joules(segments: Segments, index: int, plans: Sequence[Sharing]) -> Floats:
    """Return the joules of each segment of a thread; NaN without energy."""
    energy_j = np.zeros(len(segments.slot)) if plans else np.full(len(segments.slot), np.nan)
    for plan in plans:
        shares, static_j = plan.segment_shares(index)
        energy_j += shares.energy_j + (0.0 if static_j is None else static_j)
    return energy_j
