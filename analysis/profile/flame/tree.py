"""The energy of nested tasks as a tree: what each path of tasks took itself, and with all that nests in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95
from tprof.analysis.profile.intervals import part_reach

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

    @classmethod
    def zeros(cls, count: int) -> Sums:
        """Begin with zeros."""
        return cls(*(np.zeros(count) for _ in OWN))

    def grown(self, count: int) -> Sums:
        """Return the same for more nodes, the new ones zero."""
        return Sums(*(np.concatenate([getattr(self, one), np.zeros(count - len(self.own_j))]) for one in OWN))


class NodeTotals:
    """What nodes took themselves, by instances that are added in parts.

    The bounds take the errors of a task's energy as common to all its instances, as those of `Profile.by` do; a
    path that only some of them took has their own resolution besides.
    """

    _COLUMNS = (
        "known_j", "of_task_low_j", "of_task_high_j", "most_low_j", "most_high_j", "half_squares", "part", "own_s",
        "instances", "unresolved",
    )  # fmt: skip

    def __init__(self, summary: pd.DataFrame) -> None:
        """Begin with the root alone; `summary` is that of the tasks, from which the intervals are."""
        self._summary = summary
        self._totals = np.zeros((len(self._COLUMNS), 1))

    def add(self, tasks: pd.DataFrame, own_s: Floats, node: Integers, count: int) -> None:
        """Add instances.

        Parameters
        ----------
        tasks : one row per instance
        own_s : (n,) seconds in which each ran
        node : (n,) of each instance
        count : of nodes so far
        """
        energy_j = tasks["energy_j"].to_numpy(float)
        is_known = np.isfinite(energy_j)
        known_j = np.where(is_known, energy_j, 0.0)
        codes = tasks["task"].cat.codes.to_numpy()
        categories = tasks["task"].cat.categories
        ends = {name: tasks[f"energy_{name}_j"].to_numpy(float) for name in ("low", "high")}
        half_j = np.where(is_known, np.nan_to_num((ends["high"] - ends["low"]) / 2), 0.0)
        instances = np.append(self._summary["instances"].reindex(categories).to_numpy(float), np.nan)
        of_task_j = (known_j * self._ratios(name, categories)[codes] for name in ("low", "high"))
        most_j = (
            np.where(is_known, np.nan_to_num(sign * (ends[name] - known_j)), 0.0)
            for name, sign in (("low", -1), ("high", 1))
        )
        weights = (
            known_j, *of_task_j, *most_j, half_j**2, np.nan_to_num(1 / instances, nan=0.0)[codes], own_s, None,
            (~is_known).astype(float),
        )  # fmt: skip
        added = np.array([np.bincount(node, weights=one, minlength=count).astype(float) for one in weights])
        added[:, : self._totals.shape[1]] += self._totals
        self._totals = added

    def _ratios(self, end: str, categories: pd.Index[Any]) -> Floats:
        """Return an end of the interval of each task's energy over it, 1 for unknown ones, which are last too."""
        whole_j = self._summary["energy_j"].where(self._summary["energy_j"] > 0)
        ratio = (self._summary[f"energy_{end}_j"] / whole_j).reindex(categories).to_numpy(float)
        return np.asarray(np.nan_to_num(np.append(ratio, 1.0), nan=1.0), np.float64)

    def sums(self) -> Sums:
        """Return the figures of all nodes."""
        known = dict(zip(self._COLUMNS, self._totals, strict=True))
        joules, half_squares, part = (known[name] for name in ("known_j", "half_squares", "part"))
        low, high = (
            joules
            + sign * part_reach(sign * (known[f"of_task_{end}_j"] - joules), half_squares, part, known[f"most_{end}_j"])
            for end, sign in (("low", -1), ("high", 1))
        )
        return Sums(joules, np.maximum(low, 0.0), high, known["own_s"], known["instances"], known["unresolved"])


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
    parents, depths = np.array(paths.parents, np.int64), np.array(paths.depths, np.int64)

    def nested(values: Floats) -> Floats:
        return _with_nested(values, parents, depths)

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

    nodes = pd.DataFrame(
        {
            "parent": parents,
            "depth": depths,
            "name": paths.names,
            "kind": pd.Categorical(paths.kinds),
            "place": paths.notes,
            "energy_j": of_all(energy_j),
            "energy_low_j": of_all(np.minimum(bounds[0], energy_j)),
            "energy_high_j": of_all(np.maximum(bounds[1], energy_j)),
            "time_s": time_s,
            "power_w": _ratio(of_all(energy_j), time_s),
            "own_j": own(sums.own_j),
            "own_low_j": own(np.minimum(sums.own_low_j, sums.own_j)),
            "own_high_j": own(np.maximum(sums.own_high_j, sums.own_j)),
            "own_s": sums.own_s,
            "instances": sums.instances.astype(np.int64),
            "unresolved": sums.unresolved.astype(np.int64),
            "samples": np.where(samples > 0, samples, np.nan),
        }
    )
    return Flame(nodes, quality, stacked.total, stacked.effective)


