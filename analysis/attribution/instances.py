"""Assigns samples to instances, without sorting if ids are dense.

The recorder numbers the instances of a thread one after the other, so an id minus the smallest is
a row. `np.unique` numbers the ids of other writers. Rows of several threads are joined by id only if
the threads' ranges of ids overlap (an instance that moved).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.trace import Flag, Kind

from .segment_energy import sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
# With more empty rows per sample in a table of ids, sorting is faster.
_SPARSE = 4
_SMALL = 1024


@dataclass
class InstanceRows:
    """One row for each instance that a thread (or, joined, the trace) ran; times in ns, rows of equal length.

    `own_s` is the time in which its thread ran it: without nested tasks and suspension.
    """

    instance: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    task: NDArray[np.uint32]
    cpu: NDArray[np.uint16]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    failed: NDArray[np.bool_]
    own_s: Floats
    cpu_s: Floats
    counts: dict[str, Floats]
    package: NDArray[np.int16] | None = None
    thread: NDArray[np.int32] | None = None
    first: NDArray[np.intp] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.instance)

    def view(self, place: slice) -> InstanceRows:
        """Return some of the rows without a copy."""
        arrays = {
            name: value[place] if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
            if name != "counts"
        }
        return InstanceRows(**arrays, counts={name: value[place] for name, value in self.counts.items()})


def number_instances(
    fields: dict[str, NDArray[Any]],
    t_ns: NDArray[np.int64],
    wall_s: Floats,
    cpu_s: Floats,
    increments: dict[str, Floats],
) -> tuple[NDArray[np.int32], InstanceRows]:
    """Assign each segment a slot (0: no task, else 1 + row) and collect the rows of one thread."""
    ids = fields["instance"].astype(np.uint64, copy=False)
    slot, count = _slots(ids)
    order = np.arange(len(ids))
    first = np.full(count, -1, np.intp)
    last = np.empty(count, np.intp)
    # If an index repeats, the last assignment wins.
    first[slot[::-1]] = order[::-1]
    last[slot] = order
    failed = _failed(fields["kind"], fields["flags"], slot, count)
    sums = {name: sum_by(slot, values, count) for name, values in increments.items()}
    own_sum, cpu_sum = sum_by(slot, wall_s, count), sum_by(slot, cpu_s, count)
    used = first >= 0
    used[0] = False
    if not used[1:].all():
        number = np.cumsum(used, dtype=np.int32)
        number[~used] = 0
        slot = number[slot]
    else:
        used = slice(1, None)  # type: ignore[assignment]
    first, last = first[used], last[used]
    started = (fields["kind"][first] == Kind.START) & (first > 0)
    parent = np.where(started, ids[first - 1], np.uint64(0)) if len(first) else ids[:0]
    rows = InstanceRows(
        ids[first], parent, fields["task"][first], fields["cpu"][first], t_ns[first], t_ns[last + 1],
        failed[used], own_sum[used], cpu_sum[used], {name: total[used] for name, total in sums.items()}, first=first,
    )  # fmt: skip
    return slot, rows


def _slots(ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], int]:
    top = int(ids.max())
    if top == 0:
        return np.zeros(len(ids), np.int32), 1
    # Ids are at least 1, so the unsigned ids - 1 moves 0 (no task) to the far end and the least id to the front.
    low = int((ids - np.uint64(1)).min()) + 1
    if top < 1 << 62 and top - low <= _SPARSE * len(ids) + _SMALL:
        slot = (ids - np.uint64(low - 1)).view(np.int64)
        # 0 (no task) has become a negative number.
        return np.maximum(slot, 0).astype(np.int32), top - low + 2
    distinct, inverse = np.unique(ids, return_inverse=True)
    nobody = int(distinct[0] == 0)
    return (inverse + (1 - nobody)).astype(np.int32), len(distinct) + 1 - nobody


def _failed(kind: NDArray[Any], flags: NDArray[Any], slot: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """Mark instances that raised: the finish sample names the next instance, so mark the one before."""
    failed = np.zeros(count, bool)
    at = np.flatnonzero((flags & Flag.FAILED) != 0)
    at = at[(at > 0) & (kind[at] == Kind.FINISH)]
    failed[slot[at - 1]] = True
    return failed


@dataclass(frozen=True)
class Joined:
    """The rows of all threads, and for each thread the places of its rows."""

    rows: InstanceRows
    places: tuple[slice | NDArray[np.intp], ...]

    @property
    def parts(self) -> int:
        """Return how many rows the threads have together."""
        return sum(place.stop - place.start if isinstance(place, slice) else len(place) for place in self.places)

    def to_rows(self, values: Floats) -> Floats:
        """Return values of the threads' rows, one after the other, as sums of the joined rows."""
        moved = [place for place in self.places if not isinstance(place, slice)]
        return sum_by(np.concatenate(moved), values, len(self.rows)) if moved else values


def join_rows(parts: Sequence[InstanceRows]) -> Joined:
    """Join the rows of all threads; an instance that ran on several threads becomes one row."""
    offsets = np.cumsum([0, *map(len, parts)])
    rows = _concatenated(parts)
    places = tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(offsets))
    if _apart(parts):
        return Joined(rows, places)
    _, inverse = np.unique(rows.instance, return_inverse=True)
    count = int(inverse.max()) + 1
    if count == len(rows):
        return Joined(rows, places)
    return Joined(_merged(rows, inverse, count), tuple(inverse[place] for place in places))


def _apart(parts: Sequence[InstanceRows]) -> bool:
    ranges = sorted((int(part.instance.min()), int(part.instance.max())) for part in parts if len(part))
    return all(a[1] < b[0] for a, b in itertools.pairwise(ranges))


def _concatenated(parts: Sequence[InstanceRows]) -> InstanceRows:
    def joined(name: str, kind: type) -> NDArray[Any]:
        return np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)])

    names = list(dict.fromkeys(name for part in parts for name in part.counts))
    counts = {
        name: np.concatenate(
            [np.empty(0), *(part.counts.get(name, np.broadcast_to(np.nan, len(part))) for part in parts)]
        )
        for name in names
    }
    packages = any(part.package is not None for part in parts)
    return InstanceRows(
        joined("instance", np.uint64), joined("parent", np.uint64), joined("task", np.uint32),
        joined("cpu", np.uint16), joined("start_ns", np.int64), joined("end_ns", np.int64),
        joined("failed", bool), joined("own_s", float), joined("cpu_s", float), counts,
        package=joined("package", np.int16) if packages else None,
        thread=np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts]),
    )  # fmt: skip


def _merged(rows: InstanceRows, inverse: NDArray[np.intp], count: int) -> InstanceRows:
    """One row per id, with the thread, processor and parent of its first start."""
    order = np.argsort(rows.start_ns, kind="stable")
    first = np.empty(count, np.intp)
    first[inverse[order[::-1]]] = order[::-1]
    end_ns = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(end_ns, inverse, rows.end_ns)
    failed = np.zeros(count, bool)
    failed[inverse[rows.failed]] = True
    # A counter that one of the threads lacked is unknown for the whole instance: NaN stays NaN.
    counts = {name: sum_by(inverse, values, count) for name, values in rows.counts.items()}
    return InstanceRows(
        rows.instance[first], rows.parent[first], rows.task[first], rows.cpu[first], rows.start_ns[first],
        end_ns, failed, sum_by(inverse, rows.own_s, count), sum_by(inverse, rows.cpu_s, count), counts,
        package=None if rows.package is None else rows.package[first],
        thread=None if rows.thread is None else rows.thread[first],
    )  # fmt: skip
