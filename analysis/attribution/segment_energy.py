"""Shares each quantum's joules among the segments that overlap it: arrays in, energies out.

The segments of one thread tile its time, so nearly all lie inside one quantum and the few that
cross an edge cross each edge once. Modelled energy per quantum is therefore one `bincount` plus
three vectors over crossing segments, never a difference of long running sums: a task of 10 us
keeps all its digits in a recording of hours. Only the sum over whole quanta inside one segment is
a difference, of a running sum in extended precision. There is no global sort: O(samples + quanta)
for any number of threads.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Floats = NDArray[np.float64]
NO_JOINTS = np.empty(0, np.intp)
BAND_BITS = 20
"""Rates within a factor of 2 to this power are of one order. A running sum of millions of them has 64 bits."""
_LARGEST = 1 << 18
"""Whole quanta within segments that are added at once."""


def sum_by(key: NDArray[Any], weights: Floats, count: int) -> Floats:
    """Return the sums of weights with equal keys, which are less than `count`: (count,) float64."""
    if key.dtype == np.int32:
        (sums,) = sums_by(np.ascontiguousarray(key), [np.ascontiguousarray(weights, np.float64)], count)
        return np.asarray(sums)
    return np.bincount(key, weights=weights, minlength=count).astype(np.float64, copy=False)


def sums_by(key: NDArray[np.int32], columns: Sequence[Floats], count: int) -> Floats:
    """Return the sums of several columns over equal keys, which are less than `count`: (columns, count) float64."""
    sums = np.zeros((len(columns), count))
    _loops.add_by(key, tuple(columns), count, sums)
    return sums


def values_at(values: NDArray[Any], places: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return values at places that are there; NumPy takes them more quickly if it need not look whether they are."""
    return values.take(places, mode="clip")


