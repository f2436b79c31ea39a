"""A long file of a process's native threads, read in pieces: each one's CPU time, and what is near some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .kinds import NativeFlag, NativeKind
from .long_arrays import blocks, empty, is_somewhere, release
from .metadata import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from .native import NativeFile

Records = np.ndarray[Any, np.dtype[np.void]]
Times = np.ndarray[Any, np.dtype[np.int64]]
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
    counts = _counts(_read(records) for records in pieces())
    numbers, ends = (
        np.array(sorted(counts), np.int64),
        np.cumsum([counts[one] for one in sorted(counts)], dtype=np.int64),
    )
    begins, total = np.append(0, ends)[:-1], int(ends[-1]) if len(ends) else 0
    t_ns, cpu_ns = (empty(total, np.int64) for _ in range(2))
    place = begins.copy()
    for records in pieces():
        read = _read(records)
        read = read[np.isin(read["thread"], numbers)]
        read = read[np.argsort(read["thread"], kind="stable")]
        of, first, count = np.unique(read["thread"], return_index=True, return_counts=True)
        own = np.searchsorted(numbers, of)
        at = np.repeat(place[own] - first, count) + np.arange(len(read))
        known = at < np.repeat(ends[own], count)
        read, at = read[known], at[known]
        place[own] = np.minimum(place[own] + count, ends[own])
        for target, name in ((t_ns, "t_ns"), (cpu_ns, "value")):
            target[at] = np.minimum(read[name], np.uint64(MAX_NS)).astype(np.int64)
        release(t_ns, cpu_ns)
    parts = zip(numbers.tolist(), begins.tolist(), place.tolist(), strict=True)
    found = {number: (t_ns[begin:end], cpu_ns[begin:end]) for number, begin, end in parts if end > begin}
    for clock in found.values():
        _put_in_order(*clock)
    return found


def _counts(parts: Iterable[Records]) -> dict[int, int]:
    """Return the number of records of each thread, by its number."""
    counts: dict[int, int] = {}
    for records in parts:
        numbers, more = np.unique(records["thread"], return_counts=True)
        for number, count in zip(numbers.tolist(), more.tolist(), strict=True):
            counts[number] = counts.get(number, 0) + count
    return counts


def _read(records: Records) -> Records:
    """Return the readings of clocks among records."""
    return records[_is_read(records)]


def _put_in_order(t_ns: Times, cpu_ns: Times) -> None:
    """Sort a thread's readings by time, and let none fall, in place."""
    count = len(t_ns)
    if is_somewhere(max(count - 1, 0), lambda at: t_ns[at.start + 1 : at.stop + 1] < t_ns[at], t_ns):
        order = np.argsort(t_ns, kind="stable")
        t_ns[:], cpu_ns[:] = t_ns[order], cpu_ns[order]
    most_ns = 0
    for at in blocks(count, cpu_ns):
        cpu_ns[at] = np.maximum(np.maximum.accumulate(cpu_ns[at]), most_ns)
        most_ns = int(cpu_ns[at.stop - 1])


def read_near(file: NativeFile, begin_ns: int, end_ns: int) -> Records:
    """Return the records of a file, of readings only those between two times and each thread's last ones around these.

    These are the last reading before, the first after, and the very last, behind which a clock may stand. Raises
    TraceError.
    """
    edges: dict[int, tuple[int, int, int]] = {}
    for records in pieces_of(file):
        _note_edges(edges, records[_is_read(records)], begin_ns, end_ns)
    numbers = np.array(sorted(edges), np.int64)
    of_thread = np.array([edges[one] for one in numbers.tolist()], np.uint64).reshape(-1, 3)
    kept = [np.zeros(0, layout.NATIVE)]
    for records in pieces_of(file):
        t_ns, is_kept = records["t_ns"], ~np.isin(records["kind"], _READ)
        is_kept |= (t_ns >= np.uint64(begin_ns)) & (t_ns <= np.uint64(end_ns))
        if len(numbers):
            place = np.minimum(np.searchsorted(numbers, records["thread"]), len(numbers) - 1)
            is_edge = (of_thread[place] == t_ns[:, None]).any(axis=1)
            is_kept |= is_edge & (numbers[place] == records["thread"])
        kept.append(records[is_kept])
    return np.concatenate(kept)


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
