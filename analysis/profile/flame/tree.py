"""The energy of nested tasks as a tree: what each path of tasks took itself, and with all that nests in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95
from tprof.analysis.profile.grouped import bounded, bounds_of, by_task
from tprof.analysis.profile.summary import joined_quality
from tprof.analysis.profile.tables import divided

from tprof.trace.plain_values import counted

from .paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OWN = ("own_j", "own_low_j", "own_high_j", "own_s", "instances", "unresolved")
ADDED = ("energy_j", "energy_low_j", "energy_high_j", "time_s", *OWN, "samples")
"""Columns that are added where trees are joined; of these those of a node itself."""
NONE_SAMPLED = "(no stack sampled)"
OUTSIDE = "(outside tasks)"


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
        samples, parents = self.nodes["samples"].fillna(0).to_numpy(float), self.nodes["parent"].to_numpy()
        called = np.bincount(parents[1:], weights=samples[1:], minlength=len(samples))
        kind = self.nodes["kind"].astype(str)
        nodes = self.nodes.assign(samples=(samples - called).astype(np.int64), kind=kind)
        found = nodes.head(len(nodes) if self.sampled else 0).groupby(
            ["name", "place", "kind"], as_index=False, sort=False
        )
        table = found.agg(own_j=("own_j", "sum"), samples=("samples", "sum"))
        table = table[table["own_j"] > 0].sort_values("own_j", ascending=False, kind="stable", ignore_index=True)
        root = self.nodes.iloc[ROOT]
        share = table["own_j"].to_numpy(float) / float(root["energy_j"])
        ends = np.array([wilson(float(one), self.effective) for one in share]).reshape(-1, 2)
        low_j = np.minimum(ends[:, 0] * float(root["energy_low_j"]), table["own_j"])
        high_j = np.maximum(ends[:, 1] * float(root["energy_high_j"]), table["own_j"])
        return table.assign(share=share, own_low_j=low_j, own_high_j=high_j)

    def __repr__(self) -> str:
        """Describe the tree in one line."""
        return f"<Flame of {counted(len(self.nodes), 'node')}, {self.energy_j:.4g} J ({self.quality})>"


@dataclass
class Sums:
    """Figures of nodes, each an array as long as there are nodes."""

    own_j: Floats
    own_low_j: Floats
    own_high_j: Floats
    own_s: Floats
    instances: Floats
    unresolved: Floats

    def grown(self, count: int) -> Sums:
        """Return the same for more nodes, the new ones zero."""
        return Sums(*(np.concatenate([getattr(self, one), np.zeros(count - len(self.own_j))]) for one in OWN))


def node_parts(earlier: pd.DataFrame | None, tasks: pd.DataFrame, node: Integers) -> pd.DataFrame:
    """Return the sums of instances, with their `own_s`, by node and task, and of earlier ones."""
    unresolved = tasks["energy_j"].isna().astype(int)
    frame = bounded(tasks, tasks["own_s"].to_numpy(float)).assign(node=node, unresolved=unresolved)
    return by_task(pd.concat([earlier, frame]), ["node"])


def sums_of(parts: pd.DataFrame, summary: pd.DataFrame, count: int) -> Sums:
    """Return what each of so many nodes took itself.

    The bounds take the errors of a task's energy as common to all its instances, as those of `Profile.by` do; a
    path that only some of them took has their own resolution besides.
    """
    bounds_j = bounds_of(parts.fillna({"energy_j": 0.0}), summary)
    own = {"own_j": parts["energy_j"]} | {f"own_{end}_j": bounds_j[f"energy_{end}_j"] for end in ("low", "high")}
    figures = parts.assign(**own).groupby("node")[[*OWN]].sum().reindex(range(count), fill_value=0.0)
    return Sums(*(figures[name].to_numpy(float) for name in OWN))


@dataclass
class Stacked:
    """What is known of sampled stacks.

    Attributes
    ----------
    samples : (nodes,) stacks that end in each node itself
    low_j, high_j : (nodes,) bounds of a function's joules with what it calls; NaN for other nodes
    total : number of stacks
    effective : how many stacks of equal joules would be as sure as all of them
    """

    samples: Floats
    low_j: Floats
    high_j: Floats
    total: int = 0
    effective: float = 0.0

    @classmethod
    def none(cls, count: int) -> Stacked:
        """Begin without stacks."""
        return cls(np.zeros(count), np.full(count, np.nan), np.full(count, np.nan))


def flame_of(
    paths: Paths, sums: Sums, quality: str, *, of_tasks: Sums | None = None, stacked: Stacked | None = None
) -> Flame:
    """Make the table of nodes.

    Parameters
    ----------
    paths : the tree
    sums : of its nodes
    quality : of the joules
    of_tasks : the sums before functions had a part of them, from which the bounds of tasks are
    stacked : what is known of sampled stacks
    """
    count = len(paths)
    of_tasks = sums if of_tasks is None else of_tasks.grown(count)
    stacked = Stacked.none(count) if stacked is None else stacked

    def nested(values: Floats) -> Floats:
        """Return sums with those of all nodes below."""
        total = values.tolist()
        for node in range(count - 1, ROOT, -1):
            total[paths.nodes[node].parent] += total[node]
        return np.array(total)

    known = (of_tasks.instances > of_tasks.unresolved) | (of_tasks.own_j > 0)
    resolved = nested((known | (sums.own_j > 0)).astype(float)) > 0
    resolved |= np.isfinite(stacked.low_j)
    energy_j, time_s, samples = nested(sums.own_j), nested(sums.own_s), nested(stacked.samples)
    bounds = [
        np.where(np.isfinite(given), given, nested(values))
        for given, values in ((stacked.low_j, of_tasks.own_low_j), (stacked.high_j, of_tasks.own_high_j))
    ]
    is_unknown = (of_tasks.instances > 0) & ~known

    def of_all(values: Floats) -> Floats:
        return np.where(resolved, values, np.nan)

    def own(values: Floats) -> Floats:
        return np.where(is_unknown, np.nan, values)

    nodes = _table(paths).assign(
        energy_j=of_all(energy_j),
        energy_low_j=of_all(np.minimum(bounds[0], energy_j)),
        energy_high_j=of_all(np.maximum(bounds[1], energy_j)),
        time_s=time_s,
        power_w=divided(of_all(energy_j), time_s),
        own_j=own(sums.own_j),
        own_low_j=own(np.minimum(sums.own_low_j, sums.own_j)),
        own_high_j=own(np.maximum(sums.own_high_j, sums.own_j)),
        own_s=sums.own_s,
        instances=sums.instances.astype(np.int64),
        unresolved=sums.unresolved.astype(np.int64),
        samples=np.where(samples > 0, samples, np.nan),
    )
    return Flame(nodes, quality, stacked.total, stacked.effective)


def wilson(share: float, count: float) -> tuple[float, float]:
    """Return the 95 % interval of a proportion that was seen in so many samples."""
    if not count > 0:
        return 0.0, 1.0
    square = NORMAL_95**2 / count
    middle = (share + square / 2) / (1 + square)
    half = NORMAL_95 / (1 + square) * np.sqrt(max(share * (1 - share), 0.0) / count + square / (4 * count))
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def joined(flames: Sequence[tuple[str, str, Flame]], levels: frozenset[str]) -> Flame:
    """Return the tree of several hosts, figures of the same path added: bounds too, so they are never too narrow.

    Parameters
    ----------
    flames : the name of each host, its quality, and its tree
    levels : kinds of nodes that stay above the tasks; host is one that is added
    """
    paths = Paths()
    parts = [pd.DataFrame(dict.fromkeys(ADDED, np.nan), index=[0]).assign(node=ROOT)]
    for host, _, one in flames:
        parts.append(_placed(paths, one, host if "host" in levels else None, levels))
        if "host" in levels:
            parts.append(one.nodes.head(1)[[name for name in ADDED if name not in OWN]].assign(node=ROOT))
    nodes = _table(paths).join(pd.concat(parts).groupby("node").sum(min_count=1))
    counts = {name: nodes[name].fillna(0).astype(np.int64) for name in ("instances", "unresolved")}
    power_w = divided(nodes["energy_j"].to_numpy(), nodes["time_s"].to_numpy())
    nodes.insert(list(nodes.columns).index("time_s") + 1, "power_w", power_w)
    quality = joined_quality(quality for _, quality, _ in flames)
    trees = [one for _, _, one in flames if one.effective > 0 and one.energy_j > 0]
    squares = sum(one.energy_j**2 / one.effective for one in trees)
    effective = sum(one.energy_j for one in trees) ** 2 / squares if squares > 0 else 0.0
    return Flame(nodes.assign(**counts), quality, sum(one.sampled for _, _, one in flames), effective)


def _placed(paths: Paths, flame: Flame, host: str | None, levels: frozenset[str]) -> pd.DataFrame:
    """Return the figures of the rows of a tree that stay, and the node of each in the joined one."""
    at = [ROOT if host is None else paths.child(ROOT, host, "host")]
    rows = [ROOT]
    columns = (flame.nodes[name].tolist() for name in ("parent", "name", "kind", "place"))
    for row, (parent, name, kind, place) in enumerate(list(zip(*columns, strict=True))[1:], start=1):
        if kind in ("process", "thread") and kind not in levels:
            at.append(at[parent])
            continue
        at.append(paths.child(at[parent], name, kind, place))
        rows.append(row)
    return flame.nodes.iloc[rows][[*ADDED]].assign(node=np.array(at)[rows])


def _table(paths: Paths) -> pd.DataFrame:
    """Return the columns of a tree's table of nodes that are no figures."""
    return pd.DataFrame(paths.nodes).astype({"kind": "category"})
