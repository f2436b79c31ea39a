"""Shares each quantum's joules among the segments that overlap it: arrays in, energies out.

A segment's value is spread evenly over its time, so each quantum that it overlaps has the part of their common time.
Its joules are the sum of these parts times the quanta's rates: never a difference of long running sums, so that a task
of 10 us keeps all its digits in a recording of hours. The loops are in C (`tprof.analysis.engine`): O(segments + quanta
that segments overlap) for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.engine import _engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .segments import Joints

Floats = NDArray[np.float64]


def sum_by(key: NDArray[Any], weights: Floats, count: int) -> Floats:
    """Return the sums of weights with equal keys, which are less than `count`: (count,) float64."""
    return np.bincount(key, weights=weights, minlength=count).astype(np.float64, copy=False)


@dataclass(frozen=True)
class LocatedSegments:
    """The segments of one thread or of several, with modelled energy, among the edges of quanta.

    Attributes
    ----------
    t_ns : (n + 1,) int64, nanoseconds: where segments begin, and where the last ends; not decreasing in a thread
    modelled : (n,) float64, modelled energy of each segment, any unit, >= 0
    edges_ns : (k + 1,) int64, increasing
    joints : where the threads are; None: one
    """

    t_ns: NDArray[np.int64]
    modelled: Floats
    edges_ns: NDArray[np.int64]
    joints: Joints | None = None

    @property
    def course(self) -> tuple[Any, ...]:
        """What the loops take."""
        begins, ends = (None, None) if self.joints is None else (self.joints.begin, self.joints.end)
        return np.ascontiguousarray(self.t_ns), begins, ends, np.ascontiguousarray(self.edges_ns)

    def weighing(self, modelled: Floats) -> LocatedSegments:
        """Return the same segments with other modelled energy."""
        return replace(self, modelled=modelled)

    def parts(self) -> Iterator[slice]:
        """Yield where the segments of each thread are."""
        yield from (slice(0, len(self.modelled)),) if self.joints is None else self.joints.parts()

    def apart(self) -> Iterator[LocatedSegments]:
        """Yield those of each thread."""
        for at in self.parts():
            yield LocatedSegments(self.t_ns[at.start : at.stop + 1], self.modelled[at], self.edges_ns)


def locate(t_ns: NDArray[np.int64], edges_ns: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the number of edges at or before each time."""
    return np.searchsorted(edges_ns, t_ns, side="right").astype(np.int32)


def padded(values: Floats) -> Floats:
    """Return values per quantum, padded with a zero for the time before and the time after."""
    return np.concatenate(([0.0], values, [0.0]))


def spread(segments: LocatedSegments, *, row: NDArray[np.integer[Any]] | None = None, rows: int = 1) -> Floats:
    """Return the modelled energy in each quantum.

    Parameters
    ----------
    segments : of one thread or of several
    row : (n,), optional: which of `rows` sums a segment goes to

    Returns
    -------
    (rows * (k + 2),) float64, padded for the time before and after
    """
    sums = np.zeros(rows * (len(segments.edges_ns) + 1))
    numbers = None if row is None else np.ascontiguousarray(row, np.int32)
    _engine.spread(segments.course, np.ascontiguousarray(segments.modelled, np.float64), numbers, rows, sums)
    return sums


def gather(segments: LocatedSegments, rate: Floats) -> Floats:
    """Return each segment's joules: its modelled energy times the rate, padded, of the quanta that it overlaps."""
    energy_j = np.zeros(len(segments.modelled))
    _engine.gather(segments.course, np.ascontiguousarray(segments.modelled, np.float64), rate, energy_j)
    return energy_j


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
    threads = [LocatedSegments(t, m, edges_ns) for t, m in zip(t_ns, modelled, strict=True)]
    total = sum(map(spread, threads), np.zeros(len(edges_ns) + 1))
    rate = rates(padded(energy_j), total)
    return [gather(segments, rate) for segments in threads]