def _ratio(above: Floats, below: Floats) -> Floats:
    ratio = np.full(len(above), np.nan)
    np.divide(above, below, out=ratio, where=below > 0)
    return ratio


def _with_nested(own: Floats, parents: Integers, depths: Integers) -> Floats:
    """Return sums with those of all nodes below."""
    total = own.astype(float)
    order = np.argsort(-depths, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(depths[order])) + 1):
        below = rows[parents[rows] >= 0]
        np.add.at(total, parents[below], total[below])
    return total


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
    parts = [_placed(paths, one, host if "host" in levels else None, levels) for host, _, one in flames]
    nodes = pd.DataFrame(
        {"parent": paths.parents, "depth": paths.depths, "name": paths.names, "kind": pd.Categorical(paths.kinds)}
    ).assign(place=paths.notes)
    for name in ADDED:
        total, known = np.zeros(len(paths)), np.zeros(len(paths), bool)
        for (_, _, one), (rows, at) in zip(flames, parts, strict=True):
            _add(total, known, one.nodes[name].to_numpy(float)[rows], at)
            if "host" in levels and name not in OWN:
                _add(total, known, one.nodes[name].to_numpy(float)[:1], np.zeros(1, np.int64))
        nodes[name] = np.where(known, total, np.nan)
    counts = {name: nodes[name].fillna(0).astype(np.int64) for name in ("instances", "unresolved")}
    nodes = nodes.assign(power_w=_ratio(nodes["energy_j"].to_numpy(), nodes["time_s"].to_numpy()), **counts)
    order = flames[0][2].nodes.columns if flames else nodes.columns
    qualities = list(dict.fromkeys(quality for _, quality, _ in flames))
    quality = qualities[0] if len(qualities) == 1 else "mixed"
    trees = [one for _, _, one in flames if one.effective > 0 and one.energy_j > 0]
    squares = sum(one.energy_j**2 / one.effective for one in trees)
    effective = sum(one.energy_j for one in trees) ** 2 / squares if squares > 0 else 0.0
    return Flame(nodes[list(order)], quality, sum(one.sampled for _, _, one in flames), effective)


def _placed(paths: Paths, flame: Flame, host: str | None, levels: frozenset[str]) -> tuple[Integers, Integers]:
    """Return the rows of a tree that stay, and the node of each in the joined one."""
    at = [ROOT if host is None else paths.child(ROOT, host, "host")]
    rows = [ROOT]
    columns = (flame.nodes[name].tolist() for name in ("parent", "name", "kind", "place"))
    for row, (parent, name, kind, place) in enumerate(list(zip(*columns, strict=True))[1:], start=1):
        if kind in ("process", "thread") and kind not in levels:
            at.append(at[parent])
            continue
        at.append(paths.child(at[parent], name, kind, place))
        rows.append(row)
    return np.array(rows, np.int64), np.array(at, np.int64)[rows]


def _add(total: Floats, known: NDArray[np.bool_], values: Floats, at: Integers) -> None:
    good = np.isfinite(values)
    np.add.at(total, at[good], values[good])
    known[at[good]] = True
