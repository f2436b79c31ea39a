"""Bounds of single instances: in its first and its last quantum an instance may have drawn anything.

That is between 0 and the quantum's whole dynamic energy; in the quanta between, what the model says. So of each
instance that may run on, the joules in its first quantum and in the last one so far are kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.engine import _engine

from .segment_energy import sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.engine.instance_table import InstanceTable

    from .accounts import Totals
    from .natives.segments import NativeSegments
    from .quanta import Quanta
    from .segment_energy import Shares

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
WIDTH = 5
"""Numbers that are kept of an instance in a domain: those of its first and its last quantum, padded, plus 1, and 0 as
long as they are not known; the joules in these; and all of them."""


@dataclass
class EdgeJoules:
    """The joules of instances in their first and last quanta in a block, of one domain.

    Attributes
    ----------
    first, last : (rows,) padded numbers of these quanta in the block, -1: not there
    first_j, last_j : (rows + 1,) after those of no instance
    """

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    first_j: Floats
    last_j: Floats

    @classmethod
    def begin(cls, instances: InstanceTable, domain: int, near: Quanta, before: int) -> EdgeJoules:
        """Find the quanta, and note them in what is kept of a domain; `before` quanta come before the block's."""
        first, last = np.empty((2, instances.count), np.int32)
        kept, edges_ns = instances.sums["edges"], np.ascontiguousarray(near.edges_ns)
        plain = instances.records.view(np.uint8)
        _engine.find_ends(plain, edges_ns, before, kept, WIDTH * domain, kept.shape[1], first, last)
        sums = np.zeros((2, instances.count + 1))
        return cls(first, last, *sums)

    def given(self, owner: NDArray[np.int32] | None) -> tuple[Any, ...]:
        """What the loops take; `owner` is that of `Sharing`."""
        first, last = (np.concatenate((np.array([-1], np.int32), one)) for one in (self.first, self.last))
        return owner, first, last, self.first_j, self.last_j

    def add_native(self, native: NativeSegments, quantum: NDArray[np.int32], shares: Shares) -> None:
        """Add a pool's segments."""
        row = native.run_row
        for target, number in ((self.first_j, self.first), (self.last_j, self.last)):
            target[1:] += sum_by(row, native.in_quantum(quantum, shares, number[row]), len(number))

    def end(self, kept: Floats, dynamic_j: Floats) -> None:
        """Add what was found to what is kept; `dynamic_j` are all joules of the instances in the block."""
        kept[:, 2] += self.first_j[1:]
        kept[:, 3] += self.last_j[1:]
        kept[:, 4] += dynamic_j


class InstanceBounds:
    """The bounds of instances in the domains that count."""

    def __init__(self, domains: Sequence[Quanta]) -> None:
        """Begin without joules."""
        self._domains = domains
        self._dynamic_j = [np.zeros(len(one) + 2) for one in domains]
        # How many quanta are valid up to each, padded.
        self._valid = [np.cumsum(np.concatenate(([0], one.valid, [0]))) for one in domains]

    def note_dynamic(self, domain: int, which: slice, dynamic_j: Floats) -> None:
        """Note the joules above the static ones of a block's quanta."""
        self._dynamic_j[domain][which.start + 1 : which.stop + 1] = dynamic_j

    def settle(self, kept: Floats, start_ns: Numbers, end_ns: Numbers, totals: Totals, *, packages: bool) -> None:
        """Set the bounds of instances that have ended, and which of them a valid quantum covers.

        Parameters
        ----------
        kept : (rows, domains * WIDTH)
        start_ns, end_ns : (rows,) of the instances
        totals : whose bounds are set to what they differ from the joules
        packages : whether an instance may not have run on a domain's package at all
        """
        for number, domain in enumerate(self._domains):
            if not len(domain):
                continue
            first, last, first_j, last_j, all_j = kept[:, number * WIDTH : (number + 1) * WIDTH].T
            first = _known(first, domain, start_ns)
            last = np.maximum(first, _known(last, domain, end_ns - 1))
            spans = last != first
            edge_j = np.where(spans, first_j + last_j, all_j)
            dynamic_j, valid = self._dynamic_j[number], self._valid[number]
            # An instance without joules here may not have run on this package at all.
            here = edge_j > 0 if packages else np.ones(len(edge_j), bool)
            totals.low_j -= edge_j
            totals.high_j -= edge_j
            totals.high_j += np.where(here, dynamic_j[first], 0.0)
            totals.high_j += np.where(here & spans, dynamic_j[last], 0.0)
            totals.covered |= valid[last] > valid[np.maximum(first - 1, 0)]


def _known(kept: Floats, domain: Quanta, t_ns: Numbers) -> Numbers:
    """Return padded numbers of quanta; those of times behind the blocks in which instances ran are found now."""
    number = kept.astype(np.int64) - 1
    unknown = np.flatnonzero(number < 0)
    number[unknown] = np.searchsorted(domain.edges_ns, t_ns[unknown], side="right")
    return number
