"""The chain of waits in a run: backwards from the instance that ended last to the first spawn."""

from __future__ import annotations

from bisect import bisect_right
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from .instances import Instances

PARTS = ("running", "data", "transfer", "worker", "spawning", "paused")


def observed_chain(execution: Instances) -> tuple[dict[str, float], pd.DataFrame]:
    """Return the seconds of the makespan by kind, and its pieces in order of time; `CriticalPath` explains both."""
    table = execution.table
    pieces = pd.DataFrame(
        _Walk(execution).pieces()[::-1] if len(table) else [], columns=["kind", "begin_ns", "end_ns", "row"]
    )
    kinds = [kind for kind in PARTS if kind != "transfer" or "host" in table]
    length_ns = pieces["end_ns"] - pieces["begin_ns"]
    parts = {f"{kind}_s": float(length_ns[pieces["kind"] == kind].sum()) * 1e-9 for kind in kinds}
    # The program outside its tasks has the row -1, which is not in the index.
    of = table.reindex(pieces["row"])
    observed = pd.DataFrame(
        {
            "kind": pd.Categorical(pieces["kind"], categories=pd.Index(kinds)),
            "start_s": pieces["begin_ns"].astype(np.int64) * 1e-9,
            "duration_s": length_ns.astype(np.int64) * 1e-9,
            "task": of["task"].array,
            "instance": table["instance"].reindex(pieces["row"], fill_value=0).array,
        }
    )
    return parts, observed.assign(host=of["host"].array) if "host" in table else observed


class _Walk:
    """Walks back through an execution, as `CriticalPath` states; `at` is the time now, `place` the run, -1: outside."""

    def __init__(self, execution: Instances) -> None:
        table, rows = execution.table, np.arange(len(execution.table) + 1)
        self.of = _views(table, "end_ns", "spawn_ns", "ready_ns", "done_ns", "releaser", "parent", "by_key")
        self.runs = _views(execution.runs, "row", "begin_ns", "end_ns", "before")
        self.first_run = execution.first_runs.data
        self.host = (pd.factorize(table["host"])[0] if "host" in table else rows * 0).data
        by = ["parent", "done_ns", "spawn_ns"]
        children = table.loc[table["parent"] >= 0, by].sort_values(by, ascending=[True, True, False])
        self.children = children.index.to_numpy().data
        self.first_child = np.searchsorted(children["parent"], rows).data
        # The times at which no spawned instance was left, and the instance that ended then.
        by_end = table["end_ns"].sort_values(kind="stable")
        drained = by_end[np.searchsorted(np.sort(table["spawn_ns"]), by_end, side="right") == rows[1:]]
        self.drained_ns, self.drained_by = drained.to_numpy().data, drained.index.to_numpy().data
        last = int(table["end_ns"].argmax())
        self.at = self.of.end_ns[last]
        self.place = self.first_run[last + 1] - 1
        self.begin_ns = int(table["spawn_ns"].min())
        self.found: list[tuple[str, int, int, int]] = []

    def pieces(self) -> list[tuple[str, int, int, int]]:
        """Return kind, begin, end and row of all pieces, last first, without those of no length."""
        # Instances of no length may form a cycle, in which the time stands still and nothing is found.
        for _ in range(2 * len(self.runs.row)):
            if self.place < 0:
                break
            self._step()
        self._until(self.begin_ns, "spawning", -1)
        return self.found

    def _until(self, begin_ns: int, kind: str, row: int) -> None:
        """Add the piece from a time to the current one, and go to that time."""
        begin_ns = max(min(begin_ns, self.at), self.begin_ns)
        if begin_ns < self.at:
            self.found.append((kind, begin_ns, self.at, row))
        self.at = begin_ns

    def _step(self) -> None:
        """Go to the beginning of the current run, and to what that waited for."""
        row = self.runs.row[self.place]
        self._until(self.runs.end_ns[self.place], "paused", row)
        self._until(self.runs.begin_ns[self.place], "running", row)
        if self.place == self.first_run[row]:
            self._started(row)
        else:
            self._went_on(row)

    def _started(self, row: int) -> None:
        of = self.of
        ready_ns, releaser, parent = of.ready_ns[row], of.releaser[row], of.parent[row]
        # What keys alone made wait, and its worker was free.
        by_key = "data" if self.host[row] == self.host[releaser] else "transfer"
        kind = by_key if releaser >= 0 and of.by_key[row] else "worker"
        if self._worker_was_busy(row, ready_ns, kind):
            return
        self._until(ready_ns, kind, row)
        if releaser >= 0:
            self._end_of(releaser, "data" if kind == "worker" else kind, row)
            return
        self._until(of.spawn_ns[row], "spawning", row)
        if parent >= 0:
            self._enter(parent)
        else:
            self._outside()

    def _went_on(self, row: int) -> None:
        """Go back from a run after a pause: it waited for the children that ended in the pause."""
        paused_ns = self.runs.end_ns[self.place - 1]
        child = self._last_child(row, self.at)
        if child >= 0 and self.of.spawn_ns[child] > paused_ns:  # a child of no length that began with the run
            child = self._last_child(row, self.at - 1)
        done_ns = self.of.done_ns[child] if child >= 0 else -1
        if self._worker_was_busy(row, max(done_ns, paused_ns), "worker"):
            return
        if done_ns > paused_ns:
            self._until(done_ns, "worker", row)
            self._end_of(child, "worker", row)
        else:
            self._until(paused_ns, "paused", row)
            self.place -= 1

    def _worker_was_busy(self, row: int, since_ns: int, kind: str) -> bool:
        """Go to the thread's previous run, if it ended after the instance was ready; returns whether it did."""
        before = self.runs.before[self.place]
        if before < 0 or not since_ns < self.runs.end_ns[before] <= self.at:
            return False
        self._until(self.runs.end_ns[before], kind, row)
        self.place = before
        return True

    def _enter(self, row: int) -> None:
        """Go to the run of an instance that contains the current time."""
        first, stop = self.first_run[row], self.first_run[row + 1]
        self.place = max(bisect_right(self.runs.begin_ns, self.at, first, stop) - 1, first)

    def _end_of(self, row: int, kind: str, waiting: int) -> None:
        """Go to the end that completed an instance: its own or that of its last descendant."""
        while (child := self._last_child(row, self.at)) >= 0 and self.of.done_ns[child] > self.of.end_ns[row]:
            row = child
        self._until(self.of.end_ns[row], kind, waiting)
        self._enter(row)

    def _last_child(self, row: int, until_ns: int) -> int:
        """Return the child that was the last to complete by a time, of several the one spawned first; -1: none."""
        first, stop = self.first_child[row], self.first_child[row + 1]
        place = bisect_right(self.children, until_ns, first, stop, key=self.of.done_ns.__getitem__) - 1
        return self.children[place] if place >= first else -1

    def _outside(self) -> None:
        """Go to the program outside its tasks: it may have waited for all instances spawned before."""
        place = bisect_right(self.drained_ns, self.at) - 1
        if place < 0:
            self.place = -1
            return
        self._until(self.drained_ns[place], "spawning", -1)
        self._enter(self.drained_by[place])


def _views(table: pd.DataFrame, *names: str) -> SimpleNamespace:
    """Return columns of which single values are read: views are quick to index."""
    return SimpleNamespace(**{name: table[name].to_numpy().data for name in names})
