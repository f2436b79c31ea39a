"""Counters of native threads, as the recorder read them together with the threads' clocks.

They are in the file of a process's native threads (`native.py`), as records of `layout.NATIVE`, each of one column or
two. The file's description names the columns. Where there are many, they are in files and found block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import layout
from .arguments import refuse_if, whole
from .kinds import NativeFlag, NativeKind
from .long_arrays import blocks, computed, empty
from .native_pieces import by_key, put_in_order
from .thread import is_column_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
        at = self.at[part]
        at = computed(len(at), np.int64, lambda some: at[some] - first, at) if first else at
        return NativeCounts(at, {name: values[part] for name, values in self.values.items()}, self.scaled[part])


def columns_of(description: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns in the order of their numbers; "" for one that has none that may be used."""
    columns = description.get("columns")
    names = [
        column.get("name") if isinstance(column, dict) else None
        for column in (columns[:MAX_COLUMNS] if isinstance(columns, list) else [])
    ]
    return tuple(name if isinstance(name, str) and is_column_name(name) else "" for name in names)


class _Column(NamedTuple):
    """What was read of one column of a thread, in order of time: (n,) each."""

    t_ns: Numbers
    value: Numbers
    scaled: NDArray[np.bool_]


def read_counts(
    pieces: Callable[[], Iterable[Records]], columns: Sequence[str], clocks: Mapping[int, tuple[Numbers, Numbers]]
) -> dict[int, NativeCounts]:
    """Return by thread the counts at those of its readings that have all its columns; none where no reading has.

    Parameters
    ----------
    pieces : returns records of `layout.NATIVE` in the order of the file, as often as it is called, as `by_key` needs
    columns
        As from `columns_of`.
    clocks : as from `read_clocks`
    """
    if not any(columns):
        return {}
    read: dict[int, dict[str, _Column]] = {}
    parts = by_key(lambda: (_entries(records, columns) for records in pieces()), np.int64, np.int64, np.bool_)
    for key, one in parts.items():
        put_in_order(*one)
        if key >> _PLACE_BITS in clocks:
            read.setdefault(key >> _PLACE_BITS, {})[columns[key & _PLACES]] = _Column(*one)
    return _Matched(read.values()).found({number: (clocks[number][0], own) for number, own in read.items()})


def _entries(records: Records, columns: Sequence[str]) -> tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]:
    """Return thread and column as one number, time, count and whether it is scaled, of columns with a name."""
    own = records[records["kind"] == NativeKind.COUNTS]
    pair = np.flatnonzero(own["flags"] & NativeFlag.PAIR)
    second = own["tid"][pair].astype(np.uint64) & _LOW | own["task"][pair].astype(np.uint64) << _HALF
    place = np.concatenate((own["part"].astype(np.int64), own["part"][pair].astype(np.int64) + 1))
    named = np.append([name != "" for name in columns], False)[np.minimum(place, len(columns))]
    # In the order of the records, so that it does not matter of how many a piece is.
    record = np.concatenate((np.arange(len(own)), pair))
    order = np.argsort(record, kind="stable")
    order = order[named[order]]
    thread, t_ns, flags = (own[name][record[order]] for name in ("thread", "t_ns", "flags"))
    value = np.concatenate((own["value"], second))[order]
    key = thread.astype(np.int64) << _PLACE_BITS | place[order]
    return key, *(np.minimum(one, _MOST).astype(np.int64) for one in (t_ns, value)), flags & NativeFlag.SCALED != 0


class _Matched:
    """Counts at readings of threads, one after the other in arrays that may be in files."""

    def __init__(self, read: Iterable[Mapping[str, _Column]]) -> None:
        """Make place for what was read of each thread."""
        rows = [(min(len(one.t_ns) for one in own.values()), len(own)) for own in read]
        total = sum(most for most, _ in rows)
        self._at, self._scaled = empty(total, np.int64), empty(total, bool)
        self._values = empty(sum(most * columns for most, columns in rows), np.int64)
        self._row = self._value = 0

    def found(self, threads: Mapping[int, tuple[Numbers, Mapping[str, _Column]]]) -> dict[int, NativeCounts]:
        """Return by thread the counts, from times of readings and columns, of the same threads."""
        found = {number: self._of_thread(*known) for number, known in threads.items()}
        return {number: counts for number, counts in found.items() if len(counts.at)}

    def _of_thread(self, readings_ns: Numbers, columns: Mapping[str, _Column]) -> NativeCounts:
        most = min(len(one.t_ns) for one in columns.values())
        at, scaled = (one[self._row : self._row + most] for one in (self._at, self._scaled))
        values = [self._values[self._value + number * most :][:most] for number in range(len(columns))]
        self._row, self._value, done = self._row + most, self._value + most * len(columns), 0
        latest = [0] * len(columns)
        for block in blocks(len(readings_ns), readings_ns, at, scaled, self._values, *next(iter(columns.values()))):
            place, entries = _at_readings(readings_ns, block, columns)
            own = slice(done, done + len(place))
            at[own], scaled[own], done = place, False, own.stop
            for number, (column, which) in enumerate(zip(columns.values(), entries, strict=True)):
                values[number][own] = np.maximum(np.maximum.accumulate(column.value[which]), latest[number])
                latest[number] = int(values[number][done - 1]) if len(place) else latest[number]
                scaled[own] |= column.scaled[which]
        named = {name: counted[:done] for name, counted in zip(columns, values, strict=True)}
        return NativeCounts(at[:done], named, scaled[:done])


def _at_readings(
    readings_ns: Numbers, block: slice, columns: Mapping[str, _Column]
) -> tuple[Numbers, list[NDArray[np.intp]]]:
    """Return the readings of a block that have all columns, and for each column its entries at these."""
    own_ns = readings_ns[block]
    is_last = block.stop == len(readings_ns)
    places, entries = [], []
    for column in columns.values():
        first = int(np.searchsorted(column.t_ns, own_ns[0]))
        stop = len(column.t_ns) if is_last else int(np.searchsorted(column.t_ns, readings_ns[block.stop]))
        # The last reading of this time: two may have the same.
        place = np.searchsorted(own_ns, column.t_ns[first:stop], side="right") - 1
        good = np.flatnonzero(own_ns[place] == column.t_ns[first:stop])
        good = good[np.append(place[good][1:] != place[good][:-1], True)[: len(good)]]
        places.append(place[good])
        entries.append(first + good)
    at = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), places)
    return block.start + at, [which[np.isin(place, at)] for place, which in zip(places, entries, strict=True)]


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
