"""Reads a trace from a session directory: all valid parts, with notes on the others."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tprof.errors import TraceError

from . import layout
from .cluster import ClusterTrace, is_job, load_job
from .decisions import MAX_DECISIONS, Decision, read_decisions
from .directory import DECISIONS, GONE, GPU, HOSTS, KEYS, LABELS, STACKS
from .gone import read_gone
from .gpu import GpuReader, GpuTrace
from .graph import EventFile, open_events
from .keys import KeyFile
from .labels import read_labels
from .manifest import read_end, read_manifest
from .metadata import MAX_NS, packages_of_cpus, process_ends, sound_end, sound_manifest, start_ns_of
from .missing_files import missing_readings, missing_tables, missing_threads
from .native import NativeFile, open_native
from .outliving import Outliving
from .packed import NewerFormatError
from .plain_values import counted
from .readings import Readings, read_readings
from .running import is_running
from .sealed import changed_texts, contradictions, missing_files
from .stacks import StackFile, open_stacks
from .stream import UnwrittenError, check_major
from .sums import keeps_summary
from .sums_trace import SumsTrace, load_sums, refusal
from .tasks import TaskTable
from .thread import Thread, open_thread
from .trace import Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from .stream import Stream

CHUNK_RECORDS = 1 << 16
UNREAD_NS = 500_000_000
LATE_NS = 5_000_000_000
"""By so much threads may end later than the recording, whose end is noted before theirs."""
MAX_LOST = 100_000
T = TypeVar("T")
OfThread = TypeVar("OfThread", Thread, EventFile)


def load(path: str | os.PathLike[str]) -> Trace | ClusterTrace | SumsTrace:
    """Open a trace.

    Parameters
    ----------
    path
        A session directory, finished or left by a program that was killed; or a job with the parts of several hosts.
        Of one that kept sums only (``keep="summary"``) these.

    Returns
    -------
    Trace, ClusterTrace or SumsTrace
        With every committed sample. Truncated files are read as far as possible; `Trace.notes` has
        a sentence on each missing part. Of a job, its hosts.

    Raises
    ------
    TraceError
        If it is neither, is unreadable, or of a newer format.
    """
    directory = Path(path).absolute()
    return load_job(directory) if is_job(directory) else load_one(directory)


def load_one(path: str | os.PathLike[str]) -> Trace | SumsTrace:
    """Open the session of one host, or the sums that are kept of it. Raises TraceError, as `load`."""
    directory = Path(path).absolute()
    check_session(directory)
    return load_sums(directory) if keeps_summary(read_manifest(directory)) else load_session(directory)


def load_session(path: str | os.PathLike[str]) -> Trace:
    """Open the session of one host. Raises TraceError, as `load`."""
    directory = Path(path).absolute()
    check_session(directory)
    manifest = read_manifest(directory)
    if keeps_summary(manifest):
        raise TraceError(refusal(directory))
    return load_samples(directory)


def load_samples(directory: Path) -> Trace:
    """Open the samples of a session, those too of which only sums will be kept. Raises TraceError."""
    manifest = read_manifest(directory)
    minor = layout.MINOR if keeps_summary(manifest) else _check_format(directory, manifest)
    return _Loader(directory, manifest, minor).load()


def check_session(directory: Path) -> None:
    """Raise TraceError, with the reason, if this is not the directory of one host's session."""
    try:
        if stat.S_ISDIR(directory.lstat().st_mode):
            if (directory / "manifest.json").exists():
                return
            if is_job(directory):
                raise TraceError(
                    f"{directory} is a job of several hosts: give one of its parts, in {directory / HOSTS}"
                )
            reason = "it has no manifest.json"
        else:
            reason = "it is a link or a file"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no path"
    message = f"{directory} is not a tprof session ({reason}): give the directory that `tprof run` or tprof.record made"
    raise TraceError(message)


