"""Adds up rows of sums, such as a recording keeps instead of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.sums import DOMAIN_SUMS, TASK_SUMS

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Table = NDArray[np.void]
KEY = ("span", "process", "task", "thread")
DOMAIN_KEY = ("span", "domain")


def joined(tables: Sequence[Table], key: Sequence[str] = KEY) -> Table:
    """Return one row for each distinct key of tables of `TASK_SUMS`; squares are joined by Chan's rule.

    Parameters
    ----------
    tables : of dtype `TASK_SUMS`
    key : columns by which rows are joined; those of `KEY` that are left out become 0
    """
    rows = np.concatenate([np.empty(0, TASK_SUMS), *tables])
    found, place = _added(rows, key, KEY)
    off_j, off_s = (_off_centre(rows, found, place, name) for name in ("resolved_j", "resolved_s"))
    for name, off in (("energy_m2", off_j**2), ("duration_m2", off_s**2), ("both_m2", off_j * off_s)):
        found[name] = np.bincount(place, weights=rows[name] + rows["resolved"] * off, minlength=len(found))
    return found


def joined_domains(tables: Sequence[Table], key: Sequence[str] = DOMAIN_KEY) -> Table:
    """Return one row for each distinct key of tables of `DOMAIN_SUMS`; what is left out of the key becomes 0."""
    return _added(np.concatenate([np.empty(0, DOMAIN_SUMS), *tables]), key, DOMAIN_KEY)[0]


def _added(rows: Table, key: Sequence[str], keys: Sequence[str]) -> tuple[Table, NDArray[np.intp]]:
    """Return one row for each distinct key, with the sums of all columns but `keys`, and the place of each row."""
    columns = np.column_stack([rows[name].astype(np.int64) for name in key])
    distinct, place = np.unique(columns, axis=0, return_inverse=True)
    found, place = np.zeros(len(distinct), rows.dtype), place.ravel()
    for column, name in enumerate(key):
        found[name] = distinct[:, column]
    for name in set(rows.dtype.names or ()).difference(keys):
        found[name] = np.bincount(place, weights=rows[name], minlength=len(distinct))
    return found, place


def _off_centre(rows: Table, groups: Table, place: NDArray[np.intp], name: str) -> Floats:
    """Return how far the mean of each row is from the mean of its group."""
    count, of_group = np.maximum(rows["resolved"], 1), np.maximum(groups["resolved"], 1)
    return np.asarray(rows[name] / count - (groups[name] / of_group)[place])
