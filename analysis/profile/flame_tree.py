"""The energy of nested tasks as a tree: what each path of tasks took itself, and with all that nests in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95

from tprof.trace.plain_values import counted

from .summary import joined_quality

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    Series = pd.Series[Any]

    from .part import Part

Floats = NDArray[np.float64]

ROOT = 0
MAX_NODES = 100_000
ALL, TASK, FUNCTION, REST = "all", "task", "function", "rest"
"""Kinds of nodes; those of other levels are named as the level: host, process, thread."""
OF_HOST = ("process", "thread")
"""Levels above the tasks of one host."""
JOULES = ["own_j", "own_low_j", "own_high_j"]
OWN = (*JOULES, "own_s", "instances", "unresolved")
ADDED = ("energy_j", "energy_low_j", "energy_high_j", "time_s", "power_w", *OWN, "samples")
"""Columns that are added where trees are joined; of these those of a node itself."""
NONE_SAMPLED = "(no stack sampled)"
OUTSIDE = "(outside tasks)"


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
        self._numbers: dict[Node, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def child(self, parent: int, name: str, kind: str, place: str = "") -> int:
        """Return the child of this name and kind; from `MAX_NODES` on new ones are one "(other)" of their parent."""
        node = Node(parent, self.nodes[parent].depth + 1, name, kind, place)
        if node not in self._numbers:
            if len(self) >= MAX_NODES and kind != REST:
                return parent if self.nodes[parent].kind == REST else self.child(parent, "(other)", REST)
            self._numbers[node] = len(self)
            self.nodes.append(node)
        return self._numbers[node]

    def folded_child(self, parent: int, name: str, kind: str, place: str = "") -> int:
        """Return the node of this name on the path to the parent, if there is one, else the child."""
        at = parent
        while (node := self.nodes[at]).kind == kind:
            if (node.name, node.place) == (name, place):
                return at
            at = node.parent
        return self.child(parent, name, kind, place)

    def table(self) -> pd.DataFrame:
        """Return the columns of a tree's table of nodes that are no figures."""
        return pd.DataFrame(self.nodes).astype({"kind": "category"})

    def nested(self, values: pd.DataFrame) -> pd.DataFrame:
        """Return values of each node with those of all nodes below it."""
        total = values.to_numpy(float, copy=True)
        for node in range(len(self) - 1, ROOT, -1):
            total[self.nodes[node].parent] += total[node]
        return pd.DataFrame(total, columns=values.columns)


