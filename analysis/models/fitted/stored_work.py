"""What threads did, in a file: a long recording's segments, of which a fit has a part in memory at a time.

The equations of a fit are a few thousand rows, whatever the length of a recording. What grows are the segments from
which their columns are computed. So these are written once, 26 bytes each, in parts of some time, and read again by
what needs them, part by part.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .equations import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tprof.trace.array_file import ArrayFile, Place

MOST_LOADED = 2_000_000
"""Segments of parts that are kept in memory, since the next step mostly needs them again."""
SLICE = 1_000_000
"""Segments, about, of a slice of time."""
NO_SPACE = (
    "cannot write a temporary file of 26 bytes a sample into {folder}, which a fit of a long recording needs "
    "(set TMPDIR to another folder)"
)


@dataclass(frozen=True)
class StoredPart:
    """A thread's segments of some time.

    Attributes
    ----------
    thread : ordinal of the thread
    place : where their columns are in a file; of the first, times, there is one more than of segments
    count : of segments
    begin_ns, end_ns : of the first and the last
    """

    thread: int
    place: Place
    count: int
    begin_ns: int
    end_ns: int

    @classmethod
    def of(cls, file: ArrayFile, thread: int, t_ns: NDArray[np.int64], *columns: NDArray[Any]) -> StoredPart:
        """Write the columns of a part."""
        return cls(thread, file.add(t_ns, *columns), len(t_ns) - 1, int(t_ns[0]), int(t_ns[-1]))


@dataclass
class Loader:
    """Reads parts, and keeps the last ones.

    Attributes
    ----------
    file : of the parts
    decode : makes the work of a part and its columns
    """

    file: ArrayFile
    decode: Callable[[StoredPart, Sequence[NDArray[Any]]], Work]
    _kept: OrderedDict[int, Work] = field(default_factory=OrderedDict)
    _segments: int = 0

    def load(self, part: StoredPart) -> Work:
        """Return the work of a part."""
        key = part.place.at
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        found = self.decode(part, self.file.read(part.place))
        self._kept[key] = found
        self._segments += len(found)
        while self._segments > MOST_LOADED and len(self._kept) > 1:
            self._segments -= len(self._kept.popitem(last=False)[1])
        return found


@dataclass(frozen=True)
class StoredWork:
    """What one thread did in some time, read from a file when it is needed.

    Attributes
    ----------
    loader, part : from where
    limits_ns : only the parts of segments between these
    number : of the tasks, in place of theirs; None: theirs
    """

    loader: Loader
    part: StoredPart
    limits_ns: tuple[int, int] | None = None
    number: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        """Return the number of segments; where the time is limited, at most so many."""
        return self.part.count

    def ran_in(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether there may be segments in a stretch of time."""
        first_ns, last_ns = self.limits_ns or (self.part.begin_ns, self.part.end_ns)
        return max(self.part.begin_ns, first_ns) < end_ns and min(self.part.end_ns, last_ns) > begin_ns

    def loaded(self) -> Work:
        """Return the same in memory."""
        return self._own(self.loader.load(self.part))

    def _own(self, work: Work) -> Work:
        work = work if self.limits_ns is None else work.within(*self.limits_ns)
        return work if self.number is None else work.renumbered(self.number)

    def between(self, begin_ns: int, end_ns: int) -> Work:
        """Return the segments that overlap a stretch of time."""
        return self._own(self.loader.load(self.part).between(begin_ns, end_ns))

    def within(self, begin_ns: int, end_ns: int) -> StoredWork:
        """Return the parts of segments in a stretch of time; a segment that is cut keeps its length."""
        if self.limits_ns is None and begin_ns <= self.part.begin_ns and self.part.end_ns <= end_ns:
            return self
        first_ns, last_ns = self.limits_ns or (begin_ns, end_ns)
        return replace(self, limits_ns=(max(first_ns, begin_ns), min(last_ns, end_ns)))

    def renumbered(self, number: NDArray[np.int32]) -> StoredWork:
        """Return the same with other numbers of tasks."""
        return replace(self, number=number if self.number is None else number[self.number])


SomeWork = Work | StoredWork


def loaded(work: SomeWork) -> Work:
    """Return work in memory."""
    return work.loaded()


def slices(work: Sequence[SomeWork]) -> Iterator[list[Work]]:
    """Yield what ran in one time after the other; what is in memory in one."""
    stored = [one for one in work if isinstance(one, StoredWork)]
    if len(stored) < len(work) or not work:
        yield [one.loaded() for one in work]
        return
    yield from (parts for _, parts in timed_slices(stored))


def timed_slices(work: Sequence[StoredWork]) -> Iterator[tuple[tuple[int, int], list[Work]]]:
    """Yield from when to when, and what ran then, in slices of about so many segments, one after the other."""
    if not work:
        return
    parts = sorted((one.part.begin_ns, len(one)) for one in work)
    before = np.cumsum([count for _, count in parts]) // SLICE
    cuts_ns = [parts[at][0] for at in np.flatnonzero(np.diff(before, prepend=0))]
    edges_ns = [parts[0][0], *cuts_ns, max(one.part.end_ns for one in work)]
    for begin_ns, end_ns in itertools.pairwise(edges_ns):
        if begin_ns < end_ns:
            ran = (one.within(begin_ns, end_ns).loaded() for one in work if one.ran_in(begin_ns, end_ns))
            yield (begin_ns, end_ns), list(ran)
