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

from tprof.trace.long_sorts import Places, rows_of

from .paths import Paths, nearest, nodes_of, numbered

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
        return np.append(self.node, -1)[rows_of(self.ids, ids)]


class NestedParts:
    """A tree of paths that grows by parts of the instances."""

    def __init__(
        self,
        paths: Paths,
        names: Sequence[str],
        tops: Callable[[pd.DataFrame], Integers],
    ) -> None:
        """Begin without instances; `names` are the tasks', and `tops` the nodes above the tasks."""
        self._paths, self._names, self._tops = paths, names, tops
        self._open, self._found = _Placed.none(), _Placed.none()
        self._waiting: list[pd.DataFrame] = []
        self._wanted = np.empty(0, np.uint64)

    def add(self, tasks: pd.DataFrame) -> tuple[pd.DataFrame, Integers]:
        """Return those of a part's instances whose nodes are known now, and their nodes."""
        if len(tasks):
            ends_s = (tasks["start_s"] + tasks["duration_s"]).max()
            self._open = self._open.where(self._open.start_s <= ends_s)
        node, _ = self._nodes(tasks, self._open, is_last=False)
        known, ids = node >= 0, tasks["instance"].to_numpy(np.uint64)
        self._waiting.append(tasks[~known])
        self._wanted = np.union1d(self._wanted, self._waiting[-1]["parent"])
        placed = _Placed(ids, node, tasks["start_s"].to_numpy(float)).where(known)
        self._found = self._found.then(placed.where(np.isin(placed.ids, self._wanted)))
        self._open = self._open.then(placed)
        return tasks[known], node[known]

    def nodes(self, ids: Ids) -> Integers:
        """Return the nodes of instances that came and can hold what is to come, or came last; -1 for others."""
        return self._open.nodes(ids)

    def rest(self) -> tuple[pd.DataFrame, Integers]:
        """Return the instances that waited; one whose parent is nowhere is in none."""
        tasks = pd.concat(self._waiting, ignore_index=True)
        node, row = self._nodes(tasks, self._found, is_last=True)
        left = np.flatnonzero(node < 0)
        node[left] = numbered(self._paths, self._names, nearest(node, row)[left], _codes(tasks)[left])
        return tasks, node

    def _nodes(self, tasks: pd.DataFrame, known: _Placed, *, is_last: bool) -> tuple[Integers, Integers]:
        """Return the nodes of instances, -1 if what they nest in is not known, and the rows of their parents."""
        parents = tasks["parent"].to_numpy(np.uint64)
        row, above = Places(tasks["instance"].to_numpy(np.uint64)).rows(parents), known.nodes(parents)
        tops = np.where(is_last | (parents == 0), self._tops(tasks), -1)
        top = np.where(above >= 0, above, tops)
        return nodes_of(self._paths, self._names, task=_codes(tasks), parent=row, top=top), row


def _codes(tasks: pd.DataFrame) -> Integers:
    return tasks["task"].cat.codes.to_numpy().astype(np.int64)
