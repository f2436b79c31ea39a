"""The intervals in which threads ran instances themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.segments import Segments

    from .lifecycle import Places, Rows

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Runs:
    """Intervals in which a thread ran an instance itself, by row of the instance and then by time.

    Attributes
    ----------
    row : (m,) int64, the instance's row in the table of tasks
    begin_ns, end_ns : (m,) int64, from the start of the recorded block
    before : (m,) int64, the thread's previous run, -1: none
    first : (rows + 1,) int64, index of each instance's first run
    """

    row: Rows
    begin_ns: Times
    end_ns: Times
    before: Rows
    first: Rows


def read_runs(threads: Sequence[Segments], places: Places, start_ns: int) -> Runs:
    """Collect the runs of all threads."""
    parts = [_of_thread(one, places) for one in threads]
    row, begin_ns, end_ns = (np.concatenate([np.empty(0, np.int64), *column]) for column in _columns(parts))
    before = np.arange(-1, len(row) - 1)
    offsets = np.cumsum([0, *(len(part[0]) for part in parts)])[:-1]
    before[offsets[offsets < len(row)]] = -1
    order = np.lexsort((begin_ns, row))
    place = np.empty(len(row) + 1, np.int64)
    place[order] = np.arange(len(row))
    place[-1] = -1
    first = np.searchsorted(row[order], np.arange(len(places.ids) + 1))
    return Runs(row[order], begin_ns[order] - start_ns, end_ns[order] - start_ns, place[before[order]], first)


def joined_runs(parts: Sequence[Runs], late_ns: Sequence[int], offsets: Sequence[int]) -> Runs:
    """Join the runs of several hosts.

    Parameters
    ----------
    parts : of each
    late_ns : when the recorded block of each began
    offsets : the number of rows before those of each
    """
    runs_before = np.cumsum([0, *(len(one.row) for one in parts)])
    every = list(zip(parts, late_ns, offsets, runs_before[:-1], strict=True))
    return Runs(
        np.concatenate([one.row + offset for one, _, offset, _ in every]),
        np.concatenate([one.begin_ns + late for one, late, _, _ in every]),
        np.concatenate([one.end_ns + late for one, late, _, _ in every]),
        np.concatenate([np.where(one.before < 0, -1, one.before + first) for one, _, _, first in every]),
        np.concatenate([*(one.first[:-1] + first for one, _, _, first in every), runs_before[-1:]]),
    )


def _columns(parts: list[tuple[Rows, Times, Times]]) -> list[list[NDArray[np.int64]]]:
    return [[part[column] for part in parts] for column in range(3)]


def _of_thread(segments: Segments, places: Places) -> tuple[Rows, Times, Times]:
    begins = np.flatnonzero(np.diff(segments.slot, prepend=-1))
    ends = np.append(begins[1:], len(segments.slot))
    kept = segments.slot[begins] > 0
    begins, ends = begins[kept], ends[kept]
    rows = places.rows(segments.rows.instance)[segments.slot[begins] - 1]
    return rows, segments.t_ns[begins], segments.t_ns[ends]


def count_until(first: Rows, times: Times, rows: Rows, until: Times, *, inclusive: bool) -> Rows:
    """Count the times of a row that are before (or at) another time.

    Parameters
    ----------
    first : (k + 1,) index of each row's first time
    times : (m,) not decreasing within a row
    rows, until : (q,) the queries

    Returns
    -------
    (q,) int64; O((m + q) log(m + q)).
    """
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    asked = np.concatenate((np.zeros(len(times), bool), np.ones(len(rows), bool)))
    last = asked if inclusive else ~asked
    order = np.lexsort((last, np.concatenate((times, until)), np.concatenate((owner, rows))))
    counted = np.empty(len(order), np.int64)
    counted[order] = np.cumsum(~asked[order])
    return counted[len(times) :] - first[rows]
