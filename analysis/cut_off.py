"""CPU time of tasks whose process ended abruptly: killed, by os._exit, or replaced by another program.

No sample closes the last segment, so its CPU time is unknown. The CPU time of the whole process is known up to the last
poll of the sensor thread; the part of it without samples is shared among the open segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.metadata import process_cpu_ns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tprof.trace import Thread, Trace


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
