"""One thread of a trace: its metadata, and its samples on request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kinds, layout
from .metadata import MAX_NS
from .stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .stream import Stream
    from .tasks import TaskTable

MAX_PID = 2**31 - 1
MAX_COLUMN_CHARACTERS = 100
_END_REASONS = {int(reason): reason for reason in kinds.EndReason}

Packages = np.ndarray[Any, np.dtype[np.int16]]
Samples = np.ndarray[Any, np.dtype[np.void]]


@dataclass(frozen=True)
class Thread:
    """A thread's part of a trace.

    Attributes
    ----------
    ordinal, process : numbers within the session.
    pid, tid, name : from the system.
    count : committed samples that can be read.
    columns : names of the recorded columns; absent ones are left out.
    end_reason, end_ns, end_columns : its end, and the columns at that time; empty without an end.
    dropped : samples that could not be written, by reason.
    first_drop_ns : time of the first of these; the file has no samples after it.
    first : the first of its samples in the file; not 0 in a window of the recording.
    """

    ordinal: int
    process: int
    pid: int
    tid: int
    name: str
    count: int
    columns: tuple[str, ...]
    end_reason: kinds.EndReason
    end_ns: int | None
    end_columns: dict[str, int]
    dropped: dict[str, int]
    first_drop_ns: int | None
    stream: Stream = field(repr=False)
    dtype: np.dtype[np.void] = field(repr=False)
    packages_of_cpus: Packages = field(repr=False)
    table: TaskTable = field(repr=False)
    first: int = 0

    def between(self, begin_ns: int, end_ns: int) -> Thread:
        """Return the thread with the samples that tell what it did between two times; they are found by bisection.

        The first may be earlier. If a sample is not before `end_ns`, it is the thread's end, with its columns.
        """
        first, after = (self.stream.first_at(self.dtype, t_ns) for t_ns in (begin_ns, end_ns))
        borders = [self.stream.read_part(self.dtype, at, at + 1) for at in (first, after)]
        if first and not (len(borders[0]) and int(borders[0]["t_ns"][0]) == begin_ns):
            first -= 1
        if not len(borders[1]):
            return replace(self, first=first, count=self.count - first)
        closing = borders[1][0]
        return replace(
            self, first=first, count=max(after - first, 0), end_ns=min(int(closing["t_ns"]), MAX_NS),
            end_columns={name: int(closing[name]) for name in self.columns}, first_drop_ns=None,
        )  # fmt: skip

    def read(self) -> Samples:
        """Read the samples from the file; they are not cached, so that a large trace is not in memory twice.

        Returns
        -------
        samples : (n,) structured array
            t_ns, instance, task (index in `Trace.tasks`, 0xFFFFFFFF: none, or not in the table), cpu, kind,
            flags and one uint64 field per declared column. Samples of default tasks count as no task if the trace
            has others. In the order of the file: times may be equal or unordered, instances may begin twice, kinds
            and flags may be unknown.

        Raises
        ------
        TraceError
            If the file is missing, or does not fit into memory.
        """
        return self._known(self.stream.read_part(self.dtype, self.first, self.first + self.count))

    def read_pieces(self, begin: int, end: int) -> Iterator[Samples]:
        """Yield some samples in pieces that stay in the last cache; each may overwrite the one before.

        They are as `read` returns them, except that `task` may be as the file has it (`has_known_tasks`). Raises
        TraceError.
        """
        knows = self.has_known_tasks
        for piece in self.stream.read_pieces(self.dtype, self.first + begin, self.first + min(end, self.count)):
            yield self._known(piece) if knows else piece

    def read_part(self, begin: int, end: int) -> Samples:
        """Return some samples, as `read_pieces`. Raises TraceError."""
        samples = self.stream.read_part(self.dtype, self.first + begin, self.first + min(end, self.count))
        return self._known(samples) if self.has_known_tasks else samples

    @cached_property
    def has_known_tasks(self) -> bool:
        """Whether pieces have the tasks of the trace, not of the file: some are left out, or numbers are sparse."""
        return bool(self.table.left_out()) or self.table.is_sparse(self.process)

    def _known(self, samples: Samples) -> Samples:
        samples["task"] = self.table.to_indices(self.process, samples["task"])
        _leave_out(self.table, samples)
        return samples

    def package(self, samples: Samples) -> Packages:
        """Return the package of each sample, -1 if unknown; (n,) int16."""
        cpu = samples["cpu"]
        known = len(self.packages_of_cpus)
        packages = self.packages_of_cpus[np.minimum(cpu, known - 1)]
        return np.where(cpu < known, packages, np.int16(-1))


def _leave_out(table: TaskTable, samples: Samples) -> None:
    """Make samples of default tasks ones of no task, if the trace has others; in place."""
    left_out = table.left_out()
    if left_out:
        nobody = np.isin(samples["task"], left_out)
        samples["instance"][nobody] = 0
        samples["kind"][nobody] = kinds.Kind.FINISH


def open_thread(path: Path, table: TaskTable, packages: Packages) -> Thread:
    """Open a file of samples. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.SAMPLES)
    header = stream.header
    declared = _column_names(stream.description, layout.column_count(header["record_bytes"]))
    present = tuple(name for place, name in enumerate(declared) if name and not header["absent"] >> place & 1)
    end_reason = _END_REASONS.get(header["end_reason"], kinds.EndReason.OPEN)
    ended = end_reason != kinds.EndReason.OPEN
    dropped = {reason: header[f"dropped_{reason}"] for reason in ("enospc", "io", "reentrant")}
    return Thread(
        ordinal=header["thread"],
        process=header["process"],
        pid=_process_id(header["pid"]),
        tid=_process_id(header["tid"]),
        name=header["thread_name"].split(b"\0")[0].decode("utf-8", "replace"),
        count=stream.count,
        columns=present,
        end_reason=end_reason,
        end_ns=min(header["end_ns"], MAX_NS) if ended else None,
        end_columns=_end_columns(stream, declared, present) if ended else {},
        dropped={reason: count for reason, count in dropped.items() if count},
        first_drop_ns=min(header["first_drop_ns"], MAX_NS) or None,
        stream=stream,
        dtype=layout.sample_dtype(declared),
        packages_of_cpus=packages,
        table=table,
    )


def _process_id(number: int) -> int:
    return number if number <= MAX_PID else 0


def _end_columns(stream: Stream, declared: tuple[str, ...], present: tuple[str, ...]) -> dict[str, int]:
    values = dict(zip(declared, stream.header["end_columns"].tolist(), strict=False))
    return {name: values[name] for name in present}


def _column_names(description: dict[str, Any], width: int) -> tuple[str, ...]:
    """Return for each column a valid field name, "" if it has none or a duplicate."""
    columns = description.get("columns")
    listed = columns[:width] if isinstance(columns, list) else []
    declared = [column.get("name") if isinstance(column, dict) else None for column in listed]
    return _valid_names(tuple(name if isinstance(name, str) else "" for name in declared), width)


@lru_cache(maxsize=16)
def _valid_names(declared: tuple[str, ...], width: int) -> tuple[str, ...]:
    names: list[str] = []
    for name in declared:
        names.append(name if is_column_name(name) and name not in names else "")
    return tuple((names + [""] * width)[:width])


def is_column_name(name: str) -> bool:
    """Return whether a column may have this name: a short ASCII identifier, distinct from other fields."""
    return (
        name.isascii()
        and name.isidentifier()
        and len(name) <= MAX_COLUMN_CHARACTERS
        and not name.startswith(layout.UNUSED)
        and name not in {field for field, _ in layout.SAMPLE_HEAD}
    )
