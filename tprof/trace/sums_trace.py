"""A session that kept sums: what a reader finds in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tprof.errors import TraceError, UsageError

from .directory import DISK_LOCK, await_disk_helper, has_helper, one_at_a_time
from .manifest import END, read_end, read_manifest
from .metadata import sound_end, sound_manifest, start_ns_of, written
from .missing_files import missing_tables
from .plain_values import is_finite
from .running import is_running
from .sealed import changed_texts
from .sums import SumsReader
from .tasks import MAX_BYTES, TaskTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tprof.analysis.profile import Profile

    from .sums import Block


@dataclass(frozen=True)
class SumsTrace:
    """The sums of a recording with ``keep="summary"``.

    Attributes
    ----------
    path : of the session
    manifest, end : its metadata; no end where the recording runs or was killed
    table : the tasks
    complete : whether the recording ended and all its sums are there
    start_ns, end_ns : of the recorded block, as far as there are sums
    span_ns : length of the spans
    notes : sentences on what is missing
    """

    path: Path
    manifest: dict[str, Any]
    end: dict[str, Any]
    table: TaskTable
    complete: bool
    start_ns: int
    end_ns: int
    span_ns: int
    notes: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of sums in order of time. Raises TraceError."""
        return SumsReader(self.path).blocks()

    def profile(self, model: str = "auto", *, start_s: float | None = None, end_s: float | None = None) -> Profile:
        """Return the tables of the sums.

        Raises
        ------
        UsageError
            If another model than ``cputime`` is asked for, or a part of the recording.
        TraceError
            If the sums cannot be read.
        """
        from tprof.analysis.profile import profile_of_sums  # noqa: PLC0415 - the door to analysis

        if model not in ("auto", "cputime"):
            raise UsageError(f"{self.path} keeps sums by CPU time only: leave --model out, or record without keep")
        if start_s is not None or end_s is not None:
            raise UsageError(f"{self.path} keeps sums by span: export them, and add up those that you want")
        return profile_of_sums(self)


def load_sums(directory: Path) -> SumsTrace:
    """Open the session of a recording that keeps sums, once they are complete if it has ended. Raises TraceError."""
    await_last(directory)
    unkept = _finish_keeping(directory)
    manifest, notes = sound_manifest(read_manifest(directory))
    found = read_end(directory)
    end, more = ({}, []) if found is None else sound_end(found)
    reader = SumsReader(directory)
    start_ns = start_ns_of(manifest) or reader.begin_ns
    table = TaskTable()
    lengths = written(end, "table_bytes")
    for path in sorted((directory / "tasks").glob("*.jsonl")):
        process = int(path.stem) if path.stem.isdecimal() else 0
        table.read(path, process, lengths.get(process, MAX_BYTES))
    unnamed = set()
    for block in reader.blocks():
        unnamed |= {one for one in block.tasks["process"].tolist() if not table.numbers(one)}
    until_ns = max(reader.until_ns, start_ns)
    missing = [
        *unkept,
        *_missing(directory, end, until_ns),
        *_damage(directory, manifest, reader, is_over=found is not None),
    ]
    notes += [*more, *end.get("notes", ()), *missing, *missing_tables(unnamed)]
    notes += changed_texts(directory, end)
    complete = found is not None and not missing
    return SumsTrace(
        directory, manifest, end, table, complete, start_ns, until_ns, reader.span_ns, (*notes, *table.notes)
    )


def refusal(path: Path) -> str:
    """Return the sentence on what needs samples."""
    return (
        f'{path} keeps sums only (keep="summary"), and this needs single instances: use tprof summary, report or '
        "export csv, or record without it"
    )


def _missing(directory: Path, end: dict[str, Any], until_ns: int) -> list[str]:
    """Return a sentence on sums that are not there."""
    if not end:
        if is_running(directory):
            return ["incomplete: the recording still runs; these are the sums so far"]
        why = "it was killed, or the disk was full"
        return [
            f"incomplete: the recording did not end by itself ({why}); the sums up to its last written span are here"
        ]
    late_s = max(end.get("end_ns", until_ns) - until_ns, 0) * 1e-9
    if not _has_readings(directory):
        return []
    return [f"incomplete: the sums of the last {late_s:.3g} s could not be written"]


def _has_readings(directory: Path) -> bool:
    """Return whether there are readings, which are removed when their sums are written."""
    return any((directory / "readings").glob("*"))


def _damage(directory: Path, manifest: dict[str, Any], reader: SumsReader, *, is_over: bool) -> list[str]:
    """Return sentences on sums that were written, and cannot be read."""
    times = [[(at_ns - reader.begin_ns) * 1e-9 for at_ns in lost_ns] for lost_ns in reader.lost_ns]
    found = [
        f"{reader.path} is damaged: the sums from {begin_s:.6g} s to {end_s:.6g} s of the recording are lost"
        for begin_s, end_s in times
    ]
    if is_over and not reader.is_closed and not _has_readings(directory):
        until_s = (reader.until_ns - reader.begin_ns) * 1e-9
        found.append(f"{reader.path} is damaged: the sums from {until_s:.6g} s of the recording on are lost")
    span_s = manifest.get("span_s")
    same_span = is_finite(span_s) and round(span_s * 1e9) == reader.span_ns
    if start_ns_of(manifest) != reader.begin_ns or not same_span:
        found.append(f"{reader.path} is damaged: the begin or the length of its spans is not that of manifest.json")
    return found


def _finish_keeping(directory: Path) -> list[str]:
    """Add what a recording that does not run left as samples to its sums; returns a sentence if that fails.

    Nobody else does it where the processes that keep them were killed, or the disk was full.
    """
    if is_running(directory) or has_helper(directory) or not any((directory / "threads").glob("*")):
        return []
    from tprof.live.kept_sums import finish_keeping  # noqa: PLC0415 - it reads traces

    try:
        with one_at_a_time(directory, DISK_LOCK):
            finish_keeping(directory)
        (directory / DISK_LOCK).unlink(missing_ok=True)
    except (TraceError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return [f"samples of {directory} could not be added to its sums, and are not in the figures: {why}"]
    return []


def await_last(directory: Path) -> None:
    """Wait while the process that keeps the sums of an ended recording writes the last ones."""
    if (directory / END).exists():
        await_disk_helper(directory)
