"""The graph of constraints of a recording, and its longest paths by two weights at a time.

An instance without children is one node. One with children has a node for each of its runs, and one for its completion.
Nodes are in the order of their instances. Edges lead nearly always to nodes close by, so that columns are in files, of
which a pass holds what lies around the place where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import _loops
from tprof.analysis.profile.tables import divided

from tprof.trace import long_arrays
from tprof.trace.long_arrays import (
    Appended,
    AppendedColumns,
    AppendedRows,
    blocks,
    computed,
    empty,
    filled,
    release,
    running_sums,
    zeros,
)
from tprof.trace.long_sorts import firsts, places, sorted_arrays

from .runs import count_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .execution import Execution
    from .runs import Rows

    Edges = tuple[Rows, Rows, NDArray[np.float64]]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
WEIGHTS = 2
"""For which paths are found at a time."""


@dataclass(frozen=True)
class Constraints:
    """Nodes and edges, by their source.

    Attributes
    ----------
    row : (nodes,) the instance of each
    first : (nodes + 1,) where the edges from each begin
    source, target : (edges,) nodes
    share : (edges,) the part of the source's instance that runs in the source before the target may begin, 0 to 1
    spawns : (rows,) whether an instance has children; all of another one runs in its node
    """

    row: Rows
    first: Rows
    source: Rows
    target: Rows
    share: Floats
    spawns: Flags


def build_constraints(execution: Execution) -> Constraints:
    """Build the graph; O((runs + edges) log (runs + edges))."""
    nodes = _Nodes.of(execution)
    found = AppendedColumns(np.int32, np.int32, np.float64)
    for edges in nodes.edges():
        found.add(*edges)
        execution.release()
        nodes.release()
    source, target, share = sorted_arrays(found.finish())
    return Constraints(nodes.rows(), firsts(source, int(nodes.first[-1])), source, target, share, nodes.spawns)


@dataclass(frozen=True)
class _Nodes:
    """Where the nodes of each instance begin, (rows + 1,), and whether it has children, (rows,)."""

    execution: Execution
    first: Rows
    spawns: Flags

    @classmethod
    def of(cls, execution: Execution) -> _Nodes:
        parent, begins = execution.of.parent, execution.of.runs.first
        spawns = zeros(len(parent), np.bool_)
        for at in blocks(len(parent), parent, spawns):
            spawns[parent[at][parent[at] >= 0]] = True

        def nodes(at: slice) -> Rows:
            return np.where(spawns[at], np.diff(begins[at.start : at.stop + 1]) + 1, 1)

        return cls(execution, running_sums(computed(len(parent), np.int32, nodes, spawns, begins)), spawns)

    def release(self) -> None:
        release(self.first, self.spawns)

    def rows(self) -> Rows:
        """Return the instance of each node."""
        found = Appended(np.int32)
        for at in blocks(len(self.spawns), self.first):
            found.add(np.repeat(places(at), np.diff(self.first[at.start : at.stop + 1])))
        return found.finish()

    def edges(self) -> Iterator[Edges]:
        """Yield sources, targets and shares: of dependences, of children, and between runs."""
        run = self.execution.of
        for at in blocks(len(run.waits), run.waits, run.waits_for):
            waits, waits_for = run.waits[at], run.waits_for[at]
            yield self.first[waits_for + 1] - 1, self.first[waits], self._alone(waits_for)
        for at in blocks(len(run), run.parent):
            child = np.flatnonzero(run.parent[at] >= 0).astype(np.int32) + np.int32(at.start)
            if len(child):
                yield from self._of_children(child)
        for at in blocks(len(run.runs.row), run.runs.row):
            inner = np.flatnonzero(self.spawns[run.runs.row[at]]) + at.start
            if len(inner):
                yield self._between_runs(inner)

    def _alone(self, rows: Rows) -> Floats:
        """Return which part of instances runs in their last nodes: all, or nothing of those with children."""
        return np.where(self.spawns[rows], 0.0, 1.0)

    def _of_children(self, child: Rows) -> Iterator[Edges]:
        run, runs = self.execution.of, self.execution.of.runs
        above = run.parent[child]
        length = runs.first[above + 1] - runs.first[above]
        at_spawn = count_until(runs.first, runs.begin_ns, above, run.spawn_ns[child], inclusive=True)
        at_spawn = np.clip(at_spawn - 1, 0, length - 1)
        after = count_until(runs.first, runs.begin_ns, above, self.execution.done_ns[child], inclusive=False)
        after = np.maximum(after, at_spawn + 1)
        yield self.first[above] + at_spawn, self.first[child], self._until_spawn(child, above, at_spawn)
        yield self.first[child + 1] - 1, self.first[above] + after, self._alone(child)

    def _until_spawn(self, child: Rows, above: Rows, at_spawn: Rows) -> Floats:
        """Return the part of the parent that lies in the spawning run before the spawn."""
        run, runs = self.execution.of, self.execution.of.runs
        at = runs.first[above] + at_spawn
        until_ns = np.clip(run.spawn_ns[child], runs.begin_ns[at], runs.end_ns[at])
        return divided(until_ns - runs.begin_ns[at], run.own_ns[above], 0.0)

    def _between_runs(self, at: NDArray[np.intp]) -> Edges:
        runs = self.execution.of.runs
        row = runs.row[at]
        within = (self.first[row] + (at - runs.first[row])).astype(np.int32)
        share = divided(runs.end_ns[at] - runs.begin_ns[at], self.execution.of.own_ns[row], 0.0)
        return within, within + 1, share


@dataclass(frozen=True)
class Paths:
    """The greatest sums of weights along a path to each node.

    Attributes
    ----------
    weight : (rows, 2) >= 0, of each instance
    reached : (nodes, 2)
    came : (nodes, 2) the last edge of the path, -1: none
    missing : (nodes,) not 0 on cycles and behind them, where no path leads
    """

    constraints: Constraints
    weight: Floats
    reached: Floats
    came: Rows
    missing: Rows

    @classmethod
    def of(cls, constraints: Constraints, weight: Floats) -> Paths:
        """Find the paths."""
        of, nodes = constraints, len(constraints.row)
        missing = zeros(nodes, np.int32)
        for at in blocks(len(of.target), of.target, missing):
            _loops.count_edges(of.target[at], missing)
        reached = zeros(WEIGHTS * nodes, np.float64).reshape(-1, WEIGHTS)
        came = filled(WEIGHTS * nodes, np.int32, -1).reshape(-1, WEIGHTS)
        queue = empty(nodes, np.int32)
        net, paths = (of.first, of.row, of.target, of.share, weight), (reached, came, missing, queue)
        progress = np.array([0, 0, 0, -1, 0], np.int64)
        while not _loops.advance_paths(net, paths, progress, long_arrays.BLOCK):
            release(*net, *paths)
        release(*net, *paths)
        return cls(of, weight, reached, came, missing)

    def longest(self, which: int) -> tuple[float, Rows, Floats]:
        """Return the greatest sum of a weight along a path.

        Returns
        -------
        total : 0 without nodes
        rows, shares : (k,) the instances on the path, first to last, and which part of each is on it
        """
        node, greatest = self._end(which)
        of, found = self.constraints, AppendedRows(np.int32, np.float64)
        edge, last, part, steps = -1, -1, 0.0, 0
        while node >= 0:
            row = int(of.row[node])
            share = float(of.share[edge]) if edge >= 0 else float(not of.spawns[row])
            if share > 0 and row != last:
                found.add(last, part)
                last, part = row, 0.0
            part += share
            edge = int(self.came[node, which])
            node = int(of.source[edge]) if edge >= 0 else -1
            steps += 1
            if steps % long_arrays.BLOCK == 0:
                release(self.came, of.source, of.row, of.share, of.spawns)
        found.add(last, part)
        # The first row is of none.
        rows, shares = (column[:0:-1] for column in found.finish())
        return greatest, rows, shares

    def _end(self, which: int) -> tuple[int, float]:
        """Return the node at which the longest path ends, the first of several, and its length."""
        node, greatest = -1, -1.0
        of = self.constraints
        for at in blocks(len(of.row), of.row, of.spawns, self.weight, self.reached, self.missing):
            row = of.row[at]
            ends = self.reached[at, which] + np.where(of.spawns[row], 0.0, self.weight[row, which])
            ends[self.missing[at] > 0] = -1.0
            place = int(ends.argmax())
            if ends[place] > greatest:
                node, greatest = at.start + place, float(ends[place])
        return node, max(greatest, 0.0)
