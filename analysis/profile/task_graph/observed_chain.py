"""The chain of waits in a run: backwards from the instance that ended last to the first spawn."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tprof.trace.long_arrays import blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .execution import Execution

STEPS = 1 << 18
"""Of a walk, after which pages are released."""
PARTS = ("running", "data", "worker", "spawning", "paused")
PARTS_OF_JOBS = (*PARTS[:2], "transfer", *PARTS[2:])


def observed_chain(execution: Execution) -> pd.DataFrame:
    """Return the pieces of the makespan in order of time; `CriticalPath` states the rule.

    Returns
    -------
    kind (one of `PARTS`, of several hosts of `PARTS_OF_JOBS`), start_s, duration_s, row (of the instance that ran or
    waited, -1: the program outside its tasks). Pieces without length are left out, so the others follow each other
    without gaps.
    """
    kinds = PARTS if execution.host is None else PARTS_OF_JOBS
    pieces = _Pieces(kinds)
    if len(execution):
        _Walk(execution, pieces).go()
    return pieces.table()


class _Pieces:
    """Pieces of the makespan, last first, 28 bytes each."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = {kind: code for code, kind in enumerate(kinds)}
        self._kind, self._begin_ns, self._end_ns, self._row = array("b"), array("q"), array("q"), array("q")

    def add(self, kind: str, begin_ns: int, end_ns: int, row: int) -> None:
        self._kind.append(self._kinds[kind])
        self._begin_ns.append(begin_ns)
        self._end_ns.append(end_ns)
        self._row.append(row)

    def table(self) -> pd.DataFrame:
        codes = np.array(self._kind, np.int8)[::-1]
        begin_ns, end_ns, row = (np.array(one, np.int64)[::-1] for one in (self._begin_ns, self._end_ns, self._row))
        kinds = pd.Categorical.from_codes(codes, categories=pd.Index(list(self._kinds)))
        return pd.DataFrame(
            {"kind": kinds, "start_s": begin_ns * 1e-9, "duration_s": (end_ns - begin_ns) * 1e-9, "row": row}
        )


