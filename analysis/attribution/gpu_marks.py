"""The marked work of a GPU, read some quanta at a time, and what its instances may take in all.

A segment that reaches from some quanta into later ones is cut between them. No quantum is split, so a segment takes the
same joules of each as if all were in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tprof.trace import long_arrays
from tprof.trace.long_arrays import blocks, empty, filled, joined, release, zeros
from tprof.trace.long_sorts import distinct_values

from .accounts import GpuTotals
from .gpu_streams import Claims, GpuWork, Stream, up_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from tprof.trace.gpu import GpuSegments

    Floats = NDArray[np.float64]
    Ids = NDArray[np.uint64]
    Times = NDArray[np.int64]

MOST_SEGMENTS = 1 << 17
"""That are read at a time, unless one quantum has more."""


def marked_ids(parts: Sequence[GpuSegments]) -> Ids:
    """Return the ids of the instances for which streams are marked, increasing."""
    ids = distinct_values(joined(np.uint64, (part.instance for part in parts)))
    return ids[1:] if len(ids) and ids[0] == 0 else ids


def marked_work(parts: Sequence[GpuSegments], edges_ns: Times) -> Iterator[tuple[slice, Ids, GpuWork]]:
    """Yield some quanta after the other, the ids of instances for which streams worked in them, and that work.

    The rows of the work are places in these ids.
    """
    readers = [_Reader(part) for part in parts]
    if len(edges_ns):
        for reader in readers:
            reader.skip(int(edges_ns[0]))
    for own in _runs_of_quanta(parts, edges_ns):
        near_ns = edges_ns[own.start : own.stop + 1]
        work = [reader.read(int(near_ns[0]), int(near_ns[-1])) for reader in readers]
        ids = np.unique(np.concatenate([np.empty(0, np.uint64), *(one.instance for one in work)]))
        ids = ids[ids != 0]
        yield own, ids, GpuWork(near_ns, [one.located(ids, near_ns) for one in work if len(one.stream)])
        release(edges_ns)


def _runs_of_quanta(parts: Sequence[GpuSegments], edges_ns: Times) -> Iterator[slice]:
    """Yield some quanta after the other; few segments begin in them."""

    def begun(edge: int) -> int:
        """Return how many segments began before an edge."""
        return sum(int(np.searchsorted(part.begin_ns, edges_ns[edge])) for part in parts)

    done, count = 0, len(edges_ns) - 1
    while done < count:
        most = range(done + 2, min(done + long_arrays.BLOCK, count) + 1)
        done, first = done + 1 + bisect_right(most, begun(done) + MOST_SEGMENTS, key=begun), done
        yield slice(first, done)


class _Segments(NamedTuple):
    """Some segments of one process; those of one stream follow one another, and none begins before another ends."""

    stream: NDArray[np.int64]
    begin_ns: Times
    end_ns: Times
    instance: Ids

    @classmethod
    def of(cls, columns: Iterable[NDArray[Any]]) -> _Segments:
        return cls(*columns)

    def taken(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> _Segments:
        return _Segments.of(one[which] for one in self)

    def located(self, ids: Ids, edges_ns: Times) -> Stream:
        """Return all streams, joined; rows are places in ids, or -1."""
        row = np.where(self.instance != 0, np.searchsorted(ids, self.instance), -1)
        starts = np.flatnonzero(self.stream[1:] != self.stream[:-1]) + 1
        return Stream.of(self.begin_ns, self.end_ns, row, edges_ns, starts)


class _Reader:
    """Reads the segments of one process in the order of time."""

    def __init__(self, part: GpuSegments) -> None:
        self._part = part
        self._done = 0
        self._open = self._some(0)

    def skip(self, until_ns: int) -> None:
        """Go on to a time; what begins before it is read in parts."""
        stop = int(np.searchsorted(self._part.begin_ns, until_ns))
        while self._done < stop:
            self._tiled(min(self._done + MOST_SEGMENTS, stop), until_ns)

    def read(self, begin_ns: int, until_ns: int) -> _Segments:
        """Return what lies between two times, of which the first is the one before; it is cut there."""
        found = self._tiled(int(np.searchsorted(self._part.begin_ns, until_ns)), until_ns)
        begins_ns = np.maximum(found.begin_ns, begin_ns)
        return found._replace(begin_ns=begins_ns, end_ns=np.clip(found.end_ns, begins_ns, until_ns))

    def _tiled(self, stop: int, until_ns: int) -> _Segments:
        """Return the open segments and the next ones, and keep those open that end after a time.

        The program of another clock may write segments of a stream that overlap: each ends where the next one begins.
        """
        found = _Segments.of(map(np.concatenate, zip(self._open, self._some(stop), strict=True)))
        found = found.taken(np.argsort(found.stream, kind="stable"))
        self._done = stop
        is_followed = np.append(found.stream[1:] == found.stream[:-1], False)[: len(found.stream)]
        next_ns = np.append(found.begin_ns[1:], 0)[: len(found.stream)]
        found = found._replace(end_ns=np.where(is_followed, np.minimum(found.end_ns, next_ns), found.end_ns))
        self._open = found.taken(found.end_ns > until_ns)
        return found

    def _some(self, stop: int) -> _Segments:
        part, some = self._part, slice(self._done, stop)
        columns = (part.stream, part.begin_ns, part.end_ns, part.instance)
        found = _Segments.of(one[some].copy() for one in columns)
        release(*columns)
        return found


class MarkedClaims:
    """What all instances for which streams are marked may take of a GPU's quanta; long arrays as in `long_arrays`."""

    def __init__(self, ids: Ids, quanta: int) -> None:
        """Begin with nothing; the ids increase."""
        self.ids = ids
        count = len(ids)
        joules, least, most = (zeros(count, np.float64) for _ in range(3))
        first, last = (filled(count, np.int64, one) for one in (np.iinfo(np.int64).max, -1))
        self._claims = Claims(joules, least, most, first, last)
        self._total_j = zeros(quanta + 1, np.float64)

    def add(self, own: slice, ids: Ids, work: GpuWork, shared_j: Floats) -> None:
        """Share the joules of some quanta, (k,), which come in their order, among instances with these ids."""
        later = Claims.of(work, shared_j, len(ids), slice(0, len(shared_j))).later(own.start)
        place, all_of = np.searchsorted(self.ids, ids), self._claims
        for ours, theirs in zip(all_of[:3], later[:3], strict=True):
            ours[place] += theirs
        all_of.first[place] = np.minimum(all_of.first[place], later.first)
        all_of.last[place] = np.maximum(all_of.last[place], later.last)
        self._total_j[own.start + 1 : own.stop + 1] = self._total_j[own.start] + up_to(shared_j)[1:]
        release(self.ids, self._total_j, *all_of)

    def totals(self) -> GpuTotals:
        """Return the joules of each instance with their bounds, (ids,)."""
        count = len(self.ids)
        found = GpuTotals(*(empty(count, np.float64) for _ in range(3)))
        columns = (found.joules, found.least, found.most)
        for at in blocks(count, self._total_j, *self._claims, *columns):
            some = self._claims.taken(at).within(self._total_j)
            found.joules[at], found.least[at], found.most[at] = some.joules, some.least, some.most
        return found
