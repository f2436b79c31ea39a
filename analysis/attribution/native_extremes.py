"""The least and the most CPU time of a pool that each task used: between two reads any order is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import blocks, computed, empty, kept, release, total
from tprof.trace.long_sorts import sorted_values

if TYPE_CHECKING:
    from .native_rates import Usage
    from .native_time import NativeSegments

Floats = NDArray[np.float64]
LARGEST = 100_000_000
"""With more tasks times segments the tasks' extremes are not computed: nothing, and all."""
AT_ONCE = 4_000_000
"""Tasks times segments that are in memory."""
_NUMBER = 32
"""Bits of the number of a time between two reads."""
_NUMBERS = (1 << _NUMBER) - 1


class Extremes:
    """Sums over the times between two reads, each of which is settled when all of its segments are known.

    Attributes
    ----------
    users : tasks, increasing
    """

    def __init__(self, usage: Usage, users: NDArray[np.int64], segments: int) -> None:
        """Begin with the tasks that run in any of so many segments."""
        self.users = users
        self._usage = usage
        self._is_known = len(users) * segments <= LARGEST
        self._least_s, self._most_s = np.zeros((2, len(users)))
        self._order = _by_end(usage)
        # What is settled later needs what lies between these reads.
        self._needs = _least_of_later(self._order, usage)
        self._settled, self._begin = 0, 0
        self._ran_ns = np.zeros((2, len(users), 0))

    def add(self, cut: NativeSegments) -> None:
        """Add segments that follow those before."""
        if self._is_known and len(self.users):
            count = max(AT_ONCE // len(self.users), 1)
            for begin in range(0, len(cut.cpu_s), count):
                self._add(cut, slice(begin, min(begin + count, len(cut.cpu_s))))

    def _add(self, cut: NativeSegments, part: slice) -> None:
        usage, t_ns, cells = self._usage, cut.t_ns[part.start : part.stop + 1], part.stop - part.start
        at = np.searchsorted(usage.grid_ns, t_ns[:-1], side="right") - 1
        inside = (at >= self._begin) & (at < len(usage.grid_ns) - 1)
        stop = int(np.searchsorted(usage.grid_ns, t_ns[-1], side="right"))
        width = max(stop - self._begin, self._ran_ns.shape[2])
        ran_ns = np.zeros((2, len(self.users), width))
        ran_ns[:, :, : self._ran_ns.shape[2]] = self._ran_ns
        weights, place = np.where(inside, np.diff(t_ns), 0), np.where(inside, at - self._begin, 0)
        near = np.flatnonzero((cut.first < part.stop) & (cut.last > part.start))
        first, last = (np.clip(one[near] - part.start, 0, cells) for one in (cut.first, cut.last))
        number = np.searchsorted(self.users, cut.runs.task[near])
        running = np.zeros((len(self.users), cells), bool)
        for task in np.unique(number).tolist():
            own = number == task
            step = np.bincount(first[own], minlength=cells + 1) - np.bincount(last[own], minlength=cells + 1)
            running[task] = np.cumsum(step)[:cells] > 0
        alone = running & (running.sum(axis=0) == 1)
        for task in np.flatnonzero(running.any(axis=1)).tolist():
            for target, ran in zip(ran_ns, (running, alone), strict=True):
                target[task] += np.bincount(place, weights=np.where(ran[task], weights, 0), minlength=width)
        self._ran_ns = ran_ns
        self._settle(stop - 1)

    def _settle(self, known: int) -> None:
        """Settle the times that end up to a read."""
        usage = self._usage
        stop = int(np.searchsorted(self._order, (known + 1) << _NUMBER))
        now = self._order[self._settled : stop] & _NUMBERS
        until_s = np.pad(np.cumsum(self._ran_ns, axis=2), ((0, 0), (0, 0), (1, 0))) * 1e-9
        any_s, alone_s = until_s[:, :, usage.last[now] - self._begin] - until_s[:, :, usage.first[now] - self._begin]
        length_s = (usage.end_ns[now] - usage.begin_ns[now]) * 1e-9
        self._most_s += np.minimum(usage.cpu_s[now], any_s).sum(axis=1)
        self._least_s += np.maximum(usage.cpu_s[now] - (length_s - alone_s), 0.0).sum(axis=1)
        self._settled = stop
        begin = max(min(int(self._needs[stop]), known), self._begin)
        self._ran_ns, self._begin = self._ran_ns[:, :, begin - self._begin :], begin
        usage.release()
        release(self._order, self._needs)

    def found(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the tasks, and the CPU seconds that each used at least and at most."""
        if not self._is_known:
            return self.users, np.zeros(len(self.users)), np.full(len(self.users), total(self._usage.cpu_s))
        return self.users, self._least_s, self._most_s


def _by_end(usage: Usage) -> NDArray[np.int64]:
    """Return the times between two reads in which CPU time was used, by their end: its place, and their number."""
    count = len(usage.cpu_s)
    keys = computed(
        count, np.int64, lambda at: (usage.last[at].astype(np.int64) << _NUMBER) | np.arange(at.start, at.stop),
        usage.last,
    )  # fmt: skip
    busy = sorted_values(kept(keys, lambda at: usage.cpu_s[at] > 0))
    usage.release()
    return busy


def _least_of_later(order: NDArray[np.int64], usage: Usage) -> NDArray[np.int32]:
    """Return for each of these times the first read at which it or a later one begins; last the number of reads."""
    least = empty(len(order) + 1, np.int32)
    least[-1] = len(usage.grid_ns)
    for at in blocks(len(order), order, least, backwards=True):
        first = np.append(usage.first[order[at] & _NUMBERS], least[at.stop])
        least[at.start : at.stop] = np.minimum.accumulate(first[::-1])[::-1][:-1]
        usage.release()
    return least


def extremes_within(
    extremes_s: tuple[Floats, Floats], own_s: Floats, whole_s: Floats, most_s: float
) -> tuple[Floats, Floats]:
    """Return the least and the most that tasks used in a window, where what is not certain of each may all lie.

    Parameters
    ----------
    extremes_s : the least and the most that each used in all
    own_s, whole_s : what is its own, in the window and in all
    most_s : of all tasks in the window
    """
    least_s = np.maximum(own_s - np.maximum(whole_s - extremes_s[0], 0.0), 0.0)
    return least_s, np.minimum(own_s + np.maximum(extremes_s[1] - whole_s, 0.0), most_s)
