"""Cuts a thread's segments where its stack was sampled, so that joules can be shared between two samples.

The sampled CPU clocks say how a segment's CPU time is spread over it: a thread that waits in one function and computes
in another is credited in the latter. All sums of a segment stay as they are. O(n) for n segments and samples in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .segments import Segments
    from .stack_samples import ThreadStacks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Cuts:
    """A thread's segments in pieces.

    Attributes
    ----------
    segments : the pieces, as segments
    owner : (m,) int64, of which segment each piece is
    sample : the samples that lie in the thread's segments
    before : (n,) int64, the piece that ends with each of them
    """

    segments: Segments
    owner: Integers
    sample: slice
    before: Integers


def cut_at(one: Segments, stacks: ThreadStacks) -> Cuts:
    """Cut a thread's segments where it was sampled."""
    sample = slice(*np.searchsorted(stacks.t_ns, one.t_ns[[0, -1]]).tolist())
    when_ns = stacks.t_ns[sample]
    count = len(one.slot)
    # After all edges of the same time: a segment of no length has no sample.
    of_samples = np.searchsorted(one.t_ns, when_ns, side="right") + np.arange(len(when_ns))
    edges_ns = np.empty(count + 1 + len(when_ns), np.int64)
    is_edge = np.ones(len(edges_ns), bool)
    is_edge[of_samples] = False
    edges_ns[of_samples], edges_ns[is_edge] = when_ns, one.t_ns
    owner = (np.cumsum(is_edge) - 1)[:-1]
    clock_ns = None if stacks.clock_ns is None else stacks.clock_ns[sample]
    part = _parts(one, edges_ns, owner, of_samples, clock_ns)
    pieces = replace(
        one, t_ns=edges_ns, slot=one.slot[owner], cpu_s=one.cpu_s[owner] * part, modelled=one.modelled[owner] * part,
        cpu=one.cpu[owner], package=None if one.package is None else one.package[owner],
        package_end=None if one.package_end is None else one.package_end[owner],
    )  # fmt: skip
    return Cuts(pieces, owner, sample, of_samples - 1)


def _parts(
    one: Segments, edges_ns: Integers, owner: Integers, of_samples: Integers, clock_ns: Integers | None
) -> Floats:
    """Return each piece's part of its segment's CPU time, or of its time where that is not known or there is none.

    A sampled clock lies between those of its segment's ends, so a piece depends on no sample but those at its ends.
    """
    length_ns, whole_ns = np.diff(edges_ns), np.diff(one.t_ns)[owner]
    of_time = np.divide(length_ns, whole_ns, out=np.ones(len(owner)), where=whole_ns > 0)
    if clock_ns is None or not len(of_samples):
        return of_time
    # Clocks are whole nanoseconds, which sums of seconds in extended precision give exactly, wherever they begin.
    sums_s = np.cumsum(np.append(0.0, one.cpu_s).astype(np.longdouble)) + one.earlier_s
    used_ns = np.rint(sums_s * 1e9).astype(np.int64)
    own = owner[of_samples]
    sampled_ns = np.clip(clock_ns, used_ns[own], used_ns[own + 1])
    at_begin = edges_ns[of_samples] == one.t_ns[own]
    at_ns = np.empty(len(edges_ns), np.int64)
    is_edge = np.ones(len(edges_ns), bool)
    is_edge[of_samples] = False
    at_ns[is_edge], at_ns[of_samples] = used_ns, np.where(at_begin, used_ns[own], sampled_ns)
    all_ns = np.diff(used_ns)[owner]
    np.divide(np.diff(at_ns), all_ns, out=of_time, where=all_ns > 0)
    return of_time
