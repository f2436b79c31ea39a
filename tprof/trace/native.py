"""Native threads of a trace: threads that record no samples, with their CPU clocks as the recorder read them.

A process's file holds records of `layout.NATIVE`. Most are readings of clocks and counters. The others say when a
thread appeared and ended, who created it, its name, and the library in which it began. A clock that stands still is not
written; before it moves again, the time until which it stood is. So between two readings a thread's CPU time may count
as evenly spent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.errors import TraceError

from . import kinds, layout
from .arguments import refuse_if, whole
from .kinds import NativeFlag, NativeKind
from .metadata import MAX_NS
from .native_calls import PoolCalls, calls_of, records_of_calls
from .stream import open_stream
from .thread import MAX_PID, is_column_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .stream import Stream
    from .tasks import TaskTable

OF_LIBRARIES = (NativeKind.PATH, NativeKind.NOTED, NativeKind.CALLS, NativeKind.MISSED)
_OF_THREADS = (NativeKind.APPEAR, NativeKind.CREATOR, NativeKind.END, NativeKind.NAME, NativeKind.BEGIN)
WORD = "threads"
TEXT_BYTES = 16
MAX_PARTS = 256
"""Parts of a library's path: 4096 bytes, the longest path of the system."""

_APPEAR, _CREATOR, _END, _NAME, _BEGIN = map(int, _OF_THREADS)

MAX_COLUMNS = layout.MAX_COLUMNS - 2
"""A sample has energy and CPU time too."""
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
_MOST = np.uint64(np.iinfo(np.int64).max)
_PLACE_BITS = 16
_PLACES = (1 << _PLACE_BITS) - 1

Records = np.ndarray[Any, np.dtype[np.void]]
Times = NDArray[np.int64]


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

    at: Times
    values: Mapping[str, Times]
    scaled: NDArray[np.bool_]

    def between(self, first: int, stop: int) -> NativeCounts:
        """Return the counts at some of the thread's readings."""
        part = slice(*np.searchsorted(self.at, (first, stop)).tolist())
        return NativeCounts(
            self.at[part] - first, {name: values[part] for name, values in self.values.items()}, self.scaled[part]
        )


@dataclass(frozen=True)
class NativeThread:
    """A thread that records no samples: of a library's pool, or of the program, but without tasks.

    Conservation: the CPU time used between `t_ns[i]` and `t_ns[i + 1]` is `cpu_ns[i + 1] - cpu_ns[i]`. Time before the
    first reading and after the last is not known here; it is in the process's clock only.

    Attributes
    ----------
    pid, tid : of the system. A tid that was used again has an entry for each thread.
    name : the system's name for it (15 bytes at most), as last seen; "" if not known.
    library : path of the mapped file that holds its start routine (the program's own file for its own routines); of a
        `std::thread` the file of its function where that is known; "" if not known.
    created_ns : when it was created; None if nobody saw that, then it was first seen at `t_ns[0]`.
    creator_tid : tid of the thread that created it, as `Thread.tid`, in the same process; None if not known. It may
        be another native thread.
    creator_task : index in `Trace.tasks` of the task that ran on the creating thread; None: no task, or not known.
    creator_instance : its instance; None: no task, or not known.
    ended_ns : when it ended or, if nobody saw that, when it was first found to have ended, or to record samples.
        None: it still ran at the end of the recording, or the process was killed.
    t_ns : (n,) int64, n >= 1, CLOCK_MONOTONIC nanoseconds just after each reading, not decreasing. The first is that
        of the creation if that was seen; the last is that of the end if the thread itself read its clock there.
    cpu_ns : (n,) int64, nanoseconds of CPU time since the thread began, not decreasing.
    counts : of the session's counters at some of these readings; None: it was not counted.
    joined : whether it records samples from its end here on, whose clock has this time too.
    """

    pid: int
    tid: int
    name: str
    library: str
    created_ns: int | None
    creator_tid: int | None
    creator_task: int | None
    creator_instance: int | None
    ended_ns: int | None
    t_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]
    counts: NativeCounts | None = None
    joined: bool = False

    def between(self, begin_ns: int, end_ns: int) -> NativeThread | None:
        """Return the thread with the readings around and between two times; None without a reading there.

        If nobody saw its creation, and it was there before the first of these readings, it was created before.
        """
        if self.t_ns[-1] < begin_ns or self.t_ns[0] > end_ns:
            return None
        first = max(int(np.searchsorted(self.t_ns, begin_ns, side="right")) - 1, 0)
        stop = int(np.searchsorted(self.t_ns, end_ns, side="left")) + 1
        created_ns = int(self.t_ns[0]) if first and self.created_ns is None else self.created_ns
        return replace(self._part(first, stop), created_ns=created_ns)

    def until_it_stands(self) -> NativeThread:
        """Return a thread that still runs without the last readings that show no movement, but the first of these.

        Such a reading is written when the clock moves again.
        """
        stop = int(np.searchsorted(self.cpu_ns, self.cpu_ns[-1])) + 1
        return self._part(0, stop) if self.ended_ns is None else self

    def _part(self, first: int, stop: int) -> NativeThread:
        counts = None if self.counts is None else self.counts.between(first, stop)
        return replace(self, t_ns=self.t_ns[first:stop], cpu_ns=self.cpu_ns[first:stop], counts=counts)


