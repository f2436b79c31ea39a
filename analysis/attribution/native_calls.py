"""The users of a pool whose library's calls were noted: a pool works for whoever is inside a call.

While no call goes on, the pool's threads can only spin. Calls from threads without samples are the program's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .native_cuts import latest_end
from .native_time import OUTSIDE, SPINNING, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import PoolCalls

    from .native_time import NativeSegments
    from .segments import Segments

Times = NDArray[np.int64]
Marks = NDArray[np.bool_]

PIECE_NS, MOST_PIECES = 500_000, 10
"""Calls that were noted together lie apart: their time is spread in pieces about so far apart."""
MOMENT_NS = 1000
MOST_UNEXPLAINED = 0.05
"""Part of a pool's CPU time that may begin without a call, before calls count as not known."""
UNSEEN_NS = 20_000_000
"""Work of so short a time before the first noted call is that of one just before calls were noted."""


def runs_of_calls(calls: PoolCalls, segments: Sequence[Segments], callers: Sequence[int] | None = None) -> Runs:
    """Return the times inside calls, as those of the instances that ran there; row and task -1: outside tasks.

    Parameters
    ----------
    calls : of one library
    segments : of all threads with samples
    callers : indices of the only threads whose calls count; None: all threads count, also those without samples
    """
    offsets = np.cumsum([0, *(len(one.rows) for one in segments)])
    which = [index for index, one in enumerate(segments) if one.thread.pid == calls.pid]
    parts = []
    left = np.ones(len(calls.tid), bool)
    for index in which if callers is None else callers:
        one = segments[index]
        own = (calls.tid == one.thread.tid) & (calls.end_ns > one.t_ns[0]) & (calls.begin_ns < one.t_ns[-1])
        left &= ~own
        begin_ns, end_ns, task, several = _pieces(calls, own)
        place, begin_ns, end_ns, of = _cut(one.t_ns, begin_ns, end_ns)
        row = one.slot[place].astype(np.int64) - 1
        ran = _tasks_of(one, row)
        # A call of a task that ended within the time of others' calls does not lie in theirs.
        kept = (ran == task[of]) | several[of] | (task[of] < 0)
        row = np.where(row >= 0, row + offsets[index], -1)
        parts.append((begin_ns[kept], end_ns[kept], row[kept], ran[kept]))
    if callers is None:
        begin_ns, end_ns, _, _ = _pieces(calls, left)
        parts.append((begin_ns, end_ns, *np.full((2, len(begin_ns)), -1)))
    begin_ns, end_ns, row, task = (
        np.concatenate([np.empty(0, np.int64), *(part[place] for part in parts)]) for place in range(4)
    )
    return Runs(begin_ns, end_ns, row, task, np.zeros(len(row), bool))


def run_at(segments: Sequence[Segments], index: int, at_ns: int) -> Runs:
    """Return a moment of whatever ran on a thread at some time, as a call that starts a library's pool."""
    one = segments[index]
    offset = sum(len(other.rows) for other in segments[:index])
    at = np.array([at_ns], np.int64)
    place, begin_ns, end_ns, _ = _cut(one.t_ns, at, at + MOMENT_NS)
    row = one.slot[place].astype(np.int64) - 1
    task = _tasks_of(one, row)
    return Runs(begin_ns, end_ns, np.where(row >= 0, row + offset, -1), task, np.zeros(len(row), bool))


def _tasks_of(one: Segments, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the tasks of a thread's instances, -1 for no instance; the thread may have none."""
    return np.append(one.rows.task.astype(np.int64), -1)[row]


def joined(runs: Sequence[Runs]) -> Runs:
    """Put several together."""
    return Runs(*(np.concatenate([getattr(one, name) for one in runs]) for name in Runs.__annotations__))


def _pieces(calls: PoolCalls, which: Marks) -> tuple[Times, Times, NDArray[np.int64], Marks]:
    """Return begins, ends, tasks and whether these are of several tasks, with calls noted together spread evenly."""
    begin_ns, end_ns, inside = calls.begin_ns[which], calls.end_ns[which], calls.inside[which]
    length_ns = end_ns - begin_ns
    count = np.where(inside < 1, np.clip(length_ns // PIECE_NS, 1, MOST_PIECES), 1)
    of = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    each_ns = length_ns[of] / count[of]
    first_ns = begin_ns[of] + (number * each_ns).astype(np.int64)
    last_ns = np.minimum(first_ns + np.maximum(inside[of] * each_ns, 1).astype(np.int64), end_ns[of])
    return first_ns, last_ns, calls.task[which][of], calls.several[which][of]


def _cut(t_ns: Times, begin_ns: Times, end_ns: Times) -> tuple[NDArray[np.int64], Times, Times, NDArray[np.int64]]:
    """Return the segments that each interval lies in, with the begin and end there and the interval's number."""
    begin_ns, end_ns = np.clip(begin_ns, t_ns[0], t_ns[-1]), np.clip(end_ns, t_ns[0], t_ns[-1])
    first = np.searchsorted(t_ns, begin_ns, side="right") - 1
    last = np.minimum(np.searchsorted(t_ns, end_ns, side="left"), len(t_ns) - 1)
    count = np.maximum(last - first, 0)
    of = np.repeat(np.arange(len(count)), count)
    place = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    begin_ns, end_ns = np.maximum(begin_ns[of], t_ns[place]), np.minimum(end_ns[of], t_ns[place + 1])
    kept = end_ns > begin_ns
    return place[kept], begin_ns[kept], end_ns[kept], of[kept]


def explain(cut: NativeSegments, runs: Runs, since_ns: int, spins_ns: int) -> bool:
    """Return whether calls were going on, or had just ended, when a pool worked: else some are missing.

    Parameters
    ----------
    cut : the pool's CPU time, cut by the calls
    runs : the calls
    since_ns : calls before are not known
    spins_ns : how long threads may spin after a call; 0: not known
    """
    begin_ns, end_ns = cut.t_ns[:-1], cut.t_ns[1:]
    late = (cut.kind == SPINNING) & (begin_ns - latest_end(runs, begin_ns) > 2 * spins_ns) & (spins_ns > 0)
    unexplained = ((cut.kind == OUTSIDE) & (cut.running == 0)) | late
    unexplained &= end_ns > since_ns + UNSEEN_NS
    return float(cut.cpu_s[unexplained].sum()) <= MOST_UNEXPLAINED * float(cut.cpu_s.sum())
