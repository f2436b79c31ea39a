"""How fast a pool of native threads uses CPU time between two reads of its clocks, while users run and while none does.

Only reads and the time in which users ran between them are needed, not when exactly: so the rates of a recording of any
length are known once its samples have been read. What is known of each read is computed block by block, and is in files
where there are many (see `long_arrays`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.errors import TprofError
from tprof.trace.long_arrays import blocks, computed, differences, joined, kept, release, running_sums, zeros
from tprof.trace.long_sorts import changes, sorted_values, without_repeats

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
MOST_READS = 2**31 - 2
"""Of a pool: places among them have 32 bits."""
_MOST_RATE = 100.0
"""CPU seconds per second; more of one thread is damage."""


def long_spells(idle: Marks, edges_ns: Times, least_ns: int) -> Marks:
    """Return the idle times, (n,) between edges, (n + 1,), that are part of a longer one of at least this length."""
    if not least_ns or not len(idle):
        return idle
    count = len(idle)
    begins = kept(computed(count, np.int64, lambda at: np.arange(at.start, at.stop)), lambda at: changes(idle, at))
    ends = joined(np.int64, (begins[1:], np.array([count])))
    is_long = computed(
        len(begins), bool, lambda at: edges_ns[ends[at]] - edges_ns[begins[at]] >= least_ns, begins, ends, edges_ns
    )

    def of_part(at: slice) -> Marks:
        spell = np.searchsorted(begins, np.arange(at.start, at.stop), side="right") - 1
        return np.asarray(idle[at] & is_long[spell])

    return computed(count, bool, of_part, idle, is_long, begins)


@dataclass(frozen=True)
class Usage:
    """What all threads of a pool used between two reads of each one's clock, one after the other: (n,) each.

    Attributes
    ----------
    begin_ns, end_ns, cpu_s : of the time between two reads
    power : modelled energy per CPU second by counters, NaN where it is not known; None: nowhere
    reads_ns : sorted times of all reads
    threads : how many threads are read between two of these, (reads,)
    grid_ns : the distinct times of reads
    starts : (threads + 1,) where those of each thread begin, and where the last end
    """

    begin_ns: Times
    end_ns: Times
    cpu_s: Floats
    power: Floats | None
    reads_ns: Times
    threads: NDArray[np.int64]
    grid_ns: Times
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, clocks: Sequence[Clock]) -> Usage:
        """Take the clocks of a pool's threads, each with two reads or more."""
        begin_ns, end_ns = (joined(np.int64, [one.t_ns[part] for one in clocks]) for part in (np.s_[:-1], np.s_[1:]))
        power = None
        if any(one.power is not None for one in clocks):
            nowhere = (np.broadcast_to(np.nan, len(one.t_ns) - 1) for one in clocks)
            known = (other if one.power is None else one.power for one, other in zip(clocks, nowhere, strict=True))
            power = joined(np.float64, known)
        cpu_s = joined(np.float64, [differences(one.cpu_s) for one in clocks])
        reads_ns = sorted_values(joined(np.int64, [one.t_ns for one in clocks]))
        if len(reads_ns) > MOST_READS:
            raise TprofError(
                f"a pool of native threads has {len(reads_ns):,} readings, and at most {MOST_READS:,} are known"
            )
        alive, grid_ns = _alive(clocks, reads_ns), without_repeats(reads_ns)
        starts = np.cumsum([0, *(len(one.t_ns) - 1 for one in clocks)])
        return cls(begin_ns, end_ns, cpu_s, power, reads_ns, alive, grid_ns, starts)

    @cached_property
    def first(self) -> NDArray[np.int32]:
        """Of each time between two reads the place of its begin among the distinct times."""
        return self._places(self.begin_ns)

    @cached_property
    def last(self) -> NDArray[np.int32]:
        """Of each time between two reads the place of its end among the distinct times."""
        return self._places(self.end_ns)

    def _places(self, t_ns: Times) -> NDArray[np.int32]:
        return computed(len(t_ns), np.int32, lambda at: np.searchsorted(self.grid_ns, t_ns[at]), t_ns, self.grid_ns)

    @cached_property
    def most_threads(self) -> int:
        """How many threads were read between two reads, at most."""
        return max((int(self.threads[at].max()) for at in blocks(len(self.threads), self.threads)), default=1)

    def release(self) -> None:
        """Leave to the kernel what is in files."""
        known = (one for one in (self.power, *(vars(self).get(name) for name in ("first", "last"))) if one is not None)
        release(self.begin_ns, self.end_ns, self.cpu_s, self.reads_ns, self.threads, self.grid_ns, *known)

    @cached_property
    def _busy(self) -> tuple[Times, Times]:
        begins, ends = (sorted_values(kept(one, lambda at: self.cpu_s[at] > 0)) for one in (self.begin_ns, self.end_ns))
        release(self.cpu_s)
        return begins, ends

    def is_busy_in(self, runs: Runs) -> Marks:
        """Return the runs that touch a time between two reads in which any thread used CPU time."""
        begins, ends = self._busy
        begun = np.searchsorted(begins, runs.end_ns, side="left")
        is_busy = begun > np.searchsorted(ends, runs.begin_ns, side="right")
        release(begins, ends)
        return is_busy

    def around(self, low: int, high: int, until_ns: int) -> Usage:
        """Return the part between two of the distinct times of reads, by their places, and what it used up to a time.

        Runs that reach up to that time show whether the pool used CPU time in any of theirs.
        """
        grid_ns = self.grid_ns[low:high].copy()
        which = self._between(int(grid_ns[0]), until_ns) if len(grid_ns) else np.empty(0, np.int64)
        power = None if self.power is None else self.power[which]
        found = Usage(
            self.begin_ns[which], self.end_ns[which], self.cpu_s[which], power, self.reads_ns[:0], self.threads[:0],
            grid_ns, np.array([0, len(which)]),
        )  # fmt: skip
        self.release()
        return found

    @cached_property
    def _lives_ns(self) -> tuple[Times, Times]:
        return self.begin_ns[self.starts[:-1]], self.end_ns[self.starts[1:] - 1]

    def _between(self, begin_ns: int, end_ns: int) -> NDArray[np.int64]:
        """Return the times between two reads that end after one moment and begin before another."""
        first_ns, last_ns = self._lives_ns
        found = [np.empty(0, np.int64)]
        for thread in np.flatnonzero((last_ns > begin_ns) & (first_ns < end_ns)).tolist():
            start, stop = self.starts[thread : thread + 2].tolist()
            low = start + int(np.searchsorted(self.end_ns[start:stop], begin_ns, side="right"))
            high = start + int(np.searchsorted(self.begin_ns[start:stop], end_ns))
            found.append(np.arange(low, high))
        return np.concatenate(found)


