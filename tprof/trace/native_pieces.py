"""A long file of a process's native threads, read in pieces: each one's CPU time, and what is near some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .kinds import NativeFlag, NativeKind
from .metadata import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .native import NativeFile

Records = np.ndarray[Any, np.dtype[np.void]]
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
    for records in _pieces(file):
        _add(found, records[np.isin(records["kind"], _FOLLOWED)])
    return [one for one in found.values() if one.begin_ns < MAX_NS]


def _pieces(file: NativeFile) -> Iterator[Records]:
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


def read_near(file: NativeFile, begin_ns: int, end_ns: int) -> Records:
    """Return the records of a file, of readings only those between two times and each thread's last ones around these.

    These are the last reading before, the first after, and the very last, behind which a clock may stand. Raises
    TraceError.
    """
    edges: dict[int, tuple[int, int, int]] = {}
    for records in _pieces(file):
        _note_edges(edges, records[_is_read(records)], begin_ns, end_ns)
    numbers = np.array(sorted(edges), np.int64)
    of_thread = np.array([edges[one] for one in numbers.tolist()], np.uint64).reshape(-1, 3)
    kept = [np.zeros(0, layout.NATIVE)]
    for records in _pieces(file):
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