class _Walk:
    """Walks back through an execution; `at` is the current time, `place` the current run, -1: outside."""

    def __init__(self, execution: Execution, found: _Pieces) -> None:
        self.run = execution
        last = int(execution.end_ns.argmax())
        self.at = int(execution.end_ns[last])
        self.place = int(execution.runs.first[last + 1]) - 1
        self.begin_ns = int(execution.spawn_ns.min())
        self.found = found
        self.children = _children_by_end(execution)
        self.drained_ns, self.drained_by = _drained(execution)

    def go(self) -> None:
        """Find all pieces, last first."""
        seen: set[int] = set()
        seen_at_ns = self.at
        # Instances of no length may form a cycle.
        steps = 0
        while self.place >= 0 and not (self.at == seen_at_ns and self.place in seen):
            steps += 1
            if steps % STEPS == 0:
                self.run.release()
            if self.at != seen_at_ns:
                seen.clear()
                seen_at_ns = self.at
            seen.add(self.place)
            self._step()
        self._until(self.begin_ns, "spawning", -1)

    def _until(self, begin_ns: int, kind: str, row: int) -> None:
        """Add the piece from a time to the current one, and go to that time."""
        begin_ns = max(min(begin_ns, self.at), self.begin_ns)
        if begin_ns < self.at:
            self.found.add(kind, begin_ns, self.at, row)
        self.at = begin_ns

    def _step(self) -> None:
        """Go to the beginning of the current run, and to what that waited for."""
        runs = self.run.runs
        row = int(runs.row[self.place])
        self._until(int(runs.end_ns[self.place]), "paused", row)
        self._until(int(runs.begin_ns[self.place]), "running", row)
        if self.place == runs.first[row]:
            self._started(row)
        else:
            self._went_on(row)

    def _started(self, row: int) -> None:
        run = self.run
        ready_ns = int(run.ready_ns[row])
        releaser = int(run.releaser[row])
        kind = self._kind_of_wait(row, releaser)
        if self._worker_was_busy(row, ready_ns, kind):
            return
        self._until(ready_ns, kind, row)
        if releaser >= 0:
            self._end_of(releaser, "data" if kind == "worker" else kind, row)
            return
        spawn_ns = int(run.spawn_ns[row])
        self._until(spawn_ns, "spawning", row)
        parent = int(run.parent[row])
        if parent >= 0:
            self._enter(parent)
        else:
            self._outside()

    def _kind_of_wait(self, row: int, releaser: int) -> str:
        """Return what an instance waited for that was there to run, and whose worker was free."""
        if releaser < 0 or not self.run.by_key[row]:
            return "worker"
        hosts = self.run.host
        return "data" if hosts is None or hosts[row] == hosts[releaser] else "transfer"

    def _went_on(self, row: int) -> None:
        """Go back from a run after a pause: it waited for the children that ended in the pause."""
        paused_ns = int(self.run.runs.end_ns[self.place - 1])
        child = self._last_child(row, self.at)
        if child >= 0 and self.run.spawn_ns[child] > paused_ns:  # a child of no length that began with the run
            child = self._last_child(row, self.at - 1)
        done_ns = int(self.run.done_ns[child]) if child >= 0 else -1
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
        before = int(self.run.runs.before[self.place])
        if before < 0 or not since_ns < int(self.run.runs.end_ns[before]) <= self.at:
            return False
        self._until(int(self.run.runs.end_ns[before]), kind, row)
        self.place = before
        return True

    def _enter(self, row: int) -> None:
        """Go to the run of an instance that contains the current time."""
        runs = self.run.runs
        first, stop = int(runs.first[row]), int(runs.first[row + 1])
        self.place = first + max(int(np.searchsorted(runs.begin_ns[first:stop], self.at, side="right")) - 1, 0)

    def _end_of(self, row: int, kind: str, waiting: int) -> None:
        """Go to the end that completed an instance: its own or that of its last descendant."""
        while (child := self._last_child(row, self.at)) >= 0 and self.run.done_ns[child] > self.run.end_ns[row]:
            row = child
        self._until(int(self.run.end_ns[row]), kind, waiting)
        self._enter(row)

    def _last_child(self, row: int, until_ns: int) -> int:
        """Return the child that was the last to complete by a time, of several the one spawned first; -1: none."""
        first, children = self.children
        mine = children[int(first[row]) : int(first[row + 1])]
        place = int(np.searchsorted(self.run.done_ns[mine], until_ns, side="right")) - 1
        return int(mine[place]) if place >= 0 else -1

    def _outside(self) -> None:
        """Go to the program outside its tasks: it may have waited for all instances spawned before."""
        place = int(np.searchsorted(self.drained_ns, self.at, side="right")) - 1
        if place < 0:
            self.place = -1
            return
        self._until(int(self.drained_ns[place]), "spawning", -1)
        self._enter(int(self.drained_by[place]))


def _children_by_end(execution: Execution) -> tuple[np.ndarray, np.ndarray]:
    """Return the start of each instance's children in a list, and the list, in order of completion."""
    child = np.flatnonzero(execution.parent >= 0)
    above = execution.parent[child]
    order = np.lexsort((-execution.spawn_ns[child], execution.done_ns[child], above))
    return np.searchsorted(above[order], np.arange(len(execution) + 1)), child[order]


def _drained(execution: Execution) -> tuple[np.ndarray, np.ndarray]:
    """Return the times at which no spawned instance was left, and the instance that ended then."""
    order = np.argsort(execution.end_ns, kind="stable").astype(np.int32)
    spawn_ns = np.sort(execution.spawn_ns)
    times, rows = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for at in blocks(len(order), execution.end_ns):
        end_ns = execution.end_ns[order[at]]
        spawned = np.searchsorted(spawn_ns, end_ns, side="right")
        none = np.flatnonzero(spawned == np.arange(at.start + 1, at.stop + 1))
        times.append(end_ns[none])
        rows.append(order[at][none])
    return np.concatenate(times), np.concatenate(rows)
