"""The instances of a profile: their sums, and the instances themselves, which are shared again when they are needed.

All of them fit into a file that is read in parts. It has no name: it takes space until nothing reads it any more,
however the process ends.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from tprof.analysis.attribution.long_arrays import temporary_folder

from tprof.errors import TprofError, UsageError

from .memory import lacking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.segments import Segments

    from .stack_shares import StackShares
    from .task_graph import ServedSegments
    from .task_sums import TaskSums
    from .window_stream import SampleIndex, WindowStream

    Progress = Callable[[str, int, int], None]
    """Takes what is done now, how many are done, and how many there are."""

    Share = Callable[[Callable[["Piece"], None]], None]
    """Calls a function with the instances of each window, as they end."""

KEPT = [
    "task", "instance", "parent", "pid", "tid", "thread", "cpu", "start_s", "duration_s", "energy_j", "energy_low_j",
    "energy_high_j",
]  # fmt: skip
"""Columns of a table of instances for trees of tasks and for reports."""
KEPT_BYTES = 200
"""Of memory for a row of these while they are put together."""
ROW_BYTES = 700
"""Of memory for a row while a table is put together from its parts, more than was measured with eight counters."""
_NO_SPACE = (
    "cannot keep the instances of a long recording in {folder} (set TMPDIR to a folder with more space, or take a "
    "window of the recording by --between)"
)


class Piece(NamedTuple):
    """Some instances: a row each, and (n,) seconds in which its thread ran each, without nested tasks or suspension."""

    tasks: pd.DataFrame
    own_s: NDArray[np.float64]


class _Whole(NamedTuple):
    """All instances by id, and (n,) the window with which each ended."""

    piece: Piece
    window: NDArray[np.int32]


@dataclass(frozen=True)
class Instances:
    """The instances of a recording.

    Attributes
    ----------
    sums : over them
    last : those that were open until the last window
    stream : reads and shares the recording again
    complete : adds to a table of instances what their samples do not say
    served : what segments show of workers of a task runtime
    """

    sums: TaskSums
    last: Piece = field(repr=False)
    stream: WindowStream = field(repr=False)
    complete: Callable[[pd.DataFrame], pd.DataFrame] = field(repr=False)
    served: ServedSegments = field(repr=False)

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per instance, by id. Raises UsageError if they do not fit into memory."""
        return self._whole.piece.tasks

    @property
    def own_s(self) -> NDArray[np.float64]:
        """Their seconds, as of `Piece`. Raises as `tasks`."""
        return self._whole.piece.own_s

    @property
    def has_table(self) -> bool:
        """Whether the table of all of them is in memory already."""
        return "_whole" in vars(self)

    @property
    def table_fits(self) -> bool:
        """Whether there is memory for the table of all of them."""
        return lacking(self.sums.rows, ROW_BYTES) is None

    def share(self, sink: Callable[[Piece], None], progress: Progress | None = None) -> None:
        """Call a function with the instances of each window, as they end; a second one with how far that is.

        Unless their table is in memory, the joules are shared again.
        """
        if not self.has_table:
            self.stream.share(self.complete, sink, progress)
            return
        whole = self._whole
        for number in range(len(self.stream.windows)):
            at = np.flatnonzero(whole.window == number)
            sink(Piece(whole.piece.tasks.iloc[at].reset_index(drop=True), whole.piece.own_s[at]))

    @cached_property
    def kept(self) -> tuple[Piece, StackShares | None]:
        """Columns `KEPT` of all of them by id, and the sampled stacks; None if none were sampled."""
        if (lack := lacking(self.sums.rows, KEPT_BYTES)) is not None:
            raise UsageError(
                f"what trees and pages show of {self.sums.rows:,} instances {lack}: take a window of the recording by "
                "profile(start_s=…, end_s=…), --between"
            )
        stacks = self.stream.begin_stacks() if self.stream.trace.stack_files else None
        share = self.share if stacks is None else partial(self.stream.share, self.complete, stacks=stacks)
        parts: list[Piece] = []
        share(lambda piece: parts.append(Piece(piece.tasks[KEPT], piece.own_s)))
        return _joined(parts).piece, stacks

    @cached_property
    def dataset(self) -> Any:
        """All of them as a dataset of pyarrow. Raises UsageError without it, TprofError if there is no space."""
        return scanned(self.share)

    def segments(self) -> Iterator[tuple[tuple[int, int], list[Segments]]]:
        """Yield for each window when the segments begin that count in it, and those of its threads, read again.

        Some of them lie in other windows too.
        """
        return self.stream.segments()

    @property
    def begins_ns(self) -> tuple[int, ...]:
        """When windows begin."""
        return tuple(window.own_ns[0] for window in self.stream.windows)

    @property
    def index(self) -> SampleIndex:
        """The times of some samples of all threads."""
        return self.stream.index

    @cached_property
    def _whole(self) -> _Whole:
        if (lack := lacking(self.sums.rows, ROW_BYTES)) is not None:
            raise UsageError(
                f"the table of {self.sums.rows:,} instances {lack}: read it in parts by profile.scan_tasks(), or a "
                "window of the recording by profile(start_s=…, end_s=…), --between"
            )
        parts: list[Piece] = []
        self.stream.share(self.complete, parts.append)
        return _joined(parts)


