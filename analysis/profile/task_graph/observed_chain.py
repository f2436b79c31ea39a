"""The chain of waits in a run: backwards from the instance that ended last to the first spawn."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace.long_arrays import Appended, AppendedColumns, AppendedRows, blocks, release
from tprof.trace.long_sorts import firsts, order_of, sorted_columns, sorted_values

if TYPE_CHECKING:
    from .execution import Execution
    from .instances import Instances, Named
    from .runs import Rows

Times = NDArray[np.int64]

STEPS = 1 << 18
"""Of a walk, after which pages are released."""
PARTS = ("running", "data", "worker", "spawning", "paused")
PARTS_OF_JOBS = (*PARTS[:2], "transfer", *PARTS[2:])


@dataclass(frozen=True)
class Pieces:
    """The pieces of a makespan, last first, (k,) each; without gaps, those without length left out.

    Attributes
    ----------
    named : the instance that ran or waited; none: the program outside its tasks
    length_ns : sums by kind
    kind : the place of each one's kind among these
    """

    named: Named
    length_ns: dict[str, int]
    kind: NDArray[np.int8]
    begin_ns: Times
    end_ns: Times

    def table(self) -> pd.DataFrame:
        """Return them in order of time."""
        columns = {
            "kind": pd.Categorical.from_codes(self.kind[::-1], categories=pd.Index(list(self.length_ns))),
            "start_s": self.begin_ns[::-1] * 1e-9,
            "duration_s": (self.end_ns - self.begin_ns)[::-1] * 1e-9,
            "task": self.named.tasks()[::-1],
            "instance": self.named.instance[::-1].copy(),
        }
        hosts = self.named.host_names()
        if hosts is not None:
            columns |= {"task": np.asarray(columns["task"], object), "host": hosts[::-1]}
        return pd.DataFrame(columns)


def observed_chain(execution: Execution) -> Pieces:
    """Return the pieces of the makespan, of kinds `PARTS`, of several hosts `PARTS_OF_JOBS`."""
    length_ns = dict.fromkeys(PARTS if execution.of.clocks is None else PARTS_OF_JOBS, 0)
    found = AppendedRows(np.int8, np.int64, np.int64, np.int32)
    if len(execution.of):
        _Walk(execution, length_ns, found).go()
    kind, begin_ns, end_ns, row = found.finish()
    return Pieces(execution.of.named(row), length_ns, kind, begin_ns, end_ns)


class _Walk:
    """Walks back through an execution, as `CriticalPath` states; `at` is the time now, `place` the run, -1: outside."""

    def __init__(self, execution: Execution, length_ns: dict[str, int], found: AppendedRows) -> None:
        self._columns = _columns(execution)
        # Views are quicker than arrays.
        self.run = SimpleNamespace(**{name: values.data for name, values in self._columns.items()})
        last = int(execution.of.end_ns.argmax())
        self.at = self.run.end_ns[last]
        self.place = self.run.first_run[last + 1] - 1
        self.begin_ns = int(execution.of.spawn_ns.min())
        self.kinds, self.length_ns, self.found = tuple(length_ns), length_ns, found

    def go(self) -> None:
        """Find all pieces, last first."""
        seen: set[int] = set()
        seen_at_ns = self.at
        # Instances of no length may form a cycle.
        steps = 0
        while self.place >= 0 and not (self.at == seen_at_ns and self.place in seen):
            steps += 1
            if steps % STEPS == 0:
                release(*self._columns.values())
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
            self.length_ns[kind] += self.at - begin_ns
            self.found.add(self.kinds.index(kind), begin_ns, self.at, row)
        self.at = begin_ns

    def _step(self) -> None:
        """Go to the beginning of the current run, and to what that waited for."""
        row = self.run.row[self.place]
        self._until(self.run.run_end_ns[self.place], "paused", row)
        self._until(self.run.run_begin_ns[self.place], "running", row)
        if self.place == self.run.first_run[row]:
            self._started(row)
        else:
            self._went_on(row)

    def _started(self, row: int) -> None:
        run = self.run
        ready_ns, releaser = run.ready_ns[row], run.releaser[row]
        kind = self._kind_of_wait(row, releaser)
        if self._worker_was_busy(row, ready_ns, kind):
            return
        self._until(ready_ns, kind, row)
        if releaser >= 0:
            self._end_of(releaser, "data" if kind == "worker" else kind, row)
            return
        self._until(run.spawn_ns[row], "spawning", row)
        parent = run.parent[row]
        if parent >= 0:
            self._enter(parent)
        else:
            self._outside()

    def _kind_of_wait(self, row: int, releaser: int) -> str:
        """Return what an instance waited for that was there to run, and whose worker was free."""
        if releaser < 0 or not self.run.by_key[row]:
            return "worker"
        hosts = getattr(self.run, "host", None)
        return "data" if hosts is None or hosts[row] == hosts[releaser] else "transfer"

    def _went_on(self, row: int) -> None:
        """Go back from a run after a pause: it waited for the children that ended in the pause."""
        paused_ns = self.run.run_end_ns[self.place - 1]
        child = self._last_child(row, self.at)
        if child >= 0 and self.run.spawn_ns[child] > paused_ns:  # a child of no length that began with the run
            child = self._last_child(row, self.at - 1)
        done_ns = self.run.done_ns[child] if child >= 0 else -1
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
        before = self.run.before[self.place]
        if before < 0 or not since_ns < self.run.run_end_ns[before] <= self.at:
            return False
        self._until(self.run.run_end_ns[before], kind, row)
        self.place = before
        return True

    def _enter(self, row: int) -> None:
        """Go to the run of an instance that contains the current time."""
        first, stop = self.run.first_run[row], self.run.first_run[row + 1]
        self.place = max(bisect_right(self.run.run_begin_ns, self.at, first, stop) - 1, first)

    def _end_of(self, row: int, kind: str, waiting: int) -> None:
        """Go to the end that completed an instance: its own or that of its last descendant."""
        while (child := self._last_child(row, self.at)) >= 0 and self.run.done_ns[child] > self.run.end_ns[row]:
            row = child
        self._until(self.run.end_ns[row], kind, waiting)
        self._enter(row)

    def _last_child(self, row: int, until_ns: int) -> int:
        """Return the child that was the last to complete by a time, of several the one spawned first; -1: none."""
        run = self.run
        first, stop = run.first_child[row], run.first_child[row + 1]
        place = bisect_right(run.children, until_ns, first, stop, key=run.done_ns.__getitem__) - 1
        return run.children[place] if place >= first else -1

    def _outside(self) -> None:
        """Go to the program outside its tasks: it may have waited for all instances spawned before."""
        place = bisect_right(self.run.drained_ns, self.at) - 1
        if place < 0:
            self.place = -1
            return
        self._until(self.run.drained_ns[place], "spawning", -1)
        self._enter(self.run.drained_by[place])


def _columns(execution: Execution) -> dict[str, NDArray[Any]]:
    """Return the columns of an execution and of its runs, of which single values are read."""
    of, runs = execution.of, execution.of.runs
    found = {name: getattr(of, name) for name in ("end_ns", "spawn_ns", "ready_ns", "releaser", "parent")}
    found |= {"done_ns": execution.done_ns, "by_key": execution.by_key, "row": runs.row, "before": runs.before}
    found |= {"run_begin_ns": runs.begin_ns, "run_end_ns": runs.end_ns, "first_run": runs.first}
    found["first_child"], found["children"] = _children_by_end(execution)
    found["drained_ns"], found["drained_by"] = _drained(of)
    return found if of.clocks is None else found | {"host": of.clocks.host}


def _children_by_end(execution: Execution) -> tuple[Rows, Rows]:
    """Return the start of each instance's children in a list, and the list, in order of completion."""
    of, parent, children = execution.of, execution.of.parent, Appended(np.int32)
    for at in blocks(len(parent), parent):
        children.add(np.flatnonzero(parent[at] >= 0) + at.start)
    child = children.finish()

    def read(at: slice) -> tuple[NDArray[Any], ...]:
        some = child[at]
        return parent[some], execution.done_ns[some], -of.spawn_ns[some], some

    above, _, _, found = sorted_columns(len(child), read, child, parent, execution.done_ns, of.spawn_ns, keys=3)
    return firsts(above, len(of)), found


def _drained(instances: Instances) -> tuple[Times, Rows]:
    """Return the times at which no spawned instance was left, and the instance that ended then."""
    ends_ns, order = order_of(instances.end_ns)
    spawn_ns = sorted_values(instances.spawn_ns)
    found = AppendedColumns(np.int64, np.int32)
    for at in blocks(len(order), ends_ns, order, spawn_ns):
        spawned = np.searchsorted(spawn_ns, ends_ns[at], side="right")
        none = np.flatnonzero(spawned == np.arange(at.start + 1, at.stop + 1))
        found.add(ends_ns[at][none], order[at][none])
    drained_ns, rows = found.finish()
    return drained_ns, rows