def _check_format(directory: Path, manifest: dict[str, Any]) -> int:
    """Return the minor version. Raises TraceError."""
    known = manifest.get("format")
    if not (isinstance(known, list) and len(known) > 1 and type(known[0]) is type(known[1]) is int):
        message = f"{directory} is not a tprof session: its manifest names no format"
        raise TraceError(message)
    check_major(directory, known[0])
    return known[1]


_CUT_OFF = "incomplete: the recording did not end by itself; every committed sample is here"
_UNWRITTEN = "incomplete: samples, and the end of the recording, could not be written: was the disk full?"


class _Loader:
    """Collects the parts of a trace, and the notes about them."""

    def __init__(self, directory: Path, manifest: dict[str, Any], minor: int) -> None:
        self.directory = directory
        self.table = TaskTable()
        self.late = Outliving.of(None)
        self.unwritten: list[str] = []
        self.manifest, self.notes = sound_manifest(manifest)
        if minor > layout.MINOR:
            known = f"{layout.MAJOR}.{layout.MINOR}"
            self.notes.append(f"the trace is of format {layout.MAJOR}.{minor}: what {known} does not know is left out")

    def load(self) -> Trace:
        end = self._end()
        self.late = Outliving.of(end)
        tables = self._files("tasks", ".jsonl")
        for path in tables:
            process = _ordinal(path)
            self._try(path, partial(self.table.read, process=process, length=self.late.length("table_bytes", process)))
        threads, readings = self._threads(), self._readings()
        end = self._with_sound_end(end, threads, readings)
        self.late = Outliving.of(end)
        threads = [kept for one in threads if (kept := self.late.thread(one)) is not None]
        events, native = self._events(), self._native()
        unnamed = {one.process for one in threads} - {one for one in map(_ordinal, tables) if self.table.numbers(one)}
        if end is None or self.table.notes or end.get("lost_definitions") or unnamed or not self.table.entries:
            _name_lost(self.table, threads, events)
        self.notes += missing_tables([process for process in unnamed if self.table.numbers(process)])
        gone = self._try(self.directory / GONE, lambda path: read_gone(path.parent))
        files = self._files("threads", ".samples", optional=True)
        self.notes += missing_threads(end or {}, 0 if gone is None else gone.threads, files)
        unread = list(missing_readings(self.manifest, end or {}, self._readings_there(readings)))
        self.notes += [*unread, *missing_files(self.directory, end or {}, len(unread), is_limited=gone is not None)]
        self.notes += [*changed_texts(self.directory, end or {}), *self._unwritten(end or {})]
        if end and "checksums" in end:
            self.notes += contradictions(self.manifest, threads, readings)
        self._note_losses(threads, readings, end or {})
        self._note_lost_events(events)
        if end is None:
            self._note_full_disk(threads)
            self._note_end_of_readings(readings, threads)
        start_ns, end_ns = self._block(end, readings, threads, events)
        whole = Trace(
            path=self.directory,
            manifest=self.manifest,
            end=end or {},
            tasks=tuple(self.table.entries),
            threads=tuple(threads),
            readings=readings,
            events=tuple(events),
            native=tuple(native),
            complete=end is not None,
            start_ns=start_ns,
            end_ns=end_ns,
            process_end_ns=process_ends(end or {}),
            decisions=self._decisions(),
            gpu=self._gpu(),
            labels=self._labels(),
            key_files=self._key_files(),
            stack_files=self._stacks(),
            notes=tuple(self.notes + self.table.notes),
            gone=gone,
        )
        return whole if whole.kept_ns <= start_ns else whole.window(whole.kept_ns, end_ns)

    def _with_sound_end(
        self, end: dict[str, Any] | None, threads: list[Thread], readings: dict[str, Readings]
    ) -> dict[str, Any] | None:
        """Return the end without its time if that is before what was recorded: the last record then says it."""
        if end is None or "end_ns" not in end:
            return end
        end_ns, start_ns, left = int(end["end_ns"]), start_ns_of(self.manifest), process_ends(end)
        had_left = [one for one in threads if one.process in left or not end.get("processes")]
        ends = [one.end_ns for one in had_left if one.end_ns is not None]
        is_early = max(ends, default=0) > end_ns + LATE_NS
        if start_ns is not None and end_ns < start_ns and not is_early:
            is_early = _end_ns(None, readings, threads, []) >= start_ns
        if not is_early:
            return end
        self.notes.append("end.json: 'end_ns' is before what was recorded, and left out: the last record is the end")
        return {name: value for name, value in end.items() if name != "end_ns"}

    def _block(
        self,
        end: dict[str, Any] | None,
        readings: dict[str, Readings],
        threads: list[Thread],
        events: list[EventFile],
    ) -> tuple[int, int]:
        """Return the start and end of the block; a start after the end is damage, and left out."""
        end_ns = _end_ns(end, readings, threads, events)
        clock = self.manifest.get("clock", {})
        for key in ("block_start_ns", "start_ns"):
            start_ns = start_ns_of(self.manifest)
            if start_ns is not None and start_ns > end_ns and key in clock:
                self.notes.append(f"manifest.json: '{key}' of 'clock' is after the end of the recording, and left out")
                self.manifest["clock"] = clock = {name: value for name, value in clock.items() if name != key}
        return _start_ns(self.manifest, readings, threads), end_ns

    def _end(self) -> dict[str, Any] | None:
        try:
            metadata = read_end(self.directory)
        except TraceError as error:
            self.notes.append(str(error))
            return None
        if metadata is None:
            self.notes.append(
                "incomplete: the recording still runs; this is what it has committed so far"
                if is_running(self.directory)
                else _CUT_OFF
            )
            return None
        end, notes = sound_end(metadata)
        self.notes += [*notes, *end.get("notes", ())]
        return end

    def _files(self, name: str, suffix: str, *, optional: bool = False) -> list[Path]:
        place = self.directory / name
        try:
            if stat.S_ISDIR(place.lstat().st_mode):
                # By name: paths compare far slower, and there may be a file for each of many threads.
                return sorted((path for path in place.iterdir() if path.suffix == suffix), key=lambda path: path.name)
            reason = "it is a link or a file"
        except OSError as error:
            if optional and isinstance(error, FileNotFoundError):
                return []
            reason = error.strerror or str(error)
        self.notes.append(f"left out: cannot read {place}: {reason}")
        return []

    def _try(self, path: Path, read: Callable[[Path], T]) -> T | None:
        try:
            return read(path)
        except NewerFormatError:
            raise
        except UnwrittenError:
            self.unwritten.append(path.name)
            return None
        except TraceError as error:
            self.notes.append(f"left out: {error}")
            return None

    def _threads(self) -> list[Thread]:
        packages = packages_of_cpus(self.manifest)
        files = self._files("threads", ".samples")
        return self._of_threads(files, lambda path: open_thread(path, self.table, packages))

    def _of_threads(self, files: list[Path], read: Callable[[Path], OfThread | None]) -> list[OfThread]:
        """Return the readable ones of these files, one per thread."""
        found: dict[int, OfThread] = {}
        for path in files:
            one = self._try(path, read)
            if one is None:
                continue
            if one.stream.note:
                self.notes.append(one.stream.note)
            if one.ordinal in found:
                self.notes.append(f"left out: {path} says that it is thread {one.ordinal}, as another file does")
            else:
                found[one.ordinal] = one
        return list(found.values())

    def _readings(self) -> dict[str, Readings]:
        readings: dict[str, Readings] = {}
        for path in self._files("readings", ".readings"):
            found = self._try(path, read_readings)
            if found is None:
                continue
            one, notes = found
            self.notes += notes
            if one.name in readings:
                self.notes.append(f"left out: {path} says that it is {one.name!r}, as another file does")
            else:
                readings[one.name] = one
        return readings

    def _readings_there(self, readings: dict[str, Readings]) -> set[str]:
        """Return the names of readings, and those of files, which may be left out."""
        return {*readings, *(path.stem for path in self._files("readings", ".readings", optional=True))}

    def _events(self) -> list[EventFile]:
        files = self._files("graph", ".events", optional=True)
        return self._of_threads(files, lambda path: self.late.events(open_events(path, self.table)))

    def _native(self) -> list[NativeFile]:
        found: dict[tuple[int, int], NativeFile] = {}
        for path in self._files("native", ".native", optional=True):
            one = self._try(path, lambda path: self.late.native(open_native(path, self.table)))
            if one is None:
                continue
            if one.stream.note:
                self.notes.append(one.stream.note)
            if one.dropped:
                self.notes.append(
                    f"{counted(one.dropped, 'reading')} of native threads could not be written (disk full)"
                )
            if (one.process, one.pid) in found:
                self.notes.append(f"left out: {path} says that it is of process {one.pid}, as another file does")
            else:
                found[one.process, one.pid] = one
        return list(found.values())

    def _stacks(self) -> tuple[StackFile, ...]:
        found: dict[int, StackFile] = {}
        for path in self._files(STACKS, ".stacks", optional=True):
            one = self._try(path, lambda path: self.late.stacks(open_stacks(path)))
            if one is None:
                continue
            if one.stream.note:
                self.notes.append(one.stream.note)
            if one.dropped:
                self.notes.append(
                    f"{counted(one.dropped, 'record')} of sampled stacks could not be written (disk full)"
                )
            if one.process in found:
                self.notes.append(f"left out: {path} says that it is of process {one.process}, as another file does")
            else:
                found[one.process] = one
        return tuple(found.values())

    def _decisions(self) -> tuple[Decision, ...]:
        decisions: list[Decision] = []
        for path in self._files(DECISIONS, ".jsonl", optional=True):
            read = partial(read_decisions, process=_ordinal(path), most=MAX_DECISIONS + 1 - len(decisions))
            found, notes = self._try(path, read) or ([], [])
            decisions += found
            self.notes += notes
        return tuple(sorted(self.late.decisions(decisions), key=lambda one: one.t_ns))

    def _gpu(self) -> GpuTrace:
        reader = GpuReader(self.table)
        for path in self._files(GPU, ".jsonl", optional=True):
            process = _ordinal(path)
            self._try(path, partial(reader.read, process=process, length=self.late.length("gpu_bytes", process)))
        self.notes += reader.notes
        return self.late.gpu(reader.found())

    def _labels(self) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str] | None] = {}
        for path in self._files(LABELS, ".jsonl", optional=True):
            process = _ordinal(path)
            length = self.late.length("label_bytes", process)
            found[process] = self._try(path, partial(read_labels, length=length))
        return {process: labels for process, labels in found.items() if labels}

    def _key_files(self) -> tuple[KeyFile, ...]:
        paths = self._files(KEYS, ".jsonl", optional=True)
        files = (KeyFile(path, self.late.length("key_bytes", _ordinal(path))) for path in paths)
        return tuple(one for one in files if one.length)

    def _note_end_of_readings(self, readings: dict[str, Readings], threads: list[Thread]) -> None:
        """Say if samples go on without readings: a host recorder that is killed does not end its members."""
        read = [int(one.t_ns[-1]) for one in readings.values() if one.quantity == "energy" and len(one.t_ns)]
        late_ns = max((_last_ns(one.stream, one.dtype) for one in threads), default=0) - max(read, default=0)
        if read and late_ns > UNREAD_NS and not is_running(self.directory):
            self.notes.append(
                f"the sensors were read until {late_ns * 1e-9:.3g} s before the last sample: what tasks drew after "
                "that is not resolved"
            )

    def _note_full_disk(self, threads: list[Thread]) -> None:
        """Say what a missing end most likely means where samples could not be written either."""
        if _CUT_OFF in self.notes and any(sum(thread.dropped.values()) for thread in threads):
            self.notes[self.notes.index(_CUT_OFF)] = _UNWRITTEN

    def _note_lost_events(self, events: list[EventFile]) -> None:
        lost = sum(file.dropped for file in events)
        if lost:
            self.notes.append(f"{counted(lost, 'event')} of the task runtime could not be written: its graph has gaps")

    def _unwritten(self, end: dict[str, Any]) -> list[str]:
        """Return sentences on empty files, which processes leave that are killed, or find no room on the disk."""
        known = end.get("processes", ())
        if not known or len(process_ends(end)) < len(known) or end.get("lost_threads"):
            return []
        return [f"{name} is empty: what was in it is not in the figures" for name in self.unwritten]

    def _note_losses(self, threads: list[Thread], readings: dict[str, Readings], end: dict[str, Any]) -> None:
        lost = end.get("dropped", {})
        dropped = sum(lost.values()) + sum(sum(thread.dropped.values()) for thread in threads)
        missed = sum(reading.dropped for reading in readings.values())
        why = "no file descriptor was left" if lost.get("emfile") else "their files could not be made"
        counts = [
            (dropped, "sample", "samples", "could not be written (disk full or file lost): their time is `runtime`"),
            (end.get("lost_threads"), "thread is", "threads are", f"not recorded: {why}"),
            (
                end.get("uncounted_threads"), "thread has", "threads have",
                "no counters or not all of them (no descriptor left, or not permitted)",
            ),
            (missed, "sensor reading", "sensor readings", "could not be written (disk full)"),
        ]  # fmt: skip
        self.notes += [f"{counted(count, one, several)} {rest}" for count, one, several, rest in counts if count]


