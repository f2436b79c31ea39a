"""Counters of native threads, as the recorder read them together with the threads' clocks.

They are in the file of a process's native threads (`native.py`), as records of `layout.NATIVE`, each of one column or
two. The file's description names the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import layout
from .arguments import refuse_if, whole
from .kinds import NativeFlag, NativeKind
from .thread import is_column_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Records = np.ndarray[Any, np.dtype[np.void]]
Numbers = NDArray[np.int64]

MAX_COLUMNS = layout.MAX_COLUMNS - 2
"""A sample has energy and CPU time too."""
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)


@dataclass(frozen=True)
class NativeCounts:
    """Counts of a thread at some of its readings, since its counters were opened.

    Conservation: what was counted between two of these readings is the difference of the counts there.

    Attributes
    ----------
    at : (m,) int64, increasing: indices in the thread's `t_ns`.
    values : (m,) int64 of each column that was counted, from 0 on, not decreasing.
    scaled : (m,) bool, whether the counters took turns with others since the one before, and are scaled up from a part
        of the time.
    """

    at: Numbers
    values: Mapping[str, Numbers]
    scaled: NDArray[np.bool_]

    def between(self, first: int, stop: int) -> NativeCounts:
        """Return the counts at some of the thread's readings."""
        part = slice(*np.searchsorted(self.at, (first, stop)).tolist())
        return NativeCounts(
            self.at[part] - first, {name: values[part] for name, values in self.values.items()}, self.scaled[part]
        )


def columns_of(description: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns in the order of their numbers; "" for one that has none that may be used."""
    columns = description.get("columns")
    names = [
        column.get("name") if isinstance(column, dict) else None
        for column in (columns[:MAX_COLUMNS] if isinstance(columns, list) else [])
    ]
    return tuple(name if isinstance(name, str) and is_column_name(name) else "" for name in names)


def counts_of(records: Records, columns: Sequence[str]) -> dict[int, dict[str, tuple[Numbers, Numbers, Numbers]]]:
    """Return by thread and column the times, the counts and whether they are scaled, in order of time.

    Parameters
    ----------
    records : (n,) of `layout.NATIVE`, in the order of the file
    columns
        As from `columns_of`.
    """
    own = records[records["kind"] == NativeKind.COUNTS]
    pair = own["flags"] & NativeFlag.PAIR != 0
    second = own["tid"].astype(np.uint64) & _LOW | own["task"].astype(np.uint64) << _HALF
    thread = np.concatenate((own["thread"], own["thread"][pair])).astype(np.int64)
    place = np.concatenate((own["part"].astype(np.int64), own["part"][pair].astype(np.int64) + 1))
    limit = np.uint64(np.iinfo(np.int64).max)
    t_ns = np.minimum(np.concatenate((own["t_ns"], own["t_ns"][pair])), limit).astype(np.int64)
    value = np.minimum(np.concatenate((own["value"], second[pair])), limit).astype(np.int64)
    scaled = np.concatenate((own["flags"], own["flags"][pair])) & NativeFlag.SCALED != 0
    order = np.lexsort((t_ns, place, thread))
    starts = np.flatnonzero(np.diff(thread[order], prepend=-1) | np.diff(place[order], prepend=-1))
    found: dict[int, dict[str, tuple[Numbers, Numbers, Numbers]]] = {}
    for which in np.split(order, starts[1:]) if len(order) else ():
        name = columns[place[which[0]]] if place[which[0]] < len(columns) else ""
        if name:
            found.setdefault(int(thread[which[0]]), {})[name] = t_ns[which], value[which], scaled[which]
    return found


def counts_at(readings_ns: Numbers, found: Mapping[str, tuple[Numbers, Numbers, Numbers]]) -> NativeCounts | None:
    """Return the counts of a thread at those of its readings that have all its columns; None without any."""
    at: Numbers | None = None
    places: dict[str, tuple[Numbers, Numbers]] = {}
    for name, (t_ns, _, _) in found.items():
        # The last reading of this time: two may have the same.
        place = np.searchsorted(readings_ns, t_ns, side="right") - 1
        good = (place >= 0) & (readings_ns[place] == t_ns)
        place, last = np.unique(place[good][::-1], return_index=True)
        places[name] = place, np.flatnonzero(good)[::-1][last]
        at = place if at is None else np.intersect1d(at, place, assume_unique=True)
    if at is None or not len(at):
        return None
    values, scaled = {}, np.zeros(len(at), bool)
    for name, (place, index) in places.items():
        kept = index[np.isin(place, at)]
        values[name] = np.maximum.accumulate(found[name][1][kept])
        scaled |= found[name][2][kept].astype(bool)
    return NativeCounts(at.astype(np.int64), values, scaled)


def check_counts(where: str, counts: NativeCounts | None, readings: int) -> NativeCounts | None:
    """Return counts to write, with arrays of whole numbers. Raises UsageError."""
    if counts is None:
        return None
    refuse_if(not isinstance(counts, NativeCounts), f"{where}: counts must be a tprof.trace.NativeCounts")
    at = whole(where, "counts.at", counts.at)
    inside = bool(((at >= 0) & (at < readings)).all()) and bool((at[1:] > at[:-1]).all())
    refuse_if(not inside, f"{where}: counts.at must be increasing indices of its {readings} readings")
    refuse_if(not 0 < len(counts.values) <= MAX_COLUMNS, f"{where}: counts has from 1 to {MAX_COLUMNS} columns")
    values = {}
    for name, given in counts.values.items():
        refuse_if(not is_column_name(name), f"{where}: counts: {name!r} is no name of a column")
        values[name] = whole(where, f"counts of {name}", given, len(at))
        falls = bool((values[name] < 0).any() or (values[name][1:] < values[name][:-1]).any())
        refuse_if(falls, f"{where}: counts of {name} must not be negative or decrease")
    scaled = np.asarray(counts.scaled, bool)
    refuse_if(scaled.shape != at.shape, f"{where}: counts.scaled needs one value for each index")
    return replace(counts, at=at, values=values, scaled=scaled)


def records_of_counts(counts: NativeCounts, t_ns: Numbers, columns: Sequence[str]) -> Records:
    """Return the file records of one thread's counts, one for each column; the thread's number is left to the caller.

    Parameters
    ----------
    counts : of the thread
    t_ns : (n,) its readings
    columns
        Of the file.
    """
    records = np.zeros((len(counts.values), len(counts.at)), layout.NATIVE)
    records["kind"], records["t_ns"] = NativeKind.COUNTS, t_ns[counts.at]
    records["flags"] = np.where(counts.scaled, NativeFlag.SCALED, 0)
    for record, (name, values) in zip(records, counts.values.items(), strict=True):
        record["part"], record["value"] = columns.index(name), values
    return records.reshape(-1)
