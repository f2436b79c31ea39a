"""Cuts a thread's segments where its stack was sampled, so that joules can be shared between two samples.

The sampled CPU clocks say how a segment's CPU time is spread over it: a thread that waits in one function and computes
in another is credited in the latter. All sums of a segment stay as they are. O(n log n) for n segments and samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .segment_energy import sum_by

if TYPE_CHECKING:
    from .segments import Segments

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Cuts:
    """A thread's segments in pieces.

    Attributes
    ----------
    segments : the pieces, as segments
    owner : (m,) int64, of which segment each piece is
    sample : (n,) int64, the samples that lie in the thread's segments, in order of time
    before : (n,) int64, the piece that ends with each of them
    gap_s : (n,) seconds from the sample before, or from the thread's first segment
    """

    segments: Segments
    owner: Integers
    sample: Integers
    before: Integers
    gap_s: Floats


def cut_at(one: Segments, t_ns: Integers, cpu_ns: Integers) -> Cuts:
    """Cut a thread's segments.

    Parameters
    ----------
    one : a thread
    t_ns, cpu_ns : (k,) when it was sampled, in any order, and its CPU clock then; 0: not known
    """
    order = np.argsort(t_ns, kind="stable")
    inside = (t_ns[order] > one.t_ns[0]) & (t_ns[order] < one.t_ns[-1])
    sample = order[inside]
    when_ns = t_ns[sample]
    count = len(one.slot)
    every_ns = np.concatenate((one.t_ns, when_ns))
    place = np.argsort(every_ns, kind="stable")
    edges_ns, is_edge = every_ns[place], place <= count
    owner = (np.cumsum(is_edge) - 1)[:-1]
    at = np.empty(len(place), np.int64)
    at[place] = np.arange(len(place))
    before = at[count + 1 :] - 1
    part = _parts(one, edges_ns, owner, at[: count + 1], before + 1, cpu_ns[sample])
    pieces = replace(
        one, t_ns=edges_ns, slot=one.slot[owner], cpu_s=one.cpu_s[owner] * part, modelled=one.modelled[owner] * part,
        cpu=one.cpu[owner], package=None if one.package is None else one.package[owner],
        package_end=None if one.package_end is None else one.package_end[owner],
    )  # fmt: skip
    gap_s = np.diff(when_ns, prepend=one.t_ns[:1]) * 1e-9
    return Cuts(pieces, owner, sample, before, gap_s)


def _parts(
    one: Segments, edges_ns: Integers, owner: Integers, of_segments: Integers, of_samples: Integers, cpu_ns: Integers
) -> Floats:
    """Return each piece's part of its segment's CPU time, or of its time where that is not known or there is none."""
    length = np.diff(edges_ns).astype(np.float64)
    used_s = np.concatenate(([one.earlier_s], one.earlier_s + np.cumsum(one.cpu_s)))
    clock_s = np.full(len(edges_ns), np.nan)
    clock_s[of_segments] = used_s
    clock_s[of_samples] = np.where(cpu_ns > 0, cpu_ns * 1e-9, np.nan)
    known = np.flatnonzero(np.isfinite(clock_s))
    clock_s = np.interp(edges_ns, edges_ns[known], clock_s[known])
    clock_s[of_segments] = used_s
    used = np.where(length > 0, np.maximum(np.diff(clock_s), 0.0), 0.0)
    of_time, of_cpu = (_shares(owner, weight, len(one.slot)) for weight in (length, used))
    return np.where(np.isfinite(of_cpu), of_cpu, np.nan_to_num(of_time, nan=1.0))


def _shares(owner: Integers, weight: Floats, count: int) -> Floats:
    """Return the part of its owner's sum that each weight is; NaN where that is 0."""
    total = sum_by(owner, weight, count)[owner]
    shares = np.full(len(weight), np.nan)
    np.divide(weight, total, out=shares, where=total > 0)
    return shares
