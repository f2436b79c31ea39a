"""Instances that run on from one window of a recording into the next: their parts are added until they have ended.

Most instances begin and end in one window, and are settled there as in a whole recording; what a window gives depends
on no other window, so windows can be shared at the same time. The other instances are kept: their joules and times add,
and of their bounds the joules in their first and in their last quantum, which are in one window each. When an instance
has ended its bounds follow as in `accounts`. Parts are added in the order of the windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import blocks, release, zeros
from tprof.trace.metadata import MAX_NS

from .accounts import NativeTotals, Totals
from .instances import concatenated, merged
from .segment_energy import members, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instances import InstanceRows
    from .native_time import NativeSegments
    from .quanta import Quanta
    from .segment_energy import Shares
    from .windows import Window

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class EdgeParts:
    """In one domain, the joules of open instances, (open,): all, and those in their first and last quantum.

    Attributes
    ----------
    place : (rows,) index among the open ones, -1: none
    first, last : (open,) padded number of these quanta in the window, -1: in another one
    dynamic_j : in all quanta
    """

    place: NDArray[np.intp]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    first_j: Floats
    last_j: Floats
    dynamic_j: Floats

    @classmethod
    def of(cls, quanta: Quanta, rows: InstanceRows, which: Mask) -> EdgeParts:
        """Find the quanta, by what the window has of these instances."""
        place, at = np.full(len(rows), -1, np.intp), np.flatnonzero(which)
        count = len(at)
        place[at] = np.arange(count)
        edges_ns = quanta.edges_ns
        first = np.searchsorted(edges_ns, rows.start_ns[at], side="right")
        last = np.searchsorted(edges_ns, rows.end_ns[at], side="left")
        inside = range(1, len(quanta) + 1)
        first, last = (np.where((one >= inside.start) & (one < inside.stop), one, -1) for one in (first, last))
        return cls(place, first, last, np.zeros(count), np.zeros(count), np.zeros(count))

    def add(
        self, quantum: NDArray[np.int32], shares: Shares, slot: NDArray[np.int32], rows: slice | NDArray[np.intp]
    ) -> None:
        """Add a thread's segments, whose joules are `shares`."""
        place = np.concatenate((np.array([-1]), self.place[rows]))
        is_open = place >= 0
        every = members(slot, is_open)
        self.dynamic_j += sum_by(place[slot[every]], shares.energy_j[every], len(self.dynamic_j))
        of_crossing = is_open[slot[shares.at]]
        crossing = shares.at[of_crossing]
        at = np.delete(every, np.searchsorted(every, crossing))
        for segment, where, joules in (
            (at, quantum[at], shares.energy_j[at]),
            (crossing, quantum[crossing], shares.head_j[of_crossing]),
            (crossing, quantum[crossing + 1], shares.tail_j[of_crossing]),
        ):
            owner = place[slot[segment]]
            self.first_j += _matching(owner, where, joules, self.first)
            self.last_j += _matching(owner, where, joules, self.last)

    def add_native(
        self, native: NativeSegments, place: NDArray[np.intp], quantum: NDArray[np.int32], shares: Shares
    ) -> None:
        """Add a pool's segments; `place` are the rows of the instances that its runs name."""
        number = self.place[place[native.runs.row]]
        native = replace(
            native, runs=native.runs.kept(number >= 0), first=native.first[number >= 0], last=native.last[number >= 0]
        )
        number = number[number >= 0]
        if not len(number):
            return
        count = len(self.dynamic_j)
        own_j = native.of_runs(native.of_task(shares.energy_j))
        self.dynamic_j += sum_by(number, own_j, count)
        for target, of_instance in ((self.first_j, self.first), (self.last_j, self.last)):
            target[:] += sum_by(number, native.in_quantum(quantum, shares, of_instance[number]), count)


def _matching(number: NDArray[np.intp], quantum: NDArray[np.int32], joules: Floats, own: NDArray[np.int64]) -> Floats:
    """Return by instance the joules of the parts in its own quantum."""
    return sum_by(number, np.where(quantum == own[number], joules, 0.0), len(own))


