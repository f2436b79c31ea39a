"""From a session directory to a trace: everything that is whole, with a note for everything that is not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tprof.errors import TraceError

from . import layout
from .manifest import read_end, read_manifest
from .readings import Readings, read_readings
from .stream import Stream, open_stream
from .tasks import TaskEntry, TaskTable
from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.analysis import Profile

MAX_CPUS = 1 << 16
MAX_LOST = 100_000
T = TypeVar("T")


@dataclass(frozen=True)
class Trace:
    """A recording on disk.

    Attributes
    ----------
    path : the session directory.
    manifest, end : the two JSON files; `end` is empty where the program was killed.
    tasks : the tasks; a sample's `task` is an index here.
    threads : one for each sample file.
    readings : by name.
    complete : whether the recording ended by itself.
    start_ns, end_ns : of the recording, CLOCK_MONOTONIC.
    process_end_ns : when each process that ended did, by its ordinal.
    notes : what a user should know about the state of the files.
    """

    path: Path
    manifest: dict[str, Any]
    end: dict[str, Any]
    tasks: tuple[TaskEntry, ...]
    threads: tuple[Thread, ...]
    readings: dict[str, Readings]
    complete: bool
    start_ns: int
    end_ns: int
    process_end_ns: dict[int, int]
    notes: tuple[str, ...]

    def profile(self, model: str = "auto", **options: Any) -> Profile:  # noqa: ANN401 - build_profile's own
        """Attribute the joules to the tasks; see `tprof.analysis.build_profile` for the options."""
        from tprof.analysis import build_profile  # noqa: PLC0415 - the door to analysis

        return build_profile(self, model=model, **options)


def load(path: str | os.PathLike[str]) -> Trace:
    """Open a trace.

    Parameters
    ----------
    path
        A session directory, finished or left by a program that was killed.

    Returns
    -------
    Trace
        With every sample that was committed. Files that are cut are read as far as they go; what is
        missing is said in `Trace.notes`.

    Raises
    ------
    TraceError
        If it is no session, is damaged beyond reading, or of a newer format.
    """
    directory = Path(path).absolute()
    if directory.is_symlink() or not directory.is_dir():
        message = f"{directory} is not a tprof session: give the directory that `tprof run` or tprof.record made"
        raise TraceError(message)
    manifest = read_manifest(directory)
    _check_format(directory, manifest)
    return _Loader(directory, manifest).load()


def _check_format(directory: Path, manifest: dict[str, Any]) -> None:
    known = manifest.get("format")
    if not (isinstance(known, list) and known and type(known[0]) is int):
        message = f"{directory} is not a tprof session: its manifest names no format"
        raise TraceError(message)
    if known[0] != layout.MAJOR:
        message = f"{directory} is of format {known[0]}.x, this tprof reads {layout.MAJOR}.x: update tprof"
        raise TraceError(message)


class _Loader:
    """Collects the parts of a trace, and the notes about them."""

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self.directory = directory
        self.manifest = manifest
        self.notes: list[str] = []
        self.table = TaskTable()

    def load(self) -> Trace:
        end = self._end()
        for path in self._files("tasks", ".jsonl"):
            self._try(path, lambda path: self.table.read(path, _ordinal(path)))
        packages = _packages(self.manifest)
        threads = [
            thread
            for path in self._files("threads", ".samples")
            if (thread := self._try(path, lambda path: self._thread(path, packages))) is not None
        ]
        readings = {
            reading.name: reading
            for path in self._files("readings", ".readings")
            if (reading := self._try(path, self._readings)) is not None
        }
        if end is None or self.table.notes or end.get("lost_definitions") or not self.table.entries:
            _resolve_lost(self.table, threads)
        self._note_losses(threads, readings, end)
        return Trace(
            path=self.directory,
            manifest=self.manifest,
            end=end or {},
            tasks=tuple(self.table.entries),
            threads=tuple(threads),
            readings=readings,
            complete=end is not None,
            start_ns=_start_ns(self.manifest, readings, threads),
            end_ns=_end_ns(end, readings, threads),
            process_end_ns=_process_ends(end),
            notes=tuple(self.notes + self.table.notes),
        )

    def _end(self) -> dict[str, Any] | None:
        try:
            end = read_end(self.directory)
        except TraceError as error:
            self.notes.append(str(error))
            return None
        if end is None:
            self.notes.append("incomplete: the recording did not end by itself; every committed sample is here")
        return end

    def _files(self, room: str, suffix: str) -> list[Path]:
        place = self.directory / room
        if place.is_symlink() or not place.is_dir():
            return []
        return sorted(path for path in place.iterdir() if path.suffix == suffix)

    def _try(self, path: Path, read: Callable[[Path], T]) -> T | None:
        try:
            return read(path)
        except TraceError as error:
            if "update tprof" in str(error):
                raise
            self.notes.append(f"left out: {error}")
            return None

    def _readings(self, path: Path) -> Readings:
        readings, note = read_readings(path)
        if note:
            self.notes.append(note)
        return readings

    def _thread(self, path: Path, packages: np.ndarray[Any, np.dtype[np.int16]]) -> Thread:
        stream = open_stream(path, layout.StreamKind.SAMPLES)
        if stream.note:
            self.notes.append(stream.note)
        return make_thread(stream, self.table, packages)

    def _note_losses(
        self, threads: list[Thread], readings: dict[str, Readings], end: dict[str, Any] | None
    ) -> None:
        dropped = sum(sum(thread.dropped.values()) for thread in threads)
        lost = dict((end or {}).get("dropped") or {})
        dropped += sum(count for count in lost.values() if type(count) is int)
        if dropped:
            self.notes.append(f"{dropped} samples could not be written (disk full or file lost): their time is `runtime`")
        if (end or {}).get("lost_threads"):
            why = "no file descriptor was left" if lost.get("emfile") else "their files could not be made"
            self.notes.append(f"{end['lost_threads']} threads are not recorded: {why}")  # type: ignore[index]
        if (end or {}).get("uncounted_threads"):
            self.notes.append(f"{end['uncounted_threads']} threads have no counters or not all of them (no descriptor left, or not permitted)")  # type: ignore[index]  # noqa: E501
        missed = sum(reading.dropped for reading in readings.values())
        if missed:
            self.notes.append(f"{missed} sensor readings could not be written (disk full)")


def make_thread(stream: Stream, table: TaskTable, packages: np.ndarray[Any, np.dtype[np.int16]]) -> Thread:
    """Make a thread of a sample file's header."""
    number = stream.number
    width = layout.column_count(number("record_bytes"))
    declared = _column_names(stream.description, width)
    absent = number("absent")
    present = [name for place, name in enumerate(declared) if name and not absent >> place & 1]
    reason = number("end_reason")
    ended = reason in set(layout.EndReason) and reason != layout.EndReason.OPEN
    process = number("process")
    return Thread(
        ordinal=number("thread"),
        process=process,
        pid=number("pid"),
        tid=number("tid"),
        name=bytes(stream.header["thread_name"]).split(b"\0")[0].decode("utf-8", "replace"),
        count=stream.count,
        columns=tuple(present),
        end_reason=layout.EndReason(reason) if ended else layout.EndReason.OPEN,
        end_ns=min(number("end_ns"), 2**63 - 1) if ended else None,
        end_columns=_end_columns(stream, declared) if ended else {},
        dropped={
            reason: count
            for reason in ("enospc", "io", "reentrant")
            if (count := number(f"dropped_{reason}"))
        },
        first_drop_ns=min(number("first_drop_ns"), 2**63 - 1) or None,
        stream=stream,
        dtype=layout.sample_dtype(declared),
        packages_of_cpus=packages,
        task_numbers=lambda tasks: _global_numbers(tasks, table, process),
    )