@dataclass(frozen=True)
class NativeFile:
    """The native threads of one process in its file.

    Attributes
    ----------
    process, pid : of the process, as those of its samples.
    count : committed records that can be read.
    dropped : records that could not be written.
    until_ns : records of later times are left out; None: there are none.
    """

    process: int
    pid: int
    count: int
    dropped: int
    stream: Stream = field(repr=False)
    table: TaskTable = field(repr=False)
    until_ns: int | None = None

    def read(self) -> list[NativeThread]:
        """Read the threads. Raises TraceError."""
        threads = self.threads_in(self._records())
        return threads if self.until_ns is None else [one.until_it_stands() for one in threads]

    def threads_in(self, records: Records) -> list[NativeThread]:
        """Return the threads of records in the order of the file, and name the tasks of these.

        Threads that never appear are left out.
        """
        kind = self._named(records)["kind"]
        libraries, clocks = _paths(records[kind == NativeKind.PATH]), _clocks(records)
        counts = read_counts(records[kind == NativeKind.COUNTS], columns_of(self.stream.description), clocks)
        by_thread: dict[int, dict[int, np.void]] = {}
        for record in records[np.isin(kind, _OF_THREADS)]:
            by_thread.setdefault(int(record["thread"]), {})[int(record["kind"])] = record
        return [
            replace(_thread_of(by_kind, clocks[number], self.pid, libraries), counts=counts.get(number))
            for number, by_kind in sorted(by_thread.items())
            if _APPEAR in by_kind and number in clocks
        ]

    def read_calls(self) -> list[PoolCalls]:
        """Read the calls that gave work to pools. Raises TraceError."""
        return self.calls_in(self._records())

    def calls_in(self, records: Records) -> list[PoolCalls]:
        """Return the calls of records in the order of the file, and name the tasks of these."""
        return calls_of(self._named(records), self.pid, _paths(records[records["kind"] == NativeKind.PATH]))

    def _records(self) -> Records:
        records = self.stream.read(layout.NATIVE)
        return records if self.until_ns is None else records[records["t_ns"] <= self.until_ns]

    def _named(self, records: Records) -> Records:
        """Give records the trace's numbers of tasks, in place."""
        named = np.isin(records["kind"], (NativeKind.CREATOR, NativeKind.CALLS))
        tasks = self.table.to_indices(self.process, records["task"][named])
        records["task"][named] = np.where(np.isin(tasks, self.table.left_out()), layout.NO_TASK, tasks)
        return records


def open_native(path: Path, table: TaskTable) -> NativeFile:
    """Open a file of native threads. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.NATIVE)
    native = stream.description.get("native")
    if native != WORD:
        message = f"{path} holds native {native!r}, of which this tprof knows nothing"
        raise TraceError(message)
    number = stream.number
    dropped = number("dropped_enospc") + number("dropped_io")
    pid = number("pid") if number("pid") <= MAX_PID else 0
    return NativeFile(number("process"), pid, stream.count, dropped, stream, table)


def read_native(files: Iterable[NativeFile]) -> tuple[NativeThread, ...]:
    """Read the threads of all processes, by process number and first reading, as `NativeFile.read` does."""
    threads = [thread for file in files for thread in file.read()]
    return tuple(sorted(threads, key=lambda thread: (thread.pid, int(thread.t_ns[0]), thread.tid)))


def read_calls(files: Iterable[NativeFile]) -> tuple[PoolCalls, ...]:
    """Read the calls of all processes, by process number and library. Raises TraceError."""
    return tuple(sorted((one for file in files for one in file.read_calls()), key=lambda one: (one.pid, one.library)))


def is_clock(records: Records) -> NDArray[np.bool_]:
    """Return which records are readings of clocks: an end that others found has none."""
    kind = records["kind"]
    has_clock = (kind != NativeKind.END) | (records["flags"] & NativeFlag.EXACT != 0)
    return np.asarray(np.isin(kind, (NativeKind.APPEAR, NativeKind.CLOCK, NativeKind.END)) & has_clock)


def _clocks(records: Records) -> dict[int, tuple[Times, Times]]:
    """Return times and CPU time of each thread's readings, by its number, in order of time.

    A value that falls is damage, and counts as no movement.
    """
    own = is_clock(records)
    t_ns, cpu_ns = (np.minimum(records[name][own], np.uint64(MAX_NS)).astype(np.int64) for name in ("t_ns", "value"))
    found = by_key(records["thread"][own], t_ns, cpu_ns)
    return {number: (at_ns, np.maximum.accumulate(used_ns)) for number, (at_ns, used_ns) in found.items()}


def columns_of(description: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns in the order of their numbers; "" for one that has none that may be used."""
    columns = description.get("columns")
    names = [
        column.get("name") if isinstance(column, dict) else None
        for column in (columns[:MAX_COLUMNS] if isinstance(columns, list) else [])
    ]
    return tuple(name if isinstance(name, str) and is_column_name(name) else "" for name in names)


