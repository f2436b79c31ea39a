"""Which threads are computed together: short ones, as arrays that join theirs, so that each costs no NumPy calls.

The times of threads stand one after the other. So between the segments of two threads there is one more, a joint, from
the end of the first thread to the begin of the second. It has no energy and no instance, and may run backwards. Long
threads stand alone. The samples of a group are read one thread after the other, and its arrays stay joined up to the
sums; those of a single thread are views of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _loops

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

SHORT_SAMPLES = 1 << 15
"""Of a thread that is computed with others: for a longer one some microseconds a NumPy call no longer matter."""
MOST_SAMPLES = 1 << 18
"""Of all that are computed together, as of a window: fewer and longer calls of NumPy, between which threads wait for
Python's lock, save more than arrays that stay in a cache."""


def together(counts: Iterable[int], kinds: Iterable[Hashable] = itertools.repeat(0)) -> Iterator[slice]:
    """Yield ranges of neighbouring threads to compute together: all short and of one kind, or one thread.

    Parameters
    ----------
    counts : samples of each thread
    kinds : of each thread; only threads of equal kinds are computed together
    """
    begin = place = samples = 0
    last: Hashable = None
    for place, (count, kind) in enumerate(zip(counts, kinds, strict=False)):
        # Nothing fits beside a long thread.
        size = count if count <= SHORT_SAMPLES else MOST_SAMPLES
        if place and (kind != last or samples + size > MOST_SAMPLES):
            yield slice(begin, place)
            begin, samples = place, 0
        samples += size
        last = kind
    if last is not None:
        yield slice(begin, place + 1)


@dataclass(frozen=True)
class Joints:
    """Where threads begin and end in arrays that join them.

    Attributes
    ----------
    begin : (threads,) the first sample of each
    end : (threads,) the place after its last sample: of its end as a time, of a joint as a segment
    """

    begin: NDArray[np.intp]
    end: NDArray[np.intp]

    @classmethod
    def of(cls, counts: Sequence[int]) -> Joints:
        """Join threads with so many samples each."""
        lengths = np.asarray(counts, np.intp)
        end = np.cumsum(lengths + 1) - 1
        return cls(end - lengths, end)

    @property
    def between(self) -> NDArray[np.intp]:
        """Return the segments that are joints; the last thread has none after it."""
        return self.end[:-1]

    @property
    def samples(self) -> slice | NDArray[np.bool_]:
        """Return which places are samples."""
        if len(self.end) == 1:
            return slice(0, int(self.end[0]))
        is_sample = np.ones(int(self.end[-1]) + 1, bool)
        is_sample[self.end] = False
        return is_sample

    def thread(self) -> NDArray[np.intp]:
        """Return the thread of each place."""
        return np.repeat(np.arange(len(self.end)), self.end - self.begin + 1)

    def counts(self, which: NDArray[np.bool_], outside: Iterable[Any] = ()) -> list[int]:
        """Return for each thread in how many of its segments something holds, without those outside; changes `which`.

        It holds in no joint, unless that is outside too.
        """
        for part in outside:
            which[part] = False
        if len(self.end) == 1:
            return [int(np.count_nonzero(which))]
        found: list[int] = np.add.reduceat(which, self.begin, dtype=np.intp).tolist()
        return found

    def parts(self) -> Iterator[slice]:
        """Yield the segments of each thread."""
        for begin, end in zip(self.begin.tolist(), self.end.tolist(), strict=True):
            yield slice(begin, end)


def join_segments(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the values of threads' segments, with zeros for the joints between them."""
    return join_arrays(parts, 1)


def join_arrays(parts: Sequence[NDArray[Any]], gap: int = 0) -> NDArray[Any]:
    """Return arrays of one kind one after the other, one or more, with so many zeros between each two.

    Unlike `np.concatenate` it gives up Python's lock once, not for each part, which threads would pass to and fro.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(part.dtype != first.dtype for part in parts):
        raise ValueError("arrays of different kinds have no joined one")
    joined = np.empty(sum(map(len, parts)) + gap * (len(parts) - 1), first.dtype)
    _loops.join(tuple(map(np.ascontiguousarray, parts)), gap * first.itemsize, joined)
    return joined
