"""What threads did: their segments, joined and apart, and the last of them where nothing closes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import process_cpu_ns
from tprof.trace.native_pieces import read_totals

from .short_threads import Joints, join_arrays, join_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tprof.trace import Thread, Trace
    from tprof.trace.native_pieces import NativeTotal

    from .instances import InstanceRows

Floats = NDArray[np.float64]


class Model(Protocol):
    """A power model: the counter columns that it needs, and the modelled energy of segments."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def modelled(self) -> Callable[[Mapping[str, Floats], Floats], Floats]:
        """Return the modelled energy of segments, (n,), from their counts and CPU seconds."""


@dataclass
class Segments:
    """The segments of one thread.

    Attributes
    ----------
    t_ns : (n + 1,) int64, nanoseconds, not decreasing
    slot : (n,) int32: 0 no task, else 1 + row in `rows`
    cpu_s : (n,) float64, CPU seconds; wall seconds of instances where `cpu_ns` was not recorded
    modelled : (n,) float64, modelled energy
    cpu : (n,) uint16, where the segment begins, 65535 unknown
    package, package_end : (n,) int16 or None if the machine has one package; -1 unknown
    earlier_s : CPU seconds of the thread before its first sample; 0 if unknown
    disordered, aborted, starts : samples with earlier times than before them, that end an instance by the thread's end,
        that begin an instance
    moved : segments of tasks that begin on one package and end on another
    cut_off : the last segment, if nothing in the thread's file closes it
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
    rows: InstanceRows
    disordered: int
    aborted: int
    starts: int
    moved: int
    earlier_s: float
    cut_off: CutOff | None

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the task of each segment; `tasks` between tasks and for tasks that are not in a table."""
        return _task_numbers(self.rows, self.slot, tasks)


@dataclass
class JoinedSegments:
    """The segments of one thread, or of several that are computed together, as `short_threads` says.

    Attributes
    ----------
    threads, numbers : of one process; their numbers among all that are read
    joints : where the segments of each are
    t_ns, cpu_s, modelled, cpu, package, package_end : as of `Segments`; nothing runs in a joint
    slot : (n,) int32: 0 no task, else 1 + row in `rows`
    rows, row_bounds : those of all threads, and where each thread's begin and end, (threads + 1,)
    counted : whether the threads have the model's counters
    disordered, aborted, starts, moved, earlier_s : of each thread
    cut_off : by the thread's place
    """

    threads: Sequence[Thread]
    numbers: Sequence[int]
    joints: Joints
    t_ns: NDArray[np.int64]
    slot: NDArray[np.int32]
    cpu_s: Floats
    modelled: Floats
    counted: bool
    cpu: NDArray[np.uint16]
    package: NDArray[np.int16] | None
    package_end: NDArray[np.int16] | None
    rows: InstanceRows
    row_bounds: NDArray[np.intp]
    disordered: Sequence[int]
    aborted: Sequence[int]
    starts: Sequence[int]
    moved: Sequence[int]
    earlier_s: Sequence[float]
    cut_off: Mapping[int, CutOff]

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the same as of `Segments`; `tasks` for joints too."""
        return _task_numbers(self.rows, self.slot, tasks)

    def apart(self) -> Iterator[Segments]:
        """Yield those of each thread, whose arrays are views but for the slots."""
        slot, rows = self.slot, self.row_bounds.tolist()
        if len(self.threads) > 1:
            slot = np.maximum(slot - self._per_segment(self.row_bounds[:-1]), 0)
        for place, (thread, at) in enumerate(zip(self.threads, self.joints.parts(), strict=True)):
            package, package_end = (None if one is None else one[at] for one in (self.package, self.package_end))
            yield Segments(
                thread, self.t_ns[at.start : at.stop + 1], slot[at], self.cpu_s[at], self.modelled[at], self.counted,
                self.cpu[at], package, package_end, self.rows.view(slice(rows[place], rows[place + 1])),
                self.disordered[place], self.aborted[place], self.starts[place], self.moved[place],
                self.earlier_s[place], self.cut_off.get(place),
            )  # fmt: skip

    def replaced(self, pieces: Sequence[Segments]) -> JoinedSegments:
        """Return the same threads and rows with other segments, which are given for each thread."""
        joints = Joints.of([len(one.slot) for one in pieces])
        others = replace(
            self,
            joints=joints,
            t_ns=join_arrays([one.t_ns for one in pieces]),
            slot=join_segments([one.slot for one in pieces]),
            cpu_s=join_segments([one.cpu_s for one in pieces]),
            modelled=join_segments([one.modelled for one in pieces]),
            cpu=join_segments([one.cpu for one in pieces]),
            package=_joined([one.package for one in pieces]),
            package_end=_joined([one.package_end for one in pieces]),
        )
        others.slot = others.slot + (others.slot > 0) * others._per_segment(self.row_bounds[:-1])  # noqa: SLF001
        return others

    def _per_segment(self, of_threads: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return a number of each thread for each of its segments, and for the joint after them."""
        return np.repeat(of_threads.astype(np.int32), self.joints.end - self.joints.begin + 1)[:-1]


def _joined(parts: Sequence[NDArray[np.int16] | None]) -> NDArray[np.int16] | None:
    known = [one for one in parts if one is not None]
    return join_segments(known) if known else None


def _task_numbers(rows: InstanceRows, slot: NDArray[np.int32], tasks: int) -> NDArray[np.int32]:
    numbers = np.concatenate(([tasks], np.minimum(rows.task.astype(np.int64), tasks)))
    return np.asarray(numbers.astype(np.int32)[slot])


def each_thread(groups: Iterable[JoinedSegments]) -> list[Segments]:
    """Return the segments of each thread."""
    return [one for group in groups for one in group.apart()]


def by_number(groups: Iterable[JoinedSegments], count: int) -> list[Segments | None]:
    """Return the segments of each of so many threads; None where it has none."""
    found: list[Segments | None] = [None] * count
    for group in groups:
        for number, one in zip(group.numbers, group.apart(), strict=True):
            found[number] = one
    return found


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
        one.cpu_ns
        for file in trace.native
        if file.process in processes
        for one in read_totals(file)
        if not _is_sampled(one, lives.get((file.process, one.tid), ()))
    )


def _is_sampled(one: NativeTotal, lives_ns: Sequence[tuple[int, int]]) -> bool:
    """Return whether a native thread records samples too, whose clock has all its time; others may reuse its tid."""
    return one.joined or any(begin_ns <= one.end_ns and end_ns >= one.begin_ns for begin_ns, end_ns in lives_ns)


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