def by_key(key: NDArray[Any], t_ns: Times, *others: NDArray[Any]) -> dict[int, tuple[NDArray[Any], ...]]:
    """Return times and other columns by their key; in order of time, then as they came."""
    order = np.lexsort((t_ns, key))
    numbers, first = np.unique(key[order], return_index=True)
    split = zip(*(np.split(one[order], first[1:]) for one in (t_ns, *others)), strict=True)
    return dict(zip(numbers.tolist(), split, strict=False))


def read_counts(
    records: Records, columns: Sequence[str], clocks: Mapping[int, tuple[Times, Times]]
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


def _at_readings(readings_ns: Times, columns: Mapping[str, tuple[NDArray[Any], ...]]) -> NativeCounts:
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


def _entries(own: Records, columns: Sequence[str]) -> tuple[Times, Times, Times, NDArray[np.bool_]]:
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


def _thread_of(
    by_kind: dict[int, np.void], clock: tuple[Times, Times], pid: int, libraries: dict[int, str]
) -> NativeThread:
    """Return the thread of these records, which are one of a kind, and of these readings."""
    creator, end, name, begin = (by_kind.get(kind) for kind in (_CREATOR, _END, _NAME, _BEGIN))
    task = _task(creator)
    return NativeThread(
        pid=pid,
        tid=_process_id(by_kind[_APPEAR]),
        name="" if name is None else _text(name),
        library="" if begin is None else libraries.get(int(begin["value"]), ""),
        created_ns=None if creator is None else _ns(creator["t_ns"]),
        creator_tid=None if creator is None else _process_id(creator) or None,
        creator_task=task,
        creator_instance=None if task is None or creator is None else int(creator["value"]),
        ended_ns=None if end is None else _ns(end["t_ns"]),
        t_ns=clock[0],
        cpu_ns=clock[1],
        joined=end is not None and bool(end["flags"] & NativeFlag.JOINED),
    )


def _paths(records: Records) -> dict[int, str]:
    """Return the libraries' paths by their numbers."""
    parts: dict[int, list[bytes]] = {}
    for record in records[np.lexsort((records["part"], records["thread"]))]:
        known = parts.setdefault(int(record["thread"]), [])
        if int(record["part"]) == len(known) < MAX_PARTS:
            known.append(_text_bytes(record))
    return {number: b"".join(known).decode("utf-8", "replace") for number, known in parts.items()}


def _text_bytes(record: np.void) -> bytes:
    return record.tobytes()[8 : 8 + TEXT_BYTES].split(b"\0")[0]


def _text(record: np.void) -> str:
    return _text_bytes(record).decode("utf-8", "replace")


def _task(creator: np.void | None) -> int | None:
    if creator is None or int(creator["value"]) == 0 or int(creator["task"]) == layout.NO_TASK:
        return None
    return int(creator["task"])


def _process_id(record: np.void) -> int:
    return int(record["tid"]) if int(record["tid"]) <= MAX_PID else 0


def _ns(value: np.uint64) -> int:
    return min(int(value), MAX_NS)


def check_native(threads: Sequence[NativeThread], task_count: int) -> list[NativeThread]:
    """Return threads to write, with arrays of whole numbers. Raises UsageError."""
    checked = [_check(f"native[{place}]", thread, task_count) for place, thread in enumerate(threads)]
    columns = len(columns_counted(checked))
    refuse_if(columns > MAX_COLUMNS, f"native: a trace has at most {MAX_COLUMNS} columns of counts, got {columns}")
    return checked


def _check(where: str, thread: NativeThread, task_count: int) -> NativeThread:
    wrong_type = not isinstance(thread, NativeThread)
    refuse_if(wrong_type, f"{where} must be a tprof.trace.NativeThread, got {type(thread).__name__}")
    t_ns, cpu_ns = whole(where, "t_ns", thread.t_ns), whole(where, "cpu_ns", thread.cpu_ns, len(thread.t_ns))
    refuse_if(len(t_ns) == 0, f"{where}: t_ns needs one reading at least")
    for key, values in (("t_ns", t_ns), ("cpu_ns", cpu_ns)):
        refuse_if(int(values.min()) < 0, f"{where}: {key} must not be negative, got {int(values.min())}")
        refuse_if(bool((values[1:] < values[:-1]).any()), f"{where}: {key} must not decrease")
    task = -1 if thread.creator_task is None else thread.creator_task
    refuse_if(not -1 <= task < task_count, f"{where}: creator_task must be from 0 to {task_count - 1}, got {task}")
    nobody = thread.created_ns is None and (thread.creator_tid, thread.creator_task) != (None, None)
    refuse_if(nobody, f"{where} has a creator, so it needs created_ns")
    refuse_if(
        (task < 0) != (thread.creator_instance is None), f"{where}: creator_task and creator_instance go together"
    )
    return replace(thread, t_ns=t_ns, cpu_ns=cpu_ns, counts=check_counts(where, thread.counts, len(t_ns)))


def described(threads: Sequence[NativeThread]) -> dict[str, Any]:
    """Return the description of the file of one process's threads."""
    names = columns_counted(threads)
    return {"native": WORD} | ({"columns": [{"name": name, "unit": "1"} for name in names]} if names else {})


def columns_counted(threads: Sequence[NativeThread]) -> tuple[str, ...]:
    """Return the columns that any of the threads has."""
    return tuple(dict.fromkeys(name for one in threads if one.counts is not None for name in one.counts.values))


def records_of(threads: Sequence[NativeThread], calls: Sequence[PoolCalls] = ()) -> Records:
    """Return the file records of threads and calls of one process, tasks as their indices."""
    columns = columns_counted(threads)
    paths = ({thread.library for thread in threads} | {one.library for one in calls}) - {""}
    libraries = {path: number for number, path in enumerate(sorted(paths))}
    parts = [_path_records(path, number) for path, number in libraries.items()]
    parts += [_records_of(thread, number, libraries, columns) for number, thread in enumerate(threads)]
    parts += [records_of_calls(one, libraries[one.library]) for one in calls]
    return np.concatenate([np.zeros(0, layout.NATIVE), *parts])


def _path_records(path: str, number: int) -> Records:
    text = path.encode("utf-8", "replace")
    pieces = [text[at : at + TEXT_BYTES] for at in range(0, len(text), TEXT_BYTES)]
    records = np.concatenate([_with_text(piece) for piece in pieces])
    records["thread"], records["kind"] = number, NativeKind.PATH
    records["part"] = np.arange(len(pieces))
    return records


def _with_text(text: bytes) -> Records:
    return np.frombuffer((b"\0" * 8 + text).ljust(layout.NATIVE.itemsize, b"\0"), layout.NATIVE).copy()


def _record(kind: NativeKind, t_ns: int, **values: int) -> Records:
    record = np.zeros(1, layout.NATIVE)
    for name, value in {"kind": kind, "t_ns": t_ns, **values}.items():
        record[name] = value
    return record


def _records_of(thread: NativeThread, number: int, libraries: dict[str, int], columns: Sequence[str]) -> Records:
    clock = np.zeros(len(thread.t_ns), layout.NATIVE)
    clock["t_ns"], clock["value"], clock["kind"] = thread.t_ns, thread.cpu_ns, NativeKind.CLOCK
    clock["kind"][:1], clock["tid"][:1] = NativeKind.APPEAR, thread.tid
    parts = [clock]
    if thread.counts is not None:
        parts.append(records_of_counts(thread.counts, clock["t_ns"].astype(np.int64), columns))
    if thread.created_ns is not None:
        task = layout.NO_TASK if thread.creator_task is None else thread.creator_task
        tid, instance = thread.creator_tid or 0, thread.creator_instance or 0
        parts.append(_record(NativeKind.CREATOR, thread.created_ns, tid=tid, value=instance, task=task))
    if thread.name:
        name = _with_text(thread.name.encode("utf-8", "replace")[:TEXT_BYTES])
        name["t_ns"], name["kind"] = thread.t_ns[0], NativeKind.NAME
        parts.append(name)
    if thread.library:
        parts.append(_record(NativeKind.BEGIN, thread.t_ns[0], value=libraries[thread.library]))
    if thread.ended_ns is not None:
        flags = NativeFlag.JOINED if thread.joined else 0
        parts.append(_record(NativeKind.END, thread.ended_ns, value=thread.cpu_ns[-1], flags=flags))
    records = np.concatenate(parts)
    records["thread"] = number
    return records


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


def records_of_counts(counts: NativeCounts, t_ns: Times, columns: Sequence[str]) -> Records:
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
