"""How fast a pool of native threads uses CPU time between two reads of its clocks, while users run and while none does.

Only reads and the time in which users ran between them are needed, not when exactly: so the rates of a recording of any
length are known once its samples have been read, in memory of its reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .native_time import Clock, Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Marks = NDArray[np.bool_]

IDLE = 0.02
"""A pool that uses less than this part of a core between two reads is idle: whatever it did before has ended."""
LONG_REST_NS = 60_000_000
"""A spinning thread that waits for a core on a busy machine waits less: after so long a pool that spins has rested."""
_FIXED = float(1 << 40)
"""Rates are summed as integers in these units, so that nothing is left when a rate has been taken off again."""
_MOST_RATE = 100.0
"""CPU seconds per second; more of one thread is damage."""


def distinct(times_ns: Times) -> Times:
    """Return the distinct times, increasing; several times as fast as `np.unique`, which hashes them."""
    times_ns = np.sort(times_ns)
    return times_ns[np.diff(times_ns, prepend=times_ns[:1] - 1) > 0]


def long_spells(idle: Marks, length_ns: Times, least_ns: int) -> Marks:
    """Return the idle times that are part of a longer one of at least this length."""
    if not least_ns or not len(idle):
        return idle
    spell = np.cumsum(np.diff(idle, prepend=~idle[:1]))
    return np.asarray(idle & (np.bincount(spell, weights=length_ns)[spell] >= least_ns))


@dataclass(frozen=True)
class Usage:
    """What all threads of a pool used between two reads of each one's clock, one after the other: (n,) each.

    Attributes
    ----------
    begin_ns, end_ns, cpu_s : of the time between two reads
    power : modelled energy per CPU second by counters, NaN where it is not known
    reads_ns : sorted times of all reads
    threads : how many threads are read between two of these, (reads,)
    grid_ns : the distinct times of reads
    """

    begin_ns: Times
    end_ns: Times
    cpu_s: Floats
    power: Floats
    reads_ns: Times
    threads: NDArray[np.int64]
    grid_ns: Times

    @classmethod
    def of(cls, clocks: Sequence[Clock]) -> Usage:
        """Take the clocks of a pool's threads, each with two reads or more."""
        begin_ns, end_ns = (np.concatenate([one.t_ns[part] for one in clocks]) for part in (np.s_[:-1], np.s_[1:]))
        power = [np.full(len(one.t_ns) - 1, np.nan) if one.power is None else one.power for one in clocks]
        cpu_s = np.concatenate([one.cpu_s[1:] - one.cpu_s[:-1] for one in clocks])
        reads_ns = np.sort(np.concatenate([one.t_ns for one in clocks]))
        return cls(
            begin_ns, end_ns, cpu_s, np.concatenate(power), reads_ns, _alive(clocks, reads_ns), distinct(reads_ns)
        )

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """Of each time between two reads the place of its begin among the distinct times."""
        return np.searchsorted(self.grid_ns, self.begin_ns)

    @cached_property
    def last(self) -> NDArray[np.intp]:
        """Of each time between two reads the place of its end among the distinct times."""
        return np.searchsorted(self.grid_ns, self.end_ns)

    @cached_property
    def _busy(self) -> tuple[Times, Times]:
        busy = self.cpu_s > 0
        return np.sort(self.begin_ns[busy]), np.sort(self.end_ns[busy])

    def is_busy_in(self, runs: Runs) -> Marks:
        """Return the runs that touch a time between two reads in which any thread used CPU time."""
        begins, ends = self._busy
        return np.searchsorted(begins, runs.end_ns, side="left") > np.searchsorted(ends, runs.begin_ns, side="right")

    def around(self, low: int, high: int, until_ns: int) -> Usage:
        """Return the part between two of the distinct times of reads, by their places, and what it used up to a time.

        Runs that reach up to that time show whether the pool used CPU time in any of theirs.
        """
        grid_ns = self.grid_ns[low:high]
        which = np.flatnonzero((self.end_ns > grid_ns[0]) & (self.begin_ns < until_ns)) if len(grid_ns) else slice(0)
        return Usage(
            self.begin_ns[which], self.end_ns[which], self.cpu_s[which], self.power[which], self.reads_ns[:0],
            self.threads[:0], grid_ns,
        )  # fmt: skip


def _alive(clocks: Sequence[Clock], reads_ns: Times) -> NDArray[np.int64]:
    begun = np.sort([int(one.t_ns[0]) for one in clocks])
    ended = np.sort([int(one.t_ns[-1]) for one in clocks])
    alive = np.searchsorted(begun, reads_ns, side="right") - np.searchsorted(ended, reads_ns, side="left")
    return np.asarray(np.maximum(alive, 1))


