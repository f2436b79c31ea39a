"""Calls of a trace with which threads gave work to the pools of libraries, as far as the recorder saw them.

They are in the file of a process's native threads (`native.py`), as records of `layout.NATIVE`. Several calls of one
thread in the same task within a few milliseconds are one record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import layout
from .arguments import refuse_if, whole
from .kinds import NativeFlag, NativeKind
from .metadata import MAX_NS
from .thread import MAX_PID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Records = np.ndarray[Any, np.dtype[np.void]]
Numbers = NDArray[np.int64]
PART = 65535


@dataclass(frozen=True)
class PoolCalls:
    """Calls that gave work to the pool of one library, by all threads of a process.

    Attributes
    ----------
    pid : of the process.
    library : path of the mapped file, as `NativeThread.library`.
    since_ns : calls before this time may be missing.
    complete : whether no later call is missing.
    tid : (n,) int64, the calling threads. As read they do not decrease.
    task : (n,) int64, index in `Trace.tasks` of the task that ran on the calling thread; -1: no task, or several.
    begin_ns, end_ns : (n,) int64, CLOCK_MONOTONIC nanoseconds: begin of the first call, and end of the last one. A
        thread's entries are in order of time, and do not overlap.
    inside : (n,) float64, part of that time in which a call was going on, from 0 to 1.
    several : (n,) bool, whether these are calls of several tasks.
    """

    pid: int
    library: str
    since_ns: int
    complete: bool
    tid: Numbers
    task: Numbers
    begin_ns: Numbers
    end_ns: Numbers
    inside: NDArray[np.float64]
    several: NDArray[np.bool_]


def calls_of(records: Records, pid: int, libraries: Mapping[int, str]) -> list[PoolCalls]:
    """Put a process's records together, one entry for each library whose calls were noted.

    Parameters
    ----------
    records : of `layout.NATIVE`, in the order of the file; tasks are indices of `Trace.tasks`
    pid
        The process.
    libraries
        Their paths by number.
    """
    kind = records["kind"]
    complete = not bool((kind == NativeKind.MISSED).any())
    since_ns = {int(one["thread"]): min(int(one["t_ns"]), MAX_NS) for one in records[kind == NativeKind.NOTED][::-1]}
    calls = records[(kind == NativeKind.CALLS) & (records["value"] > 0)]
    return [
        PoolCalls(pid, path, start_ns, complete, *_put_together(calls[calls["thread"] == number]))
        for number, start_ns in sorted(since_ns.items())
        if (path := libraries.get(number))
    ]


def _put_together(own: Records) -> tuple[NDArray[Any], ...]:
    """Return the columns of `PoolCalls` of one library's calls."""
    own = own[np.lexsort((own["t_ns"], np.where(own["tid"] <= MAX_PID, own["tid"], 0)))]
    begin_ns = np.minimum(own["t_ns"], np.uint64(MAX_NS)).astype(np.int64)
    length_ns = np.minimum(own["value"], np.uint64(MAX_NS) - begin_ns.astype(np.uint64)).astype(np.int64)
    tid, end_ns = np.where(own["tid"] <= MAX_PID, own["tid"], 0).astype(np.int64), begin_ns + length_ns
    inside_ns = np.round(length_ns * (own["part"] / PART))
    # A long call is written in parts while it goes on, and its end may repeat some of the last.
    begin_ns = np.minimum(np.maximum(begin_ns, _latest_before(tid, end_ns)), end_ns)
    several, left_ns = own["flags"] & NativeFlag.SEVERAL != 0, end_ns - begin_ns
    task = np.where(several | (own["task"] == layout.NO_TASK), -1, own["task"].astype(np.int64))
    inside = np.minimum(np.divide(inside_ns, left_ns, out=np.zeros(len(own)), where=left_ns > 0), 1.0)
    return tuple(one[left_ns > 0] for one in (tid, task, begin_ns, end_ns, inside, several))


def _latest_before(tid: Numbers, end_ns: Numbers) -> Numbers:
    """Return for each entry of a thread the latest end of those before, 0 for its first."""
    starts = np.flatnonzero(np.diff(tid, prepend=-1))
    before_ns = np.append(0, end_ns)[:-1]
    before_ns[starts] = 0
    for one in np.split(before_ns, starts):
        np.maximum.accumulate(one, out=one)
    return before_ns


def check_calls(calls: Sequence[PoolCalls], task_count: int) -> list[PoolCalls]:
    """Return calls to write, with arrays of one length. Raises UsageError."""
    return [_check(f"calls[{place}]", one, task_count) for place, one in enumerate(calls)]


def _check(where: str, one: PoolCalls, task_count: int) -> PoolCalls:
    refuse_if(not one.library, f"{where} needs the path of its library")
    tid, task, begin_ns, end_ns = (
        whole(where, name, getattr(one, name)) for name in ("tid", "task", "begin_ns", "end_ns")
    )
    inside, several = np.asarray(one.inside, np.float64), np.asarray(one.several, bool)
    shapes = {column.shape for column in (tid, task, begin_ns, end_ns, inside, several)}
    refuse_if(len(shapes) > 1, f"{where}: tid, task, begin_ns, end_ns, inside and several need equally many values")
    refuse_if(bool((begin_ns < 0).any() or (end_ns <= begin_ns).any()), f"{where}: end_ns must be after begin_ns")
    refuse_if(bool(((task < -1) | (task >= task_count)).any()), f"{where}: task must be from -1 to {task_count - 1}")
    refuse_if(bool(((inside < 0) | (inside > 1) | np.isnan(inside)).any()), f"{where}: inside must be from 0 to 1")
    return replace(one, tid=tid, task=task, begin_ns=begin_ns, end_ns=end_ns, inside=inside, several=several)


def records_of_calls(one: PoolCalls, library: int) -> Records:
    """Return the file records of one library's calls, tasks as their indices."""
    records = np.zeros(1 + len(one.tid) + (not one.complete), layout.NATIVE)
    records["kind"], records["thread"], records["t_ns"] = NativeKind.CALLS, library, one.since_ns
    records["kind"][0] = NativeKind.NOTED
    if not one.complete:
        records["kind"][-1] = NativeKind.MISSED
    own = records[1 : 1 + len(one.tid)]
    own["t_ns"], own["value"] = one.begin_ns, one.end_ns - one.begin_ns
    own["tid"], own["task"] = one.tid, np.where(one.task < 0, layout.NO_TASK, one.task)
    own["part"] = np.round(one.inside * PART)
    own["flags"] = np.where(one.several, NativeFlag.SEVERAL, 0)
    return records
