"""Paths of nested tasks: for each instance the node of a tree, from the outermost task to its own.

An instance nests in the one that its thread ran when it started (`parent`). Recursion is folded: an instance of a task
that is already on the path belongs to that task's node, so no path is longer than there are tasks. The instances of one
level are numbered at once, and only pairs of node and task are looked up one by one: O(n log n) for n instances, with a
step for each level of nesting up to `MAX_LEVELS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
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
_SMALL = 1024
_SPARSE = 4


@dataclass
class Paths:
    """A tree of names; a parent has a smaller number than its children, and the root is number 0.

    Attributes
    ----------
    names, kinds, parents, depths : of each node; the root's parent is -1
    notes : further text of a node, such as the place of a function
    """

    names: list[str] = field(default_factory=lambda: ["all"])
    kinds: list[str] = field(default_factory=lambda: [ALL])
    parents: list[int] = field(default_factory=lambda: [-1])
    depths: list[int] = field(default_factory=lambda: [0])
    notes: list[str] = field(default_factory=lambda: [""])
    _children: dict[tuple[int, str, str, str], int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def child(self, parent: int, name: str, kind: str, note: str = "") -> int:
        """Return the child of this name and kind; from `MAX_NODES` on new ones are one "(other)" of their parent."""
        key = (parent, kind, name, note)
        found = self._children.get(key)
        if found is None:
            if len(self.names) >= MAX_NODES and kind != REST:
                return parent if self.kinds[parent] == REST else self.child(parent, "(other)", REST)
            found = self._children[key] = len(self.names)
            self.names.append(name)
            self.kinds.append(kind)
            self.notes.append(note)
            self.parents.append(parent)
            self.depths.append(self.depths[parent] + 1)
        return found

    def folded_child(self, parent: int, name: str, kind: str, note: str = "") -> int:
        """Return the node of this name on the path to the parent, if there is one, else the child."""
        at = parent
        while self.kinds[at] == kind:
            if self.names[at] == name and self.notes[at] == note:
                return at
            at = self.parents[at]
        return self.child(parent, name, kind, note)

    def path(self, node: int) -> list[str]:
        """Return the names from below the root to the node."""
        names = []
        while node != ROOT:
            names.append(self.names[node])
            node = self.parents[node]
        return names[::-1]


def nodes_of(
    paths: Paths, names: Sequence[str], *, task: Integers, parent: Integers, top: Integers | None = None
) -> Integers:
    """Return the node of each instance, and add the nodes that are missing.

    Parameters
    ----------
    paths : the tree
    names : of tasks
    task : (n,) index of the task's name
    parent : (n,) index of the instance in which it nests, -1: none
    top : (n,) node below which an instance without a parent is; by default the root
    """
    node = np.full(len(task), -1, np.int64)
    first = np.flatnonzero(parent < 0)
    node[first] = _numbered(paths, names, np.zeros(len(first), np.int64) if top is None else top[first], task[first])
    nested = np.flatnonzero(parent >= 0)
    nested = nested[np.argsort(parent[nested], kind="stable")]
    counts = np.bincount(parent[nested], minlength=len(task))
    end = np.cumsum(counts)
    begin = end - counts
    level = first
    for _ in range(MAX_LEVELS):
        level = level[end[level] > begin[level]]
        level = nested[_ranges(begin[level], end[level])]
        level = level[node[level] < 0]
        if not len(level):
            break
        node[level] = _numbered(paths, names, node[parent[level]], task[level])
    left = np.flatnonzero(node < 0)
    if len(left):
        above = _nearest(node, parent)[left]
        known = np.where(above >= 0, node[above], ROOT)
        node[left] = _numbered(paths, names, known, task[left])
    return node


def _nearest(node: Integers, parent: Integers) -> Integers:
    """Return for each instance the nearest one above it that has a node; -1 in a circle of damaged parents."""
    above = np.where(node >= 0, np.arange(len(node)), parent)
    for _ in range(64):
        above = above[above]
    return np.where(node[above] >= 0, above, -1)


def _ranges(begin: Integers, end: Integers) -> Integers:
    """Return the numbers from each begin to before its end."""
    counts = end - begin
    starts = np.cumsum(counts) - counts
    return np.repeat(begin - starts, counts) + np.arange(int(counts.sum()))


def _numbered(paths: Paths, names: Sequence[str], above: Integers, task: Integers) -> Integers:
    """Return the node of each pair of a node above and a task."""
    key = above * len(names) + task
    pairs, inverse = _distinct(key)
    found = [paths.folded_child(int(pair) // len(names), names[int(pair) % len(names)], TASK) for pair in pairs]
    return np.array(found, np.int64)[inverse]


def _distinct(key: Integers) -> tuple[Integers, Integers]:
    """Return the distinct values, and the index of each value among them; without sorting where they are dense."""
    top = int(key.max(initial=-1)) + 1
    if top > _SPARSE * len(key) + _SMALL:
        distinct, inverse = np.unique(key, return_inverse=True)
        return distinct, inverse.astype(np.int64)
    is_used = np.zeros(top, bool)
    is_used[key] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[key]


def rows_of_parents(instance: NDArray[np.uint64], parent: NDArray[np.uint64]) -> Integers:
    """Return the rows of instances, such as those of each row's parent; -1 for none and for one that is not there.

    Parameters
    ----------
    instance : (n,) numbers of the instances that have rows
    parent : (m,) those that are sought; 0 is none
    """
    found = np.full(len(parent), -1, np.int64)
    nested = np.flatnonzero(parent != 0)
    if not len(nested) or not len(instance):
        return found
    is_ordered = bool((instance[1:] > instance[:-1]).all())
    order = None if is_ordered else np.argsort(instance, kind="stable")
    ids = instance if order is None else instance[order]
    place = np.minimum(np.searchsorted(ids, parent[nested]), len(ids) - 1)
    is_there = ids[place] == parent[nested]
    found[nested[is_there]] = (place if order is None else order[place])[is_there]
    return found
