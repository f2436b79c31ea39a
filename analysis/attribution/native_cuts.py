"""Cuts the CPU time of one pool of native threads where a user begins or ends and where a clock was read.

A thread's clock is read about every 5 ms, so only the CPU time between two reads is known. As much of it as fits falls
into the time in which a user of the pool ran, evenly; the rest lies after a user's end. A call of a library waits for
its pool, so what a pool does while its user runs is the user's, also if the pool's threads only spin.

A pool's threads are added up, so the cost is O(samples + reads) whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .native_time import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED, NativeSegments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .native_time import Clock, Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

IDLE = 0.02
"""A pool that uses less than this part of a core between two reads is idle: whatever it did before has ended."""
LONG_REST_NS = 60_000_000
"""A spinning thread that waits for a core on a busy machine waits less: after so long a pool that spins has rested."""
SURELY = 1 / 3
"""Part of the longest time for which a pool may spin in which it surely does."""
LONG_NS = 1 << 62
LARGEST = 100_000_000
"""With more tasks times segments the tasks' extremes are not computed: nothing, and all."""
_FIXED = float(1 << 40)
"""Rates are summed as integers in these units, so that nothing is left when a rate has been taken off again."""
_MOST_RATE = 100.0
"""CPU seconds per second; more of one thread is damage."""


def distinct(times_ns: Times) -> Times:
    """Return the distinct times, increasing; several times as fast as `np.unique`, which hashes them."""
    times_ns = np.sort(times_ns)
    return times_ns[np.diff(times_ns, prepend=times_ns[:1] - 1) > 0]


def long_spells(idle: NDArray[np.bool_], length_ns: Times, least_ns: int) -> NDArray[np.bool_]:
    """Return the idle times that are part of a longer one of at least this length."""
    if not least_ns or not len(idle):
        return idle
    spell = np.cumsum(np.diff(idle, prepend=~idle[:1]))
    return np.asarray(idle & (np.bincount(spell, weights=length_ns)[spell] >= least_ns))


def cut_pool(
    process: int, clocks: Sequence[Clock], runs: Runs, *, packages: bool, spins_ns: int = 0, calls_known: bool = False
) -> NativeSegments:
    """Cut the CPU time of a pool.

    Parameters
    ----------
    process : pid
    clocks : of its threads, each with two reads or more
    runs : of its possible users; what a pool does while a doubtful one runs is unidentified
    packages : whether the machine has more than one package
    spins_ns : how long the pool may go on spinning after a call. While another task than the caller's runs and the
        pool has not rested in between, its CPU time is unidentified
    calls_known : `runs` are the times inside calls, with task -1 where no task called; between them the pool spins
    """
    used = _used_between_reads(clocks)
    near = runs.kept(_busy_in(used, runs))
    reads_ns = np.sort(np.concatenate([one.t_ns for one in clocks]))
    t_ns = distinct(np.concatenate((reads_ns, near.begin_ns, near.end_ns)))
    first, last = np.searchsorted(t_ns, near.begin_ns), np.searchsorted(t_ns, near.end_ns)
    cells = len(t_ns) - 1
    sure = ~near.doubtful
    running, one_task, task = _running(near.kept(sure), first[sure], last[sure], cells)
    doubtful = _running(near.kept(~sure), first[~sure], last[~sure], cells)[0] > 0
    spins = (running == 0) & (t_ns[:-1] - latest_end(runs, t_ns[:-1]) < SURELY * spins_ns) & calls_known
    rates = _rates(used, t_ns, running > 0, spins)
    rate = rates.cpu[0]
    low = np.where(rates.touches_both, np.maximum(*rates.either), rate) < IDLE
    rests = long_spells(low, np.diff(t_ns), LONG_REST_NS if spins_ns else 0)
    kind = np.where(running == 0, OUTSIDE, np.where(one_task, OF_TASK, UNIDENTIFIED)).astype(np.int8)
    kind[one_task & (task < 0)] = OUTSIDE
    if calls_known:  # a thread that spins may also wait for a core
        rests &= t_ns[:-1] - latest_end(runs, t_ns[:-1]) >= spins_ns
    users = runs.kept(~runs.doubtful)
    row, after = _after(users, t_ns, running > 0, rests)
    kind[row >= 0] = SPINNING
    if spins_ns and not calls_known:
        kind[_carried_over(users, t_ns, task, kind == OF_TASK, rests, spins_ns)] = UNIDENTIFIED
    kind[doubtful] = UNIDENTIFIED
    row[doubtful], after[doubtful] = -1, -1
    cpu_s, counted_s, counted = rates.cpu * np.diff(t_ns) * 1e-9
    unknown = np.full(len(cpu_s), -1, np.int16) if packages else None
    of_task = near.task >= 0
    near, first, last = near.kept(of_task), first[of_task], last[of_task]
    return NativeSegments(
        process, t_ns, cpu_s, counted_s, counted, cpu_s, kind, np.where(kind == OF_TASK, task, -1), running, row,
        after, near, first, last, reads_ns, _alive(clocks, reads_ns), *_extremes(used, t_ns, near, first, last),
        unknown, unknown,
    )  # fmt: skip