def _alive(clocks: Sequence[Clock], reads_ns: Times) -> NDArray[np.int64]:
    begun = np.sort([int(one.t_ns[0]) for one in clocks])
    ended = np.sort([int(one.t_ns[-1]) for one in clocks])

    def of_part(at: slice) -> NDArray[np.int64]:
        alive = np.searchsorted(begun, reads_ns[at], side="right") - np.searchsorted(ended, reads_ns[at], side="left")
        return np.asarray(np.maximum(alive, 1))

    return computed(len(reads_ns), np.int64, of_part, reads_ns)


class OnTimes:
    """When users ran.

    Attributes
    ----------
    on_ns : (n,) between two distinct times of reads, how long users ran
    reach_ns : the first and the last moment at which a segment of the pool begins or ends
    """

    def __init__(self, usage: Usage) -> None:
        """Begin without segments."""
        self._padded_ns = zeros(len(usage.grid_ns) + 1, np.int64)
        self.on_ns = self._padded_ns[1:-1]
        self.reach_ns = int(usage.grid_ns[0]), int(usage.grid_ns[-1])

    def add(self, t_ns: Times, at: NDArray[np.intp], on: Marks) -> None:
        """Add segments: where they begin and end, between which reads, and whether users ran."""
        self.reach_ns = min(self.reach_ns[0], int(t_ns[0])), max(self.reach_ns[1], int(t_ns[-1]))
        first = int(at[0])
        sums = np.bincount(at - first, weights=np.where(on, np.diff(t_ns), 0))
        self._padded_ns[first : first + len(sums)] += sums.astype(np.int64)
        release(self._padded_ns)


@dataclass(frozen=True)
class Rates:
    """What a pool used per second between two distinct times of reads; padded with what is before and after: (n + 2,).

    Attributes
    ----------
    off, on : CPU seconds, those that were counted, and the modelled energy of these, each (n + 2,), while no user runs
        and while users do
    rests : whether the pool rested
    """

    off: Sequence[Floats]
    on: Sequence[Floats]
    rests: Marks

    def part(self, which: slice) -> Rates:
        """Return some of them."""
        off, on = ([one[which].copy() for one in rows] for rows in (self.off, self.on))
        found = Rates(off, on, self.rests[which].copy())
        self.release()
        return found

    def release(self) -> None:
        """Leave to the kernel what is in files."""
        release(*self.off, *self.on, self.rests)