@dataclass
class OpenParts:
    """Parts of open instances: rows, joules over the counted domains, and by domain all and those of edges.

    `native` is what native threads add, as `NativeTotals.of_rows`; None without any.
    """

    rows: InstanceRows
    dynamic_j: Floats
    static_j: Floats
    first_j: tuple[Floats, ...]
    last_j: tuple[Floats, ...]
    all_j: tuple[Floats, ...]
    native: Floats | None

    @classmethod
    def of(cls, rows: InstanceRows, totals: Totals, which: Mask, edges: Sequence[EdgeParts | None]) -> OpenParts:
        """Take some instances of a window; `edges` are by counted domain."""
        at = np.flatnonzero(which)
        nothing = np.zeros(len(at))
        first_j = tuple(nothing if one is None else one.first_j for one in edges)
        last_j = tuple(nothing if one is None else one.last_j for one in edges)
        all_j = tuple(nothing if one is None else one.dynamic_j for one in edges)
        native = None if totals.native is None else totals.native.of_rows[:, at]
        return cls(rows.view(at), totals.dynamic_j[at], totals.static_j[at], first_j, last_j, all_j, native)

    def taken(self, which: Mask | NDArray[np.intp]) -> OpenParts:
        """Return some of them."""
        first_j, last_j, all_j = (tuple(one[which] for one in ones) for ones in (self.first_j, self.last_j, self.all_j))
        native = None if self.native is None else self.native[:, which]
        return OpenParts(
            self.rows.view(which), self.dynamic_j[which], self.static_j[which], first_j, last_j, all_j, native
        )

    def plus(self, other: OpenParts, domains: Sequence[Quanta]) -> OpenParts:
        """Return the parts of both, those of the same instance added; `domains` are those that count."""
        rows = concatenated((self.rows, other.rows))
        _, inverse = np.unique(rows.instance, return_inverse=True)
        count = int(inverse.max()) + 1 if len(inverse) else 0
        joined = merged(rows, inverse, count)
        # A part's first or last quantum is the instance's if no other part reaches into an earlier or later one.
        is_first, is_last = (
            [edge(one, rows) == edge(one, joined)[inverse] for one in domains] for edge in (_first, _last)
        )

        def total(ours: Floats, theirs: Floats, where: Mask | None = None) -> Floats:
            values = np.concatenate((ours, theirs))
            return sum_by(inverse, values if where is None else np.where(where, values, 0.0), count)

        return OpenParts(
            joined,
            total(self.dynamic_j, other.dynamic_j),
            total(self.static_j, other.static_j),
            tuple(map(total, self.first_j, other.first_j, is_first)),
            tuple(map(total, self.last_j, other.last_j, is_last)),
            tuple(map(total, self.all_j, other.all_j)),
            None
            if self.native is None or other.native is None
            else np.stack([total(*both) for both in zip(self.native, other.native, strict=True)]),
        )


def _first(quanta: Quanta, rows: InstanceRows) -> NDArray[np.intp]:
    return np.searchsorted(quanta.edges_ns, rows.start_ns, side="right")


def _last(quanta: Quanta, rows: InstanceRows) -> NDArray[np.intp]:
    return np.searchsorted(quanta.edges_ns, rows.end_ns, side="left")


class OpenInstances:
    """The instances that may run on in the next window."""

    def __init__(self, domains: Sequence[Quanta]) -> None:
        """Begin without any; `domains` are those that count."""
        self._domains = domains
        self._dynamic_j = [zeros(len(one) + 2, np.float64) for one in domains]
        self._valid = [_valid_up_to(one) for one in domains]
        self._parts: OpenParts | None = None
        self._ended = _EndedIds()

    @property
    def again(self) -> NDArray[np.uint64]:
        """The ids of instances that ran again after they seemed to have ended, in a later window or another thread."""
        return self._ended.again

    def note_dynamic(self, domain: int, which: slice, dynamic_j: Floats) -> None:
        """Note the joules above the static ones of a window's quanta."""
        self._dynamic_j[domain][which.start + 1 : which.stop + 1] = dynamic_j
        release(self._dynamic_j[domain], self._valid[domain])

    def advance(
        self, window: Window, settled: IdRuns, parts: OpenParts, held: NDArray[np.uint64]
    ) -> tuple[InstanceRows, Totals]:
        """Add a window's instances, and return those that have ended but were not settled, with their joules.

        Parameters
        ----------
        window : the next one; the last one ends everything
        settled : the ids of those that are settled
        parts : all others
        held : ids of instances of which later windows have parts, also after their end
        """
        begin_ns, end_ns = window.own_ns
        # Segments before the window are read again: what ended in them is settled, unless its end is only now known.
        there = (parts.rows.end_ns > begin_ns) | (parts.rows.last_ns >= begin_ns)
        if self._parts is None:
            parts = parts.taken(there)
            parts = parts.taken(np.argsort(parts.rows.instance, kind="stable"))
        else:
            there |= np.isin(parts.rows.instance, self._parts.rows.instance)
            parts = self._parts.plus(parts.taken(there), self._domains)
        over = ended_before(parts.rows, end_ns)
        if len(held) and not window.is_last:
            over &= ~np.isin(parts.rows.instance, held)
        self._parts = parts.taken(~over)
        found = parts.taken(over)
        self._ended.add(settled)
        self._ended.add(IdRuns.of(found.rows.instance))
        return self._finish(found)

    def _finish(self, parts: OpenParts) -> tuple[InstanceRows, Totals]:
        """Return ended instances with their bounds."""
        rows, totals = parts.rows, Totals.zeros(len(parts.rows))
        totals.dynamic_j, totals.static_j = parts.dynamic_j, parts.static_j
        totals.native = None if parts.native is None else NativeTotals.of_instances(parts.native)
        for number, domain in enumerate(self._domains):
            if not len(domain):
                continue
            first = _first(domain, rows)
            last = np.maximum(first, _last(domain, rows))
            # Where quanta overlap, an instance in one of them also has joules of the next.
            spans = last != first
            edge_j = np.where(spans, parts.first_j[number] + parts.last_j[number], parts.all_j[number])
            dynamic_j = self._dynamic_j[number]
            here = (rows.package is None) | (edge_j > 0)
            totals.low_j -= edge_j
            totals.high_j -= edge_j
            totals.high_j += np.where(here, dynamic_j[first], 0.0)
            totals.high_j += np.where(here & spans, dynamic_j[last], 0.0)
            valid = self._valid[number]
            totals.covered |= valid[last] > valid[np.maximum(first - 1, 0)]
        return rows, totals


