"""A long file of a process's native threads, read in pieces: each one's CPU time, and what is near some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .kinds import NativeFlag, NativeKind
from .long_arrays import blocks, empty, is_somewhere, release
from .long_sorts import sorted_arrays
from .metadata import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import DTypeLike, NDArray

    from .native import NativeFile

Records = np.ndarray[Any, np.dtype[np.void]]
Times = np.ndarray[Any, np.dtype[np.int64]]
Entries = tuple[np.ndarray[Any, Any], ...]
"""Keys, and columns of as many values."""
_READ = (NativeKind.CLOCK, NativeKind.COUNTS)
_FOLLOWED = (NativeKind.APPEAR, NativeKind.CLOCK, NativeKind.END)


@dataclass
class NativeTotal:
    """What one native thread used.

    Attributes
    ----------
    tid : of the system
    begin_ns, end_ns : of the time in which it recorded no samples; `MAX_NS`: its end is not known
    cpu_ns : CPU time since the thread began
    joined : whether it recorded samples later, whose clock has this time too
    """

    tid: int = 0
    begin_ns: int = MAX_NS
    end_ns: int = MAX_NS
    cpu_ns: int = 0
    joined: bool = False


def read_totals(file: NativeFile) -> list[NativeTotal]:
    """Return what each native thread used. Raises TraceError."""
    found: dict[int, NativeTotal] = {}
    for records in pieces_of(file):
        _add(found, records[np.isin(records["kind"], _FOLLOWED)])
    return [one for one in found.values() if one.begin_ns < MAX_NS]


def pieces_of(file: NativeFile) -> Iterator[Records]:
    """Yield the records in pieces, each of which may overwrite the one before. Raises TraceError."""
    for records in file.stream.read_pieces(layout.NATIVE, 0, file.stream.count):
        yield records if file.until_ns is None else records[records["t_ns"] <= file.until_ns]


def _is_read(records: Records) -> NDArray[np.bool_]:
    """Return which records have the clock of their thread: an end that others found has none."""
    kind = records["kind"]
    is_end = kind == NativeKind.END
    has_clock = ~is_end | (records["flags"] & NativeFlag.EXACT != 0)
    return np.asarray(np.isin(kind, _FOLLOWED) & has_clock)


def _add(found: dict[int, NativeTotal], records: Records) -> None:
    kind, is_read = records["kind"], _is_read(records)
    numbers, of = np.unique(records["thread"], return_inverse=True)
    used_ns = np.zeros(len(numbers), np.uint64)
    np.maximum.at(used_ns, of[is_read], records["value"][is_read])
    for number, most_ns in zip(numbers.tolist(), used_ns.tolist(), strict=True):
        one = found.setdefault(number, NativeTotal())
        one.cpu_ns = max(one.cpu_ns, min(most_ns, MAX_NS))
    for record in records[kind != NativeKind.CLOCK]:
        one, t_ns = found[int(record["thread"])], min(int(record["t_ns"]), MAX_NS)
        if record["kind"] == NativeKind.APPEAR:
            one.tid, one.begin_ns = int(record["tid"]), t_ns
        else:
            one.end_ns, one.joined = t_ns, bool(record["flags"] & NativeFlag.JOINED)


def read_clocks(pieces: Callable[[], Iterable[Records]]) -> dict[int, tuple[Times, Times]]:
    """Return times and CPU time of each thread's readings, by its number, in order of time.

    A value that falls is damage, and counts as no movement. `pieces` returns records as often as it is called; the
    second time they are fewer if the file was cut. What is new then is left out, as are threads without readings.
    """
    found = by_key(lambda: map(_clocks, pieces()), np.int64, np.int64)
    for t_ns, cpu_ns in found.values():
        put_in_order(t_ns, cpu_ns)
        _let_none_fall(cpu_ns)
    return {number: (t_ns, cpu_ns) for number, (t_ns, cpu_ns) in found.items()}


def _clocks(records: Records) -> Entries:
    """Return thread, time and CPU time of the readings of clocks among records."""
    read = clocks_among(records)
    values = (np.minimum(read[name], np.uint64(MAX_NS)).astype(np.int64) for name in ("t_ns", "value"))
    return read["thread"].astype(np.int64), *values


def by_key(parts: Callable[[], Iterable[Entries]], *kinds: DTypeLike) -> dict[int, tuple[NDArray[Any], ...]]:
    """Return columns of entries by their key, increasing, in the order of the entries.

    Parameters
    ----------
    parts : returns keys and columns as often as it is called; the second time the entries may be fewer
        What is new then is left out, as are keys without entries.
    kinds : of the columns
    """
    counts: dict[int, int] = {}
    for keys, *_ in parts():
        some, more = np.unique(keys, return_counts=True)
        for key, count in zip(some.tolist(), more.tolist(), strict=True):
            counts[key] = counts.get(key, 0) + count
    numbers = np.array(sorted(counts), np.int64)
    ends = np.cumsum([counts[one] for one in numbers.tolist()], dtype=np.int64)
    begins = np.append(0, ends)[:-1]
    place, columns = begins.copy(), [empty(int(ends[-1]) if len(ends) else 0, kind) for kind in kinds]
    for keys, *values in parts():
        order = np.argsort(keys, kind="stable")
        order = order[np.isin(keys[order], numbers)]
        of, first, count = np.unique(keys[order], return_index=True, return_counts=True)
        own = np.searchsorted(numbers, of)
        at = np.repeat(place[own] - first, count) + np.arange(len(order))
        known = at < np.repeat(ends[own], count)
        order, at = order[known], at[known]
        place[own] = np.minimum(place[own] + count, ends[own])
        for target, some in zip(columns, values, strict=True):
            target[at] = some[order]
        release(*columns)
    stored = zip(numbers.tolist(), begins.tolist(), place.tolist(), strict=True)
    return {key: tuple(one[begin:end] for one in columns) for key, begin, end in stored if end > begin}


def clocks_among(records: Records) -> Records:
    """Return the readings of clocks."""
    return records[_is_read(records)]


def latest_before(clocks: Records, t_ns: int) -> NDArray[np.bool_]:
    """Return which readings are the last ones of their threads before a time."""
    before = np.flatnonzero(clocks["t_ns"] < t_ns)[::-1]
    found = np.zeros(len(clocks), bool)
    found[before[np.unique(clocks["thread"][before], return_index=True)[1]]] = True
    return found


def put_in_order(t_ns: Times, *others: NDArray[Any]) -> None:
    """Sort times and what belongs to each, in place."""
    if is_somewhere(max(len(t_ns) - 1, 0), lambda at: t_ns[at.start + 1 : at.stop + 1] < t_ns[at], t_ns):
        arrays = (t_ns, *others)
        for target, values in zip(arrays, sorted_arrays(arrays), strict=True):
            for at in blocks(len(target), target, values):
                target[at] = values[at]


def _let_none_fall(cpu_ns: Times) -> None:
    most_ns = 0
    for at in blocks(len(cpu_ns), cpu_ns):
        cpu_ns[at] = np.maximum(np.maximum.accumulate(cpu_ns[at]), most_ns)
        most_ns = int(cpu_ns[at.stop - 1])


def near(file: NativeFile, begin_ns: int, end_ns: int) -> Callable[[], Iterator[Records]]:
    """Return what yields the records of a file, of readings only those between two times and each thread's around it.

    These are the last reading before, the first after, and the very last, behind which a clock may stand. Raises
    TraceError.
    """
    edges: dict[int, tuple[int, int, int]] = {}
    for records in pieces_of(file):
        _note_edges(edges, records[_is_read(records)], begin_ns, end_ns)
    numbers = np.array(sorted(edges), np.int64)
    of_thread = np.array([edges[one] for one in numbers.tolist()], np.uint64).reshape(-1, 3)

    def is_near(records: Records) -> NDArray[np.bool_]:
        t_ns, is_kept = records["t_ns"], ~np.isin(records["kind"], _READ)
        is_kept |= (t_ns >= np.uint64(begin_ns)) & (t_ns <= np.uint64(end_ns))
        if len(numbers):
            place = np.minimum(np.searchsorted(numbers, records["thread"]), len(numbers) - 1)
            is_edge = (of_thread[place] == t_ns[:, None]).any(axis=1)
            is_kept |= is_edge & (numbers[place] == records["thread"])
        return np.asarray(is_kept)

    return lambda: (records[is_near(records)] for records in pieces_of(file))


def _note_edges(edges: dict[int, tuple[int, int, int]], clocks: Records, begin_ns: int, end_ns: int) -> None:
    """Note each thread's last reading before a time, the first one after another, and the last one."""
    numbers, of = np.unique(clocks["thread"], return_inverse=True)
    t_ns = np.minimum(clocks["t_ns"], np.uint64(MAX_NS)).astype(np.int64)
    before, last = np.full((2, len(numbers)), -1, np.int64)
    after = np.full(len(numbers), MAX_NS, np.int64)
    is_before, is_after = t_ns < begin_ns, t_ns > end_ns
    np.maximum.at(before, of[is_before], t_ns[is_before])
    np.minimum.at(after, of[is_after], t_ns[is_after])
    np.maximum.at(last, of, t_ns)
    for number, *found in zip(numbers.tolist(), before.tolist(), after.tolist(), last.tolist(), strict=True):
        known = edges.get(number, (0, MAX_NS, 0))
        edges[number] = max(known[0], found[0]), min(known[1], found[1]), max(known[2], found[2])
