"""Calls of a trace with which threads gave work to the pools of libraries, as far as the recorder saw them.

They are in the file of a process's native threads (`native.py`), as records of `layout.NATIVE`. Several calls of one
thread in the same task within a few milliseconds are one record. They are read in pieces, and put in order in files
where there are many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import layout
from .arguments import refuse_if, whole
from .kinds import NativeFlag, NativeKind
from .long_arrays import AppendedColumns, blocks, is_somewhere
from .long_sorts import sorted_arrays
from .metadata import MAX_NS
from .thread import MAX_PID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Records = np.ndarray[Any, np.dtype[np.void]]
Numbers = NDArray[np.int64]
PART = 65535
_OF_LIBRARIES = (NativeKind.PATH, NativeKind.NOTED, NativeKind.MISSED)
_TID_BITS = 32
_TIDS = (1 << _TID_BITS) - 1


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


class _Calls(NamedTuple):
    """Calls of a file, a row each; a library and a thread are one number.

    The times are those that were written: long calls are written in parts, the last of which may repeat others.
    """

    key: Numbers
    begin_ns: Numbers
    length_ns: Numbers
    part: NDArray[np.uint16]
    task: NDArray[np.uint32]
    several: NDArray[np.bool_]


def calls_of(pieces: Iterable[Records], pid: int, paths: Callable[[Records], Mapping[int, str]]) -> list[PoolCalls]:
    """Put a file's records together, one entry for each library whose calls were noted.

    Parameters
    ----------
    pieces : records of `layout.NATIVE`, in the order of the file
        Tasks are indices of `Trace.tasks`.
    pid
        The process.
    paths
        Returns libraries' paths by number, of their records.
    """
    found, others = AppendedColumns(np.int64, np.int64, np.int64, np.uint16, np.uint32, bool), []
    for records in pieces:
        is_call = records["kind"] == NativeKind.CALLS
        others.append(records[~is_call & np.isin(records["kind"], _OF_LIBRARIES)])
        found.add(*_columns_of(records[is_call & (records["value"] > 0)]))
    facts = np.concatenate([np.zeros(0, layout.NATIVE), *others])
    kind = facts["kind"]
    complete = not bool((kind == NativeKind.MISSED).any())
    libraries = paths(facts[kind == NativeKind.PATH])
    since_ns = {int(one["thread"]): min(int(one["t_ns"]), MAX_NS) for one in facts[kind == NativeKind.NOTED][::-1]}
    columns, stops = _put_together(_in_order(_Calls(*found.finish())))
    return [
        PoolCalls(pid, path, start_ns, complete, *(one[slice(*stops.get(number, (0, 0)))] for one in columns))
        for number, start_ns in sorted(since_ns.items())
        if (path := libraries.get(number))
    ]


def _columns_of(own: Records) -> _Calls:
    begin_ns = np.minimum(own["t_ns"], np.uint64(MAX_NS)).astype(np.int64)
    length_ns = np.minimum(own["value"], np.uint64(MAX_NS) - begin_ns.astype(np.uint64)).astype(np.int64)
    tid = np.where(own["tid"] <= MAX_PID, own["tid"], 0).astype(np.int64)
    key = own["thread"].astype(np.int64) << _TID_BITS | tid
    return _Calls(key, begin_ns, length_ns, own["part"], own["task"], own["flags"] & NativeFlag.SEVERAL != 0)


def _in_order(calls: _Calls) -> _Calls:
    """Sort by library, thread and time, unless one thread's calls of one library are in order already."""
    key, begin_ns = calls.key, calls.begin_ns

    def is_late(at: slice) -> NDArray[np.bool_]:
        now, after = slice(at.start, at.stop), slice(at.start + 1, at.stop + 1)
        falls = (key[after] < key[now]) | (key[after] == key[now]) & (begin_ns[after] < begin_ns[now])
        return np.asarray(falls)

    if not is_somewhere(max(len(key) - 1, 0), is_late, key, begin_ns):
        return calls
    return _Calls(*sorted_arrays(calls, keys=2))


def _put_together(calls: _Calls) -> tuple[tuple[NDArray[Any], ...], dict[int, tuple[int, int]]]:
    """Return the columns of `PoolCalls` of all libraries, and where those of each one begin and end."""
    found = AppendedColumns(np.int64, np.int64, np.int64, np.int64, np.float64, bool)
    stops: dict[int, tuple[int, int]] = {}
    last, done = (-1, 0), 0
    for at in blocks(len(calls.key), *calls):
        key, several, end_ns = calls.key[at], calls.several[at], calls.begin_ns[at] + calls.length_ns[at]
        # A long call is written in parts while it goes on, and its end may repeat some of the last.
        before_ns, last = _latest_before(key, end_ns, last)
        inside_ns = np.round(calls.length_ns[at] * (calls.part[at] / PART))
        begin_ns = np.minimum(np.maximum(calls.begin_ns[at], before_ns), end_ns)
        task = np.where(several | (calls.task[at] == layout.NO_TASK), -1, calls.task[at].astype(np.int64))
        left_ns = end_ns - begin_ns
        inside = np.minimum(np.divide(inside_ns, left_ns, out=np.zeros(len(key)), where=left_ns > 0), 1.0)
        kept = left_ns > 0
        columns = (key & _TIDS, task, begin_ns, end_ns, inside, several)
        found.add(*(one[kept] for one in columns))
        numbers, counts = np.unique(key[kept] >> _TID_BITS, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            stops[number], done = (stops.get(number, (done, done))[0], done + count), done + count
    return found.finish(), stops


def _latest_before(key: Numbers, end_ns: Numbers, last: tuple[int, int]) -> tuple[Numbers, tuple[int, int]]:
    """Return for each entry of a thread the latest end of those before, 0 for its first; and that of the last one's.

    `last` is the key of the entry before these, and the latest end of its thread's.
    """
    before_ns = np.zeros(len(key), np.int64)
    starts = np.flatnonzero(np.diff(key, prepend=key[:1] - 1))
    latest_ns = 0
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(key)], strict=False):
        known_ns = last[1] if key[start] == last[0] else 0
        until_ns = np.maximum(np.maximum.accumulate(end_ns[start:stop]), known_ns)
        before_ns[start], before_ns[start + 1 : stop] = known_ns, until_ns[:-1]
        latest_ns = int(until_ns[-1])
    return before_ns, (int(key[-1]), latest_ns)


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