def _end_columns(stream: Stream, declared: tuple[str, ...]) -> dict[str, int]:
    values = stream.header["end_columns"]
    return {name: int(values[place]) for place, name in enumerate(declared) if name}


def _column_names(description: dict[str, Any], width: int) -> tuple[str, ...]:
    """Return one unique name a column, "" where there is none or where it is taken."""
    names: list[str] = []
    reserved = {name for name, _ in layout.SAMPLE_HEAD}
    said = description.get("columns")
    for column in said if isinstance(said, list) else []:
        name = column.get("name") if isinstance(column, dict) else None
        sound = isinstance(name, str) and name.isidentifier() and len(name) <= 100 and name not in reserved
        names.append(name if sound and name not in names else "")
    return tuple((names + [""] * width)[:width])


def _global_numbers(
    tasks: np.ndarray[Any, np.dtype[np.uint32]], table: TaskTable, process: int
) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Turn a process's task numbers into indices of the whole trace's tasks."""
    numbers = table.numbers(process)
    if not len(tasks):
        return tasks
    known = tasks[tasks != layout.NO_TASK]
    top = int(known.max()) if len(known) else 0
    if top < max(len(numbers) * 4, 1 << 16):
        lookup = np.full(top + 2, layout.NO_TASK, np.uint32)
        for number in np.flatnonzero(np.bincount(known.astype(np.int64), minlength=top + 1)):
            lookup[number] = numbers.get(int(number), layout.NO_TASK)
        mapped = lookup[np.minimum(tasks, np.uint32(top + 1))]
    else:
        distinct, inverse = np.unique(tasks, return_inverse=True)
        mapped = np.array([numbers.get(int(number), layout.NO_TASK) for number in distinct], np.uint32)[inverse]
    return mapped


def _resolve_lost(table: TaskTable, threads: list[Thread]) -> None:
    """Give every number that samples use and the tables lack a stand-in, before the tasks are fixed."""
    for thread in threads:
        numbers = table.numbers(thread.process)
        tasks = thread.stream.read(thread.dtype)["task"]
        for number in np.unique(tasks[tasks != layout.NO_TASK])[:MAX_LOST]:
            if int(number) not in numbers:
                table.lost(thread.process, int(number))


def _ordinal(path: Path) -> int:
    return int(path.stem) if path.stem.isascii() and path.stem.isdigit() else layout.NO_THREAD


def _packages(manifest: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Return the package of each processor, -1 where the manifest does not say."""
    said = manifest.get("topology")
    pairs = [
        (entry["cpu"], entry["package"])
        for entry in (said if isinstance(said, list) else [])
        if isinstance(entry, dict)
        and type(entry.get("cpu")) is int
        and type(entry.get("package")) is int
        and 0 <= entry["cpu"] < MAX_CPUS
        and 0 <= entry["package"] < 1 << 15
    ]
    packages = np.full(max((cpu for cpu, _ in pairs), default=0) + 1, -1, np.int16)
    for cpu, package in pairs:
        packages[cpu] = package
    return packages


