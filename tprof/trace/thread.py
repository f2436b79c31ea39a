"""One thread of a trace: its metadata, and its samples on request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kinds, layout
from .metadata import MAX_NS
from .stream import open_stream

if TYPE_CHECKING:
    from pathlib import Path

    from .stream import Stream
    from .tasks import TaskTable

MAX_PID = 2**31 - 1
MAX_COLUMN_CHARACTERS = 100

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
        samples = self.stream.read(self.dtype)
        samples["task"] = self.table.to_indices(self.process, samples["task"])
        left_out = self.table.left_out()
        if left_out:
            nobody = np.isin(samples["task"], left_out)
            samples["instance"][nobody] = 0
            samples["kind"][nobody] = kinds.Kind.FINISH
        return samples

    def package(self, samples: Samples) -> Packages:
        """Return the package of each sample, -1 if unknown; (n,) int16."""
        cpu = samples["cpu"]
        known = len(self.packages_of_cpus)
        packages = self.packages_of_cpus[np.minimum(cpu, known - 1)]
        return np.where(cpu < known, packages, np.int16(-1))


def open_thread(path: Path, table: TaskTable, packages: Packages) -> Thread:
    """Open a file of samples. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.SAMPLES)
    number = stream.number
    declared = _column_names(stream.description, layout.column_count(number("record_bytes")))
    absent = number("absent")
    present = tuple(name for place, name in enumerate(declared) if name and not absent >> place & 1)
    reason = number("end_reason")
    end_reason = kinds.EndReason(reason) if reason in set(kinds.EndReason) else kinds.EndReason.OPEN
    ended = end_reason != kinds.EndReason.OPEN
    dropped = {reason: number(f"dropped_{reason}") for reason in ("enospc", "io", "reentrant")}
    return Thread(
        ordinal=number("thread"),
        process=number("process"),
        pid=_process_id(number("pid")),
        tid=_process_id(number("tid")),
        name=bytes(stream.header["thread_name"]).split(b"\0")[0].decode("utf-8", "replace"),
        count=stream.count,
        columns=present,
        end_reason=end_reason,
        end_ns=min(number("end_ns"), MAX_NS) if ended else None,
        end_columns=_end_columns(stream, declared, present) if ended else {},
        dropped={reason: count for reason, count in dropped.items() if count},
        first_drop_ns=min(number("first_drop_ns"), MAX_NS) or None,
        stream=stream,
        dtype=layout.sample_dtype(declared),
        packages_of_cpus=packages,
        table=table,
    )


def _process_id(number: int) -> int:
    return number if number <= MAX_PID else 0


def _end_columns(stream: Stream, declared: tuple[str, ...], present: tuple[str, ...]) -> dict[str, int]:
    values = stream.header["end_columns"]
    return {name: int(values[declared.index(name)]) for name in present}


def _column_names(description: dict[str, Any], width: int) -> tuple[str, ...]:
    """Return for each column a valid field name, "" if it has none or a duplicate."""
    names: list[str] = []
    columns = description.get("columns")
    for column in columns[:width] if isinstance(columns, list) else []:
        name = column.get("name") if isinstance(column, dict) else None
        good = isinstance(name, str) and is_column_name(name) and name not in names
        names.append(str(name) if good else "")
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