@dataclass(frozen=True, repr=False)
class Flame:
    """A tree of nested tasks with their energy and time; with sampled stacks, Python functions below the tasks.

    Attributes
    ----------
    nodes : one row per node, parents before their children, row 0 the root. `parent` (row, -1 for the root), `depth`,
        `name`, `kind` (all, host, process, thread, task, function, or rest), `place` (file and line of a function).
        `energy_j` with what nests in it, `energy_low_j` and `energy_high_j` (95 %); `own_j`, `own_low_j` and
        `own_high_j` without; `time_s` and `own_s`, the seconds in which threads ran it, likewise; `power_w` their
        ratio; `instances` of the task itself, `unresolved` of these without known energy; `samples`, the number of
        stacks in it and what it calls, NaN if there are none.
    quality : measured, estimated, simulated or mixed
    sampled : number of stacks; 0 if none were sampled
    effective : number of stacks with the same joules each that would be as sure as these
    """

    nodes: pd.DataFrame
    quality: str
    sampled: int = 0
    effective: float = 0.0

    @property
    def energy_j(self) -> float:
        """Joules of all tasks, with sampled stacks also of recorded threads outside them; NaN if none is resolved."""
        return float(self.nodes["energy_j"].iloc[ROOT])

    def paths(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield each node's row and its path of names from below the root."""
        found: list[tuple[str, ...]] = [()]
        parents, names = self.nodes["parent"].tolist(), self.nodes["name"].tolist()
        for row in range(1, len(parents)):
            found.append((*found[parents[row]], names[row]))
            yield row, found[row]

    def functions(self) -> pd.DataFrame:
        """Return what each sampled function took itself, wherever it was called, and each task in its own function.

        Returns
        -------
        One row per function, by falling energy: `name`, `place` (file and line), `kind` (function; task: its own
        function; rest: where no stack was sampled), `own_j` without what it calls, `share` (of the whole tree's
        joules), `own_low_j` and `own_high_j` (95 %), `samples` (stacks that ended in it). All rows together have the
        joules of the tree. Empty without sampled stacks. The interval is Wilson's of the share, by the effective number
        of stacks, times the ends of the whole tree's joules.
        """
        samples, root = self.nodes["samples"].fillna(0), self.nodes.iloc[ROOT]
        called = samples[1:].groupby(self.nodes["parent"]).sum()
        samples = samples.sub(called, fill_value=0).astype(np.int64)
        nodes = self.nodes.assign(samples=samples, kind=self.nodes["kind"].astype(str))[
            : len(samples) * bool(self.sampled)
        ]
        table = nodes.groupby(["name", "place", "kind"], as_index=False, sort=False)[["own_j", "samples"]].sum()
        table = table[table["own_j"] > 0].sort_values("own_j", ascending=False, kind="stable", ignore_index=True)
        own_j, share = table["own_j"], table["own_j"].to_numpy() / float(root["energy_j"])
        low, high = wilson(share, self.effective)
        low_j = np.minimum(low * float(root["energy_low_j"]), own_j)
        return table.assign(
            share=share, own_low_j=low_j, own_high_j=np.maximum(high * float(root["energy_high_j"]), own_j)
        )

    def __repr__(self) -> str:
        """Describe the tree in one line."""
        return f"<Flame of {counted(len(self.nodes), 'node')}, {self.energy_j:.4g} J ({self.quality})>"


def wilson(share: Floats, count: Floats | float) -> tuple[Floats, Floats]:
    """Return the 95 % intervals of proportions that were seen in so many samples each."""
    known = np.where(count > 0, count, np.nan)
    square = NORMAL_95**2 / known
    middle = (share + square / 2) / (1 + square)
    variance = np.maximum(share * (1 - share), 0.0) / known
    half = NORMAL_95 / (1 + square) * np.sqrt(variance + square / (4 * known))
    low, high = np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
    return np.where(count > 0, low, 0.0), np.where(count > 0, high, 1.0)


def flame_of(
    paths: Paths,
    own: pd.DataFrame,
    quality: str,
    functions: pd.DataFrame | None = None,
    sampled: int = 0,
    effective: float = 0.0,
) -> Flame:
    """Return the tree of nodes, given what each took itself.

    Parameters
    ----------
    paths : the nodes
    own : rows by node, which are added: `OWN`, `samples` that end in it, `task_low_j` and `task_high_j`, the bounds of
        its own joules before functions had a part of them
    functions : by node, the bounds `own_low_j` and `own_high_j` of a function with what it calls
    quality, sampled, effective : of the tree
    """
    every = range(len(paths))
    own = own.groupby(level=0).sum().reindex(every, fill_value=0.0)
    own["known"] = (own["instances"] > own["unresolved"]) | (own["own_j"] > 0)
    nested = paths.nested(own)
    low_j, high_j, is_known = nested["task_low_j"], nested["task_high_j"], nested["known"] > 0
    if functions is not None:
        functions = functions.reindex(every)
        low_j, high_j = functions["own_low_j"].fillna(low_j), functions["own_high_j"].fillna(high_j)
        is_known |= functions["own_low_j"].notna()
    has_own = own["known"] | (own["instances"] == 0)
    nodes = paths.table().assign(
        **_bounded("energy", nested["own_j"], low_j, high_j, is_known), time_s=nested["own_s"], power_w=np.nan,
        **_bounded("own", own["own_j"], own["own_low_j"], own["own_high_j"], has_own), own_s=own["own_s"],
        instances=own["instances"].astype(np.int64), unresolved=own["unresolved"].astype(np.int64),
        samples=nested["samples"].where(nested["samples"] > 0),
    )  # fmt: skip
    return Flame(_with_power(nodes), quality, sampled, effective)


def _bounded(name: str, joules: Series, low_j: Series, high_j: Series, known: Series) -> dict[str, Series]:
    """Return the columns of joules and of bounds around them, NaN where they are not known."""
    ends = {f"{name}_j": joules, f"{name}_low_j": low_j.clip(upper=joules), f"{name}_high_j": high_j.clip(joules)}
    return {name: values.where(known) for name, values in ends.items()}


def _with_power(nodes: pd.DataFrame) -> pd.DataFrame:
    return nodes.assign(power_w=(nodes["energy_j"] / nodes["time_s"]).where(nodes["time_s"] > 0))


def joined(flames: Sequence[tuple[Part, Flame]], levels: Collection[str]) -> Flame:
    """Return the tree of several hosts, figures of the same path added: bounds too, so they are never too narrow.

    Parameters
    ----------
    flames : the part of a job of each host, and its tree
    levels : kinds of nodes that stay above the tasks; host is one that is added
    """
    paths, parts = Paths(), [pd.DataFrame(dict.fromkeys(ADDED, np.nan), index=[ROOT])]
    for part, one in flames:
        at, stays = [], []
        columns = (one.nodes[name].tolist() for name in ("parent", "name", "kind", "place"))
        for parent, name, kind, place in zip(*columns, strict=True):
            stays.append(kind not in OF_HOST or kind in levels)
            if parent < 0:
                at.append(paths.child(ROOT, part.host, "host") if "host" in levels else ROOT)
            else:
                at.append(paths.child(at[parent], name, kind, place) if stays[-1] else at[parent])
        figures = one.nodes[[*ADDED]].set_axis(at)
        parts.append(figures[stays])
        if "host" in levels:
            parts.append(figures.head(1).drop(columns=[*OWN]).set_axis([ROOT]))
    nodes = paths.table().join(pd.concat(parts).groupby(level=0).sum(min_count=1))
    counts: dict[str, Any] = {name: nodes[name].fillna(0).astype(np.int64) for name in ("instances", "unresolved")}
    quality = joined_quality(str(part.info["quality"]) for part, _ in flames)
    trees = [one for _, one in flames if one.effective > 0 and one.energy_j > 0]
    squares = sum(one.energy_j**2 / one.effective for one in trees)
    effective = sum(one.energy_j for one in trees) ** 2 / squares if squares > 0 else 0.0
    return Flame(_with_power(nodes.assign(**counts)), quality, sum(one.sampled for _, one in flames), effective)