class OnTimes:
    """When users ran.

    Attributes
    ----------
    on_ns : (n,) between two distinct times of reads, how long users ran
    spins_ns : (n,) how long the pool surely span while none ran
    reach_ns : the first and the last moment at which a segment of the pool begins or ends
    """

    def __init__(self, usage: Usage) -> None:
        """Begin without segments."""
        count = len(usage.grid_ns) - 1
        self._padded_ns = np.zeros((2, count + 2), np.int64)
        self.on_ns, self.spins_ns = self._padded_ns[:, 1:-1]
        self.reach_ns = int(usage.grid_ns[0]), int(usage.grid_ns[-1])

    def add(self, t_ns: Times, at: NDArray[np.intp], on: Marks, spins: Marks) -> None:
        """Add segments: where they begin and end, between which reads, and whether users ran and the pool span."""
        self.reach_ns = min(self.reach_ns[0], int(t_ns[0])), max(self.reach_ns[1], int(t_ns[-1]))
        length_ns, first = np.diff(t_ns), int(at[0])
        for target, which in zip(self._padded_ns, (on, spins), strict=True):
            sums = np.bincount(at - first, weights=np.where(which, length_ns, 0))
            target[first : first + len(sums)] += sums.astype(np.int64)


@dataclass(frozen=True)
class Rates:
    """What a pool used per second between two distinct times of reads; padded with what is before and after: (n + 2,).

    Attributes
    ----------
    off, on : (3, n + 2) CPU seconds, those that were counted, and the modelled energy of these, while no user runs and
        while users do
    rests : whether the pool rested
    """

    off: Floats
    on: Floats
    rests: Marks

    def part(self, which: slice) -> Rates:
        """Return some of them."""
        return Rates(self.off[:, which], self.on[:, which], self.rests[which])


def rates_of(usage: Usage, on_times: OnTimes, rest_ns: int) -> Rates:
    """Return the rates.

    Threads that spin want a core as those that work do. If they did not have one all the time, it is not known when
    they waited for it, so both got their part of it. A pool that is idle for less than `rest_ns` has not rested.
    """
    first, last, count = usage.first, usage.last, len(usage.grid_ns) - 1
    on_until_ns, spins_until_ns = (np.concatenate(([0], np.cumsum(one))) for one in (on_times.on_ns, on_times.spins_ns))
    on_ns, spins_ns = on_until_ns[last] - on_until_ns[first], spins_until_ns[last] - spins_until_ns[first]
    off_ns = usage.end_ns - usage.begin_ns - on_ns
    cpu_ns = usage.cpu_s * 1e9
    # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
    wanted_ns = on_ns + _spinning_to_working(cpu_ns, on_ns, spins_ns, off_ns) * spins_ns
    inside = np.minimum(cpu_ns * (on_ns / np.maximum(wanted_ns, 1)), on_ns)
    inside = np.where(on_ns > 0, np.maximum(inside, cpu_ns - off_ns), 0.0)
    both = (inside / np.maximum(on_ns, 1), (cpu_ns - inside) / np.maximum(off_ns, 1))
    on, off = (np.zeros((3, count)) for _ in range(2))
    for target, rate in zip((on, off), both, strict=True):
        target[0] = _over_cells(first, last, rate, count)
    known = ~np.isnan(usage.power)
    if known.any():
        highest = float(usage.power[known].max())
        parts = (known, np.where(known, usage.power / highest, 0.0))
        for row, (part, unit) in enumerate(zip(parts, (1.0, highest), strict=True), 1):
            for target, rate in zip((on, off), both, strict=True):
                target[row] = unit * _over_cells(first, last, rate * part, count)
    touches = [_over_cells(first, last, side_ns > 0, count) > 0 for side_ns in (on_ns, off_ns)]
    rate = np.where(touches[0] & touches[1], np.maximum(on[0], off[0]), np.where(touches[0], on[0], off[0]))
    before_ns, after_ns = usage.grid_ns[0] - on_times.reach_ns[0], on_times.reach_ns[1] - usage.grid_ns[-1]
    lengths_ns = np.concatenate(([before_ns], np.diff(usage.grid_ns), [after_ns]))
    return Rates(_padded(off), _padded(on), long_spells(_padded(rate) < IDLE, lengths_ns, rest_ns))


def _padded(values: Floats) -> Floats:
    return np.pad(values, [*[(0, 0)] * (values.ndim - 1), (1, 1)])


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


def _over_cells(first: NDArray[np.intp], last: NDArray[np.intp], rate: NDArray[Any], cells: int) -> Floats:
    """Return in each cell the sum of the rates that hold from one cell to another."""
    step = np.zeros(cells + 1, np.int64)
    fixed = np.round(np.minimum(rate, _MOST_RATE) * _FIXED).astype(np.int64)
    np.add.at(step, first, fixed)
    np.subtract.at(step, last, fixed)
    return np.asarray(np.cumsum(step)[:cells] / _FIXED)
