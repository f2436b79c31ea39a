"""The time of each worker: running tasks, starved without a ready instance, or idle in spite of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import shown

from .runtime_events import UNKNOWN
from .services import Intervals, served_of, steals_in

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

    from tprof.trace import Trace

    from .runs import Rows
    from .runtime_events import Ids
    from .services import Service

CHUNK_RECORDS = 1 << 16
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
    trace, served = profile.trace, served_of(profile)
    if not served.services:
        return pd.DataFrame({name: [] for name in COLUMNS})
    threads = {thread.ordinal: thread for thread in trace.threads}
    process_of = {file.ordinal: file.process for file in trace.events}
    ready: dict[int, Intervals] = {}
    steals = steals_in(served.services, profile.events)
    has_energy = any(domain.counted and len(domain) for domain in profile.quanta)
    ran_samples = {one.ordinal for one in trace.threads if one.count}
    rows = []
    for number, service in enumerate(served.services):
        process = process_of[service.thread]
        if process not in ready:
            ready[process] = _ready_in(profile, process)
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


def _seconds(service: Service, profile: Profile, ready: Intervals) -> tuple[float, ...]:
    """Return how long a worker served, and for how long in each state."""
    start_ns, served = profile.trace.start_ns, service.times
    row, begin_ns, end_ns = profile.ran.runs.of(service.thread)
    begin_ns, end_ns, waits = begin_ns + start_ns, end_ns + start_ns, _waits_inside(row)
    running, suspended = Intervals(begin_ns, end_ns), Intervals(end_ns[:-1][waits], begin_ns[1:][waits])
    served_ns, running_ns, suspended_ns = served.length_ns, served.in_both(running), served.in_both(suspended)
    # Each instant is in one state, so what was ready while it was idle is the rest.
    was_ready = ready.within(served)
    overhead_ns = was_ready.length_ns - was_ready.in_both(running) - was_ready.in_both(suspended)
    starved_ns = served_ns - running_ns - suspended_ns - overhead_ns
    return tuple(ns * 1e-9 for ns in (served_ns, running_ns, suspended_ns, starved_ns, overhead_ns))


def _waits_inside(row: Rows) -> NDArray[np.intp]:
    """Return after which of a thread's runs an instance waits that runs on this thread before and after."""
    change = np.zeros(len(row) + 1, np.int64)
    _, first = np.unique(row, return_index=True)
    _, last = np.unique(row[::-1], return_index=True)
    change[first] += 1
    change[len(row) - 1 - last] -= 1
    return np.flatnonzero(np.cumsum(change)[:-2] > 0) if len(row) else np.empty(0, np.intp)


def _ready_in(profile: Profile, process: int) -> Intervals:
    """Return when at least one instance of a process was ready and had not started, by the process's READY events.

    An instance that never started was ready until it was cancelled.
    """
    events = profile.events
    mine = np.flatnonzero((events.process == process) & (events.ready_ns != UNKNOWN))
    ready_ns = events.ready_ns[mine]
    until_ns = np.maximum(_until(profile, events.ids[mine], ready_ns), ready_ns)
    events.release()
    ready_ns.sort()
    until_ns.sort()
    count = len(ready_ns)
    # All that were ready before have started: what comes then begins a new interval.
    begins = np.flatnonzero(np.searchsorted(until_ns, ready_ns, side="right") >= np.arange(count))
    return Intervals(ready_ns[begins], until_ns[np.append(begins[1:], count) - 1] if count else until_ns)


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
