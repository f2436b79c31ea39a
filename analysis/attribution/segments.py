"""What threads did: their segments, joined and apart, and the last of them where nothing closes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tprof.trace.layout import NO_TASK
from tprof.trace.metadata import MAX_NS, process_cpu_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tprof.analysis.engine.instance_table import InstanceTable

    from tprof.trace import Thread, Trace
    from tprof.trace.native import NativeThread

Floats = NDArray[np.float64]


class Model(Protocol):
    """A power model: the counter columns that it needs, and the modelled energy of segments."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def modelled(self) -> Callable[[Mapping[str, Floats], Floats], Floats]:
        """Return the modelled energy of segments, (n,), from their counts and CPU seconds."""


class Owners(NamedTuple):
    """The instance of each slot of segments, (slots,): 0 and `NO_TASK` of the first one, which is none's.

    `parent` is the instance around it, where a sample shows it.
    """

    instance: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    task: NDArray[np.uint32]

    @classmethod
    def of(cls, instances: InstanceTable) -> Owners:
        """Copy those of the instances that may run on."""
        of, none = instances.records, np.zeros(1, np.uint64)
        instance, parent = (np.concatenate((none, of[name])) for name in ("instance", "parent"))
        return cls(instance, parent, np.concatenate((np.array([NO_TASK], np.uint32), of["task"])))

    def task_numbers(self, slot: NDArray[np.int32], tasks: int) -> NDArray[np.int32]:
        """Return the task of each slot; `tasks` of none's, and for tasks that are not in a table."""
        return np.minimum(self.task[slot], tasks).astype(np.int32)