def members(key: NDArray[np.int32], is_member: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where the keys are of which `is_member` says so, in their order."""
    found = np.empty(len(key), np.int64)
    return found[: _loops.find_members(key, is_member, found)]


@dataclass(frozen=True)
class LocatedSegments:
    """The segments of one thread or of several, with modelled energy and the quantum in which each begins and ends.

    Attributes
    ----------
    t_ns : (n + 1,) int64, nanoseconds: where segments begin, and where the last ends; not decreasing in a thread
    modelled : (n,) float64, modelled energy of each segment, any unit, >= 0
    quantum : (n + 1,) int32: 0 before the first edge, 1…k inside, k + 1 after the last
    joints : segments that only stand between those of two threads; without modelled energy
    """

    t_ns: NDArray[np.int64]
    modelled: Floats
    quantum: NDArray[np.int32]
    joints: NDArray[np.intp] = field(default_factory=lambda: NO_JOINTS)

    @cached_property
    def crossing(self) -> NDArray[np.intp]:
        """Return which segments cross an edge."""
        crosses = self.quantum[:-1] != self.quantum[1:]
        crosses[self.joints] = False
        return np.flatnonzero(crosses)

    def weighing(self, modelled: Floats) -> LocatedSegments:
        """Return the same segments with other modelled energy."""
        others = replace(self, modelled=modelled)
        vars(others)["crossing"] = self.crossing
        return others

    def parts(self) -> Iterator[slice]:
        """Yield where the segments of each thread are."""
        begins = [0, *(self.joints + 1).tolist()]
        yield from map(slice, begins, [*self.joints.tolist(), len(self.modelled)])

    def apart(self) -> Iterator[LocatedSegments]:
        """Yield those of each thread."""
        for at in self.parts():
            ends = slice(at.start, at.stop + 1)
            yield LocatedSegments(self.t_ns[ends], self.modelled[at], self.quantum[ends])


def locate(t_ns: NDArray[np.int64], edges_ns: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the number of edges at or before each time."""
    quantum = np.empty(len(t_ns), np.int32)
    _loops.locate(np.ascontiguousarray(t_ns), np.ascontiguousarray(edges_ns), quantum)
    return quantum


def padded(values: Floats) -> Floats:
    """Return values per quantum, padded with a zero for the time before and the time after."""
    return np.concatenate(([0.0], values, [0.0]))


@dataclass(frozen=True)
class Crossing:
    """Segments that cross an edge: their modelled energy in the first quantum, in the last, and per ns."""

    at: NDArray[np.intp]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    head: Floats
    tail: Floats
    per_ns: Floats


def crossing(segments: LocatedSegments, edges_ns: NDArray[np.int64]) -> Crossing:
    """Split the segments that cross an edge."""
    at = segments.crossing
    first, last = segments.quantum[at].astype(np.int64), segments.quantum[at + 1].astype(np.int64)
    begin_ns, end_ns = segments.t_ns[at], segments.t_ns[at + 1]
    per_ns = segments.modelled[at] / (end_ns - begin_ns)
    # Integer differences first: only their result becomes a float.
    head = per_ns * (edges_ns[first] - begin_ns)
    tail = per_ns * (end_ns - edges_ns[last - 1])
    return Crossing(at, first, last, head, tail, per_ns)


def spread(
    segments: LocatedSegments,
    edges_ns: NDArray[np.int64],
    *,
    row: NDArray[np.integer[Any]] | None = None,
    rows: int = 1,
) -> Floats:
    """Return the modelled energy in each quantum.

    Parameters
    ----------
    segments : of one thread or of several
    edges_ns : (k + 1,) int64
    row : (n,) int64, optional: which of `rows` sums a segment goes to

    Returns
    -------
    (rows * (k + 2),) float64, padded for the time before and after
    """
    width = len(edges_ns) + 1
    parts = crossing(segments, edges_ns)
    inside = segments.modelled
    if len(parts.at):
        inside = inside.copy()
        inside[parts.at] = 0.0
    if row is None and len(inside) and not len(segments.joints):
        # Those of one thread that begin in a quantum follow each other.
        begins = np.append(0, parts.at[: np.searchsorted(parts.at, len(inside) - 1)] + 1)
        total = np.zeros(width)
        total[segments.quantum[begins]] = np.add.reduceat(inside, begins)
    else:
        key = segments.quantum[:-1] if row is None else segments.quantum[:-1] + row * width
        total = sum_by(key, inside, rows * width)
    base = np.zeros(len(parts.at), np.int64) if row is None else row[parts.at] * width
    length_ns = padded(np.diff(edges_ns).astype(np.float64))
    pieces = [(base + parts.first, parts.head), (base + parts.last, parts.tail)]
    whole = ((at + base[owner], parts.per_ns[owner] * length_ns[at]) for at, owner in _whole_quanta(parts))
    for at, values in itertools.chain(pieces, whole):
        if len(segments.joints):
            np.add.at(total, at, values)
        else:
            # Within one thread an edge is crossed once, so no index repeats and plain += is right.
            total[at] += values
    return total


def _whole_quanta(parts: Crossing) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield quanta that lie wholly in a crossing segment, with the index of that segment; without power it has none."""
    counts = np.where(parts.per_ns > 0, parts.last - parts.first - 1, 0)
    ends = np.cumsum(counts)
    for first in range(0, int(ends[-1]) if len(ends) else 0, _LARGEST):
        number = np.arange(first, min(first + _LARGEST, int(ends[-1])))
        owner = np.searchsorted(ends, number, side="right")
        yield parts.first[owner] + 1 + number - (ends - counts)[owner], owner


@dataclass(frozen=True)
class Rate:
    """Joules per unit of modelled energy in each quantum, padded, with its running sums over time.

    Attributes
    ----------
    running : (bands, k + 2), of the quanta whose rates are of one order: beside a sum of far greater rates, as where
        counters stood still and nearly nothing is modelled, the others would lose all their digits
    """

    per_quantum: Floats
    running: NDArray[np.longdouble]

    @classmethod
    def of(cls, per_quantum: Floats, edges_ns: NDArray[np.int64]) -> Rate:
        """Prepare the running sums in extended precision."""
        length_ns = padded(np.diff(edges_ns).astype(np.float64))
        return cls(
            per_quantum, np.cumsum(_in_bands(per_quantum.astype(np.longdouble) * length_ns, per_quantum), axis=1)
        )


def _in_bands(values: NDArray[np.longdouble], rate: Floats) -> NDArray[np.longdouble]:
    """Return a row of values for each order of rates, with zeros elsewhere; one row, if all are near each other."""
    there = rate > 0
    if not there.any():
        return values[np.newaxis]
    exponent = np.frexp(rate)[1]
    band = np.where(there, (exponent - exponent[there].min()) // BAND_BITS, 0)
    if not band.any():
        return values[np.newaxis]
    return np.where(band == np.unique(band)[:, np.newaxis], values, np.longdouble(0))


@dataclass(frozen=True)
class Shares:
    """Energies of segments, and the parts at both ends of crossing segments."""

    energy_j: Floats
    at: NDArray[np.intp]
    head_j: Floats
    tail_j: Floats


def gather(segments: LocatedSegments, edges_ns: NDArray[np.int64], rate: Rate) -> Shares:
    """Return each segment's joules: its modelled energy times the rate of the quanta it overlaps."""
    energy_j = np.empty(len(segments.modelled))
    modelled = np.ascontiguousarray(segments.modelled, np.float64)
    _loops.multiply_by(np.ascontiguousarray(segments.quantum[:-1]), rate.per_quantum, modelled, energy_j)
    parts = crossing(segments, edges_ns)
    head_j = parts.head * rate.per_quantum[parts.first]
    tail_j = parts.tail * rate.per_quantum[parts.last]
    energy_j[parts.at] = head_j + tail_j
    for running in rate.running:
        whole = running[parts.last - 1] - running[parts.first]
        energy_j[parts.at] += (parts.per_ns * whole).astype(np.float64)
    return Shares(energy_j, parts.at, head_j, tail_j)


def rates(energy_j: Floats, modelled: Floats) -> Floats:
    """Return joules per modelled unit; 0 without modelled energy, since that energy is idle."""
    return np.divide(energy_j, modelled, out=np.zeros_like(energy_j), where=modelled > 0)


def attribute(
    t_ns: Sequence[NDArray[np.int64]],
    modelled: Sequence[Floats],
    edges_ns: NDArray[np.int64],
    energy_j: Floats,
) -> list[Floats]:
    """Return each segment's energy, conserved in every quantum.

    Parameters
    ----------
    t_ns : per thread (n + 1,) int64, nanoseconds, not decreasing; the last is where the last segment ends
    modelled : per thread (n,) float64, modelled energy, any unit, >= 0
    edges_ns : (k + 1,) int64, nanoseconds, strictly increasing
    energy_j : (k,) float64, joules

    Returns
    -------
    Per thread (n,) float64, joules. Quanta without modelled energy go to no thread.

    Examples
    --------
    >>> import numpy as np
    >>> attribute([np.array([0, 5, 10])], [np.array([1.0, 3.0])], np.array([0, 10]), np.array([8.0]))
    [array([2., 6.])]
    """
    threads = [LocatedSegments(t, m, locate(t, edges_ns)) for t, m in zip(t_ns, modelled, strict=True)]
    total = np.zeros(len(edges_ns) + 1)
    for segments in threads:
        total += spread(segments, edges_ns)
    rate = Rate.of(rates(padded(energy_j), total), edges_ns)
    return [gather(segments, edges_ns, rate).energy_j for segments in threads]