@dataclass(frozen=True)
class _Used:
    """What all threads of a pool used between two reads of each one's clock, one after the other: (n,) each.

    `power` is modelled energy per CPU second by counters, NaN where it is not known.
    """

    begin_ns: Times
    end_ns: Times
    cpu_s: Floats
    power: Floats


def _used_between_reads(clocks: Sequence[Clock]) -> _Used:
    begin_ns, end_ns = (np.concatenate([one.t_ns[part] for one in clocks]) for part in (np.s_[:-1], np.s_[1:]))
    power = [np.full(len(one.t_ns) - 1, np.nan) if one.power is None else one.power for one in clocks]
    cpu_s = np.concatenate([one.cpu_s[1:] - one.cpu_s[:-1] for one in clocks])
    return _Used(begin_ns, end_ns, cpu_s, np.concatenate(power))


def _busy_in(used: _Used, runs: Runs) -> NDArray[np.bool_]:
    """Return the runs that touch a time between two reads in which any thread used CPU time."""
    busy = used.cpu_s > 0
    begins, ends = np.sort(used.begin_ns[busy]), np.sort(used.end_ns[busy])
    return np.searchsorted(begins, runs.end_ns, side="left") > np.searchsorted(ends, runs.begin_ns, side="right")


def _running(
    runs: Runs, first: NDArray[np.int64], last: NDArray[np.int64], cells: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.int64]]:
    """Return for each cell the number of runs, whether all are of one task, and this task."""

    def over(weights: Floats) -> Floats:
        begun = np.bincount(first, weights=weights, minlength=cells + 1)
        return np.cumsum(begun - np.bincount(last, weights=weights, minlength=cells + 1))[:cells]

    # Whole numbers below 2 ** 53, so these sums are exact. All are equal if count * sum of squares = square of sum.
    tasks, number = np.unique(runs.task, return_inverse=True)
    place = np.asarray(number, np.float64)
    count, total, squares = over(np.ones(len(place))), over(place), over(place**2)
    one_task = (count > 0) & (count * squares == total**2)
    at = np.where(one_task, total / np.maximum(count, 1), len(tasks)).astype(np.int64)
    return count.astype(np.int32), one_task, np.append(tasks, -1)[at].astype(np.int64)


@dataclass(frozen=True)
class _Rates:
    """What a pool used per second in each cell.

    Attributes
    ----------
    cpu : (3, cells) CPU seconds, those that were counted, and the modelled energy of these
    either : (2, cells) CPU seconds as while users run and as while none does
    touches_both : (cells,) whether some thread's clock was last read before, or next after, a time with users, and one
        without any
    """

    cpu: Floats
    either: Floats
    touches_both: NDArray[np.bool_]


