"""Joules of quanta to segments: conserved in each quantum, in proportion to modelled energy.

In quantum q the dynamic energy D_q is shared over the segments' modelled energies m: lambda_q = D_q / sum of m in
q, and a segment that lies in one quantum gets m * lambda_q. One that crosses quanta has constant modelled power
p = m / length: it gets exact parts at both ends and a difference of the cumulated lambda_q * length_q (kept in
extended precision) for the quanta it spans, so a short task in a long recording loses no digits.

Rejected: merging all threads' samples by time (a sort of everything, n log n), and a table of threads by quanta
(cost grows with cores). A thread's segments are disjoint, so at most one of them crosses each edge of a quantum:
the crossing ones are few and handled apart, the others are one gather and one bincount. Cost: O(samples + quanta).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Placement:
    """Where a thread's segments lie among quanta.

    Attributes
    ----------
    quantum : (n,) int32, the quantum in which each segment begins; -1 before the first, q after the last.
    inside : (n,) bool, the segment lies in one quantum.
    crossing : (c,) indices of the segments that do not.
    first, last : (c,) quanta in which these begin and end, clipped to -1 and q.
    head_ns, tail_ns : (c,) length of their parts in these two.
    length_ns : (c,) their whole length.
    """

    quantum: npt.NDArray[np.int32]
    inside: npt.NDArray[np.bool_]
    crossing: Integers
    first: Integers
    last: Integers
    head_ns: Floats
    tail_ns: Floats
    length_ns: Floats


def place(edges_ns: Integers, quanta_ns: Integers) -> Placement:
    """Place a thread's segments among quanta.

    Parameters
    ----------
    edges_ns
        (n + 1,) the segments' edges, not decreasing.
    quanta_ns
        (q + 1,) the quanta's edges, increasing.
    """
    at = _quantum_of(edges_ns, quanta_ns)
    inside = at[1:] == at[:-1]
    crossing = np.flatnonzero(~inside)
    first, last = at[crossing].astype(np.int64), at[crossing + 1].astype(np.int64)
    begin, end = edges_ns[crossing], edges_ns[crossing + 1]
    count = len(quanta_ns) - 1
    head = np.where(first >= 0, quanta_ns[np.minimum(first + 1, count)] - begin, 0)
    tail = np.where(last < count, end - quanta_ns[np.minimum(last, count)], 0)
    return Placement(
        quantum=at[:-1],
        inside=inside,
        crossing=crossing,
        first=first,
        last=last,
        head_ns=head.astype(np.float64),
        tail_ns=tail.astype(np.float64),
        length_ns=(end - begin).astype(np.float64),
    )


def _quantum_of(edges_ns: Integers, quanta_ns: Integers) -> npt.NDArray[np.int32]:
    """Return the quantum that holds each moment; -1 before the first, q from the end of the last on."""
    if len(quanta_ns) * 4 > len(edges_ns):
        return (np.searchsorted(quanta_ns, edges_ns, side="right") - 1).astype(np.int32)
    starts = np.searchsorted(edges_ns, quanta_ns, side="left")
    counts = np.diff(np.concatenate([[0], starts, [len(edges_ns)]]))
    return np.repeat(np.arange(-1, len(quanta_ns), dtype=np.int32), counts)


def sum_per_quantum(placement: Placement, amount: Floats, quanta_ns: Integers) -> Floats:
    """Return how much of the segments' amounts, spread evenly over each, falls in every quantum.

    Parameters
    ----------
    placement
        From `place`.
    amount
        (n,) per segment: modelled energy, running time.
    quanta_ns
        (q + 1,) the quanta's edges.

    Returns
    -------
    (q,) float64.
    """
    count = len(quanta_ns) - 1
    whole = amount.copy()
    whole[placement.crossing] = 0.0
    sums = np.bincount(placement.quantum + 1, weights=whole, minlength=count + 2)[1 : count + 1]
    rate = _rate(amount[placement.crossing], placement)
    first, last = placement.first, placement.last
    _add(sums, first, rate * placement.head_ns, first >= 0)
    _add(sums, last, rate * placement.tail_ns, last < count)
    spans = last - first > 1
    change = np.zeros(count + 1)
    np.add.at(change, first[spans] + 1, rate[spans])
    np.subtract.at(change, last[spans], rate[spans])
    if spans.any():
        steady = np.cumsum(change)[:count]
        # What one segment adds another takes away; rounding must not leave a trace where nobody runs.
        steady[np.cumsum(_spanned(first[spans], last[spans], count))[:count] == 0] = 0.0
        sums = sums + np.maximum(steady, 0.0) * np.diff(quanta_ns)
    return sums


def _spanned(first: Integers, last: Integers, count: int) -> Integers:
    return np.bincount(first + 1, minlength=count + 1) - np.bincount(last, minlength=count + 1)


def _rate(amount: Floats, placement: Placement) -> Floats:
    return np.divide(amount, placement.length_ns, out=np.zeros(len(amount)), where=placement.length_ns > 0)


def _add(sums: Floats, quantum: Integers, amount: Floats, where: npt.NDArray[np.bool_]) -> None:
    np.add.at(sums, quantum[where], amount[where])


@dataclass(frozen=True)
class Shares:
    """What each segment of a thread gets of a density over quanta.

    Attributes
    ----------
    total : (n,) float64.
    head, tail : (c,) float64, of the crossing segments, what fell in their first and last quantum.
    """

    total: Floats
    head: Floats
    tail: Floats


@dataclass(frozen=True)
class Density:
    """Joules per unit of amount in each quantum, ready to be looked up.

    Attributes
    ----------
    per_quantum : (q + 2,) float64; nothing lies outside, so the first and the last are 0.
    cumulated : (q + 1,) longdouble, integral of the density over time up to each edge, in density times ns.
    """

    per_quantum: Floats
    cumulated: npt.NDArray[np.longdouble]

    @classmethod
    def of(cls, density: Floats, quanta_ns: Integers) -> Density:
        """Make it of (q,) joules per unit and the (q + 1,) edges."""
        steps = density.astype(np.longdouble) * np.diff(quanta_ns)
        cumulated = np.concatenate([np.zeros(1, np.longdouble), np.cumsum(steps)])
        return cls(np.concatenate([[0.0], density, [0.0]]), cumulated)


def share(placement: Placement, amount: Floats, density: Density) -> Shares:
    """Return each segment's part of the energy.

    Parameters
    ----------
    placement
        From `place`.
    amount
        (n,) modelled energy, as it was summed.
    density
        Energy per unit of it.
    """
    total = density.per_quantum[placement.quantum + 1]
    total *= amount
    rate = _rate(amount[placement.crossing], placement)
    count = len(density.cumulated) - 1
    head = rate * placement.head_ns * density.per_quantum[np.minimum(placement.first + 1, count + 1)]
    tail = rate * placement.tail_ns * density.per_quantum[placement.last + 1]
    left = np.clip(placement.first + 1, 0, count)
    right = np.clip(placement.last, 0, count)
    spanned = density.cumulated[np.maximum(right, left)] - density.cumulated[left]
    total[placement.crossing] = head + tail + rate * spanned.astype(np.float64)
    return Shares(total, head, tail)