def rates_of(usage: Usage, on_times: OnTimes, rest_ns: int) -> Rates:
    """Return the rates: as much of a pool's CPU time as fits is used while its users run.

    A pool that is idle for less than `rest_ns` has not rested.
    """
    on_until_ns = running_sums(on_times.on_ns)
    steps = _Steps(len(usage.grid_ns) - 1, _highest(usage.power))
    for at in blocks(len(usage.cpu_s)):
        first, last = usage.first[at], usage.last[at]
        on_ns, cpu_ns = on_until_ns[last] - on_until_ns[first], usage.cpu_s[at] * 1e9
        off_ns = usage.end_ns[at] - usage.begin_ns[at] - on_ns
        # The clock and the time are not read at the very same moment: what fits nowhere stays with the users.
        inside = np.where(on_ns > 0, np.maximum(np.minimum(cpu_ns, on_ns), cpu_ns - off_ns), 0.0)
        share = _Share(on_ns, off_ns, inside / np.maximum(on_ns, 1), (cpu_ns - inside) / np.maximum(off_ns, 1))
        steps.add(first, last, share, None if usage.power is None else usage.power[at])
        usage.release()
        release(on_until_ns)
    off, on, touches = steps.rates()
    before_ns, after_ns = on_times.reach_ns
    edges_ns = joined(np.int64, (np.array([before_ns]), usage.grid_ns, np.array([after_ns])))

    def is_idle(at: slice) -> Marks:
        runs, rests = (one[at] for one in touches)
        rate = np.where(runs & rests, np.maximum(on[0][at], off[0][at]), np.where(runs, on[0][at], off[0][at]))
        return np.asarray(rate < IDLE)

    idle = computed(len(edges_ns) - 1, bool, is_idle, on[0], off[0], *touches)
    return Rates(off, on, long_spells(idle, edges_ns, rest_ns))


def _highest(power: Floats | None) -> float | None:
    """Return the highest power that is known; None if none is."""
    if power is None:
        return None
    found = (power[at][~np.isnan(power[at])].max(initial=-np.inf) for at in blocks(len(power), power))
    highest = float(max(found, default=-np.inf))
    return None if highest == -np.inf else highest


class _Share(NamedTuple):
    """Of times between two reads how long users ran in them and did not, and the pool's CPU time per ns of both."""

    on_ns: Times
    off_ns: Times
    on: Floats
    off: Floats


class _Steps:
    """Sums of rates that hold from one cell to another, as what they change from cell to cell."""

    def __init__(self, cells: int, highest: float | None) -> None:
        """Begin without rates, whose highest power is known, or none."""
        self._cells, self._highest = cells, highest
        self._of_time, self._touches = (self._begun() for _ in range(2))
        self._counted = [self._begun() for _ in range(2)] if highest is not None else []

    def _begun(self) -> list[Times]:
        return [zeros(self._cells + 1, np.int64) for _ in range(2)]

    def add(self, first: NDArray[np.int32], last: NDArray[np.int32], share: _Share, power: Floats | None) -> None:
        """Add those of some times between two reads."""
        for target, rate in zip(self._of_time, (share.off, share.on), strict=True):
            _add_rates(target, first, last, rate)
        for target, length_ns in zip(self._touches, (share.off_ns, share.on_ns), strict=True):
            _add_rates(target, first, last, length_ns > 0)
        if power is None or self._highest is None:
            return
        known = ~np.isnan(power)
        parts = known, np.where(known, power / self._highest, 0.0)
        for targets, rate in zip(self._counted, (share.off, share.on), strict=True):
            for target, part in zip(targets, parts, strict=True):
                _add_rates(target, first, last, rate * part)

    def rates(self) -> tuple[list[Floats], list[Floats], tuple[Marks, Marks]]:
        """Return those while no user runs and while users do, and in which cells users run and do not, all padded."""
        nothing = np.broadcast_to(0.0, self._cells + 2)
        off, on = ([self._rates(step)] for step in self._of_time)
        for number, found in enumerate((off, on)):
            found += [nothing, nothing]
            if self._highest is not None:
                found[1:] = map(self._rates, self._counted[number], (1.0, self._highest))
        stands, runs = (self._rates(step) for step in self._touches)
        return off, on, (_is_some(runs), _is_some(stands))

    def _rates(self, step: Times, unit: float = 1.0) -> Floats:
        sums = running_sums(step)
        padded = zeros(self._cells + 2, np.float64)
        for at in blocks(self._cells, sums, padded):
            padded[at.start + 1 : at.stop + 1] = unit * (sums[at.start + 1 : at.stop + 1] / _FIXED)
        return padded


def _is_some(values: Floats) -> Marks:
    return computed(len(values), bool, lambda at: values[at] > 0, values)


def _add_rates(step: Times, first: NDArray[np.int32], last: NDArray[np.int32], rate: NDArray[Any]) -> None:
    fixed = np.round(np.minimum(rate, _MOST_RATE) * _FIXED).astype(np.int64)
    np.add.at(step, first, fixed)
    np.subtract.at(step, last, fixed)
    release(step)
