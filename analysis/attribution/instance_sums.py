"""Adds up rows of sums over instances, such as a recording keeps instead of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.sums import TASK_SUMS

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Table = NDArray[np.void]
KEY = ["span", "process", "task", "thread"]
ADDED = (
    "begun", "ended", "resolved", "cpu_s", "own_s", "energy_j", "dynamic_j", "ended_s", "resolved_j", "resolved_s",
    "half_j2",
)  # fmt: skip


def joined(tables: Sequence[Table], key: Sequence[str] = KEY) -> Table:
    """Return one row for each distinct key of tables of `TASK_SUMS`; squares are joined by Chan's rule.

    Parameters
    ----------
    tables : of dtype `TASK_SUMS`
    key : columns by which rows are joined; those of `KEY` that are left out become 0
    """
    rows = np.concatenate(tables) if tables else np.empty(0, TASK_SUMS)
    if not len(rows):
        return rows
    keys = np.column_stack([rows[name].astype(np.int64) for name in key])
    distinct, place = np.unique(keys, axis=0, return_inverse=True)
    place, count = place.ravel(), len(distinct)
    found = np.zeros(count, TASK_SUMS)
    for column, name in enumerate(key):
        found[name] = distinct[:, column]
    for name in ADDED:
        found[name] = np.bincount(place, weights=rows[name], minlength=count)
    off_j, off_s = (_off_centre(rows, found, place, name) for name in ("resolved_j", "resolved_s"))
    for name, off in (("energy_m2", off_j**2), ("duration_m2", off_s**2), ("both_m2", off_j * off_s)):
        found[name] = np.bincount(place, weights=rows[name] + rows["resolved"] * off, minlength=count)
    return found


def _off_centre(rows: Table, groups: Table, place: NDArray[np.intp], name: str) -> Floats:
    """Return how far the mean of each row is from the mean of its group."""
    count, of_group = np.maximum(rows["resolved"], 1), np.maximum(groups["resolved"], 1)
    return np.asarray(rows[name] / count - (groups[name] / of_group)[place])