@dataclass(frozen=True)
class InstanceTable:
    """The instances of a host whose table, with `own_s`, came without its recording: as of `Instances`."""

    sums: TaskSums
    tasks: pd.DataFrame = field(repr=False)

    @property
    def last(self) -> Piece:
        """All of them."""
        return Piece(self.tasks, self.tasks["own_s"].to_numpy(float))

    def share(self, sink: Callable[[Piece], None], progress: Progress | None = None) -> None:  # noqa: ARG002 - at once
        """Call a function with all of them."""
        sink(self.last)


def scanned(share: Share) -> Any:
    """Write all instances to a Parquet file, and return it as a dataset of pyarrow.

    It has a group of rows for each window, in the order in which windows ended.

    Raises
    ------
    UsageError
        If pyarrow is not installed.
    TprofError
        If the file cannot be written.
    """
    from tprof.analysis.export.formats import need  # noqa: PLC0415 - which names what installs it

    need("pyarrow", "parquet", "scan_tasks")
    from tprof.analysis.export.table_files import ParquetFile  # noqa: PLC0415 - for the same reason

    folder = temporary_folder()
    try:
        with tempfile.TemporaryDirectory(prefix="tprof-tasks-", dir=folder) as own:
            path = Path(own) / "tasks.parquet"
            with closing(ParquetFile(path.with_suffix(""))) as file:
                share(lambda piece: file.add(piece.tasks))
            return _opened(path)
    except OSError as error:
        raise TprofError(f"{_NO_SPACE.format(folder=folder)}: {error.strerror or error}") from error


def _opened(path: Path) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - optional; it was asked for
    import pyarrow.dataset as ds  # noqa: PLC0415 - for the same reason

    form = ds.ParquetFileFormat()
    # Of the open file, since a dataset, and what scans it, often outlive its profile and the file's name.
    part = form.make_fragment(pa.OSFile(str(path)))
    return ds.FileSystemDataset([part], part.physical_schema, form)


def _joined(parts: Sequence[Piece]) -> _Whole:
    """Return the instances of all parts by id."""
    tasks = pd.concat([one.tasks for one in parts], ignore_index=True) if len(parts) > 1 else parts[0].tasks
    own_s = np.concatenate([one.own_s for one in parts])
    window = np.repeat(np.arange(len(parts), dtype=np.int32), [len(one.own_s) for one in parts])
    ids = tasks["instance"].to_numpy()
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids, kind="stable")
        tasks, own_s, window = tasks.iloc[order].reset_index(drop=True), own_s[order], window[order]
    return _Whole(Piece(tasks, own_s), window)
