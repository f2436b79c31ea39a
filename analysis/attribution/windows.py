"""Windows of a recording, cut so that no quantum is split, and the segments of each, read from disk when needed.

Every quantum of every domain belongs to one window. Sensors are read at different times, so the quanta of a window do
not end together: the segments of a window reach from its begin to the last end of its quanta, and overlap the next
window's by a quantum. They are never cut. So the energy of a quantum is shared among the same segments as in the whole
recording. What belongs to a segment itself, such as its CPU time, counts in the window in which the segment begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import release, searched, taken
from tprof.trace.metadata import MAX_NS
from tprof.trace.thread import read_fields

from . import _loops
from .known_counts import are_lost
from .segment_reader import Part, fields_of, kind_of, limited_times, make_segments
from .segments import thread_end_ns
from .short_threads import Joints, together

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tprof.trace import Thread, Trace
    from tprof.trace.thread import Fields

    from .known_counts import Around, KnownCounts
    from .quanta import Quanta
    from .segments import CutOff, JoinedSegments, Model

Times = NDArray[np.int64]
STEP = 4096
"""Of so many samples one's time is kept, at most, by which those of a window are found."""


CUTS = 4
"""A thread has so many known or estimated times in a window, or more."""
PER_THREAD = 500
"""Of a window, samples for each thread that lives at the same time: each takes time of its own in each window."""


class DisorderedError(Exception):
    """Times of samples go backwards: `tprof.trace.ordered` puts them in order."""


