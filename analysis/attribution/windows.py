"""Windows of a recording, cut so that no quantum is split: the blocks in which it is read.

Every quantum of every domain belongs to one window. Sensors are read at different times, so the quanta of a window do
not end together: the segments of a window reach from its begin to the last end of its quanta. Those that the next one
needs too stay in memory, and are never cut. So the energy of a quantum is shared among the same segments wherever
windows begin. What belongs to a segment itself, such as its CPU time, counts in the window in which the segment begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

from .segments import thread_end_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import Thread, Trace

    from .quanta import Quanta

Times = NDArray[np.int64]
STEP = 4096
"""Of so many samples one's time is kept, at most, by which those of a window are found."""


CUTS = 4
"""A thread has so many known or estimated times in a window, or more."""
PER_THREAD = 500
"""Of a window, samples for each thread that lives at the same time: each takes time of its own in each window."""


@dataclass(frozen=True)
class IndexedThread:
    """A thread with samples.

    Attributes
    ----------
    thread : the thread
    t_ns : (m,) int64, times of every `step`-th sample
    step : of so many samples one's time is known
    end_ns : its end
    first_cpu_ns : its CPU time at the first sample; 0 if it was not recorded
    """

    thread: Thread
    t_ns: Times
    step: int
    end_ns: int
    first_cpu_ns: int

    @classmethod
    def of(cls, trace: Trace, thread: Thread, step: int) -> IndexedThread:
        """Read every `step`-th sample. Raises TraceError."""
        end_ns, places = thread_end_ns(trace, thread), range(thread.first, thread.first + thread.count, step)
        samples = thread.stream.read_every(thread.dtype, places)
        limited_ns = np.minimum(samples["t_ns"], np.uint64(max(end_ns, 0))).astype(np.int64)
        cpu_ns = int(samples["cpu_ns"][0]) if "cpu_ns" in thread.columns else 0
        return cls(thread, np.maximum.accumulate(limited_ns), step, end_ns, cpu_ns)

    def within(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """Return from when to when of some time it was there."""
        return max(int(self.t_ns[0]), begin_ns), min(self.end_ns, end_ns)

    def before(self, t_ns: int) -> int:
        """Return a sample that is before a time, and one more; the first one, if there is none."""
        return max(self.step * (int(self.t_ns.searchsorted(t_ns)) - 1) - 1, 0)

    def after(self, t_ns: int) -> int:
        """Return a sample such that one before it is not before a time; their number, if there is none."""
        at = int(self.t_ns.searchsorted(t_ns))
        return min(self.step * at + 1, self.thread.count) if at < len(self.t_ns) else self.thread.count


@dataclass(frozen=True)
class Window:
    """A part of a recording.

    Attributes
    ----------
    own_ns : from when to when segments begin that count in it
    until_ns : up to where segments are read, at least the end of `own_ns`
    quanta : of each domain those that belong to it
    """

    own_ns: tuple[int, int]
    until_ns: int
    quanta: tuple[slice, ...]

    @property
    def is_last(self) -> bool:
        """Whether no window comes after it."""
        return self.own_ns[1] == MAX_NS


class Reach(NamedTuple):
    """When what a domain's quanta share runs: (k,) earliest begins, which do not decrease, and latest ends."""

    begin_ns: Times
    end_ns: Times

    @classmethod
    def of(cls, quanta: Quanta) -> Reach:
        """Return the begins and ends of quanta."""
        return cls(quanta.edges_ns[:-1], quanta.edges_ns[1:])


def times_of(threads: Sequence[IndexedThread], most: int) -> tuple[Times, Times]:
    """Return times of samples and how many come from each on, at most so many; between known times evenly."""
    known_ns = np.concatenate([one.t_ns for one in threads])
    last = np.cumsum([len(one.t_ns) for one in threads]) - 1
    counts = np.repeat([one.step for one in threads], [len(one.t_ns) for one in threads])
    counts[last] = [one.thread.count - one.step * (len(one.t_ns) - 1) for one in threads]
    until_ns = np.append(known_ns[1:], 0)
    until_ns[last] = [one.end_ns for one in threads]
    pieces = -(-counts // most)
    place = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    t_ns, length_ns, count, parts = (np.repeat(one, pieces) for one in (known_ns, until_ns - known_ns, counts, pieces))
    begun = count * place // parts
    return t_ns + (length_ns * (place / parts)).astype(np.int64), count * (place + 1) // parts - begun


def most_at_once(threads: Sequence[IndexedThread]) -> int:
    """Return how many threads had samples at the same time, at most."""
    begin_ns = np.sort(np.array([one.t_ns[0] for one in threads], np.int64))
    end_ns = np.sort(np.array([one.end_ns for one in threads], np.int64))
    ended = np.searchsorted(end_ns, begin_ns, side="right")
    return int((np.arange(1, len(begin_ns) + 1) - ended).max(initial=0))


def cut_windows(
    threads: Sequence[IndexedThread], domains: Sequence[Reach], samples: int, others_ns: Sequence[Times] = ()
) -> list[Window]:
    """Cut a recording where quanta of the domain with the longest ones begin.

    Each window has about so many samples, quanta and other records together, so that few samples make no window of many
    quanta. `others_ns` are the times of other records, increasing.
    """
    cuts_ns = _cuts(threads, domains, samples, others_ns)
    # Of each cut, a domain's first quantum that does not begin before it.
    places = [np.concatenate(([0], one.begin_ns.searchsorted(cuts_ns), [len(one.begin_ns)])) for one in domains]
    until_ns = np.append(cuts_ns, MAX_NS)
    for one, place in zip(domains, places, strict=True):
        at = place[1:-1]
        inside = at > 0
        # What is at the very end of a quantum, without length, is its too.
        until_ns[:-1][inside] = np.maximum(until_ns[:-1][inside], one.end_ns[at[inside] - 1] + 1)
    begins_ns = np.concatenate(([0], cuts_ns, [MAX_NS]))
    return [
        Window(
            (int(begins_ns[number]), int(begins_ns[number + 1])),
            int(until_ns[number]),
            tuple(slice(int(place[number]), int(place[number + 1])) for place in places),
        )
        for number in range(len(cuts_ns) + 1)
    ]


def _cuts(
    threads: Sequence[IndexedThread], domains: Sequence[Reach], samples: int, others_ns: Sequence[Times]
) -> Times:
    """Return the times between windows, increasing."""
    if not threads:
        return np.empty(0, np.int64)
    # Many threads with few known times each would make windows that are much larger than others.
    t_ns, counts = times_of(threads, max(samples // (CUTS * len(threads)), 1))
    first_ns, last_ns = t_ns.min(), max(one.end_ns for one in threads)
    step = min(STEP, samples)
    others_ns = [one[step - 1 :: step] for one in (*(one.begin_ns for one in domains), *others_ns)]
    t_ns = np.concatenate([t_ns, *others_ns])
    weights = [counts, *(np.full(len(one), step) for one in others_ns)]
    order = np.argsort(t_ns, kind="stable")
    before = np.cumsum(np.concatenate(weights)[order])
    at = np.flatnonzero(np.diff(before // samples)) + 1
    cuts_ns = t_ns[order][at]
    longest = max(domains, key=_usual_length, default=None)
    if longest is not None and len(longest.begin_ns):
        place = np.searchsorted(longest.begin_ns, cuts_ns)
        starts_ns = longest.begin_ns[np.minimum(place, len(longest.begin_ns) - 1)]
        # After the last begin comes the last end.
        end_ns = np.maximum(cuts_ns, longest.end_ns[-1])
        cuts_ns = np.where(place < len(longest.begin_ns), starts_ns, end_ns)
    cuts_ns = np.unique(cuts_ns)
    # What began before a window of time is cut to its begin, where other segments begin.
    begin_ns = min((int(one.begin_ns[0]) for one in domains if len(one.begin_ns)), default=first_ns)
    return np.asarray(cuts_ns[(cuts_ns > max(first_ns, begin_ns)) & (cuts_ns < last_ns)])


def _usual_length(domain: Reach) -> float:
    count = len(domain.begin_ns)
    return float(domain.end_ns[-1] - domain.begin_ns[0]) / count if count else 0.0
