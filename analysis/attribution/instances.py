"""Assigns samples to instances, without sorting if ids are dense.

The recorder numbers the instances of a thread one after the other, so an id minus the smallest is
a row. `np.unique` numbers the ids of other writers. Rows of several threads are joined by id only if
the threads' ranges of ids overlap (an instance that moved).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _loops
from .segment_energy import sum_by, sums_by
from .short_threads import Joints, join_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
# With more empty rows per sample in a table of ids, sorting is faster.
_SPARSE = 4
_SMALL = 1024
_MOST = 2**31 - 1
_FILLED = {
    "instance": np.uint64, "parent": np.uint64, "task": np.uint32, "cpu": np.uint16, "start_ns": np.int64,
    "end_ns": np.int64, "last_ns": np.int64, "begun": np.bool_, "failed": np.bool_, "ended": np.bool_,
}  # fmt: skip


@dataclass
class InstanceRows:
    """One row for each instance that a thread (or, joined, the trace) ran; times in ns, rows of equal length.

    `own_s` is the time in which its thread ran it: without nested tasks and suspension. `begun`, `ended`: whether a
    sample says so; `last_ns`: where its last segment begins.
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
    begun: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    last_ns: NDArray[np.int64]
    package: NDArray[np.int16] | None = None
    thread: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.instance)

    @property
    def numbers(self) -> NDArray[np.int32]:
        """The number of each row's thread: 0, where all are of one."""
        return np.zeros(len(self), np.int32) if self.thread is None else self.thread

    def view(self, place: slice | NDArray[Any]) -> InstanceRows:
        """Return some of the rows; of a slice without a copy."""
        arrays = {
            name: value[place] if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
            if name != "counts"
        }
        return InstanceRows(**arrays, counts={name: value[place] for name, value in self.counts.items()})


def number_instances(
    fields: dict[str, NDArray[Any]],
    t_ns: NDArray[np.int64],
    values: dict[str, Floats],
    package: NDArray[np.int16] | None,
    outside: Sequence[slice],
    joints: Joints,
    threads: Sequence[int],
) -> tuple[NDArray[np.int32], InstanceRows, NDArray[np.intp]]:
    """Return the segments' slots (0: no task, else 1 + row), the rows, and where those of each thread begin and end.

    Parameters
    ----------
    fields : of the samples
    t_ns : where segments begin, and the ends
    values : own_s, cpu_s and counts of each segment, which are summed
    package : of the samples; None with one package
    outside : segments that are not summed
    joints : where threads begin and end
    threads : the number of each, as of `InstanceRows`
    """
    ids = fields["instance"].astype(np.uint64, copy=False)
    slot, count = _slots(ids, joints)
    samples = (ids, *(fields[name] for name in ("task", "cpu", "kind", "flags")))
    # Rows of slots without samples are dropped, whatever they have.
    filled: dict[str, NDArray[Any]] = {
        name: np.zeros(count, kind) if kind is np.bool_ else np.empty(count, kind) for name, kind in _FILLED.items()
    }
    first = np.full(count, -1, np.int64)
    _loops.fill_instances(slot, samples, t_ns, (first, *filled.values()))
    summed = slot.copy() if outside else slot
    for part in outside:
        summed[part] = 0
    sums = dict(zip(values, sums_by(summed, list(values.values()), count), strict=True))
    is_used = first >= 0
    is_used[0] = False
    used: NDArray[np.bool_] | slice = slice(1, None)
    if not is_used[1:].all():
        used, number = is_used, np.cumsum(is_used, dtype=np.int32)
        number[~is_used] = 0
        slot = number[slot]
    first = first[used]
    bounds = np.searchsorted(first, np.append(joints.begin, len(slot)))
    rows = InstanceRows(
        **{name: column[used] for name, column in filled.items()},
        own_s=sums.pop("own_s")[used],
        cpu_s=sums.pop("cpu_s")[used],
        counts={name: total[used] for name, total in sums.items()},
        package=None if package is None else package[first],
        thread=np.repeat(np.array(threads, np.int32), np.diff(bounds)),
    )
    return slot, rows, bounds


def _slots(ids: NDArray[np.uint64], joints: Joints) -> tuple[NDArray[np.int32], int]:
    """Number the instances thread by thread, and count the numbers with 0; one that moved has a number in each."""
    slot = np.empty(len(ids), np.int32)
    most = min(_SPARSE * len(ids) + _SMALL, _MOST)
    numbers = _loops.number(ids, joints.begin, joints.end, most, slot)
    if numbers is not None:
        return slot, numbers + 1
    if len(joints.end) == 1:
        return _sparse_slots(ids)
    slot[:], count = 0, 1
    for part in joints.parts():
        of_thread, more = _slots(ids[part], Joints.of([part.stop - part.start]))
        slot[part] = np.where(of_thread > 0, of_thread + (count - 1), 0)
        count += more - 1
    return slot, count


def _sparse_slots(ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], int]:
    """Number the instances of a thread of which some are far from the others."""
    top = int(ids.max())
    if top < 1 << 62:
        return _old_and_dense(ids, top)
    distinct, inverse = np.unique(ids, return_inverse=True)
    nobody = int(distinct[0] == 0)
    return (inverse + (1 - nobody)).astype(np.int32), len(distinct) + 1 - nobody


