"""Paths of nested tasks: for each instance the node of a tree, from the outermost task to its own.

An instance nests in the one that its thread ran when it started (`parent`). Recursion is folded: an instance of a task
that is already on the path belongs to that task's node, so no path is longer than there are tasks. The instances of one
level are numbered at once, and only pairs of node and task are looked up one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Integers = NDArray[np.int64]

ROOT = 0
MAX_LEVELS = 1000
"""Instances that nest more deeply count as if their tasks were called at this level."""
MAX_NODES = 100_000
ALL = "all"
TASK = "task"
REST = "rest"
"""Kinds of nodes; those of other levels are named as the level: host, process, thread, function."""


class Node(NamedTuple):
    """A name in a tree: its parent's number, how deep it is below the root, and of a function its file and line."""

    parent: int
    depth: int
    name: str
    kind: str
    place: str = ""


class Paths:
    """A tree of names; a parent has a smaller number than its children, and the root is number 0, its parent -1."""

    def __init__(self) -> None:
        """Begin with the root."""
        self.nodes = [Node(-1, 0, "all", ALL)]
        self._children: dict[tuple[int, str, str, str], int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def child(self, parent: int, name: str, kind: str, place: str = "") -> int:
        """Return the child of this name and kind; from `MAX_NODES` on new ones are one "(other)" of their parent."""
        key, above = (parent, kind, name, place), self.nodes[parent]
        found = self._children.get(key)
        if found is None:
            if len(self) >= MAX_NODES and kind != REST:
                return parent if above.kind == REST else self.child(parent, "(other)", REST)
            found = self._children[key] = len(self)
            self.nodes.append(Node(parent, above.depth + 1, name, kind, place))
        return found

    def folded_child(self, parent: int, name: str, kind: str, place: str = "") -> int:
        """Return the node of this name on the path to the parent, if there is one, else the child."""
        at = parent
        while (node := self.nodes[at]).kind == kind:
            if (node.name, node.place) == (name, place):
                return at
            at = node.parent
        return self.child(parent, name, kind, place)


def nodes_of(paths: Paths, names: Sequence[str], *, task: Integers, parent: Integers, top: Integers) -> Integers:
    """Return the node of each instance, and add the nodes that are missing.

    Parameters
    ----------
    paths : the tree
    names : of tasks
    task : (n,) index of the task's name
    parent : (n,) index of the instance in which it nests, -1: none
    top : (n,) node below which an instance without a parent is; -1: that is not known, and so no node of what nests in
        it, nor of what nests too deeply or in a circle
    """
    node, left = np.full(len(task), -1, np.int64), np.arange(len(task))
    for _ in range(MAX_LEVELS):
        up = parent[left]
        above = np.where(up < 0, top[left], node[up])
        placed = above >= 0
        at = left[placed]
        if not len(at):
            break
        node[at] = numbered(paths, names, above[placed], task[at])
        left = left[~placed]
    return node


def nearest(node: Integers, parent: Integers) -> Integers:
    """Return for each instance the node of the nearest one above it that has one; the root in a circle of parents."""
    above = np.where(node >= 0, np.arange(len(node)), parent)
    for _ in range(64):
        above = np.where(above >= 0, above[above], -1)
    return np.where((above >= 0) & (node[above] >= 0), node[above], ROOT)


def numbered(paths: Paths, names: Sequence[str], above: Integers, task: Integers) -> Integers:
    """Return the node of each pair of a node above and a task."""
    place, pairs = pd.factorize(above * len(names) + task, sort=True)
    found = [paths.folded_child(int(pair) // len(names), names[int(pair) % len(names)], TASK) for pair in pairs]
    return np.array(found, np.int64)[place]
