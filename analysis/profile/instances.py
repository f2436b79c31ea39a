"""The instances of a profile: all of them in memory, or their sums alone, and the instances read again when needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from tprof.errors import UsageError

from .memory import available_bytes, size_text
from .stack_rows import StackRows
from .stored_instances import Piece, StoredInstances, scanned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from tprof.analysis.attribution.segments import Segments

    from .stack_shares import StoredStacks
    from .stored_instances import Progress, Share
    from .task_graph import ServedSegments
    from .task_sums import TaskSums

ROW_BYTES = 700
"""Of memory for a row while a table is put together from its parts, more than was measured with eight counters."""


@dataclass(frozen=True)
class Instances:
    """All instances of a recording.

    Attributes
    ----------
    sums : over them
    tasks : one row per instance
    own_s : (n,) seconds in which its thread ran each, without nested tasks or suspension
    """

    sums: TaskSums
    tasks: pd.DataFrame
    own_s: NDArray[np.float64]

    @property
    def last(self) -> Piece:
        """All of them."""
        return Piece(self.tasks, self.own_s)

    def share(self, sink: Callable[[Piece], None], progress: Progress | None = None) -> None:  # noqa: ARG002
        """Give them to a sink at once."""
        sink(self.last)

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:  # noqa: ARG002
        """Yield them at once."""
        yield self.last

    def dataset(self) -> Any:
        """Return them as a dataset of pyarrow. Raises UsageError without it."""
        from tprof.analysis.export.formats import need  # noqa: PLC0415 - which names what installs it

        need("pyarrow", "parquet", "scan_tasks")
        import pyarrow.dataset as ds  # noqa: PLC0415 - optional
        from tprof.analysis.export.arrow import table_of  # noqa: PLC0415 - for the same reason

        return ds.dataset(table_of("tasks", self.tasks))


class SampleIndex(NamedTuple):
    """The times of every `step`-th sample of each thread, increasing."""

    t_ns: NDArray[np.int64]
    step: int


@dataclass(frozen=True)
class SummedInstances:
    """The sums of instances that are not kept.

    Attributes
    ----------
    sums : over them
    last : those that were open until the last window
    share : shares the joules again, and calls a function with the instances of each window, as they end; a second one,
        if it is given, with how far that is; stacks, if they are given, are stored too
    segments : reads what ran again: yields for each window when the segments begin that count in it, and those of its
        threads, some of them in other windows too
    begins_ns : of the windows
    index : of the samples
    served : what segments show of workers of a task runtime
    begin_stacks : begins to store sampled stacks, which `share` then fills; None without any
    """

    sums: TaskSums
    last: Piece = field(repr=False)
    share: Share = field(repr=False)
    segments: Callable[[], Iterator[tuple[tuple[int, int], list[Segments]]]] = field(repr=False)
    begins_ns: tuple[int, ...] = field(repr=False)
    index: SampleIndex = field(repr=False)
    served: ServedSegments = field(repr=False)
    begin_stacks: Callable[[], StoredStacks] | None = field(default=None, repr=False)

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per instance, by id. Raises UsageError if they do not fit into memory."""
        return self._whole.tasks

    @property
    def own_s(self) -> NDArray[np.float64]:
        """Their seconds, as of `Piece`. Raises as `tasks`."""
        return self._whole.own_s

    @cached_property
    def stored(self) -> StoredInstances:
        """Columns of all of them, in a file without a name. Raises TprofError if there is no space."""
        if self.begin_stacks is None:
            return StoredInstances(self.share)
        return StoredInstances(self.share, self.begin_stacks())

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield the instances of one window after the other, with some of the columns `KEPT`. Raises as `stored`."""
        yield from self.stored.pieces(columns)

    def dataset(self) -> Any:
        """Return them as a dataset of pyarrow. Raises UsageError without it, TprofError if there is no space."""
        return self._dataset

    @cached_property
    def _dataset(self) -> Any:
        return scanned(self.share)

    def with_stacks(self, columns: Sequence[str]) -> Iterator[tuple[Piece, StackRows]]:
        """Yield the same pieces backwards, with the sampled stacks whose weights were known when it ended."""
        stored = self.stored
        numbers = range(stored.count)
        for number, piece in zip(reversed(numbers), stored.pieces(columns, backwards=True), strict=True):
            yield piece, StackRows.none() if stored.stacks is None else stored.stacks.rows(number)

    @cached_property
    def _whole(self) -> Piece:
        needed, free = self.sums.rows * ROW_BYTES, available_bytes()
        if needed > free:
            raise UsageError(
                f"the table of {self.sums.rows:,} instances would take {size_text(needed)} of memory and "
                f"{size_text(free)} are free: read it in parts by profile.scan_tasks(), or a window of the recording "
                "by profile(start_s=…, end_s=…), --between"
            )
        parts: list[Piece] = []
        self.share(parts.append, None)
        return joined(parts)


def joined(parts: Sequence[Piece]) -> Piece:
    """Return the instances of all parts by id, with the columns and types of a table in memory."""
    tasks = pd.concat([one.tasks.assign(own_s=one.own_s) for one in parts]).sort_values("instance", ignore_index=True)
    labels = [str(name) for name in tasks if str(name).startswith("label_")]
    own_s = tasks.pop("own_s").to_numpy(float)
    return Piece(tasks.astype(dict.fromkeys(labels, "category")), own_s)
