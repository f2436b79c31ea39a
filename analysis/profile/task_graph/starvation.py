"""The time of each worker: running tasks, starved without a ready instance, or idle in spite of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import shown

from .runtime_events import UNKNOWN
from .services import steals_in

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

    from tprof.trace import Trace

    from .runs import Rows
    from .runtime_events import Ids
    from .services import Service

CHUNK_RECORDS = 1 << 16
Times = NDArray[np.int64]
Intervals = tuple[Times, Times]
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
    trace, served = profile.trace, profile.served
    if not served.services:
        return pd.DataFrame({name: [] for name in COLUMNS})
    threads = {thread.ordinal: thread for thread in trace.threads}
    process_of = {file.ordinal: file.process for file in trace.events}
    ready: dict[int, _Ready] = {}
    steals = steals_in(served.services, profile.events)
    has_energy = any(domain.counted and len(domain) for domain in profile.quanta)
    ran_samples = {one.ordinal for one in trace.threads if one.count}
    rows = []
    for number, service in enumerate(served.services):
        process = process_of[service.thread]
        if process not in ready:
            ready[process] = _Ready.of(profile, process)
        thread = threads.get(service.thread)
        name = "" if thread is None else shown(thread.name)
        knows_j = has_energy and service.thread in ran_samples
        rows.append(
            (
                service.worker, 0 if thread is None else thread.pid, name or f"thread-{service.thread}",
                served.most_used(number), *_seconds(service, profile, ready[process]), steals[number],
                float(served.idle_j[number]) if knows_j else float("nan"),
            )
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["pid", "worker"], ignore_index=True)


def _seconds(service: Service, profile: Profile, ready: _Ready) -> tuple[float, ...]:
    """Return how long a worker served, and for how long in each state."""
    start_ns = profile.trace.start_ns
    row, begin_ns, end_ns = profile.ran.runs.of(service.thread)
    runs = begin_ns + start_ns, end_ns + start_ns
    waits = _waits_inside(row)
    states = (service.begin_ns, service.end_ns), runs, (runs[1][:-1][waits], runs[0][1:][waits])
    served = [_clipped(service, state) for state in states]
    served_ns, running_ns, suspended_ns = (int((one[1] - one[0]).sum()) for one in served)
    # Each instant is in one state, so what was ready while it was idle is the rest.
    of_served, of_running, of_suspended = (int(ready.between(*one).sum()) for one in served)
    overhead_ns = of_served - of_running - of_suspended
    starved_ns = served_ns - running_ns - suspended_ns - overhead_ns
    return tuple(ns * 1e-9 for ns in (served_ns, running_ns, suspended_ns, starved_ns, overhead_ns))


def _clipped(service: Service, intervals: Intervals) -> Intervals:
    """Return the parts of disjoint, increasing intervals in which a worker served."""
    edges_ns = np.unique(np.concatenate((*intervals, service.begin_ns, service.end_ns)))
    begin_ns, end_ns = edges_ns[:-1], edges_ns[1:]
    inside = _inside(begin_ns, intervals) & _inside(begin_ns, (service.begin_ns, service.end_ns))
    return begin_ns[inside], end_ns[inside]


def _inside(t_ns: Times, intervals: Intervals) -> NDArray[np.bool_]:
    """Return which times are in one of disjoint, increasing intervals."""
    begin_ns, end_ns = intervals
    if not len(begin_ns):
        return np.zeros(len(t_ns), bool)
    place = np.searchsorted(begin_ns, t_ns, side="right") - 1
    return (place >= 0) & (t_ns < end_ns[np.maximum(place, 0)])


def _waits_inside(row: Rows) -> NDArray[np.intp]:
    """Return after which of a thread's runs an instance waits that runs on this thread before and after."""
    change = np.zeros(len(row) + 1, np.int64)
    _, first = np.unique(row, return_index=True)
    _, last = np.unique(row[::-1], return_index=True)
    change[first] += 1
    change[len(row) - 1 - last] -= 1
    return np.flatnonzero(np.cumsum(change)[:-2] > 0) if len(row) else np.empty(0, np.intp)


@dataclass(frozen=True)
class _Ready:
    """The time in which at least one instance of a process was ready and had not started: disjoint intervals."""

    begin_ns: Times
    end_ns: Times
    before_ns: Times

    @classmethod
    def of(cls, profile: Profile, process: int) -> _Ready:
        """Use the READY events of a process; an instance that never started was ready until it was cancelled."""
        events = profile.events
        mine = np.flatnonzero((events.process == process) & (events.ready_ns != UNKNOWN))
        ready_ns = events.ready_ns[mine]
        until_ns = np.maximum(_until(profile, events.ids[mine], ready_ns), ready_ns)
        ready_ns.sort()
        until_ns.sort()
        count = len(ready_ns)
        # All that were ready before have started: what comes then begins a new interval.
        begins = np.flatnonzero(np.searchsorted(until_ns, ready_ns, side="right") >= np.arange(count))
        begin_ns, end_ns = ready_ns[begins], until_ns[np.append(begins[1:], count) - 1] if count else until_ns
        return cls(begin_ns, end_ns, np.concatenate(([0], np.cumsum(end_ns - begin_ns))))

    def between(self, begin_ns: Times, end_ns: Times) -> Times:
        """Return the time of each interval in which an instance was ready."""
        return self._up_to(end_ns) - self._up_to(begin_ns)

    def _up_to(self, t_ns: Times) -> Times:
        if not len(self.begin_ns):
            return np.zeros(len(t_ns), np.int64)
        place = np.searchsorted(self.begin_ns, t_ns, side="right") - 1
        at = np.maximum(place, 0)
        here_ns = np.clip(t_ns, self.begin_ns[at], self.end_ns[at]) - self.begin_ns[at]
        return np.where(place >= 0, self.before_ns[at] + here_ns, 0)


def _until(profile: Profile, instance: Ids, ready_ns: Times) -> Times:
    """Return until when instances were ready: until they started, else until they were cancelled, else to the end."""
    ran, trace, cancels = profile.ran, profile.trace, profile.events.cancels
    row = ran.rows(instance)
    cancelled, first = np.unique(cancels.instance, return_index=True)
    at = np.minimum(np.searchsorted(cancelled, instance), max(len(cancelled) - 1, 0))
    until_ns = np.full(len(instance), max(trace.end_ns, 0))
    if len(cancelled):
        until_ns = np.where(cancelled[at] == instance, cancels.t_ns[first][at], until_ns)
    if trace.recorded is not None:
        before = np.isin(instance, _ran_before(trace, instance[(row < 0) & (ready_ns < trace.start_ns)]))
        until_ns = np.where(before, trace.start_ns, until_ns)
    started = row >= 0
    until_ns[started] = ran.start_ns[row[started]] + trace.start_ns
    return until_ns


def _ran_before(window: Trace, instances: Ids) -> Ids:
    """Return which of some instances ran before a window; reads the instances of all samples before it."""
    found = [np.empty(0, np.uint64)]
    for thread in window.recorded.threads if window.recorded is not None and len(instances) else ():
        last = thread.stream.first_at(thread.dtype, window.start_ns)
        for first in range(0, last, CHUNK_RECORDS):
            ids = thread.stream.read_part(thread.dtype, first, min(first + CHUNK_RECORDS, last))["instance"]
            found.append(np.intersect1d(ids, instances))
    return np.unique(np.concatenate(found))
