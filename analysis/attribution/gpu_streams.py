"""What worked when on a GPU, for which instances, and what these may take of its quanta.

A stream is what a thread is for processors: segments that tile time, with seconds in the place of modelled energy. It
is marked by the program (`tprof.gpu`), or, where nothing is marked, it is a thread that could have launched kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .accounts import GpuTotals
from .segment_energy import LocatedSegments, gather, padded, rates, spread, sum_by
from .segments import Joints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instances import Joined
    from .segments import JoinedSegments

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Times = NDArray[np.int64]
NONE, SEVERAL = -1, -2


@dataclass(frozen=True)
class Stream:
    """When one stream worked for which row of some instances, without gaps; row -1: of no instance.

    Or several streams, which are joined as `Joints` joins threads.
    """

    located: LocatedSegments
    row: Numbers

    @classmethod
    def of(cls, begin_ns: Times, end_ns: Times, row: Numbers, edges_ns: Times, starts: NDArray[np.intp]) -> Stream:
        """Fill the gaps between segments with segments that have no share.

        `starts` are the places of the first segments of all streams but the first; those of one stream do not overlap.
        """
        t_ns = np.column_stack((begin_ns, end_ns)).reshape(-1)
        works_s = np.zeros(len(t_ns) - 1)
        works_s[::2] = (end_ns - begin_ns) * 1e-9
        rows = np.full(len(works_s), -1)
        rows[::2] = row
        begins = np.append(0, 2 * starts).astype(np.int64)
        joints = Joints(begins, np.append(begins[1:] - 1, len(works_s)))
        return cls(LocatedSegments(t_ns, works_s, edges_ns, joints), rows)

    def spans(self, edges_ns: Times) -> tuple[NDArray[np.intp], Numbers, Numbers]:
        """Return the segments that worked, and the first and the last quantum of each, padded.

        One that ends on an edge is not in the next quantum.
        """
        at = np.flatnonzero(self.located.modelled > 0)
        last = self.located.quantum[at + 1].astype(np.int64)
        last -= (last > 0) & (edges_ns[np.maximum(last - 1, 0)] == self.located.t_ns[at + 1])
        first = self.located.quantum[at].astype(np.int64)
        return at, first, np.maximum(last, first)


@dataclass(frozen=True)
class GpuWork:
    """What streams did in a GPU's quanta, which lie between edges."""

    edges_ns: Times
    streams: Sequence[Stream]

    @cached_property
    def worked_s(self) -> Floats:
        """The seconds of all streams in each quantum, padded."""
        return sum((spread(one.located) for one in self.streams), np.zeros(len(self.edges_ns) + 1))


def only_task(
    edges_ns: Times, launchers: frozenset[int] | None, ran: JoinedSegments, joined: Joined
) -> tuple[GpuWork, NDArray[np.bool_]]:
    """Return what ran in processes that use GPUs, and in which quanta it was one task only, as in those before."""
    streams: list[Stream] = []
    only = np.full(len(edges_ns) + 1, NONE)
    runs_s = np.where(ran.slot > 0, np.diff(ran.t_ns) * 1e-9, 0.0)
    row = np.concatenate(([-1], joined.place[: len(ran.parts)]))[ran.slot]
    located = LocatedSegments(ran.t_ns, runs_s, edges_ns, ran.joints)
    for thread, one, part in zip(ran.threads, located.apart(), located.parts(), strict=True):
        if launchers is None or thread.process in launchers:
            stream = Stream(one, row[part])
            streams.append(stream)
            at, first, last = stream.spans(edges_ns)
            _merge(only, first, last, joined.rows["task"][stream.row[at]].astype(np.int64))
    before = np.concatenate(([NONE], only[:-1]))
    # Kernels may run on after the task that launched them has returned.
    both = np.where((before == only) | (before == NONE), only, SEVERAL)
    return GpuWork(edges_ns, streams), both[1:-1] >= 0


