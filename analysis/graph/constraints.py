"""The graph of constraints that hold for any number of workers; its longest path is the span.

An instance without children is one node. An instance with children has a node for each of its runs and one for its
completion: a child begins after its parent reached the spawn, a run after a pause begins after the children that had
ended by then, and an instance that waits for the parent also waits for its children (the strands of Blumofe and
Leiserson, "Scheduling Multithreaded Computations by Work Stealing", 1999, with dependences added). Time outside
instances is excluded: all instances that no other one spawned may begin at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .runs import count_until

if TYPE_CHECKING:
    from .execution import Execution
    from .lifecycle import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Constraints:
    """Nodes and edges.

    Attributes
    ----------
    row : (nodes,) the instance of each
    source, target : (edges,) nodes
    share : (edges,) the part of the source's instance that runs in the source before the target may begin, 0 to 1
    final : (nodes,) the part of its instance that runs in each node until the end of the node
    """

    row: Rows
    source: Rows
    target: Rows
    share: Floats
    final: Floats


def build_constraints(execution: Execution) -> Constraints:
    """Build the graph; O((runs + edges) log (runs + edges))."""
    runs, parent, count = execution.runs, execution.parent, len(execution)
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    spawns = np.zeros(count, bool)
    spawns[above] = True
    length = np.diff(runs.first)
    first = np.concatenate(([0], np.cumsum(np.where(spawns, length + 1, 1))))
    row = np.repeat(np.arange(count), np.diff(first))
    done, whole = first[1:] - 1, np.where(spawns, 0.0, 1.0)
    at_spawn = count_until(runs.first, runs.begin_ns, above, execution.spawn_ns[child], inclusive=True)
    at_spawn = np.clip(at_spawn - 1, 0, length[above] - 1)
    after = count_until(runs.first, runs.begin_ns, above, execution.done_ns[child], inclusive=False)
    after = np.maximum(after, at_spawn + 1)
    inner = np.flatnonzero(spawns[runs.row])
    within = first[runs.row[inner]] + inner - runs.first[runs.row[inner]]
    parts = (
        (done[execution.waits_for], first[execution.waits], whole[execution.waits_for]),
        (first[above] + at_spawn, first[child], _until_spawn(execution, child, above, at_spawn)),
        (within, within + 1, _of_run(execution)[inner]),
        (done[child], first[above] + after, whole[child]),
    )
    source, target, share = (np.concatenate([part[column] for part in parts]) for column in range(3))
    final = np.zeros(len(row))
    final[done] = whole
    return Constraints(row, source.astype(np.int64), target.astype(np.int64), share, final)


def _of_run(execution: Execution) -> Floats:
    """Return each run as a part of its instance."""
    runs = execution.runs
    return _divided(runs.end_ns - runs.begin_ns, execution.own_ns[runs.row])


def _until_spawn(execution: Execution, child: Rows, above: Rows, at_spawn: Rows) -> Floats:
    """Return the part of the parent that lies in the spawning run before the spawn."""
    runs = execution.runs
    run = runs.first[above] + at_spawn
    until_ns = np.clip(execution.spawn_ns[child], runs.begin_ns[run], runs.end_ns[run])
    return _divided(until_ns - runs.begin_ns[run], execution.own_ns[above])


def _divided(above: NDArray[np.int64], below: NDArray[np.int64]) -> Floats:
    return np.where(below > 0, above / np.maximum(below, 1), 0.0)
