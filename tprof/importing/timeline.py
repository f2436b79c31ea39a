"""What a reader of a foreign trace collects: slices of threads, counters, and facts about the recording."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tprof.errors import TraceError

MOST_SLICES = 50_000_000
MOST_POINTS = 50_000_000
MOST_NAMES = 99_999
OTHERS = "(other names)"
LATEST_NS = 1 << 62
UNKNOWN = -1


class Slice(NamedTuple):
    """A slice of a thread.

    Attributes
    ----------
    begin_ns, end_ns : nanoseconds of the trace's clock
    name : of the task
    instance : number that pieces of the same instance share; 0: none
    cpu : processor where it began; -1: unknown
    failed : whether it ended by an exception
    begin_cpu_ns, end_cpu_ns : CPU time of the thread; -1: unknown
    """

    begin_ns: int
    end_ns: int
    name: str
    instance: int = 0
    cpu: int = UNKNOWN
    failed: bool = False
    begin_cpu_ns: int = UNKNOWN
    end_cpu_ns: int = UNKNOWN


@dataclass
class ThreadSlices:
    """The slices of one thread as columns, in the order in which the file has them."""

    pid: int
    tid: int
    name: str = ""
    begin_ns: array[int] = field(default_factory=lambda: array("q"))
    end_ns: array[int] = field(default_factory=lambda: array("q"))
    task: array[int] = field(default_factory=lambda: array("q"))
    instance: array[int] = field(default_factory=lambda: array("Q"))
    cpu: array[int] = field(default_factory=lambda: array("q"))
    failed: bytearray = field(default_factory=bytearray)
    begin_cpu_ns: array[int] = field(default_factory=lambda: array("q"))
    end_cpu_ns: array[int] = field(default_factory=lambda: array("q"))
    marks: list[tuple[int, int]] = field(default_factory=list)
    """Times before and after its slices, with its CPU time."""


@dataclass
class Counter:
    """A counter's values.

    Attributes
    ----------
    name : as the file has it
    unit : as the file has it; empty if it has none
    falls : whether its fall is what was used, as that of a battery's charge
    t_ns, value : its points, in the order of the file
    """

    name: str
    unit: str = ""
    falls: bool = False
    t_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class Timeline:
    """A foreign trace.

    Attributes
    ----------
    threads : by whatever identifies a thread in the file
    counters : by whatever identifies a counter in the file
    names : of tasks, each with its number
    facts : what an export of tprof says of itself, by key
    wall_ns : a time of the trace's clock, and the same in UNIX time, if the file has them
    left_out : what is no part of a session, and how often it was met
    """

    threads: dict[Any, ThreadSlices] = field(default_factory=dict)
    counters: dict[Any, Counter] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    wall_ns: tuple[int, int] | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    slices: int = 0
    points: int = 0

    def add(self, thread: ThreadSlices, one: Slice) -> None:
        """Add a slice. Raises TraceError if there are too many."""
        if not 0 <= one.begin_ns <= one.end_ns < LATEST_NS:
            self.leave_out("slices with impossible times")
            return
        self.slices += 1
        if self.slices > MOST_SLICES:
            raise TraceError(f"it has more than {MOST_SLICES} slices: import a part of it")
        thread.begin_ns.append(one.begin_ns)
        thread.end_ns.append(one.end_ns)
        thread.task.append(self._task(one.name))
        thread.instance.append(one.instance)
        thread.cpu.append(one.cpu)
        thread.failed.append(one.failed)
        thread.begin_cpu_ns.append(one.begin_cpu_ns)
        thread.end_cpu_ns.append(one.end_cpu_ns)

    def point(self, counter: Counter, t_ns: int, value: float) -> None:
        """Add a value of a counter. Raises TraceError if there are too many."""
        if not (0 <= t_ns < LATEST_NS and abs(value) < float("inf")):
            self.leave_out("values of counters that are no numbers")
            return
        self.points += 1
        if self.points > MOST_POINTS:
            raise TraceError(f"its counters have more than {MOST_POINTS} values: import a part of it")
        counter.t_ns.append(t_ns)
        counter.value.append(value)

    def leave_out(self, what: str) -> None:
        """Count something that no session can hold."""
        self.left_out[what] = self.left_out.get(what, 0) + 1

    def _task(self, name: str) -> int:
        number = self.names.get(name)
        if number is None:
            if len(self.names) >= MOST_NAMES:
                name = OTHERS
            number = self.names.setdefault(name, len(self.names))
        return number
