"""The longest path through a graph without cycles: nodes in the order of their edges, then one pass.

Kahn (1962): a node is taken after all edges into it; nodes on a cycle are never taken, and no path leads through
them. O(nodes + edges), a second or two for a million of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .lifecycle import Rows

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Net:
    """Nodes and weighted edges, by source.

    Attributes
    ----------
    first : (nodes + 1,) where the edges of each node begin
    target : (edges,) nodes
    order : nodes in topological order, without those on cycles
    """

    first: list[int]
    target: list[int]
    order: list[int]
    by_source: NDArray[np.intp]

    @classmethod
    def of(cls, nodes: int, source: Rows, target: Rows) -> Net:
        """Sort the edges."""
        by_source = np.argsort(source, kind="stable")
        first = np.concatenate(([0], np.cumsum(np.bincount(source, minlength=nodes)))).tolist()
        ordered = target[by_source].tolist()
        missing = np.bincount(target, minlength=nodes).tolist()
        order = [node for node, count in enumerate(missing) if count == 0]
        for node in order:  # grows meanwhile
            for edge in range(first[node], first[node + 1]):
                follower = ordered[edge]
                missing[follower] -= 1
                if missing[follower] == 0:
                    order.append(follower)
        return cls(first, ordered, order, by_source)

    def longest(self, weight: Floats, final: Floats) -> tuple[float, Rows, Rows]:
        """Return the greatest sum of weights along a path, and the path.

        Parameters
        ----------
        weight : (edges,) >= 0, of each edge in the order in which `of` was given them
        final : (nodes,) >= 0, the weight that a path gains by ending in a node

        Returns
        -------
        total : 0 without nodes
        nodes : (k,) the path, first to last
        edges : (k,) the edge by which it leaves each, as `of` was given them; -1 for the last
        """
        if not self.order:
            return 0.0, np.empty(0, np.int64), np.empty(0, np.int64)
        weights, reached = weight[self.by_source].tolist(), [0.0] * (len(self.first) - 1)
        came, by = [-1] * len(reached), [-1] * len(reached)
        first, target = self.first, self.target
        for node in self.order:
            here = reached[node]
            for edge in range(first[node], first[node + 1]):
                follower, total = target[edge], here + weights[edge]
                if total > reached[follower] or came[follower] < 0:
                    reached[follower], came[follower], by[follower] = total, node, edge
        ends = np.array(reached)[self.order] + final[self.order]
        node = self.order[int(ends.argmax())]
        nodes, edges = [node], [-1]
        while came[node] >= 0:
            edges.append(int(self.by_source[by[node]]))
            node = came[node]
            nodes.append(node)
        return float(ends.max()), np.array(nodes[::-1]), np.array(edges[::-1])
