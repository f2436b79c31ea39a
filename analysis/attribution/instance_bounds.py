"""Bounds of single instances: in its first and its last quantum an instance may have drawn anything.

That is between 0 and the quantum's whole dynamic energy; in the quanta between, what the model says. So of each
instance that may run on, the joules in its first quantum and in the last one so far are kept apart. The model's
error is not in these bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.engine.instance_table import InstanceTable, Records

    from .sharing import Sharing

Floats = NDArray[np.float64]
WIDTH = 7
"""Numbers that are kept of an instance in a domain: those of the struct `tprof_engine_edges`."""


def widths_of(domains: int) -> dict[str, int]:
    """Return what a table of instances keeps for the bounds in so many domains."""
    return {f"edges {number}": WIDTH for number in range(domains)}


def kept_of(instances: InstanceTable, domain: int) -> Floats:
    """Return what is kept of instances in a domain, (rows, WIDTH)."""
    return instances.sums[f"edges {domain}"]


def given(sharing: Sharing, before: int, kept: Floats) -> tuple[Any, ...]:
    """Return what `_engine.share` takes; `before` quanta come before those that are shared."""
    measured, owner = sharing.measured, sharing.owner
    number = before + np.arange(len(measured) + 2, dtype=np.int32)
    number[[0, -1]] = -1
    most_j = np.full(len(number), -1.0)
    most_j[1:-1][measured.valid] = sharing.dynamic_j[measured.valid]
    return (number, most_j, kept) if owner is None else (number[owner], most_j[owner], kept)


def bounds(
    kept: Sequence[Floats], reaches_ns: Sequence[tuple[int, int]], records: Records, *, packages: bool
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return how far below and above its joules an instance may have drawn, and whether a valid quantum covers it.

    Parameters
    ----------
    kept : (rows, WIDTH) of each domain that counts
    reaches_ns : from when to when each was measured; what runs before that, or after, has no edge there
    records : (rows,) of the instances
    packages : whether an instance may not have run on a domain's package at all

    Returns
    -------
    (rows,) each: joules, at most 0; joules; bool.
    """
    low_j, high_j = np.zeros((2, len(records)))
    covered = np.zeros(len(records), bool)
    for one, (begin_ns, end_ns) in zip(kept, reaches_ns, strict=True):
        first, last, first_j, last_j, first_most_j, last_most_j, is_covered = one.T
        early, late = records["start_ns"] < begin_ns, records["end_ns"] > end_ns
        has_first, has_last = ~early, (early | late | (last > first)) & ~late
        edge_j = first_j * has_first + last_j * has_last
        most_j = first_most_j * has_first + last_most_j * has_last
        if packages:
            # An instance without joules here may not have run on this package at all.
            most_j = np.where(edge_j > 0, most_j, 0.0)
        low_j -= edge_j
        high_j += most_j - edge_j
        covered |= is_covered > 0
    return low_j, high_j, covered
