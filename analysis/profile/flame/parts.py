"""Nodes of the instances of a long recording, which come in parts: those that ended later first.

What an instance nests in mostly ends after it, so its node is known before. Of the instances that came, those are kept
that began before the next part ends: only they can hold what is to come. An instance whose parent ended in an earlier
part, as a coroutine's may, waits with all that nests in it until every part was there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .paths import ROOT, Paths, nodes_of, rows_of_parents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Ids = NDArray[np.uint64]
Integers = NDArray[np.int64]


class _Placed(NamedTuple):
    """Instances with their nodes, (n,) each, by id."""

    ids: Ids
    node: Integers
    start_s: NDArray[np.float64]

    @classmethod
    def none(cls) -> _Placed:
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0))

    def where(self, rows: NDArray[Any]) -> _Placed:
        return _Placed(self.ids[rows], self.node[rows], self.start_s[rows])

    def then(self, other: _Placed) -> _Placed:
        both = _Placed(
            np.concatenate((self.ids, other.ids)), np.concatenate((self.node, other.node)),
            np.concatenate((self.start_s, other.start_s)),
        )  # fmt: skip
        return both.where(np.argsort(both.ids, kind="stable"))

    def nodes(self, ids: Ids) -> Integers:
        """Return the node of each id, -1 for one that is not here."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[place] == ids, self.node[place], -1)


class NestedParts:
    """A tree of paths that grows by parts of the instances."""

    def __init__(
        self,
        paths: Paths,
        names: Sequence[str],
        tops: Callable[[pd.DataFrame], Integers | None],
    ) -> None:
        """Begin without instances; `names` are the tasks', the last of none, and `tops` the nodes above the tasks."""
        self._paths, self._names, self._tops = paths, names, tops
        self._open, self._found = _Placed.none(), _Placed.none()
        self._waiting: list[pd.DataFrame] = []
        self._wanted = np.empty(0, np.uint64)

    def add(self, tasks: pd.DataFrame) -> tuple[pd.DataFrame, Integers]:
        """Return those of a part's instances whose nodes are known now, and their nodes."""
        if not len(tasks):
            return tasks, np.empty(0, np.int64)
        ends_s = (tasks["start_s"] + tasks["duration_s"]).max()
        self._open = self._open.where(self._open.start_s <= ends_s)
        parents = tasks["parent"].to_numpy(np.uint64)
        row = rows_of_parents(tasks["instance"].to_numpy(np.uint64), parents)
        above = self._open.nodes(parents)
        waits = _with_nested((row < 0) & (parents != 0) & (above < 0), row)
        if waits.any():
            self._waiting.append(tasks[waits])
            self._wanted = np.union1d(self._wanted, parents[waits & (row < 0)])
            place = np.cumsum(~waits) - 1
            row = np.where(row >= 0, place[row], -1)[~waits]
            tasks, above = tasks[~waits], above[~waits]
        node = self._nodes(tasks, row, above)
        ids = tasks["instance"].to_numpy(np.uint64)
        placed = _Placed(ids, node, tasks["start_s"].to_numpy(float))
        self._found = self._found.then(placed.where(np.isin(ids, self._wanted)))
        self._open = self._open.then(placed)
        return tasks, node

    def nodes(self, ids: Ids) -> Integers:
        """Return the nodes of instances that came and can hold what is to come, or came last; -1 for others."""
        return self._open.nodes(ids)

    def rest(self) -> tuple[pd.DataFrame, Integers]:
        """Return the instances that waited; one whose parent is nowhere is in none."""
        if not self._waiting:
            return pd.DataFrame(), np.empty(0, np.int64)
        tasks = pd.concat(self._waiting, ignore_index=True)
        parents = tasks["parent"].to_numpy(np.uint64)
        row = rows_of_parents(tasks["instance"].to_numpy(np.uint64), parents)
        return tasks, self._nodes(tasks, row, self._found.nodes(parents))

    def _nodes(self, tasks: pd.DataFrame, row: Integers, above: Integers) -> Integers:
        codes = tasks["task"].cat.codes.to_numpy().astype(np.int64)
        task = np.where(codes < 0, len(self._names) - 1, codes)
        tops = self._tops(tasks)
        top = np.where(above >= 0, above, ROOT if tops is None else tops)
        return nodes_of(self._paths, self._names, task=task, parent=row, top=top)


def _with_nested(which: NDArray[np.bool_], parent: Integers) -> NDArray[np.bool_]:
    """Return rows, and those that nest in them at any depth; `parent` is the row of each one's parent, -1: none."""
    while True:
        nested = which | (which[parent] & (parent >= 0))
        if (nested == which).all():
            return which
        which = nested