def _rates(used: _Used, t_ns: Times, on: NDArray[np.bool_], spins: NDArray[np.bool_]) -> _Rates:
    """Return the rates in each cell; `on` says in which of them users run, `spins` in which others the pool spins.

    Threads that spin want a core as those that work do. If they did not have one all the time, nothing tells when they
    waited for it, so both got their part of it.
    """
    length_ns = np.diff(t_ns)
    on_until_ns, spins_until_ns = (np.concatenate(([0], np.cumsum(np.where(at, length_ns, 0)))) for at in (on, spins))
    first, last = np.searchsorted(t_ns, used.begin_ns), np.searchsorted(t_ns, used.end_ns)
    on_ns = on_until_ns[last] - on_until_ns[first]
    spins_ns = spins_until_ns[last] - spins_until_ns[first]
    off_ns = used.end_ns - used.begin_ns - on_ns
    cpu_ns = used.cpu_s * 1e9
    # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
    wanted_ns = on_ns + _spinning_to_working(cpu_ns, on_ns, spins_ns, off_ns) * spins_ns
    inside = np.minimum(cpu_ns * (on_ns / np.maximum(wanted_ns, 1)), on_ns)
    inside = np.where(on_ns > 0, np.maximum(inside, cpu_ns - off_ns), 0.0)
    both = (inside / np.maximum(on_ns, 1), (cpu_ns - inside) / np.maximum(off_ns, 1))
    touches = [_over_cells(first, last, side_ns > 0, len(on)) > 0 for side_ns in (on_ns, off_ns)]
    either = np.stack([_over_cells(first, last, rate, len(on)) for rate in both])
    cpu = np.zeros((3, len(on)))
    cpu[0] = np.where(on, *either)
    known = ~np.isnan(used.power)
    if known.any():
        highest = float(used.power[known].max())
        parts = (known, np.where(known, used.power / highest, 0.0))
        for row, part, unit in zip(cpu[1:], parts, (1.0, highest), strict=True):
            row[:] = unit * np.where(on, *(_over_cells(first, last, rate * part, len(on)) for rate in both))
    return _Rates(cpu, either, touches[0] & touches[1])


def _spinning_to_working(cpu_ns: Floats, on_ns: Times, spins_ns: Times, off_ns: Times) -> float:
    """Return the part of a core that a pool has while it spins, of that which it has while it works; 0 if it sleeps.

    Of the times between two reads that are all of one kind. A pool that was never seen to work throughout has a core.
    """
    spinning, working = (on_ns == 0) & (spins_ns == off_ns), off_ns == 0
    if not spins_ns[spinning].any():
        return 0.0
    has = float(cpu_ns[spinning].sum()) / float(spins_ns[spinning].sum())
    had = float(cpu_ns[working].sum()) / float(on_ns[working].sum()) if on_ns[working].any() else 1.0
    return min(has / had, 1.0) if had > 0 else 1.0


def _over_cells(first: NDArray[np.int64], last: NDArray[np.int64], rate: NDArray[Any], cells: int) -> Floats:
    """Return in each cell the sum of the rates that hold from one cell to another."""
    step = np.zeros(cells + 1, np.int64)
    fixed = np.round(np.minimum(rate, _MOST_RATE) * _FIXED).astype(np.int64)
    np.add.at(step, first, fixed)
    np.subtract.at(step, last, fixed)
    return np.asarray(np.cumsum(step)[:cells] / _FIXED)