@dataclass(frozen=True)
class IndexedThread:
    """A thread with samples.

    Attributes
    ----------
    thread : the thread
    t_ns : (m,) int64, times of every `step`-th sample
    step : of so many samples one's time is known
    end_ns : its end
    known : which samples' counts are known; None: it has none
    """

    thread: Thread
    t_ns: Times
    step: int
    end_ns: int
    known: KnownCounts | None = None

    def times(self, most: int) -> tuple[Times, Times]:
        """Return times of samples and how many come from each on, at most so many; between known times evenly."""
        counts = np.full(len(self.t_ns), self.step)
        counts[-1] = self.thread.count - self.step * (len(counts) - 1)
        if most >= self.step:
            return self.t_ns, counts
        pieces = -(-counts // most)
        place = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        lengths_ns = np.diff(self.t_ns, append=self.end_ns)
        t_ns, length_ns, count, parts = (np.repeat(one, pieces) for one in (self.t_ns, lengths_ns, counts, pieces))
        begun = count * place // parts
        return t_ns + (length_ns * (place / parts)).astype(np.int64), count * (place + 1) // parts - begun


@dataclass(frozen=True)
class Window:
    """A part of a recording.

    Attributes
    ----------
    own_ns : from when to when segments begin that count in it
    since_ns : up to where segments of the windows before are read
    until_ns : up to where segments are read, at least the end of `own_ns`
    quanta : of each domain those that belong to it
    """

    own_ns: tuple[int, int]
    since_ns: int
    until_ns: int
    quanta: tuple[slice, ...]

    @property
    def is_last(self) -> bool:
        """Whether no window comes after it."""
        return self.own_ns[1] == MAX_NS


def index_thread(trace: Trace, thread: Thread, t_ns: Times, step: int, known: KnownCounts | None) -> IndexedThread:
    """Return a thread with its index, times limited to its end. Raises DisorderedError."""
    end_ns = thread_end_ns(trace, thread)
    t_ns = np.minimum(t_ns, end_ns)
    if (t_ns[1:] < t_ns[:-1]).any():
        raise DisorderedError("its time stamps go backwards")
    return IndexedThread(thread, t_ns, step, end_ns, known)


class Reach(NamedTuple):
    """When what a domain's quanta share runs: (k,) earliest begins, which do not decrease, and latest ends."""

    begin_ns: Times
    end_ns: Times

    @classmethod
    def of(cls, quanta: Quanta) -> Reach:
        """Return the begins and ends of quanta."""
        return cls(quanta.edges_ns[:-1], quanta.edges_ns[1:])


def most_at_once(threads: Sequence[IndexedThread]) -> int:
    """Return how many threads had samples at the same time, at most."""
    begin_ns = np.sort(np.array([one.t_ns[0] for one in threads], np.int64))
    end_ns = np.sort(np.array([one.end_ns for one in threads], np.int64))
    ended = np.searchsorted(end_ns, begin_ns, side="right")
    return int((np.arange(1, len(begin_ns) + 1) - ended).max(initial=0))


def cut_windows(threads: Sequence[IndexedThread], domains: Sequence[Reach], samples: int) -> list[Window]:
    """Cut a recording where quanta of the domain with the longest ones begin.

    Each window has about so many samples and quanta together, so that few samples make no window of many quanta.
    """
    cuts_ns = _cuts(threads, domains, samples)
    places = [np.concatenate(([0], _begins_at(one, cuts_ns), [len(one.begin_ns)])) for one in domains]
    until_ns = np.append(cuts_ns, MAX_NS)
    for one, place in zip(domains, places, strict=True):
        at = place[1:-1]
        inside = at > 0
        until_ns[:-1][inside] = np.maximum(until_ns[:-1][inside], taken(one.end_ns, at[inside] - 1))
        release(*one)
    begins_ns = np.concatenate(([0], cuts_ns, [MAX_NS]))
    return [
        Window(
            (int(begins_ns[number]), int(begins_ns[number + 1])),
            int(until_ns[number - 1]) if number else 0,
            int(until_ns[number]),
            tuple(slice(int(place[number]), int(place[number + 1])) for place in places),
        )
        for number in range(len(cuts_ns) + 1)
    ]


def _cuts(threads: Sequence[IndexedThread], domains: Sequence[Reach], samples: int) -> Times:
    """Return the times between windows, increasing."""
    if not threads:
        return np.empty(0, np.int64)
    # Many threads with few known times each would make windows that are much larger than others.
    times = [one.times(max(samples // (CUTS * len(threads)), 1)) for one in threads]
    t_ns = np.concatenate([one for one, _ in times])
    first_ns, last_ns = t_ns.min(), max(one.end_ns for one in threads)
    step = min(STEP, samples)
    of_quanta = [taken(one.begin_ns, np.arange(step - 1, len(one.begin_ns), step)) for one in domains]
    t_ns = np.concatenate([t_ns, *of_quanta])
    weights = [*(counts for _, counts in times), *(np.full(len(one), step) for one in of_quanta)]
    order = np.argsort(t_ns, kind="stable")
    before = np.cumsum(np.concatenate(weights)[order])
    at = np.flatnonzero(np.diff(before // samples)) + 1
    cuts_ns = t_ns[order][at]
    longest = max(domains, key=_usual_length, default=None)
    if longest is not None and len(longest.begin_ns):
        place = _begins_at(longest, cuts_ns)
        starts_ns = taken(longest.begin_ns, np.minimum(place, len(longest.begin_ns) - 1))
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


def _begins_at(domain: Reach, cuts_ns: Times) -> NDArray[np.intp]:
    """Return for each cut the domain's first quantum that does not begin before it; their number if all do."""
    return searched(domain.begin_ns, cuts_ns)


def read_window(
    trace: Trace,
    threads: Sequence[IndexedThread],
    window: Window,
    model: Model,
    *,
    packages: bool,
    columns: Collection[str] | None = None,
    cut_off: Mapping[int, CutOff] = MappingProxyType({}),
    means: Mapping[int, float] = MappingProxyType({}),
) -> list[JoinedSegments]:
    """Read the segments of threads in a window, none of them cut; threads that have none there are left out.

    Two more come before: that in which the window begins, and one more, since a sample's meaning depends on the one
    before it.

    Parameters
    ----------
    trace, model, packages, cut_off : as for `tprof.analysis.attribution.segment_reader.read_segments`
    threads : whose segments are read, and whose numbers are their places here
    window : the window
    columns : the counters that are read; None: all
    means : of threads whose last segment is open, by ordinal, their modelled power per CPU second

    Raises
    ------
    DisorderedError
        If times go backwards: what they are limited to depends on samples of other windows.
    TraceError
        If a file cannot be read.
    """
    found: list[JoinedSegments] = []
    parts = [_samples_of(one, window) for one in threads]
    there = [number for number, part in enumerate(parts) if part]
    kinds = [kind_of(threads[number].thread) for number in there]
    for group in together([len(parts[number]) for number in there], kinds):
        numbers = there[group]
        part = _read_part(threads, numbers, [parts[number] for number in numbers], window, columns)
        if part is None:
            continue
        found.append(make_segments(trace, part._replace(means=means), model, packages=packages, cut_off=cut_off))
    return found


def _samples_of(one: IndexedThread, window: Window) -> range:
    """Return which samples of a thread may be in a window, or next to it, by their known times."""
    begin_ns, until_ns = window.own_ns[0], window.until_ns
    if one.t_ns[0] >= until_ns or one.end_ns < begin_ns:
        return range(0)
    before, after = one.t_ns.searchsorted((begin_ns, until_ns)).tolist()
    stop = min(one.step * after + 1, one.thread.count) if after < len(one.t_ns) else one.thread.count
    return range(max(one.step * (before - 1) - 1, 0), stop)


def _read_part(
    threads: Sequence[IndexedThread],
    numbers: Sequence[int],
    samples: Sequence[range],
    window: Window,
    columns: Collection[str] | None,
) -> Part | None:
    """Read which samples of some threads, which are of one kind, are in a window; None: none of any."""
    names = fields_of(threads[numbers[0]].thread, columns)
    fields, counts = read_fields([threads[number].thread for number in numbers], names, samples)
    there = [number for number, count in zip(numbers, counts, strict=True) if count]
    if not there:  # files were cut since they were opened
        return None
    joints = Joints.of([count for count in counts if count])
    ends_ns = np.array([max(threads[number].end_ns, 0) for number in there], np.int64)
    t_ns, falls = limited_times(fields["t_ns"], joints, ends_ns)
    if falls.any():
        raise DisorderedError("its time stamps go backwards")
    starts = {number: part.start for number, part in zip(numbers, samples, strict=True)}
    found = np.empty((len(there), 2), np.intp)
    _loops.search(t_ns, joints.begin, joints.end, (window.own_ns[0], window.until_ns), found)
    begin, closing = np.maximum(found[:, 0] - 2, joints.begin), found[:, 1]
    which = np.flatnonzero(closing > begin)
    if not len(which):
        return None
    begin, closing, closed = begin[which], closing[which], (closing < joints.end)[which]
    fields = {name: np.ascontiguousarray(column) for name, column in fields.items()}
    offsets = np.array([starts[there[place]] for place in which]) - joints.begin[which]
    lasts = np.where(closed, closing, closing - 1)
    around = known_around([threads[there[place]] for place in which], fields, begin, lasts, offsets)
    _loops.compact(tuple(fields.values()), begin, closing + 1)
    kept = closing - begin
    whole = slice(int(begin[0]), int(begin[0] + kept.sum() + len(kept)))
    return Part(
        [threads[there[place]].thread for place in which],
        [there[place] for place in which],
        kept.tolist(),
        {name: column[whole] for name, column in fields.items()},
        closed.tolist(),
        own_ns=window.own_ns,
        around=around,
    )


def known_around(
    threads: Sequence[IndexedThread],
    fields: Fields,
    first: NDArray[np.intp],
    last: NDArray[np.intp],
    offsets: NDArray[np.intp],
) -> dict[int, Around]:
    """Return known counts around some samples of threads, as of `Part`.

    Parameters
    ----------
    first, last : (threads,) places in the fields
    offsets : (threads,) what a sample's number in its thread is more than its place
    """
    names = [one for one in threads[0].thread.columns if one in fields and one != "cpu_ns"]
    if not names:
        return {}
    lost = are_lost(fields["flags"][np.stack((first, last))])
    numbers = np.stack((first, last)) + offsets
    return {
        place: one.known.around(numbers[:, place].tolist(), lost[:, place].tolist(), names, one.end_ns)
        for place in np.flatnonzero(lost.any(axis=0)).tolist()
        if (one := threads[place]).known is not None
    }
