"""From one thread's samples to its segments: intervals with a running task and counter increments.

A thread's samples are read, copied column by column while they are in cache, and freed: only one
thread's raw samples are in memory at a time. `Segments`, 28 bytes each, and one row for each
instance remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tprof.trace import Flag, Kind
from tprof.trace.metadata import process_cpu_ns

from .instances import InstanceRows, number_instances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tprof.trace import Thread, Trace

    from .native_time import NativeSegments

_CHUNK = 16_384
NOTHING = 1e-15
"""Modelled power of a segment to which a model gives none: if it gives none to any, segments share by CPU time."""
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
    earlier_s: float
    cut_off: CutOff | None

    def task_numbers(self, tasks: int) -> NDArray[np.int32]:
        """Return the task of each segment; `tasks` between tasks and for tasks that are not in a table."""
        numbers = np.concatenate(([tasks], np.minimum(self.rows.task.astype(np.int64), tasks)))
        return np.asarray(numbers.astype(np.int32)[self.slot])


def task_of(segment: Segments | NativeSegments, tasks: int) -> NDArray[np.int32]:
    """Return the task of each segment; `tasks` where none is known."""
    return segment.task_numbers(tasks)


def seen_s(segments: Iterable[Segments], grid_ns: NDArray[np.int64]) -> Floats:
    """Return the CPU seconds of all segments from the first of some times to each of them.

    Counts of a segment of no length lie in no quantum: they are left out.
    """
    total_s = np.zeros(len(grid_ns))
    for one in segments:
        cpu_s = np.where(one.t_ns[1:] > one.t_ns[:-1], one.cpu_s, 0.0)
        at_s = np.interp(grid_ns, one.t_ns, np.concatenate(([0.0], np.cumsum(cpu_s))))
        total_s += at_s - at_s[0]
    return total_s


def read_segments(
    trace: Trace, thread: Thread, model: Model, *, packages: bool, cut_off: CutOff | None = None
) -> Segments | None:
    """Read one thread; None if it has no samples.

    Parameters
    ----------
    trace : for the end of a thread that was not closed
    thread : whose samples are read
    model : power model
    packages : whether the machine has more than one package
    cut_off : of its last segment, if nothing in its file closes it
    """
    if not thread.count:
        return None
    samples = thread.read()
    if not len(samples):
        return None
    kept = tuple(column for column in thread.columns if column != "energy_uj")
    fields = _columns(samples, ("t_ns", "instance", "task", "cpu", "kind", "flags", *kept))
    package = thread.package(samples) if packages else None
    del samples
    t_ns, disordered = _times(fields.pop("t_ns"), thread_end_ns(trace, thread))
    lost = (fields["flags"] & Flag.UNCOUNTED) != 0
    # The owner of counts after dropped samples is unknown.
    ends = thread.end_columns if thread.first_drop_ns is None else {}
    earlier_s = int(fields["cpu_ns"][0]) * 1e-9 if "cpu_ns" in kept else 0.0
    increments = {name: _increments(fields.pop(name), ends.get(name), lost, t_ns, name) for name in kept}
    wall_s = np.diff(t_ns) * 1e-9
    has_cpu = "cpu_ns" in increments
    running = fields["instance"] != 0
    cpu_s = increments.pop("cpu_ns") * 1e-9 if has_cpu else np.where(running, wall_s, 0.0)
    counted = set(model.columns) <= set(increments)
    modelled = model.modelled(increments, cpu_s) if counted else cpu_s
    if not ends and running[-1]:
        # Killed, or cut off by a full disk, inside a task: the last segment's count is unknown, so it gets the mean.
        mean = modelled.sum() / cpu_s.sum() if cpu_s.sum() > 0 else 1.0
        last_s = wall_s[-1] if cut_off is None else min(cut_off.cpu_s, wall_s[-1])
        cpu_s, modelled = np.append(cpu_s[:-1], last_s), np.append(modelled[:-1], mean * last_s)
    else:
        cut_off = None
    modelled = np.where(modelled > 0, modelled, cpu_s * NOTHING)
    # A segment of no length lies in no quantum; its counts stay with its instance.
    modelled[t_ns[1:] == t_ns[:-1]] = 0.0
    slot, rows = number_instances(fields, t_ns, wall_s, cpu_s, increments)
    if package is not None and rows.first is not None:
        rows.package = package[rows.first]
    return Segments(
        thread, t_ns, slot, cpu_s, modelled, counted, fields["cpu"], package,
        None if package is None else np.append(package[1:], package[-1]), rows, disordered,
        int(((fields["flags"] & Flag.ABORTED) != 0).sum()), int((fields["kind"] == Kind.START).sum()), earlier_s,
        cut_off,
    )  # fmt: skip


def _columns(samples: NDArray[Any], names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Copy fields into arrays of their own, a chunk at a time so that each record is fetched once."""
    out = {name: np.empty(len(samples), samples.dtype[name]) for name in names}
    for begin in range(0, len(samples), _CHUNK):
        chunk = samples[begin : begin + _CHUNK]
        for name, column in out.items():
            column[begin : begin + _CHUNK] = chunk[name]
    return out


def _times(stamps: NDArray[Any], end_ns: int) -> tuple[NDArray[np.int64], int]:
    """Close the last segment and make times non-decreasing; the order of the records is right."""
    t_ns = np.empty(len(stamps) + 1, np.int64)
    t_ns[:-1] = np.minimum(stamps, np.uint64(max(end_ns, 0))).astype(np.int64)
    t_ns[-1] = end_ns
    disordered = int((t_ns[1:] < t_ns[:-1]).sum())
    if disordered:
        np.maximum.accumulate(t_ns, out=t_ns)
    return t_ns, disordered


def _increments(
    values: NDArray[Any], last: int | None, lost: NDArray[np.bool_], t_ns: NDArray[np.int64], name: str
) -> Floats:
    """Differences of a cumulative column: in integers, then float; a fall counts as 0."""
    values = values.astype(np.uint64, copy=False)
    if lost.any() and name != "cpu_ns" and not lost.all():
        # The count between valid samples is known; it is split by time over the segments between them.
        good = np.flatnonzero(~lost)
        filled = np.interp(t_ns[:-1], t_ns[good], (values[good] - values[good[0]]).astype(np.float64))
        values = filled.astype(np.uint64) + values[good[0]]
    out = np.empty(len(values), np.float64)
    difference = np.diff(values).view(np.int64)
    np.maximum(difference, 0, out=out[:-1], casting="unsafe")
    out[-1] = max(int(last) - int(values[-1]), 0) if last is not None else 0.0
    return out


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


def _shared(trace: Trace, threads: Iterable[Thread], total_ns: float | None) -> dict[int, CutOff]:
    """Share the remaining CPU time of processes among the threads that were cut off, by their length."""
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
    if total_ns is None:
        return {ordinal: CutOff(wall, is_known=False) for ordinal, wall in wall_s.items()}
    left_s = max(total_ns - seen_ns, 0.0) * 1e-9
    share = min(left_s / max(sum(wall_s.values()), 1e-9), 1.0)
    return {ordinal: CutOff(wall * share, is_known=len(wall_s) == 1) for ordinal, wall in wall_s.items()}


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