def _start_ns(manifest: dict[str, Any], readings: dict[str, Readings], threads: list[Thread]) -> int:
    clock = manifest.get("clock")
    start = clock.get("start_ns") if isinstance(clock, dict) else None
    if type(start) is int and 0 <= start < 2**63:
        return start
    firsts = [int(reading.t_ns[0]) for reading in readings.values() if len(reading.t_ns)]
    firsts += [thread.stream.number("start_ns") for thread in threads if thread.count]
    return min(min(firsts, default=0), 2**63 - 1)


def _end_ns(end: dict[str, Any] | None, readings: dict[str, Readings], threads: list[Thread]) -> int:
    said = (end or {}).get("end_ns")
    if type(said) is int and 0 <= said < 2**63:
        return said
    lasts = [int(reading.t_ns.max()) for reading in readings.values() if len(reading.t_ns)]
    lasts += [last for thread in threads if (last := _last_sample_ns(thread)) is not None]
    return max(lasts, default=0)


def _last_sample_ns(thread: Thread) -> int | None:
    if not thread.count:
        return None
    return min(int(thread.stream.read(thread.dtype)["t_ns"].max(initial=0)), 2**63 - 1)


def _process_ends(end: dict[str, Any] | None) -> dict[int, int]:
    said = (end or {}).get("processes")
    return {
        entry["process"]: entry["ended_ns"]
        for entry in (said if isinstance(said, list) else [])
        if isinstance(entry, dict) and type(entry.get("process")) is int and type(entry.get("ended_ns")) is int
    }
