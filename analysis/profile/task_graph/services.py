"""When threads were workers of a task runtime, and what their segments show of that time, in one part or by windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace import EventKind, layout
from tprof.trace.long_arrays import AppendedColumns, blocks, computed, running_sums
from tprof.trace.long_sorts import sorted_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing

    from tprof.trace import Trace

    from .runtime_events import RuntimeEvents

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """Intervals: (k,) times of CLOCK_MONOTONIC, increasing."""

    begin_ns: Times
    end_ns: Times

    @cached_property
    def _before_ns(self) -> Times:
        """The sum of the lengths of those before each, and of all."""
        begin_ns, end_ns = self.begin_ns, self.end_ns
        return running_sums(computed(len(begin_ns), np.int64, lambda at: end_ns[at] - begin_ns[at], begin_ns, end_ns))

    def up_to(self, t_ns: Times) -> Times:
        """Return the length of the parts before each of some times; of disjoint intervals."""
        if not len(self.begin_ns):
            return np.zeros(len(t_ns), np.int64)
        place = np.searchsorted(self.begin_ns, t_ns, side="right") - 1
        at = np.maximum(place, 0)
        here_ns = np.clip(t_ns, self.begin_ns[at], self.end_ns[at]) - self.begin_ns[at]
        return np.where(place >= 0, self._before_ns[at] + here_ns, 0)


def lengths_of(*sets: Intervals) -> Times:
    """Return for how long it is outside (0) or inside (1) each of some sets, whose intervals may overlap: (2, 2, …)."""
    edges = AppendedColumns(np.int64, np.int8, np.int8)
    for place, one in enumerate(sets):
        for ends_ns, sign in ((one.begin_ns, 1), (one.end_ns, -1)):
            for at in blocks(len(ends_ns), ends_ns):
                edges.add(ends_ns[at], *np.full((at.stop - at.start, 2), (place, sign)).T)
    t_ns, number, step = sorted_arrays(edges.finish())
    found, inside = np.zeros((2,) * len(sets), np.int64), np.zeros((len(sets), 1), np.int64)
    for at in blocks(max(len(t_ns) - 1, 0), t_ns, number, step):
        steps = np.where(number[at] == np.arange(len(sets))[:, None], step[at], 0)
        counts = inside + np.cumsum(steps, axis=1)
        np.add.at(found, tuple((counts > 0).astype(int)), np.diff(t_ns[at.start : at.stop + 1]))
        inside = counts[:, -1:]
    return found


@dataclass(frozen=True)
class Service:
    """When a thread was a worker, and its number as one."""

    thread: int
    worker: int
    times: Intervals


def services_of(events: RuntimeEvents, trace: Trace) -> list[Service]:
    """Pair BEGIN and END by thread; without an END an interval lasts until the thread's next BEGIN or its end.

    Of a window only the intervals in it.
    """
    turns, reach_ns = events.turns, trace.reach_ns
    ends = {thread.ordinal: thread.end_ns for thread in trace.threads}
    found: list[Service] = []
    for thread in np.unique(turns.thread).tolist():
        mine = np.flatnonzero(turns.thread == thread)
        end_ns = ends.get(thread) or trace.end_ns
        t_ns = np.append(turns.t_ns[mine], max(end_ns, int(turns.t_ns[mine[-1]])))
        begins = np.flatnonzero(turns.begins[mine])
        for worker in np.unique(turns.worker[mine[begins]]).tolist():
            of = begins[turns.worker[mine[begins]] == worker]
            begin_ns, last_ns = np.clip(t_ns[of], *reach_ns), np.clip(t_ns[of + 1], *reach_ns)
            if trace.recorded is not None:
                served = last_ns > begin_ns
                begin_ns, last_ns = begin_ns[served], last_ns[served]
            if len(begin_ns):
                found.append(Service(thread, worker, Intervals(begin_ns, last_ns)))
    return found


def steals_in(services: Sequence[Service], events: RuntimeEvents) -> list[int]:
    """Count the STEAL events of each worker in its intervals."""
    counts = [0] * len(services)
    for file, part in events.parts({one.thread for one in services}):
        when = part["t_ns"][part["kind"] == EventKind.STEAL].astype(np.int64)
        for number, one in enumerate(services):
            if one.thread == file.ordinal and len(when):
                place = np.searchsorted(one.times.begin_ns, when, side="right") - 1
                counts[number] += int(((place >= 0) & (when <= one.times.end_ns[np.maximum(place, 0)])).sum())
    return counts


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
        places = self._places(segments)
        energies = list(plan.energies()) if places else []
        for number, place in places:
            one, served_ns = segments[place], self._served(number, segments[place])
            quiet = np.flatnonzero((one.slot == 0) & (served_ns > 0))
            energy_j = energies[place][quiet]
            self.idle_j[number] += float((energy_j * served_ns[quiet] / np.diff(one.t_ns)[quiet]).sum())

    def add_processors(self, segments: Sequence[Segments], own_ns: tuple[int, int]) -> None:
        """Add on which processors the segments ran that begin between two times."""
        for number, place in self._places(segments):
            one = segments[place]
            own = slice(*np.searchsorted(one.t_ns[:-1], own_ns).tolist())
            runs = (one.slot[own] > 0) & (one.cpu[own] != layout.NO_CPU)
            served_ns = self._served(number, one)[own][runs]
            more = pd.Series(served_ns).groupby(one.cpu[own][runs]).sum()
            self.on_cpu_ns[number] = self.on_cpu_ns[number].add(more, fill_value=0.0)

    def most_used(self, number: int) -> int:
        """Return the processor on which a service ran tasks the longest, -1 if it is not known."""
        on_cpu_ns = self.on_cpu_ns[number]
        return int(on_cpu_ns.index[int(on_cpu_ns.argmax())]) if on_cpu_ns.any() else -1

    def _places(self, segments: Sequence[Segments]) -> list[tuple[int, int]]:
        """Return the services whose threads are there, and where."""
        places = {one.thread.ordinal: place for place, one in enumerate(segments)}
        return [(number, places[one.thread]) for number, one in enumerate(self.services) if one.thread in places]

    def _served(self, number: int, segments: Segments) -> Times:
        """Return for how long a service lasted in each segment."""
        return np.diff(self.services[number].times.up_to(segments.t_ns))
