"""The workers of a task runtime: what each one's time went to, and what each task's instances waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from tprof.analysis.attribution.segments import begun_in
from tprof.analysis.names import shown

from tprof.trace import EventKind, layout

from .events import UNKNOWN, looked_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.profile import Profile

    from tprof.trace import Trace

    from .events import RuntimeEvents
    from .instances import Times

COLUMNS = (
    "worker", "pid", "thread", "cpu", "served_s", "running_s", "suspended_s", "starved_s", "overhead_s", "steals",
    "idle_j",
)  # fmt: skip
MEANS = ("wait_data", "wait_worker", "own")


class Intervals(NamedTuple):
    """Intervals: (k,) times of CLOCK_MONOTONIC, increasing."""

    begin_ns: Times
    end_ns: Times

    def within(self, t_ns: Times) -> NDArray[np.float64]:
        """Return for how long of the time between some times one of these disjoint intervals lasted."""
        edges_ns = np.column_stack(self).ravel()
        length_ns = np.diff(edges_ns, prepend=edges_ns[:1])
        length_ns[::2] = 0
        return np.diff(np.interp(t_ns - edges_ns[0], edges_ns - edges_ns[0], np.cumsum(length_ns)))


def lengths_of(*sets: Intervals) -> Times:
    """Return for how long it is outside (0) or inside (1) each of some sets, whose intervals may overlap: (2, 2, …)."""
    t_ns = np.concatenate([ends_ns for one in sets for ends_ns in one])
    number = np.repeat(np.arange(2 * len(sets)), [len(ends_ns) for one in sets for ends_ns in one])
    order = np.argsort(t_ns, kind="stable")
    steps = np.where(number[order] // 2 == np.arange(len(sets))[:, None], 1 - 2 * (number[order] % 2), 0)
    inside = np.cumsum(steps, axis=1)[:, :-1] > 0
    found = np.zeros((2,) * len(sets), np.int64)
    np.add.at(found, tuple(inside.astype(int)), np.diff(t_ns[order]))
    return found


@dataclass(frozen=True)
class Service:
    """When a thread of a process was a worker, and its number as one."""

    process: int
    thread: int
    worker: int
    times: Intervals


def services_of(events: RuntimeEvents, trace: Trace) -> list[Service]:
    """Pair BEGIN and END by thread; without an END an interval lasts until the thread's next BEGIN or its end.

    Of a window only the intervals in it.
    """
    turns = events.of(EventKind.BEGIN, EventKind.END).sort_values("t_ns", kind="stable")
    t_ns, next_ns = turns["t_ns"], turns.groupby("thread")["t_ns"].shift(-1, fill_value=UNKNOWN)
    ends_ns = {thread.ordinal: thread.end_ns for thread in trace.threads}
    last_ns = np.maximum([ends_ns.get(thread) or trace.end_ns for thread in turns["thread"]], t_ns)
    times = turns.assign(
        worker=turns["worker"].astype(int).replace(layout.NO_WORKER, -1), begin_ns=np.clip(t_ns, *trace.reach_ns),
        end_ns=np.clip(next_ns.where(next_ns != UNKNOWN, last_ns), *trace.reach_ns),
    )[turns["kind"] == EventKind.BEGIN]  # fmt: skip
    if trace.recorded is not None:
        times = times[times["end_ns"] > times["begin_ns"]]
    found = []
    for _, mine in times.groupby(["thread", "worker"]):
        process, thread, worker = (int(mine[name].iloc[0]) for name in ("process", "thread", "worker"))
        intervals = Intervals(mine["begin_ns"].to_numpy(), mine["end_ns"].to_numpy())
        found.append(Service(process, thread, worker, intervals))
    return found


class ServedSegments:
    """What segments show of workers while they serve; those of later windows are added.

    Attributes
    ----------
    idle_j : of each service the joules of its thread's segments outside tasks, as far as it served then
    on_cpu_ns : of each service for how long its thread ran tasks on each processor
    """

    def __init__(self, services: Sequence[Service]) -> None:
        """Begin without segments."""
        self.services = services
        self.idle_j = np.zeros(len(services))
        self.on_cpu_ns = [pd.Series(dtype=float) for _ in services]

    def add_joules(self, segments: Sequence[Segments], plan: Sharing) -> None:
        """Add the joules of a counted domain."""
        energies = list(plan.energies()) if segments else []
        for number, place, served_ns in self._served(segments):
            one = segments[place]
            quiet = np.flatnonzero((one.slot == 0) & (served_ns > 0))
            energy_j = energies[place][quiet]
            self.idle_j[number] += float((energy_j * served_ns[quiet] / np.diff(one.t_ns)[quiet]).sum())

    def add_processors(self, segments: Sequence[Segments], own_ns: tuple[int, int]) -> None:
        """Add on which processors the segments ran that begin between two times."""
        for number, place, served_ns in self._served(segments):
            one = segments[place]
            own = begun_in(one.t_ns, own_ns)
            runs = (one.slot[own] > 0) & (one.cpu[own] != layout.NO_CPU)
            more = pd.Series(served_ns[own][runs]).groupby(one.cpu[own][runs]).sum()
            self.on_cpu_ns[number] = self.on_cpu_ns[number].add(more, fill_value=0.0)

    def most_used(self, number: int) -> int:
        """Return the processor on which a service ran tasks the longest, -1 if it is not known."""
        on_cpu_ns = self.on_cpu_ns[number]
        return int(on_cpu_ns.index[int(on_cpu_ns.argmax())]) if on_cpu_ns.any() else -1

    def _served(self, segments: Sequence[Segments]) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
        """Yield the services whose threads are there, where, and for how long of each segment they lasted."""
        of_thread = {one.thread.ordinal: place for place, one in enumerate(segments)}
        for number, one in enumerate(self.services):
            if (place := of_thread.get(one.thread)) is not None:
                yield number, place, one.times.within(segments[place].t_ns)


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
    served = profile.host_instances.served
    threads = {thread.ordinal: (thread.pid, shown(thread.name), thread.count) for thread in profile.trace.threads}
    ready = {process: _ready_in(profile, process) for process in {one.process for one in served.services}}
    has_energy = any(domain.counted and len(domain) for domain in profile.quanta)
    rows = []
    for number, service in enumerate(served.services):
        pid, name, samples = threads.get(service.thread, (0, "", 0))
        rows.append(
            (
                service.worker, pid, name or f"thread-{service.thread}", served.most_used(number),
                *_seconds(service, profile, ready[service.process]), _steals(service, profile.events),
                served.idle_j[number] if has_energy and samples else np.nan,
            )
        )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(COLUMNS), dtype=None if rows else float)
    return table.sort_values(["pid", "worker"], ignore_index=True)


def _seconds(service: Service, profile: Profile, ready: Intervals) -> tuple[float, ...]:
    """Return how long a worker served, and for how long in each state."""
    runs = profile.graph.runs
    mine = runs[runs["thread"] == service.thread]
    row, begin_ns, end_ns = (mine[name].to_numpy() for name in ("row", "begin_ns", "end_ns"))
    start_ns = profile.trace.start_ns
    # An instance is paused between two of its runs on this thread.
    goes_on = row[1:] == row[:-1]
    running = Intervals(begin_ns + start_ns, end_ns + start_ns)
    pauses = Intervals(running.end_ns[:-1][goes_on], running.begin_ns[1:][goes_on])
    served = lengths_of(service.times, running, pauses, ready)[1] * 1e-9
    idle = served[0, 0]
    return served.sum(), served[1].sum(), served[0, 1].sum(), idle[0], idle[1]


def _steals(service: Service, events: RuntimeEvents) -> int:
    """Count the STEAL events of a worker in its intervals."""
    steals = events.of(EventKind.STEAL)
    t_ns = steals["t_ns"].to_numpy()[steals["thread"] == service.thread]
    place = np.searchsorted(service.times.begin_ns, t_ns, side="right") - 1
    return int(((place >= 0) & (t_ns <= service.times.end_ns[place])).sum())


def _ready_in(profile: Profile, process: int) -> Intervals:
    """Return when at least one instance of a process was ready and had not started, by the process's READY events.

    An instance that never started was ready until it was cancelled, or to the end.
    """
    graph, trace, events = profile.graph, profile.trace, profile.events
    ready = events.releases[events.releases["process"] == process]
    ready_ns, row = ready["t_ns"].to_numpy(), graph.ids.get_indexer(ready.index)
    until_ns = looked_up(events.cancels, ready.index, "t_ns", max(trace.end_ns, 0)).copy()
    started = row >= 0
    early = ~started & (ready_ns < trace.start_ns)
    until_ns[early] = np.where(_ran_before(trace, ready.index[early]), trace.start_ns, until_ns[early])
    until_ns[started] = graph.table["start_ns"].to_numpy()[row[started]] + trace.start_ns
    begin_ns, end_ns = np.sort(ready_ns), np.sort(np.maximum(until_ns, ready_ns))
    # Where all that were ready before have started, a new interval begins.
    is_first = np.append(True, begin_ns[1:] >= end_ns[:-1])[: len(begin_ns)]
    return Intervals(begin_ns[is_first], end_ns[np.roll(is_first, -1)])


def _ran_before(window: Trace, instances: pd.Index[int]) -> NDArray[np.bool_]:
    """Return which instances ran before a window, by all samples before it; none in a whole recording."""
    found = np.zeros(len(instances), np.bool_)
    if window.recorded is None or not len(instances):
        return found
    for thread in window.recorded.threads:
        last = thread.stream.first_at(thread.dtype, window.start_ns)
        for some in thread.stream.read_pieces(thread.dtype, 0, last):
            found |= np.isin(instances, some["instance"])
    return found


def waits(profile: Profile) -> pd.DataFrame:
    """Return the waiting times of each task's instances.

    Returns
    -------
    Index `task`, by falling time waited: instances (that ran), wait_data_mean_s (spawn to ready),
    wait_worker_mean_s (ready to start), own_mean_s (running), steals, cancelled (that never ran). Means are over
    instances with known times, NaN without any. Empty for a trace without events.
    """
    if not len(profile.events):
        columns = ["instances", *(f"{name}_mean_s" for name in MEANS), "steals", "cancelled"]
        return pd.DataFrame({name: [] for name in columns}, index=pd.Index([], dtype=object, name="task"))
    groups = profile.graph.table.groupby("task", observed=False)
    frame = pd.DataFrame(
        {
            "instances": groups["stolen"].count(),
            **{f"{name}_mean_s": groups[f"{name}_s"].mean() for name in MEANS},
            "steals": groups["stolen"].sum(),
        }
    )
    names = pd.Series([shown(entry.name) for entry in profile.trace.tasks], dtype=object)
    frame = frame.set_axis(pd.Index(names.unique(), name="task"))
    cancelled = names.reindex(_cancelled(profile, len(names))).value_counts()
    frame["cancelled"] = cancelled.reindex(frame.index, fill_value=0)
    waited_s = frame["instances"] * frame[["wait_data_mean_s", "wait_worker_mean_s"]].fillna(0.0).sum(axis=1)
    frame = frame.loc[waited_s.sort_values(ascending=False, kind="stable").index]
    return frame[(frame["instances"] > 0) | (frame["cancelled"] > 0)]


def _cancelled(profile: Profile, tasks: int) -> NDArray[np.uint32]:
    """Return the task of each cancelled instance, from its CANCEL event, else from its SPAWN event."""
    cancels, (begin_ns, end_ns) = profile.events.cancels, profile.trace.reach_ns
    here = cancels[(cancels["t_ns"] >= begin_ns) & (cancels["t_ns"] < end_ns)]
    spawned = looked_up(profile.events.spawns, here.index, "task", layout.NO_TASK)
    return np.where(here["task"] < tasks, here["task"], spawned)


def runtime_facts(profile: Profile) -> dict[str, float | int] | None:
    """Return the figures; None for a trace without a runtime's events.

    Returns
    -------
    those of `CriticalPath.facts`; workers, and over all of them served_s, running_s, suspended_s, starved_s,
    overhead_s as in `starvation`; steals, cancelled
    """
    if not len(profile.events):
        return None
    path, workers, tasks = profile.critical_path(), profile.starvation, profile.waits()
    return {
        **path.facts(),
        "workers": len(workers),
        **{name: float(workers[name].sum()) for name in COLUMNS if name.endswith("_s")},
        "steals": int(tasks["steals"].sum()),
        "cancelled": int(tasks["cancelled"].sum()),
    }
