"""Rows of a summary that is kept instead of samples: by task, thread or process, and span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.analysis.attribution.instance_sums import joined
from tprof.trace.layout import NO_TASK
from tprof.trace.sums import NO_THREAD, TASK_SUMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .shares import Block

    Table = NDArray[np.void]


class KeptRows:
    """The sums since they were last taken, a row for each task, process (or thread) and span.

    Attributes
    ----------
    open_count : instances that have not ended
    """

    def __init__(self, begin_ns: int, span_ns: int, *, by_thread: bool, resume_ns: int | None) -> None:
        """Begin with the span that begins at `begin_ns`; what began up to `resume_ns` is counted already."""
        self._begin_ns, self._span_ns = begin_ns, span_ns
        self._by_thread, self._resume_ns = by_thread, resume_ns
        self._rows: list[Table] = []
        self._process: dict[int, int] = {}
        self._left: Table = np.empty(0, TASK_SUMS)
        self.open_count = 0

    def span_of(self, t_ns: int) -> int:
        """Return the number of the span in which a time lies."""
        return max(t_ns - self._begin_ns, 0) // self._span_ns

    def add(self, block: Block) -> None:
        """Add what a block gave."""
        ran, records, parts = block.ran, block.records, block.ran.parts
        self._process.update({one.ordinal: one.process for one in ran.threads})
        thread = np.repeat(np.array(ran.numbers, np.int64), np.diff(ran.bounds))
        task = records["task"][parts["row"]]
        rows = self._keyed(block, thread, task)
        rows["cpu_s"], rows["own_s"] = parts["cpu_s"], parts["own_s"]
        if block.part_j is not None:
            rows["energy_j"], rows["dynamic_j"] = block.part_j.T
        whole = self._keyed(block, records["thread"].astype(np.int64), records["task"])
        if block.part_j is None:
            whole["energy_j"], whole["dynamic_j"] = block.energy_j, block.dynamic_j
        begun = block.new if self._resume_ns is None else block.new & (records["start_ns"] > self._resume_ns)
        whole["begun"] = begun
        ended = whole[block.over]
        self._count_ends(ended, records[block.over], block.half_j[block.over], block.resolved[block.over])
        of_open = whole.copy()
        of_open[block.over] = ended
        both = np.concatenate((rows[task != NO_TASK], of_open[records["task"] != NO_TASK]))
        self._rows.append(joined([both]))
        self.open_count = int(np.count_nonzero(~block.over))
        self._left = self._open_rows(block, whole)

    def _keyed(self, block: Block, thread: NDArray[np.int64], task: NDArray[np.uint32]) -> Table:
        rows = np.zeros(len(task), TASK_SUMS)
        rows["span"], rows["task"] = self.span_of(block.begin_ns), task
        rows["process"] = [self._process.get(one, 0) for one in thread.tolist()]
        rows["thread"] = thread if self._by_thread else NO_THREAD
        return rows

    def _count_ends(self, rows: Table, records: NDArray[Any], half_j: NDArray[Any], resolved: NDArray[Any]) -> None:
        duration_s = (records["end_ns"] - records["start_ns"]) * 1e-9
        rows["ended"], rows["ended_s"], rows["resolved"] = 1, duration_s, resolved
        rows["resolved_j"] = (records["dynamic_j"] + records["static_j"]) * resolved
        rows["resolved_s"], rows["half_j2"] = duration_s * resolved, half_j**2 * resolved

    def _open_rows(self, block: Block, whole: Table) -> Table:
        """Return rows that count what is open as ended where its last segment ended, for the end of the session."""
        is_open = ~block.over & (block.records["task"] != NO_TASK)
        rows = np.zeros(int(is_open.sum()), TASK_SUMS)
        for name in ("span", "process", "task", "thread"):
            rows[name] = whole[name][is_open]
        self._count_ends(rows, block.records[is_open], block.half_j[is_open], block.resolved[is_open])
        return rows

    def finish(self) -> None:
        """Count what is open as ended."""
        self._rows.append(joined([self._left]))
        self._left, self.open_count = self._left[:0], 0

    def take(self) -> Table:
        """Return the sums since the last call, and forget them."""
        found = joined(self._rows)
        self._rows = []
        return found

    def put_back(self, sums: Table) -> None:
        """Add sums that were taken."""
        self._rows.append(sums)