def _old_and_dense(ids: NDArray[np.uint64], top: int) -> tuple[NDArray[np.int32], int]:
    """Number the ids near the largest one without sorting, and the smaller ones, which ran for long, before them."""
    least = np.uint64(max(top - _SPARSE * len(ids) - _SMALL, 1))
    is_old = (ids < least) & (ids != 0)
    old = ids[is_old]
    # An old one mostly returns again and again between its children.
    heads = old[np.concatenate(([True], old[1:] != old[:-1]))] if len(old) else old
    distinct = np.unique(heads)
    recent = ids[ids >= least]
    low = int(recent.min())
    slot = (ids - np.uint64(low)).view(np.int64) + (1 + len(distinct))
    slot[ids == 0] = 0
    slot[is_old] = np.searchsorted(distinct, old) + 1
    return slot.astype(np.int32), top - low + 2 + len(distinct)


@dataclass(frozen=True)
class Joined:
    """The rows of all threads, and the places of the rows of each part that was joined."""

    rows: InstanceRows
    places: tuple[slice | NDArray[np.intp], ...]

    @property
    def parts(self) -> int:
        """Return how many rows the parts have together."""
        return sum(place.stop - place.start if isinstance(place, slice) else len(place) for place in self.places)

    @property
    def place(self) -> NDArray[np.intp]:
        """Return the place of each of the parts' rows, one after the other."""
        numbers = [np.arange(one.start, one.stop) if isinstance(one, slice) else one for one in self.places]
        return np.concatenate([np.empty(0, np.intp), *numbers])

    def to_rows(self, values: Floats) -> Floats:
        """Return values of the parts' rows, one after the other, as sums of the joined rows."""
        moved = [place for place in self.places if not isinstance(place, slice)]
        return sum_by(np.concatenate(moved), values, len(self.rows)) if moved else values


def join_rows(parts: Sequence[InstanceRows]) -> Joined:
    """Join the rows of parts, each of one or more threads; an instance that ran on several becomes one row."""
    offsets = np.cumsum([0, *map(len, parts)])
    rows = concatenated(parts)
    places = tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(offsets))
    if _apart(rows, offsets):
        return Joined(rows, places)
    _, inverse = np.unique(rows.instance, return_inverse=True)
    count = int(inverse.max()) + 1
    if count == len(rows):
        return Joined(rows, places)
    return Joined(merged(rows, inverse, count), tuple(inverse[place] for place in places))


def _apart(rows: InstanceRows, offsets: NDArray[np.intp]) -> bool:
    """Return whether no id of a thread in a part lies between those of others; parts begin at `offsets`."""
    if not len(rows):
        return True
    numbers = rows.numbers
    is_first = np.concatenate(([True], numbers[1:] != numbers[:-1]))
    is_first[offsets[offsets < len(rows)]] = True
    begins = np.flatnonzero(is_first)
    least, most = (extreme.reduceat(rows.instance, begins) for extreme in (np.minimum, np.maximum))
    order = np.argsort(least)
    return bool((most[order][:-1] < least[order][1:]).all())


def concatenated(parts: Sequence[InstanceRows]) -> InstanceRows:
    """Return the rows of all parts, one after the other; each part is a thread's unless it says which."""
    if len(parts) == 1:
        return replace(parts[0], thread=_threads(parts[0], 0))

    def joined(name: str, kind: type) -> NDArray[Any]:
        return join_arrays([np.empty(0, kind), *(getattr(part, name) for part in parts)])

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
        joined("begun", bool), joined("ended", bool), joined("last_ns", np.int64),
        package=joined("package", np.int16) if packages else None,
        thread=join_arrays([np.empty(0, np.int32), *(_threads(part, number) for number, part in enumerate(parts))]),
    )  # fmt: skip


def _threads(part: InstanceRows, number: int) -> NDArray[np.int32]:
    return np.full(len(part), number, np.int32) if part.thread is None else part.thread


def merged(rows: InstanceRows, inverse: NDArray[np.intp], count: int) -> InstanceRows:
    """One row per id, with the thread, processor and parent of its first start."""
    order = np.argsort(rows.start_ns, kind="stable")
    first = np.empty(count, np.intp)
    first[inverse[order[::-1]]] = order[::-1]
    end_ns = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(end_ns, inverse, rows.end_ns)
    failed, ended = np.zeros(count, bool), np.zeros(count, bool)
    failed[inverse[rows.failed]] = True
    ended[inverse[rows.ended]] = True
    last_ns = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last_ns, inverse, rows.last_ns)
    # A counter that one of the threads lacked is unknown for the whole instance: NaN stays NaN.
    counts = {name: sum_by(inverse, values, count) for name, values in rows.counts.items()}
    return InstanceRows(
        rows.instance[first], rows.parent[first], rows.task[first], rows.cpu[first], rows.start_ns[first],
        end_ns, failed, sum_by(inverse, rows.own_s, count), sum_by(inverse, rows.cpu_s, count), counts,
        rows.begun[first], ended, last_ns,
        package=None if rows.package is None else rows.package[first],
        thread=None if rows.thread is None else rows.thread[first],
    )  # fmt: skip
