"""Small programs of tasks, played by the rules of a task runtime, as traces with known answers."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tprof
from tprof.trace import EventKind, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ENERGY_W = 10


@dataclass
class Lane:
    """A thread's samples and events as they come; both are sorted by time when they are written."""

    samples: list[tuple[int, int, int]] = field(default_factory=list)
    events: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def sample(self, t_ns: int, instance: int, kind: Kind) -> None:
        self.samples.append((t_ns, instance, kind))

    def event(self, t_ns: int, kind: EventKind, instance: int = 0, other: int = 0, worker: int = -1) -> None:
        self.events.append((t_ns, kind, instance, other, worker))

    def given(self, name: str) -> dict[str, Any]:
        """Return the lane as `write_trace` takes it."""
        samples = sorted(self.samples, key=lambda sample: sample[0])
        events = sorted(self.events, key=lambda event: event[0])
        t_ns, instance, kind = (list(column) for column in zip(*samples, strict=True)) if samples else ([], [], [])
        lane = {"t_ns": t_ns, "instance": instance, "kind": kind, "task": [0 if one else -1 for one in instance]}
        columns = [list(column) for column in zip(*events, strict=True)] or [[]] * 5
        names = ("t_ns", "kind", "instance", "other", "worker")
        return lane | {"name": name, "events": dict(zip(names, columns, strict=True))}


def write(path: Path, lanes: Sequence[Lane], readings: int = 2) -> tprof.Trace:
    """Write the lanes as a trace in which one package draws the same power all the time, and is read so often."""
    times = [one[0] for lane in lanes for one in (*lane.samples, *lane.events)]
    end_ns = max(times, default=0) + 1
    read_ns = sorted({end_ns * number // (readings - 1) for number in range(readings)})
    energy = {"package-0": (read_ns, [ENERGY_W * t_ns * 1e-9 for t_ns in read_ns])}
    threads = [lane.given(f"thread {number}") for number, lane in enumerate(lanes)]
    tprof.write_trace(path, tasks=["work"], threads=threads, energy=energy)
    return tprof.load(path)


# A program of nested tasks: a body is a list of ("run", ns), ("spawn", body, siblings waited for) and ("wait",).


class Nested:
    """Plays a body with a thread for each instance; delays come before each start and after each pause."""

    def __init__(self, body: list[tuple[Any, ...]], delays: Iterator[int]) -> None:
        self.lanes = [Lane()]
        self.delays = delays
        self.ids = itertools.count(1)
        root = next(self.ids)
        self.lanes[0].event(0, EventKind.SPAWN, root)
        self.lanes[0].event(0, EventKind.READY, root)
        self.done_ns = self._play(root, body, next(delays))

    def _play(self, me: int, body: list[tuple[Any, ...]], t_ns: int) -> int:
        lane = Lane()
        self.lanes.append(lane)
        lane.sample(t_ns, me, Kind.START)
        children: list[tuple[int, int]] = []
        for what, *rest in body:
            if what == "run":
                t_ns += rest[0]
            elif what == "spawn":
                children.append(self._spawn(me, lane, t_ns, rest, children))
            else:
                until_ns = max((done_ns for _, done_ns in children), default=0)
                if until_ns > t_ns:
                    lane.sample(t_ns, 0, Kind.SUSPEND)
                    t_ns = until_ns + next(self.delays)
                    lane.sample(t_ns, me, Kind.RESUME)
        lane.sample(t_ns, 0, Kind.FINISH)
        return max([t_ns, *(done_ns for _, done_ns in children)])

    def _spawn(
        self, parent: int, lane: Lane, t_ns: int, what: list[Any], siblings: list[tuple[int, int]]
    ) -> tuple[int, int]:
        body, waits_for = what
        me = next(self.ids)
        lane.event(t_ns, EventKind.SPAWN, me, parent)
        waited = [siblings[place % len(siblings)] for place in waits_for] if siblings else []
        for other, _ in waited:
            lane.event(t_ns, EventKind.DEPENDENCE, me, other)
        last_ns, last = max(((done_ns, other) for other, done_ns in waited), default=(0, 0))
        ready_ns = max(t_ns, last_ns)
        self.lanes[0].event(ready_ns, EventKind.READY, me, last if last_ns > t_ns else 0)
        return me, self._play(me, body, ready_ns + next(self.delays))


# A flat graph on few workers.


class Flat:
    """Plays a graph: `tasks` are (length, what it waits for: earlier numbers); `gap_ns` lies between two spawns."""

    def __init__(self, tasks: list[tuple[int, set[int]]], *, workers: int, gap_ns: int = 0, slow_ns: int = 0) -> None:
        self.lanes = [Lane() for _ in range(workers + 1)]
        self.lanes[0].sample(0, 0, Kind.JOIN)
        free = [(0, worker) for worker in range(workers)]
        end_ns: dict[int, int] = {}
        ready: list[tuple[int, int]] = []
        for number, (_, waits_for) in enumerate(tasks):
            self._spawn(number, number * gap_ns, waits_for)
        waiting = dict(enumerate(tasks))
        while waiting or ready:
            for number, (_, waits_for) in list(waiting.items()):
                if waits_for <= end_ns.keys():
                    ready_ns, last = max(
                        [(number * gap_ns, -1), *((end_ns[one], one) for one in waits_for)], key=lambda pair: pair[0]
                    )
                    self.lanes[0].event(ready_ns, EventKind.READY, number + 1, last + 1)
                    heapq.heappush(ready, (ready_ns, number))
                    del waiting[number]
            ready_ns, number = heapq.heappop(ready)
            at_ns, worker = heapq.heappop(free)
            start_ns = max(at_ns, ready_ns) + slow_ns
            end_ns[number] = start_ns + tasks[number][0]
            self.lanes[worker + 1].sample(start_ns, number + 1, Kind.START)
            self.lanes[worker + 1].sample(end_ns[number], 0, Kind.FINISH)
            heapq.heappush(free, (end_ns[number], worker))
        self.end_ns = max(end_ns.values(), default=0)
        for worker in range(workers):
            self.lanes[worker + 1].event(0, EventKind.BEGIN, worker=worker)
            self.lanes[worker + 1].event(self.end_ns, EventKind.END, worker=worker)

    def _spawn(self, number: int, t_ns: int, waits_for: set[int]) -> None:
        self.lanes[0].event(t_ns, EventKind.SPAWN, number + 1)
        for other in sorted(waits_for):
            self.lanes[0].event(t_ns, EventKind.DEPENDENCE, number + 1, other + 1)
