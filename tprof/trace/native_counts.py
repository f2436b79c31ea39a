"""Counters of native threads, as the recorder read them together with the threads' clocks.

They are in the file of a process's native threads (`native.py`), as records of `layout.NATIVE`, each of one column or
two. The file's description names the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
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
_MOST = np.uint64(np.iinfo(np.int64).max)
_PLACE_BITS = 16
_PLACES = (1 << _PLACE_BITS) - 1


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


def by_key(key: NDArray[Any], t_ns: Numbers, *others: NDArray[Any]) -> dict[int, tuple[NDArray[Any], ...]]:
    """Return times and other columns by their key; in order of time, then as they came."""
    order = np.lexsort((t_ns, key))
    numbers, first = np.unique(key[order], return_index=True)
    split = zip(*(np.split(one[order], first[1:]) for one in (t_ns, *others)), strict=True)
    return dict(zip(numbers.tolist(), split, strict=False))


def read_counts(
    records: Records, columns: Sequence[str], clocks: Mapping[int, tuple[Numbers, Numbers]]
) -> dict[int, NativeCounts]:
    """Return by thread the counts at those of its readings that have all its columns; none where no reading has.

    Parameters
    ----------
    records : of counts, in the order of the file
    columns
        As from `columns_of`.
    clocks : times and CPU time of the threads' readings, by number
    """
    if not any(columns):
        return {}
    read: dict[int, dict[str, tuple[NDArray[Any], ...]]] = {}
    for key, one in by_key(*_entries(records, columns)).items():
        if key >> _PLACE_BITS in clocks:
            read.setdefault(key >> _PLACE_BITS, {})[columns[key & _PLACES]] = one
    found = {number: _at_readings(clocks[number][0], own) for number, own in read.items()}
    return {number: counts for number, counts in found.items() if len(counts.at)}


def _at_readings(readings_ns: Numbers, columns: Mapping[str, tuple[NDArray[Any], ...]]) -> NativeCounts:
    """Return the counts at readings, from times in order, counts and whether these are scaled, by column."""
    known = {}
    for name, (t_ns, *counted) in columns.items():
        # The last reading of this time: two may have the same.
        place = np.searchsorted(readings_ns, t_ns, side="right") - 1
        good = np.flatnonzero(readings_ns[place] == t_ns)
        good = good[np.append(place[good][1:] != place[good][:-1], True)[: len(good)]]
        known[name] = place[good], *(one[good] for one in counted)
    at = reduce(np.intersect1d, [place for place, *_ in known.values()])
    values, scaled = {}, np.zeros(len(at), bool)
    for name, (place, value, is_scaled) in known.items():
        own = np.isin(place, at)
        values[name], scaled = np.maximum.accumulate(value[own]), scaled | is_scaled[own]
    return NativeCounts(at, values, scaled)


def _entries(own: Records, columns: Sequence[str]) -> tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]:
    """Return thread and column as one number, time, count and whether it is scaled, of columns with a name."""
    pair = np.flatnonzero(own["flags"] & NativeFlag.PAIR)
    second = own["tid"][pair].astype(np.uint64) & _LOW | own["task"][pair].astype(np.uint64) << _HALF
    place = np.concatenate((own["part"].astype(np.int64), own["part"][pair].astype(np.int64) + 1))
    named = np.append([name != "" for name in columns], False)[np.minimum(place, len(columns))]
    # In the order of the records.
    record = np.concatenate((np.arange(len(own)), pair))
    order = np.argsort(record, kind="stable")
    order = order[named[order]]
    thread, t_ns, flags = (own[name][record[order]] for name in ("thread", "t_ns", "flags"))
    value = np.concatenate((own["value"], second))[order]
    key = thread.astype(np.int64) << _PLACE_BITS | place[order]
    return key, *(np.minimum(one, _MOST).astype(np.int64) for one in (t_ns, value)), flags & NativeFlag.SCALED != 0


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
