"""The time of each worker: running tasks, starved without a ready instance, or idle in spite of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import shown

from tprof.trace.long_arrays import Appended, AppendedColumns, blocks, kept, release, zeros
from tprof.trace.long_sorts import rows_of, sorted_arrays, sorted_values

from .runs import shifted
from .runtime_events import UNKNOWN
from .services import Intervals, lengths_of, steals_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis.profile import Profile

    from .runs import Rows
    from .runtime_events import Ids, RuntimeEvents
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
    trace, served = profile.trace, profile.host_instances.served
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
    row, *times_ns = profile.ran.runs.of(service.thread)
    begin_ns, end_ns = (shifted(one, profile.trace.start_ns, UNKNOWN) for one in times_ns)
    pauses = _pauses(row, begin_ns, end_ns)
    served = lengths_of(service.times, Intervals(begin_ns, end_ns), pauses, ready)[1] * 1e-9
    idle = served[0, 0]
    return served.sum(), served[1].sum(), served[0, 1].sum(), idle[0], idle[1]


def _pauses(row: Rows, begin_ns: Times, end_ns: Times) -> Intervals:
    """Return when instances of a thread's runs waited that ran on it before and after."""
    row, begin_ns, end_ns = sorted_arrays([row, begin_ns, end_ns], keys=2)
    found = AppendedColumns(np.int64, np.int64)
    for at in blocks(max(len(row) - 1, 0), row, begin_ns, end_ns):
        later = slice(at.start + 1, at.stop + 1)
        goes_on = row[at] == row[later]
        found.add(end_ns[at][goes_on], begin_ns[later][goes_on])
    return Intervals(*found.finish())


def _ready_in(profile: Profile, process: int) -> Intervals:
    """Return when at least one instance of a process was ready and had not started, by the process's READY events.

    An instance that never started was ready until it was cancelled.
    """
    events, before = profile.events, _ran_before(profile, process)
    ready, until = Appended(np.int64), Appended(np.int64)
    for instance, ready_ns in _ready_of(events, process):
        ready.add(ready_ns)
        until.add(np.maximum(_until(profile, instance, before), ready_ns))
    ready_ns, until_ns = (sorted_values(column.finish()) for column in (ready, until))
    begin_ns, end_ns = Appended(np.int64), Appended(np.int64)
    for at in blocks(len(ready_ns), ready_ns, until_ns):
        started = np.searchsorted(until_ns, ready_ns[at], side="right")
        # All that were ready before have started: what comes then begins a new interval.
        new = np.flatnonzero(started >= np.arange(at.start, at.stop)) + at.start
        begin_ns.add(ready_ns[new])
        end_ns.add(until_ns[new[new > 0] - 1])
    end_ns.add(until_ns[-1:])
    return Intervals(begin_ns.finish(), end_ns.finish())


def _ready_of(events: RuntimeEvents, process: int) -> Iterator[tuple[Ids, Times]]:
    """Yield the ids of instances that became ready in a process, and when."""
    ready = events.releases
    for at in blocks(len(ready.ids), *ready):
        mine = ready.process[at] == process
        yield ready.ids[at][mine], ready.t_ns[at][mine]


def _until(profile: Profile, instance: Ids, before: Ids) -> Times:
    """Return until when instances were ready: until they started, else until they were cancelled, else to the end."""
    ran, trace = profile.ran, profile.trace
    row, until_ns = ran.rows(instance), profile.events.cancels.of(instance, "t_ns", max(trace.end_ns, 0))
    until_ns[rows_of(before, instance) >= 0] = trace.start_ns
    started = row >= 0
    until_ns[started] = ran.start_ns[row[started]] + trace.start_ns
    release(ran.start_ns)
    return until_ns


def _ran_before(profile: Profile, process: int) -> Ids:
    """Return which of a process's instances ran before a window only, increasing; none in a whole recording.

    Reads the instances of all samples before the window.
    """
    window, found = profile.trace, Appended(np.uint64)
    if window.recorded is None:
        return found.finish()
    for instance, ready_ns in _ready_of(profile.events, process):
        found.add(instance[(profile.ran.rows(instance) < 0) & (ready_ns < window.start_ns)])
    ids = sorted_values(found.finish())
    ran = zeros(len(ids), np.bool_)
    for thread in window.recorded.threads if len(ids) else ():
        last = thread.stream.first_at(thread.dtype, window.start_ns)
        for first in range(0, last, CHUNK_RECORDS):
            some = thread.stream.read_part(thread.dtype, first, min(first + CHUNK_RECORDS, last))["instance"]
            at = rows_of(ids, some)
            ran[at[at >= 0]] = True
            release(ran)
    return kept(ids, lambda at: ran[at])