def _merge(only: Numbers, first: Numbers, last: Numbers, value: Numbers) -> None:
    """Note in each quantum from the first to the last of segments their value, or that there are several."""
    counts = last - first + 1
    owner = np.repeat(np.arange(len(counts)), counts)
    quantum = first[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    least, most = np.full(len(only), np.iinfo(np.int64).max), np.full(len(only), -1)
    np.minimum.at(least, quantum, value[owner])
    np.maximum.at(most, quantum, value[owner])
    there = most >= 0
    one = there & (least == most) & ((only == NONE) | (only == most))
    only[there & ~one] = SEVERAL
    only[one] = most[one]


def up_to(joules: Floats) -> Floats:
    """Return the joules of the quanta before each edge."""
    return np.concatenate(([0.0], np.cumsum(joules)))


class Claims(NamedTuple):
    """What instances may take of a GPU's quanta, (rows,); those of several windows add up.

    Attributes
    ----------
    joules : by the time in which streams worked
    least : of these, in quanta that an instance has for itself
    most : of all quanta of each segment
    first, last : numbers of the first and the last quantum; where last < first, of none
    """

    joules: Floats
    least: Floats
    most: Floats
    first: Numbers
    last: Numbers

    @classmethod
    def none(cls, rows: int) -> Claims:
        """Return claims on nothing."""
        first = np.full(rows, np.iinfo(np.int64).max)
        return cls(np.zeros(rows), np.zeros(rows), np.zeros(rows), first, np.full(rows, -1))

    @classmethod
    def of(cls, work: GpuWork, shared_j: Floats, rows: int, own: slice) -> Claims:
        """Share the joules of quanta by time among so many rows of the streams; the rest is of no instance.

        `shared_j` is 0 in quanta that are not `own`.
        """
        k, none, edges_ns, streams = len(shared_j), cls.none(rows + 1), work.edges_ns, work.streams
        owner = np.full(k + 2, NONE)
        for one in streams:
            at, first, last = one.spans(edges_ns)
            _merge(owner, first, last, one.row[at] + 1)
        per_s = rates(padded(shared_j), work.worked_s)
        alone = np.where(owner > 0, per_s, 0.0)
        total_j = up_to(shared_j)
        joules, least, most = none.joules, none.least, none.most
        for one in streams:
            row, (at, first, last) = one.row + 1, one.spans(edges_ns)
            joules += sum_by(row, gather(one.located, per_s), rows + 1)
            least += sum_by(row, gather(one.located, alone), rows + 1)
            spanned_j = total_j[np.minimum(last, k)] - total_j[np.maximum(first - 1, 0)]
            most += sum_by(row[at], spanned_j, rows + 1)
            first, last = np.maximum(first - 1, own.start), np.minimum(last, own.stop) - 1
            inside = first <= last
            np.minimum.at(none.first, row[at][inside], first[inside])
            np.maximum.at(none.last, row[at][inside], last[inside])
        return cls(joules[1:], least[1:], most[1:], none.first[1:], none.last[1:])

    def plus(self, other: Claims, inverse: NDArray[np.intp], rows: int) -> Claims:
        """Return the claims of so many instances; `inverse` says which are whose, those of `other` last."""
        found = Claims.none(rows)
        np.minimum.at(found.first, inverse, np.concatenate((self.first, other.first)))
        np.maximum.at(found.last, inverse, np.concatenate((self.last, other.last)))

        def total(ours: Floats, theirs: Floats) -> Floats:
            return sum_by(inverse, np.concatenate((ours, theirs)), rows)

        return found._replace(
            joules=total(self.joules, other.joules),
            least=total(self.least, other.least),
            most=total(self.most, other.most),
        )

    def taken(self, which: NDArray[Any] | slice) -> Claims:
        """Return those of some instances."""
        return Claims(self.joules[which], self.least[which], self.most[which], self.first[which], self.last[which])

    def later(self, quanta: int) -> Claims:
        """Return the same where so many quanta come before."""
        is_any = self.first <= self.last
        first, last = (np.where(is_any, one + quanta, one) for one in (self.first, self.last))
        return self._replace(first=first, last=last)

    def within(self, total_j: Floats) -> GpuTotals:
        """Return joules with their bounds; `total_j` are those of the quanta before each edge."""
        is_any = self.first <= self.last
        first, last = (np.where(is_any, one, 0) for one in (self.first, self.last + 1))
        most = np.maximum(np.minimum(self.most, total_j[last] - total_j[first]), self.joules)
        return GpuTotals(self.joules, np.minimum(self.least, self.joules), most)