def _extremes(
    used: _Used, t_ns: Times, runs: Runs, first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the tasks that ran, and the CPU seconds that each used at least and at most."""
    tasks, number = np.unique(runs.task, return_inverse=True)
    cells = len(t_ns) - 1
    least_s, most_s = np.zeros(len(tasks)), np.zeros(len(tasks))
    if len(tasks) * cells > LARGEST:
        return tasks, least_s, np.full(len(tasks), float(used.cpu_s.sum()))
    length_ns = np.diff(t_ns)
    running = np.zeros((len(tasks), cells), bool)
    for task in range(len(tasks)):
        own = number == task
        begun = np.bincount(first[own], minlength=cells + 1) - np.bincount(last[own], minlength=cells + 1)
        running[task] = np.cumsum(begun)[:cells] > 0
    only = running.sum(axis=0) == 1
    length_s = (used.end_ns - used.begin_ns) * 1e-9
    begin, end = np.searchsorted(t_ns, used.begin_ns), np.searchsorted(t_ns, used.end_ns)
    for task in range(len(tasks)):
        any_s, alone_s = (
            np.concatenate(([0.0], np.cumsum(np.where(ran, length_ns, 0) * 1e-9)))
            for ran in (running[task], running[task] & only)
        )
        most_s[task] = np.minimum(used.cpu_s, any_s[end] - any_s[begin]).sum()
        least_s[task] = np.maximum(used.cpu_s - (length_s - (alone_s[end] - alone_s[begin])), 0.0).sum()
    return tasks, least_s, most_s


def _after(
    runs: Runs, t_ns: Times, on: NDArray[np.bool_], rests: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each segment without users row and task of the run that ended last; -1 if the pool rested since."""
    if not len(runs.end_ns):
        return np.full(len(on), -1, np.int64), np.full(len(on), -1, np.int64)
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns = runs.end_ns[order]
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    follows = ~on & (before >= 0)
    last = order[np.maximum(before, 0)]
    follows &= _last_of(rests, t_ns) < runs.end_ns[last]
    return np.where(follows, runs.row[last], -1), np.where(follows, runs.task[last], -1)


def latest_end(runs: Runs, at_ns: Times) -> Times:
    """Return for each time the latest end of a run up to it."""
    ends_ns = np.concatenate(([-LONG_NS], np.sort(runs.end_ns)))
    return np.asarray(ends_ns[np.searchsorted(ends_ns, at_ns, side="right") - 1])


def _last_of(rests: NDArray[np.bool_], t_ns: Times) -> Times:
    """Return for each segment the begin of the last one in which the pool rested, itself included."""
    return np.asarray(np.maximum.accumulate(np.where(rests, t_ns[:-1], -LONG_NS)))


def _carried_over(
    runs: Runs, t_ns: Times, task: NDArray[np.int64], own: NDArray[np.bool_], rests: NDArray[np.bool_], spins_ns: int
) -> NDArray[np.bool_]:
    """Return the segments of a task in which the pool may still spin after another task: it has not rested since."""
    order = np.argsort(runs.end_ns, kind="stable")
    ends_ns, of_task = runs.end_ns[order], runs.task[order]
    # The last end before one that was of another task than this one.
    changed = np.concatenate(([False], of_task[1:] != of_task[:-1]))
    other = np.maximum.accumulate(np.where(changed, np.arange(len(order)), 0)) - 1
    before = np.searchsorted(ends_ns, t_ns[:-1], side="right") - 1
    same = (before >= 0) & (of_task[np.maximum(before, 0)] == task)
    last = np.where(same, other[np.maximum(before, 0)], before)
    last_ns = np.where(last >= 0, ends_ns[np.maximum(last, 0)], -LONG_NS)
    return np.asarray(own & (t_ns[:-1] - last_ns < spins_ns) & (_last_of(rests, t_ns) < last_ns))


def _alive(clocks: Sequence[Clock], reads_ns: Times) -> NDArray[np.int64]:
    begun = np.sort([int(one.t_ns[0]) for one in clocks])
    ended = np.sort([int(one.t_ns[-1]) for one in clocks])
    alive = np.searchsorted(begun, reads_ns, side="right") - np.searchsorted(ended, reads_ns, side="left")
    return np.asarray(np.maximum(alive, 1))