def _name_lost(table: TaskTable, threads: list[Thread], events: list[EventFile]) -> None:
    """Add placeholders for numbers in samples and events that are not in the tables, before the tasks are fixed."""
    parts = [(thread.stream, thread.dtype, thread.process) for thread in threads]
    parts += [(file.stream, layout.EVENT, file.process) for file in events]
    for stream, dtype, process in parts:
        for first in range(0, stream.count, CHUNK_RECORDS):
            tasks = stream.read_part(dtype, first, first + CHUNK_RECORDS)["task"]
            indices = table.to_indices(process, tasks)
            unknown = tasks[(indices == layout.NO_TASK) & (tasks != layout.NO_TASK)]
            if not len(unknown):
                continue
            for number in np.unique(unknown)[:MAX_LOST]:
                table.lost(process, int(number))
            if len(table.entries) > MAX_LOST:
                return


def _ordinal(path: Path) -> int:
    return int(path.stem) if path.stem.isascii() and path.stem.isdigit() else layout.NO_THREAD


def _start_ns(manifest: dict[str, Any], readings: dict[str, Readings], threads: list[Thread]) -> int:
    start = start_ns_of(manifest)
    if start is not None:
        return start
    firsts = [int(reading.t_ns[0]) for reading in readings.values() if len(reading.t_ns)]
    firsts += [thread.stream.number("start_ns") for thread in threads if thread.count]
    return min(min(firsts, default=0), MAX_NS)


def _end_ns(
    end: dict[str, Any] | None, readings: dict[str, Readings], threads: list[Thread], events: list[EventFile]
) -> int:
    if end and "end_ns" in end:
        return int(end["end_ns"])
    lasts = [int(reading.t_ns.max()) for reading in readings.values() if len(reading.t_ns)]
    lasts += [_last_ns(thread.stream, thread.dtype) for thread in threads]
    lasts += [_last_ns(file.stream, layout.EVENT) for file in events]
    return max(lasts, default=0)


def _last_ns(stream: Stream, dtype: np.dtype[np.void]) -> int:
    """Return the latest time among a file's last records, which may not be in order."""
    records = stream.read_part(dtype, max(stream.count - CHUNK_RECORDS, 0), stream.count)
    return min(int(records["t_ns"].max(initial=0)), MAX_NS)