def _valid_up_to(quanta: Quanta) -> NDArray[np.int64]:
    """Return the number of valid quanta up to each, padded: (k + 2,)."""
    found, known = zeros(len(quanta) + 2, np.int64), 0
    for block in blocks(len(quanta), found, quanta.valid):
        up_to = known + np.cumsum(quanta.valid[block])
        found[block.start + 1 : block.stop + 1], known = up_to, int(up_to[-1])
    found[-1] = known
    return found


def ended_before(rows: InstanceRows, t_ns: int) -> Mask:
    """Return which instances ended before a time, so that no later window has segments of them."""
    if t_ns == MAX_NS:
        return np.ones(len(rows), bool)
    return rows.ended & (rows.end_ns <= t_ns) & (rows.last_ns < t_ns)


def wholly_in(rows: InstanceRows, window: Window) -> Mask:
    """Return which instances surely begin and end in a window, so that no other one has segments of them."""
    begun = rows.begun & (rows.start_ns >= window.since_ns) if window.own_ns[0] else np.ones(len(rows), bool)
    return begun & ended_before(rows, window.own_ns[1])


class IdRuns(NamedTuple):
    """Ids as runs of consecutive ones, since a recorder counts them; each run's first and last, increasing."""

    begin: NDArray[np.uint64]
    end: NDArray[np.uint64]

    @classmethod
    def of(cls, ids: NDArray[np.uint64]) -> IdRuns:
        """Find the runs of ids, each of which is there once."""
        if not (ids[1:] > ids[:-1]).all():
            ids = np.sort(ids, kind="stable")
        breaks = np.flatnonzero(ids[1:] - ids[:-1] > 1)
        return cls(np.concatenate((ids[:1], ids[breaks + 1])), np.concatenate((ids[breaks], ids[-1:])))


class _EndedIds:
    """The ids of instances that have ended.

    Attributes
    ----------
    again : those that were added more than once
    """

    def __init__(self) -> None:
        self._runs = IdRuns(np.empty(0, np.uint64), np.empty(0, np.uint64))
        self.again = np.empty(0, np.uint64)

    def add(self, runs: IdRuns) -> None:
        """Add ids."""
        begin = np.concatenate((self._runs.begin, runs.begin))
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], np.concatenate((self._runs.end, runs.end))[order]
        if (begin[1:] <= end[:-1]).any():
            begin, end = self._without_again(runs)
        apart = np.flatnonzero(begin[1:] - end[:-1] > 1)
        self._runs = IdRuns(np.append(begin[:1], begin[apart + 1]), np.append(end[apart], end[-1:]))

    def _without_again(self, runs: IdRuns) -> IdRuns:
        """Note the ids that are there already; returns the runs of all."""
        counts = (runs.end - runs.begin).astype(np.intp) + 1
        before = np.cumsum(counts) - counts
        ids = np.repeat(runs.begin, counts) + (np.arange(counts.sum()) - np.repeat(before, counts)).astype(np.uint64)
        place = np.searchsorted(self._runs.begin, ids, side="right")
        is_known = (place > 0) & (ids <= self._runs.end[np.maximum(place - 1, 0)])
        self.again = np.union1d(self.again, ids[is_known])
        new = IdRuns.of(ids[~is_known])
        begin, end = (np.concatenate(both) for both in zip(self._runs, new, strict=True))
        order = np.argsort(begin, kind="stable")
        return IdRuns(begin[order], end[order])