@dataclass
class Segments:
    """The segments of one thread.

    Attributes
    ----------
    t_ns : (n + 1,) int64, nanoseconds, not decreasing
    slot : (n,) int32: 0 no task, else 1 + row of the instance
    cpu_s : (n,) float64, CPU seconds; wall seconds of instances where `cpu_ns` was not recorded
    modelled : (n,) float64, modelled energy
    cpu : (n,) uint16, where the segment begins, 65535 unknown
    package, package_end : (n,) int16 or None if the machine has one package; -1 unknown
    owners : whose each slot is
    earlier_s : CPU seconds of the thread before its first sample; 0 if unknown
    """

    thread: Thread
    t_ns: NDArray[np.int64]
    slot: NDArray[np.int32]
    cpu_s: Floats
    modelled: Floats
    counted: bool
    cpu: NDArray[np.uint16]
    package: NDArray[np.int16] | None
    package_end: NDArray[np.int16] | None
    owners: Owners
    earlier_s: float

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the task of each segment; `tasks` between tasks and for tasks that are not in a table."""
        return self.owners.task_numbers(self.slot, tasks)


@dataclass(frozen=True)
class Joints:
    """Where threads are in arrays that have the values of all of them, one thread after the other.

    The times of a thread stand one after the other, so between the segments of two threads there is one more, from the
    end of the first to the begin of the second. It has no energy and no instance, and may run backwards.

    Attributes
    ----------
    begin : (threads,) int64, the first segment of each
    end : (threads,) int64, the place after its last segment: of its end as a time
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    def parts(self) -> Iterator[slice]:
        """Yield the segments of each thread."""
        yield from map(slice, self.begin.tolist(), self.end.tolist())

    def of_segments(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return for each segment the value of its thread; 0 or false between threads."""
        found = np.zeros(int(self.end[-1]) if len(self.end) else 0, values.dtype)
        for value, at in zip(values, self.parts(), strict=True):
            found[at] = value
        return found


@dataclass
class JoinedSegments:
    """The segments of all threads in a block.

    Attributes
    ----------
    threads, numbers : those that have any; their numbers among all that are read
    joints : where the segments of each are
    t_ns, cpu_s, modelled, cpu, package, package_end : as of `Segments`; nothing runs between two threads
    counted : of each thread, whether it has the model's counters
    instances : all that may run on
    earlier_s : of each thread, its CPU seconds before the first segment
    """

    threads: Sequence[Thread]
    numbers: Sequence[int]
    joints: Joints
    t_ns: NDArray[np.int64]
    slot: NDArray[np.int32]
    cpu_s: Floats
    modelled: Floats
    counted: Sequence[bool]
    cpu: NDArray[np.uint16]
    package: NDArray[np.int16] | None
    package_end: NDArray[np.int16] | None
    instances: InstanceTable
    earlier_s: Sequence[float]

    @cached_property
    def owners(self) -> Owners:
        """Whose each slot is."""
        return Owners.of(self.instances)

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """As `Segments.task_numbers`."""
        return self.owners.task_numbers(self.slot, tasks)

    def apart(self) -> Iterator[Segments]:
        """Yield those of each thread, whose arrays are views."""
        for place, (thread, at) in enumerate(zip(self.threads, self.joints.parts(), strict=True)):
            package, package_end = (None if one is None else one[at] for one in (self.package, self.package_end))
            yield Segments(
                thread, self.t_ns[at.start : at.stop + 1], self.slot[at], self.cpu_s[at], self.modelled[at],
                self.counted[place], self.cpu[at], package, package_end, self.owners, self.earlier_s[place],
            )  # fmt: skip

    def replaced(self, pieces: Sequence[Segments]) -> JoinedSegments:
        """Return the same threads with other segments, which are given for each thread."""
        ends = np.cumsum([len(one.t_ns) for one in pieces]) - 1
        begins = ends - np.array([len(one.slot) for one in pieces], np.int64)
        return replace(
            self,
            joints=Joints(begins, ends),
            t_ns=np.concatenate([one.t_ns for one in pieces]),
            slot=_joined(one.slot for one in pieces),
            cpu_s=_joined(one.cpu_s for one in pieces),
            modelled=_joined(one.modelled for one in pieces),
            cpu=_joined(one.cpu for one in pieces),
            package=None if self.package is None else _joined(one.package for one in pieces),
            package_end=None if self.package_end is None else _joined(one.package_end for one in pieces),
        )


def _joined(parts: Iterable[NDArray[Any] | None]) -> NDArray[Any]:
    """Return the values of the segments of threads, with a zero between each two."""
    every = [one for part in parts if part is not None for one in (part, np.zeros(1, part.dtype))]
    return np.concatenate(every[:-1])


def begun_in(t_ns: NDArray[np.int64], own_ns: tuple[int, int]) -> slice:
    """Return which segments begin in a window's own time; `t_ns` are their begins, and last the end."""
    return slice(*np.searchsorted(t_ns[:-1], own_ns).tolist())


@dataclass(frozen=True)
class CutOff:
    """The open last segment of a thread.

    Attributes
    ----------
    cpu_s : CPU seconds assigned to it
    is_known : whether these are all of its process's remaining CPU seconds, not a part of them or the wall time
    """

    cpu_s: float
    is_known: bool


def find_cut_off(trace: Trace) -> dict[int, CutOff]:
    """Return the last segment of each thread that was cut off inside a task, by its ordinal. Raises TraceError."""
    trace = trace if trace.recorded is None else trace.recorded
    used_ns = process_cpu_ns(trace.end)
    if not trace.complete and not used_ns:
        # A killed recording has only the sum of all processes.
        return _shared(trace, trace.threads, _cpu_of_program(trace))
    by_process: dict[int, list[Thread]] = {}
    for thread in trace.threads:
        by_process.setdefault(thread.process, []).append(thread)
    found: dict[int, CutOff] = {}
    for process, threads in by_process.items():
        found |= _shared(trace, threads, used_ns.get(process))
    return found


def _shared(trace: Trace, threads: Sequence[Thread], total_ns: float | None) -> dict[int, CutOff]:
    """Share the CPU time of processes that no clock of a thread has among the threads cut off, by their length."""
    seen_ns, wall_s = 0.0, {}
    for thread in threads:
        if "cpu_ns" not in thread.columns or not thread.count:
            continue
        if "cpu_ns" in thread.end_columns:
            seen_ns += thread.end_columns["cpu_ns"]
            continue
        last = thread.stream.read_part(thread.dtype, thread.count - 1, thread.count)
        if not len(last):
            continue
        seen_ns += int(last["cpu_ns"][0])
        if last["instance"][0] and thread.first_drop_ns is None:
            wall_s[thread.ordinal] = max(thread_end_ns(trace, thread) - int(last["t_ns"][0]), 0) * 1e-9
    if total_ns is None or not wall_s:
        return {ordinal: CutOff(wall, is_known=False) for ordinal, wall in wall_s.items()}
    left_s = max(total_ns - seen_ns - _native_ns(trace, threads), 0.0) * 1e-9
    share = min(left_s / max(sum(wall_s.values()), 1e-9), 1.0)
    return {ordinal: CutOff(wall * share, is_known=len(wall_s) == 1) for ordinal, wall in wall_s.items()}


def _native_ns(trace: Trace, threads: Sequence[Thread]) -> int:
    """Return the CPU time of the native threads in the processes of some threads."""
    lives: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in threads:
        life_ns = one.stream.number("start_ns"), thread_end_ns(trace, one)
        lives.setdefault((one.process, one.tid), []).append(life_ns)
    processes = {one.process for one in threads}
    return sum(
        int(one.cpu_ns[-1])
        for file in trace.native
        if file.process in processes
        for one in file.read()
        if not _is_sampled(one, lives.get((file.process, one.tid), ()))
    )


def _is_sampled(one: NativeThread, lives_ns: Sequence[tuple[int, int]]) -> bool:
    """Return whether a native thread records samples too, whose clock has all its time; others may reuse its tid."""
    last_ns = MAX_NS if one.ended_ns is None else one.ended_ns
    return one.joined or any(begin_ns <= last_ns and end_ns >= one.t_ns[0] for begin_ns, end_ns in lives_ns)


def thread_end_ns(trace: Trace, thread: Thread) -> int:
    """Return the end of a thread's last segment, as far as the trace has it."""
    if thread.first_drop_ns is not None:
        return thread.first_drop_ns
    ends = (thread.end_ns, trace.process_end_ns.get(thread.process), trace.end_ns)
    return next(end for end in ends if end is not None)


def _cpu_of_program(trace: Trace) -> float | None:
    totals = []
    for reading in trace.readings.values():
        values = reading.value[~reading.missing] if reading.quantity == "program" else np.empty(0)
        if len(values):
            totals.append(float(values[-1]) * reading.unit * 1e9)
    return sum(totals) if totals else None
